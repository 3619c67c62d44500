"""The ``maxmargin`` command: train, predict, certify, info, convert, scale, path, bench.

Exit 0 when the answer is certified, 3 when the work is done but uncertified, 2 for bad input. Heavy modules are imported by the
commands that need them, so that ``--help`` is instant. The options of a command are the fields of a dataclass
(``options.takes``), and another module does the work.
"""

from __future__ import annotations

import gc
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from maxmargin.cli import options as of
from maxmargin.cli.along_c import PathOptions
from maxmargin.cli.comparison import BenchOptions
from maxmargin.cli.machine import TrainingOptions
from maxmargin.cli.outcome import bad_input_explained, complain, end, say
from maxmargin.cli.prediction import PredictionOptions
from maxmargin.cli.scaling import ScalingOptions
from maxmargin.cli.switches import in_our_words

app = typer.Typer(
    name="maxmargin",
    help="Train support vector machines to a certified optimum, from svmlight files.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def examples(*lines: str) -> str:
    """The end of a help page; the first line keeps the others from being wrapped."""
    return "\n".join(("\b", "Examples:", *(f"  maxmargin {line}" for line in lines)))


def main() -> None:
    """The command as a process of its own."""
    import warnings

    warnings.showwarning = lambda message, *_: complain(str(message))
    try:
        with bad_input_explained():
            app(prog_name="maxmargin")
    except typer.Exit as ending:
        sys.exit(ending.exit_code)
    finally:
        gc.freeze()  # all memory is about to go: a last search for cycles in what Numba and SciPy have loaded takes 0.2 s


def _print_version(wanted: bool) -> None:
    if wanted:
        from maxmargin import __version__

        print(f"maxmargin {__version__}")
        raise typer.Exit


@app.callback()
def everything(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train support vector machines to a certified optimum, from svmlight files."""


class CommandWithSwitches(TyperCommand):
    """A command that also takes LIBLINEAR's ``-w1 2``, and LIBSVM's ``-h 0`` and ``-n 0.5``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with bad_input_explained():
            words = in_our_words(args)
        return super().parse_args(ctx, words)


@app.command(
    cls=CommandWithSwitches,
    short_help="Train a model and write it with its certificate.",
    epilog=examples(
        "train a9a",
        "train a9a a9a.model -c 10 -e 1e-6 -s 3 -B -1",
        "train a9a -t rbf -g 0.05",
        "train a9a -v 5 -w1 3",
        "train abalone -s 13 -p 0.5",
    ),
)
@of.takes(TrainingOptions)
def train(options: TrainingOptions) -> None:
    """Train a model, linear or with a kernel (-t), and write it with its certificate; with -v, cross-validate instead; with
    -C, search for the best C."""
    if options.find_C:
        with bad_input_explained():
            from maxmargin.cli.search_c import searched

            found = searched(options)
        say(found.as_json(), found.words(), as_json=options.as_json, quiet=options.quiet)
        return
    if options.folds is not None:
        with bad_input_explained():
            from maxmargin.cli.cross_validation import validated

            validation = validated(options)
        say(validation.as_json(), validation.words(), as_json=options.as_json, quiet=options.quiet)
        end(certified=validation.certified)
    with bad_input_explained():
        if options.memory is not None:
            from maxmargin.cli.block_training import trained_by_blocks as trained
        else:
            from maxmargin.cli.training import trained

        report = trained(options)
    say(report.as_json(), report.words(), as_json=options.as_json, quiet=options.quiet)
    end(certified=report.verdict.certified)


@app.command(
    short_help="Predict the labels or values of a file and report how good they are.",
    epilog=examples(
        "predict a9a.t a9a.model",
        "predict a9a.t a9a.model labels.txt --decision-values",
        "predict a9a.t a9a.model labels.txt --certified",
    ),
)
@of.takes(PredictionOptions)
def predict(options: PredictionOptions) -> None:
    """Predict, and report the accuracy by the labels in the file, or the mean squared error. A file of any size: it is read
    piece by piece."""
    with bad_input_explained():
        from maxmargin.cli.prediction import predicted

        report = predicted(options)
    say(report.as_json(), report.words(), as_json=options.as_json, quiet=options.quiet)


@app.command(
    short_help="Prove how far any model is from its optimum.",
    epilog=examples("certify a9a a9a.model", "certify a9a liblinear.model -c 1 --max-seconds 30"),
)
def certify(
    data: of.Data,
    model: of.Model,
    C: of.CostOfModel = None,
    tube: of.TubeOfModel = None,
    nu: of.NuOfModel = None,
    tol: of.Tolerance = 1e-4,
    max_seconds: of.MostSecondsOfProof = 60.0,
    zero_based: of.ZeroBased = None,
    label_column: of.LabelColumn = None,
    as_json: of.AsJson = False,
) -> None:
    """Prove how far a model is from the optimum of its training problem, whoever trained it."""
    with bad_input_explained():
        from maxmargin.cli.data import DataFile, load, takes_kernel_values
        from maxmargin.cli.report import ProofReport
        from maxmargin.models.libsvm import aligned, width_of
        from maxmargin.models.proof import prove, with_settings

        estimator = with_settings(load(model), str(model), C=C, epsilon=tube, nu=nu)
        is_kernel = takes_kernel_values(estimator)
        samples = DataFile(data, label_column, zero_based, width_of(estimator), is_kernel=is_kernel).read()
        X, C = aligned(estimator, samples.X), getattr(estimator, "C", 1.0)
        report = ProofReport(str(model), tol, tuple(prove(estimator, X, samples.y, C=C, tol=tol, max_seconds=max_seconds)))
    say(report.as_json(), report.words(), as_json=as_json, quiet=False)
    end(certified=report.certified)


@app.command()
def info(model: of.Model, as_json: of.AsJson = False) -> None:
    """Say what a model file holds."""
    with bad_input_explained():
        from maxmargin.cli.data import load
        from maxmargin.cli.model_report import ModelReport

        report = ModelReport.of(load(model))
    say(report.as_json(), report.words(), as_json=as_json, quiet=False)


@app.command(
    short_help="Turn a model into LIBLINEAR's or LIBSVM's, or back.",
    epilog=examples("convert a9a.model a9a.liblinear --to liblinear"),
)
def convert(model: of.Model, output: of.Converted, to: of.To = of.Format.maxmargin) -> None:
    """Turn a model of maxmargin's, LIBLINEAR's or LIBSVM's into another of them."""
    with bad_input_explained():
        from maxmargin.cli.data import load
        from maxmargin.io import save_model, write_liblinear, write_libsvm
        from maxmargin.io.outputs import Output

        target = Output(output, source=model)
        target.check(model)
        write = {of.Format.maxmargin: save_model, of.Format.liblinear: write_liblinear, of.Format.libsvm: write_libsvm}[to]
        estimator = load(model)
        if hasattr(estimator, "_sigmoids_") and to is not of.Format.libsvm:
            complain(f"{model}: its probabilities are lost, as only LIBSVM's format holds them.")
        write(estimator, target)


@app.command(
    short_help="Bring every feature into one range, as svm-scale does.",
    epilog=examples("scale a9a a9a.scale -s ranges", "scale a9a.t a9a.t.scale -r ranges", "scale -l 0 counts > counts.scale"),
)
@of.takes(ScalingOptions)
def scale(options: ScalingOptions) -> None:
    """Bring every feature into one range, as svm-scale does; its files of ranges are read and written."""
    with bad_input_explained():
        from maxmargin.cli.scaling import scaled

        report = scaled(options)
    if options.output is not None:
        say(report.as_json(), report.words(), as_json=options.as_json, quiet=options.quiet)


@app.command(
    short_help="A linear model for every C of a range, each with a proved gap.",
    epilog=examples(
        "path a9a --from 0.001 --to 10",
        "path a9a a9a.png --from 0.01 --to 1 -e 1e-4 --loss hinge",
        "path abalone --loss epsilon_insensitive -p 0.1",
    ),
)
@of.takes(PathOptions)
def path(options: PathOptions) -> None:
    """Solve for every C of a range, of two classes or of a regression. The gap is proved at every C, not at the fits alone."""
    from maxmargin.cli.along_c import along

    with bad_input_explained():
        report = along(options)
    say(report.as_json(), report.words(), as_json=options.as_json, quiet=options.quiet)
    end(certified=report.certified)


@app.command(
    cls=CommandWithSwitches,
    short_help="Time our fit of a file beside scikit-learn's, with the proved gap of each.",
    epilog=examples("bench a9a -s 3", "bench a9a -t rbf -g 0.05 --repeats 1"),
)
@of.takes(BenchOptions)
def bench(options: BenchOptions) -> None:
    """Fit a file by maxmargin, by scikit-learn and, where scikit-learn-intelex is installed, by oneDAL, in turns. The gap of
    every model is proved, so that seconds can be compared with what they bought."""
    with bad_input_explained():
        from maxmargin.cli.comparison import compared

        report = compared(options)
    say(report.as_json(), report.words(), as_json=options.as_json, quiet=options.quiet)
    end(certified=report.certified)
