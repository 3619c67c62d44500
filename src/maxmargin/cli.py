"""The ``maxmargin`` command: train, predict, certify, info, convert.

Exit 0 when the answer is certified, 3 when the work is done but uncertified, 2 for bad input. Heavy modules are imported by the
commands that need them, so that ``--help`` is instant.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

CERTIFIED, BAD_INPUT, UNCERTIFIED = 0, 2, 3

app = typer.Typer(
    name="maxmargin",
    help="Train support vector machines to a certified optimum, from svmlight files.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def main() -> None:
    """The command as a process of its own."""
    try:
        app()
    finally:
        gc.freeze()  # all memory is about to go: a last search for cycles in what Numba and SciPy have loaded takes 0.2 s


class Loss(StrEnum):
    hinge = "hinge"
    squared_hinge = "squared_hinge"


class Format(StrEnum):
    maxmargin = "maxmargin"
    liblinear = "liblinear"
    libsvm = "libsvm"


LOSS_OF_TYPE = {1: Loss.squared_hinge, 2: Loss.squared_hinge, 3: Loss.hinge}
"""LIBLINEAR's -s."""

Data = Annotated[Path, typer.Argument(help="svmlight text (also .gz .bz2 .xz .zst), scipy .npz, .csv or .parquet.")]
Model = Annotated[Path, typer.Argument(help="A model of maxmargin's, of LIBLINEAR's or of LIBSVM's.")]
Cost = Annotated[float, typer.Option("-c", "--C", "--cost", help="Weight of the loss.")]
Tolerance = Annotated[float, typer.Option("-e", "--tol", help="Relative duality gap to reach.")]
ZeroBased = Annotated[
    bool | None, typer.Option("--zero-based/--one-based", help="What the first feature is called. Default: 0 if a 0 occurs.")
]
LabelColumn = Annotated[str | None, typer.Option("--label-column", help="The column with the labels, for .csv and .parquet.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


@app.command(epilog="Examples: maxmargin train a9a; maxmargin train a9a a9a.model -c 10 -e 1e-6 -s 3 -B -1")
def train(
    data: Data,
    model: Annotated[Path | None, typer.Argument(help="Where to write the model. Default: DATA's name and .model.")] = None,
    C: Cost = 1.0,
    tol: Tolerance = 1e-4,
    loss: Annotated[Loss, typer.Option(help="hinge is LIBLINEAR's -s 3, squared_hinge its -s 1.")] = Loss.squared_hinge,
    kind: Annotated[int | None, typer.Option("-s", "--type", help="As in LIBLINEAR: 3 hinge, 1 or 2 squared hinge.")] = None,
    bias: Annotated[float, typer.Option("-B", "--bias", help="Value of the constant feature; negative: no intercept.")] = 1.0,
    free_intercept: Annotated[
        bool, typer.Option("-R", "--free-intercept", help="Leave the intercept out of the penalty, as LIBSVM does.")
    ] = False,
    class_weight: Annotated[
        list[str] | None, typer.Option("-w", "--class-weight", help="'balanced', or LABEL=WEIGHT, once for each label.")
    ] = None,
    solver: Annotated[str, typer.Option(help="auto, dcd, avsf, newton, pruned-gradient or pegasos.")] = "auto",
    max_iter: Annotated[int, typer.Option(help="Limit on epochs; -1 for none.")] = -1,
    max_seconds: Annotated[float | None, typer.Option(help="Limit on the time of each binary problem.")] = None,
    n_jobs: Annotated[int | None, typer.Option("-n", "--n-jobs", help="Threads for several classes; -1 for all cores.")] = None,
    seed: Annotated[int, typer.Option(help="Seeds the order of the steps.")] = 0,
    zero_based: ZeroBased = None,
    n_features: Annotated[int | None, typer.Option(help="Width of the data. Default: the greatest index.")] = None,
    float32: Annotated[bool, typer.Option("--float32", help="Keep the values in single precision.")] = False,
    label_column: LabelColumn = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Save the state here at intervals; the same command goes on from it.")
    ] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="The interval.")] = 5.0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a linear model and write it with its certificate."""
    with bad_input_explained():
        from maxmargin.report import ProgressLine, training_report, verdict_of

        with ProgressLine(tol, enabled=not (quiet or as_json)) as progress, uncertified_without_warning():
            from maxmargin.io.checkpoint import Checkpoint, Checkpointed
            from maxmargin.io.model_file import save_model
            from maxmargin.solvers.registry import solver_named

            started = time.perf_counter()
            progress.begin(f"reading {data.name}")
            X, y = read(data, label_column, zero_based, n_features, "float32" if float32 else "float64")
            was_read = time.perf_counter()
            progress.begin("training")
            saved = None if checkpoint is None else Checkpoint.open(checkpoint)
            estimator = classifier_for(data)(
                loss=loss_from(loss, kind),
                C=C,
                tol=tol,
                fit_intercept=bias >= 0.0,
                intercept_scaling=bias if bias > 0.0 else 1.0,
                penalize_intercept=not free_intercept,
                class_weight=weights_from(class_weight, y),
                solver=solver if saved is None else Checkpointed(solver_named(solver), saved, checkpoint_seconds),
                max_iter=max_iter,
                max_seconds=max_seconds,
                n_jobs=n_jobs,
                random_state=seed,
                callback=progress,
            ).fit(X, y)
        fitted = time.perf_counter()
        target = model or Path(f"{data.name}.model")
        save_model(estimator, target)
        if saved is not None:
            saved.remove()
    report = {
        "model": str(target),
        "bytes": target.stat().st_size,
        "samples": X.shape[0],
        "features": X.shape[1],
        "classes": len(estimator.classes_),
        "seconds": {"read": was_read - started, "fit": fitted - was_read},
        **verdict_of(estimator, tol),
    }
    say(report, training_report(report), as_json, quiet)
    raise typer.Exit(CERTIFIED if report["certified"] else UNCERTIFIED)


@app.command(
    epilog="Examples: maxmargin predict a9a.t a9a.model; maxmargin predict a9a.t a9a.model labels.txt --decision-values"
)
def predict(
    data: Data,
    model: Model,
    output: Annotated[Path | None, typer.Argument(help="Where to write the predictions, one a line. Default: nowhere.")] = None,
    decision_values: Annotated[
        bool, typer.Option("--decision-values", "-d", help="Decision values instead of labels.")
    ] = False,
    zero_based: Annotated[bool, typer.Option("--zero-based/--one-based", help="What the first feature is called.")] = False,
    label_column: LabelColumn = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict, and report the accuracy by the labels in the file. A file of any size: it is read piece by piece."""
    with bad_input_explained():
        from maxmargin.io.files import replaced

        estimator = load(model)
        n_samples = n_right = 0
        with replaced(output) if output is not None else nowhere() as file:
            for X, y in pieces(data, estimator.n_features_in_, zero_based, label_column):
                labels = estimator.predict(X)
                n_samples, n_right = n_samples + len(labels), n_right + int((labels == y).sum())
                rows = estimator.decision_function(X).reshape(len(labels), -1) if decision_values else labels.reshape(-1, 1)
                for row in rows.tolist():
                    file.write((" ".join(map(as_text, row)) + "\n").encode())
    report = {"samples": n_samples, "accuracy": n_right / n_samples, "output": str(output) if output else None}
    words = f"Accuracy: {100 * n_right / n_samples:.4f}% ({n_right} of {n_samples})"
    say(report, words + (f"\nPredictions: {output}" if output else ""), as_json, quiet)


@app.command(epilog="Examples: maxmargin certify a9a a9a.model; maxmargin certify a9a liblinear.model -c 1 --max-seconds 30")
def certify(
    data: Data,
    model: Model,
    C: Annotated[
        float | None, typer.Option("-c", "--C", "--cost", help="The C of the model; ours know it, others do not.")
    ] = None,
    tol: Tolerance = 1e-4,
    max_seconds: Annotated[float, typer.Option(help="Limit on the search for a dual bound, for each class.")] = 60.0,
    zero_based: ZeroBased = None,
    label_column: LabelColumn = None,
    as_json: AsJson = False,
) -> None:
    """Prove how far a model is from the optimum of its training problem, whoever trained it."""
    with bad_input_explained():
        from maxmargin.io.proof import prove

        estimator = load(model)
        if C is None and not hasattr(estimator, "certificate_"):
            raise ValueError(f"{model} does not say with which C it was trained: give it with -c.")
        X, y = read(data, label_column, zero_based, estimator.n_features_in_, "float64")
        proofs = prove(estimator, X, y, C=estimator.C if C is None else C, tol=tol, max_seconds=max_seconds)
    worst = max(proofs, key=lambda proof: proof.relative_gap)
    report = {
        "relative_gap": worst.relative_gap,
        "tol": tol,
        "certified": worst.meets(tol),
        "problems": [asdict(p) for p in proofs],
    }
    words = (
        f"{model}: its objective {worst.primal:.10g} is at most {worst.relative_gap:.2e} above the optimum, relative to it "
        f"(no w can be below the dual bound {worst.dual:.10g}).\n"
        f"It is {'' if report['certified'] else 'NOT proved '}within {tol:g}."
    )
    say(report, words, as_json, quiet=False)
    raise typer.Exit(CERTIFIED if report["certified"] else UNCERTIFIED)


@app.command()
def info(model: Model, as_json: AsJson = False) -> None:
    """Say what a model file holds."""
    with bad_input_explained():
        estimator = load(model)
    certificates = getattr(estimator, "certificate_", [])
    certificates = certificates if isinstance(certificates, list) else [certificates]
    report = {
        "estimator": type(estimator).__name__,
        "features": estimator.n_features_in_,
        "classes": estimator.classes_.tolist(),
        "parameters": {key: value for key, value in estimator.get_params().items() if value is not None},
        "certificates": [asdict(certificate) for certificate in certificates],
    }
    lines = [
        f"{report['estimator']} with {report['features']} features, classes {', '.join(map(str, report['classes'][:20]))}",
        "  " + ", ".join(f"{key}={value!r}" for key, value in report["parameters"].items()),
        *(f"  {certificate}" for certificate in certificates),
    ]
    say(report, "\n".join(lines if certificates else [*lines, "  no certificate: it was imported"]), as_json, quiet=False)


@app.command(epilog="Example: maxmargin convert a9a.model a9a.liblinear --to liblinear")
def convert(
    model: Model,
    output: Annotated[Path, typer.Argument(help="Where to write it.")],
    to: Annotated[Format, typer.Option(help="The format to write.")] = Format.maxmargin,
) -> None:
    """Turn a model of maxmargin's, LIBLINEAR's or LIBSVM's into another of them."""
    with bad_input_explained():
        from maxmargin.io import save_model, write_liblinear, write_libsvm

        write = {Format.maxmargin: save_model, Format.liblinear: write_liblinear, Format.libsvm: write_libsvm}[to]
        write(load(model), output)


@contextmanager
def bad_input_explained() -> Iterator[None]:
    """Bad input ends the command with a sentence on standard error and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"maxmargin: {error}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None


@contextmanager
def uncertified_without_warning() -> Iterator[None]:
    """The command says itself, and by its exit code, that a fit is not certified."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Relative duality gap asked")
        yield


@contextmanager
def nowhere() -> Iterator[Any]:
    import os

    with open(os.devnull, "wb") as file:
        yield file


def read(path: Path, label_column: str | None, zero_based: bool | None, n_features: int | None, dtype: str) -> Any:
    from maxmargin.io.tables import read_data

    base = "auto" if zero_based is None else zero_based
    return read_data(path, label_column=label_column, n_features=n_features, zero_based=base, dtype=dtype)


def classifier_for(path: Path) -> type:
    """Our own reader has checked svmlight text already; what other files hold, scikit-learn checks."""
    from maxmargin.io.tables import is_text

    if is_text(path):
        from maxmargin.estimators.linear_classifier import LinearClassifier

        return LinearClassifier
    from maxmargin.estimators.linear_svc import LinearSVC

    return LinearSVC


def pieces(path: Path, n_features: int, zero_based: bool, label_column: str | None) -> Iterator[Any]:
    from maxmargin.io.svmlight import stream_svmlight
    from maxmargin.io.tables import is_text, read_data

    if is_text(path):
        yield from stream_svmlight(path, n_features=n_features, zero_based=zero_based)
    else:
        yield read_data(path, label_column=label_column)


def load(path: Path) -> Any:
    """A model, by what its first bytes say."""
    from maxmargin.io import load_model, read_liblinear, read_libsvm

    with open(path, "rb") as file:
        start = file.read(16)
    if start.startswith(b"solver_type"):
        return read_liblinear(path)
    return read_libsvm(path) if start.startswith(b"svm_type") else load_model(path)


def loss_from(loss: Loss, kind: int | None) -> str:
    if kind is not None and kind not in LOSS_OF_TYPE:
        raise ValueError(f"-s {kind} is not there: 3 is hinge loss, 1 and 2 are squared hinge loss.")
    return (loss if kind is None else LOSS_OF_TYPE[kind]).value


def weights_from(texts: list[str] | None, y: Any) -> Any:
    """'balanced', or a dictionary from LABEL=WEIGHT with labels of the type that y has."""
    if not texts or texts == ["balanced"]:
        return "balanced" if texts else None
    weights = {}
    for text in texts:
        label, equals, weight = text.partition("=")
        try:
            weights[y.dtype.type(label)] = float(weight)
        except ValueError:
            equals = ""
        if not equals:
            raise ValueError(f"A class weight is 'balanced' or LABEL=WEIGHT; got {text!r}.")
    return weights


def as_text(value: Any) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def say(report: dict[str, Any], words: str, as_json: bool, quiet: bool) -> None:
    if as_json:
        print(json.dumps(report))
    elif not quiet:
        print(words)
