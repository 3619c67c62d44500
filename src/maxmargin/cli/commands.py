"""The ``maxmargin`` command: train, predict, certify, info, convert.

Exit 0 when the answer is certified, 3 when the work is done but uncertified, 2 for bad input. Heavy modules are imported by the
commands that need them, so that ``--help`` is instant.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from maxmargin.cli import options
from maxmargin.cli.options import AsJson, Data, Format, LabelColumn, Loss, Model, Quiet, StopBy, Tolerance, ZeroBased
from maxmargin.cli.progress import bad_input_explained, complain, say

CERTIFIED, UNCERTIFIED = 0, 3

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
    import warnings

    warnings.showwarning = lambda message, *_: complain(str(message))
    try:
        with bad_input_explained():
            app()
    except typer.Exit as ending:
        sys.exit(ending.exit_code)
    finally:
        gc.freeze()  # all memory is about to go: a last search for cycles in what Numba and SciPy have loaded takes 0.2 s


@app.command(
    epilog="Examples: maxmargin train a9a; maxmargin train a9a a9a.model -c 10 -e 1e-6 -s 3 -B -1; "
    "maxmargin train a9a a9a.model -t rbf -g 0.05"
)
def train(
    data: Data,
    model: Annotated[Path | None, typer.Argument(help="Where to write the model. Default: DATA's name and .model.")] = None,
    C: options.Cost = 1.0,
    tol: Tolerance = 1e-4,
    kernel: options.Kernel = None,
    gamma: options.Gamma = None,
    degree: options.Degree = None,
    coef0: options.Coef0 = None,
    cache_size: options.CacheSize = None,
    loss: Annotated[
        Loss | None, typer.Option(help="squared_hinge (LIBLINEAR's -s 1), the default, or hinge (its -s 3).")
    ] = None,
    kind: Annotated[int | None, typer.Option("-s", "--type", help="As in LIBLINEAR: 3 hinge, 1 or 2 squared hinge.")] = None,
    bias: Annotated[
        float | None, typer.Option("-B", "--bias", help="Value of the constant feature, by default 1; negative: no intercept.")
    ] = None,
    free_intercept: Annotated[
        bool, typer.Option("-R", "--free-intercept", help="Leave the intercept out of the penalty, as LIBSVM does.")
    ] = False,
    sharp_proofs: Annotated[
        bool,
        typer.Option("--sharp-proofs", help="Keep an ellipsoid around the optimum, for predict --certified (linear only)."),
    ] = False,
    class_weight: Annotated[
        list[str] | None, typer.Option("-w", "--class-weight", help="'balanced', or LABEL=WEIGHT, once for each label.")
    ] = None,
    solver: Annotated[
        str,
        typer.Option(
            help="auto, dcd, avsf, newton, pruned-gradient or pegasos; with a kernel auto, batched-smo, smo or irwls."
        ),
    ] = "auto",
    stop: options.Stop = StopBy.gap,
    epsilon: options.Epsilon = None,
    max_iter: Annotated[int, typer.Option(help="Limit on epochs; -1 for none.")] = -1,
    max_seconds: Annotated[float | None, typer.Option(help="Limit on the time of the fit, all classes together.")] = None,
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
    report_page: Annotated[
        Path | None, typer.Option("--report", help="Write a page about the model here (HTML, one file).", metavar="FILE")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a model, linear or with a kernel (-t), and write it with its certificate."""
    with bad_input_explained():
        from maxmargin.cli.report import ProgressLine, printable, training_report, verdict_of, write_report

        with ProgressLine(tol, enabled=not (quiet or as_json)) as progress, uncertified_without_warning():
            from maxmargin.io.outputs import Output

            of_kernels: Any = {"gamma": gamma, "degree": degree, "coef0": coef0, "cache_size": cache_size}
            of_linear: Any = {"loss": loss, "kind": kind, "bias": bias, "free_intercept": free_intercept}
            of_linear["sharp_proofs"] = sharp_proofs
            if kernel is None:
                settings = options.linear_settings(**of_linear, **of_kernels)
            else:
                settings = options.kernel_settings(kernel, **of_linear, **of_kernels)
            chosen = options.chosen_solver(solver, settings, stop, epsilon)
            target = Output(model or Path(f"{data.name}.model"), source=None if kernel is None else data)
            target.check(data, checkpoint)
            if report_page is not None:
                Output(report_page).check(data, target.path, checkpoint)
            from maxmargin.models.checkpoint import Checkpoint
            from maxmargin.models.model_file import save_model

            saved = None
            if checkpoint is not None:
                Output(checkpoint).check(data)
                saved = Checkpoint.open(checkpoint, complain)
            started = time.perf_counter()
            progress.begin(f"reading {printable(data.name)}")
            is_precomputed = settings.get("kernel") == "precomputed"
            X, y = read(data, label_column, zero_based, n_features, "float32" if float32 else "float64", is_precomputed)
            was_read = time.perf_counter()
            progress.begin("training")
            estimator = options.classifier_for(data, kernel is not None)(
                **settings,
                C=C,
                tol=tol,
                class_weight=options.weights_from(class_weight, y),
                solver=chosen if saved is None else options.checkpointed(chosen, settings, saved, checkpoint_seconds),
                max_iter=max_iter,
                max_seconds=max_seconds,
                n_jobs=n_jobs,
                random_state=seed,
                callback=progress,
            ).fit(X, y)
        fitted = time.perf_counter()
        n_bytes = save_model(estimator, target)
        if saved is not None:
            saved.remove()
        if report_page is not None:
            write_report(report_page, estimator, X, y)
    report = {
        "model": str(target.path),
        "bytes": n_bytes,
        "samples": X.shape[0],
        "features": X.shape[1],
        "classes": len(estimator.classes_),
        "seconds": {"read": was_read - started, "fit": fitted - was_read},
        **verdict_of(estimator, tol),
    }
    say(report, training_report(report), as_json, quiet)
    raise typer.Exit(CERTIFIED if report["certified"] else UNCERTIFIED)


@app.command(
    epilog="Examples: maxmargin predict a9a.t a9a.model; maxmargin predict a9a.t a9a.model labels.txt --decision-values; "
    "maxmargin predict a9a.t a9a.model labels.txt --certified"
)
def predict(
    data: Data,
    model: Model,
    output: Annotated[Path | None, typer.Argument(help="Where to write the predictions, one a line. Default: nowhere.")] = None,
    decision_values: Annotated[
        bool, typer.Option("--decision-values", "-d", help="Decision values instead of labels.")
    ] = False,
    certified: Annotated[
        bool,
        typer.Option(
            "--certified",
            help="Report the share of the labels that the exact optimum is proved to give too; in OUTPUT a last column has 1 "
            "where that is proved, else 0.",
        ),
    ] = False,
    zero_based: Annotated[bool, typer.Option("--zero-based/--one-based", help="What the first feature is called.")] = False,
    label_column: LabelColumn = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict, and report the accuracy by the labels in the file. A file of any size: it is read piece by piece."""
    with bad_input_explained(), names_may_differ():
        from maxmargin.cli.report import prediction_report, value_text
        from maxmargin.io.outputs import Output, written
        from maxmargin.models.libsvm import aligned, width_of

        if output is not None:
            Output(output).check(data, model)
        estimator = load(model)
        if certified:
            check_for_proofs(estimator, model)
        n_samples = n_right = n_proved = 0
        with written(output) if output is not None else nowhere() as file:
            for piece, y in pieces(data, width_of(estimator), zero_based, label_column, takes_kernel_values(estimator)):
                X = aligned(estimator, piece)
                labels, proved = estimator.certified_predict(X) if certified else (estimator.predict(X), None)
                n_samples, n_right = n_samples + len(labels), n_right + int((labels == y).sum())
                rows = estimator.decision_function(X).reshape(len(labels), -1) if decision_values else labels.reshape(-1, 1)
                columns = [rows.tolist()]
                if proved is not None:
                    n_proved += int(proved.sum())
                    columns.append(proved.astype(int).reshape(-1, 1).tolist())
                for parts in zip(*columns, strict=True):
                    file.write((" ".join(value_text(value) for part in parts for value in part) + "\n").encode())
    report = {"samples": n_samples, "accuracy": n_right / n_samples, "output": str(output) if output else None}
    if certified:
        report |= {"proved": n_proved, "proved_share": n_proved / n_samples}
    say(report, prediction_report(report), as_json, quiet)


@app.command(epilog="Examples: maxmargin certify a9a a9a.model; maxmargin certify a9a liblinear.model -c 1 --max-seconds 30")
def certify(
    data: Data,
    model: Model,
    C: Annotated[
        float | None, typer.Option("-c", "--C", "--cost", help="The C of the model; ours know it, others do not.")
    ] = None,
    tol: Tolerance = 1e-4,
    max_seconds: Annotated[float, typer.Option(help="Limit on the search for a dual bound, for each binary problem.")] = 60.0,
    zero_based: ZeroBased = None,
    label_column: LabelColumn = None,
    as_json: AsJson = False,
) -> None:
    """Prove how far a model is from the optimum of its training problem, whoever trained it."""
    with bad_input_explained():
        from maxmargin.models.libsvm import aligned, width_of
        from maxmargin.models.proof import prove

        estimator = load(model)
        if C is None and not hasattr(estimator, "certificate_"):
            raise ValueError(f"{model} does not say with which C it was trained: give it with -c.")
        X, y = read(data, label_column, zero_based, width_of(estimator), "float64", takes_kernel_values(estimator))
        proofs = prove(estimator, aligned(estimator, X), y, C=estimator.C if C is None else C, tol=tol, max_seconds=max_seconds)
    worst = max(proofs, key=lambda proof: proof.relative_gap)
    report = {
        "relative_gap": worst.relative_gap,
        "tol": tol,
        "certified": all(proof.meets(tol) for proof in proofs),
        "problems": [asdict(p) for p in proofs],
    }
    several = f" (the worst of {len(proofs)} binary problems)" if len(proofs) > 1 else ""
    words = (
        f"{model}: its objective {worst.primal:.10g}{several} is at most {worst.relative_gap:.2e} above the optimum, "
        f"relative to it (no w can be below the dual bound {worst.dual:.10g}).\n"
        f"It is {'' if report['certified'] else 'NOT proved '}within {tol:g}."
    )
    say(report, words, as_json, quiet=False)
    raise typer.Exit(CERTIFIED if report["certified"] else UNCERTIFIED)


@app.command()
def info(model: Model, as_json: AsJson = False) -> None:
    """Say what a model file holds."""
    from maxmargin.cli.report import model_report

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
    if hasattr(estimator, "_kernel_"):
        report |= {"support_vectors": int(estimator.n_support_.sum()), "kernel": repr(estimator._kernel_)}
    say(report, model_report(report, estimator, certificates), as_json, quiet=False)


@app.command(epilog="Example: maxmargin convert a9a.model a9a.liblinear --to liblinear")
def convert(
    model: Model,
    output: Annotated[Path, typer.Argument(help="Where to write it.")],
    to: Annotated[Format, typer.Option(help="The format to write.")] = Format.maxmargin,
) -> None:
    """Turn a model of maxmargin's, LIBLINEAR's or LIBSVM's into another of them."""
    with bad_input_explained():
        from maxmargin.io import save_model, write_liblinear, write_libsvm
        from maxmargin.io.outputs import Output

        target = Output(output, source=model)
        target.check(model)
        write = {Format.maxmargin: save_model, Format.liblinear: write_liblinear, Format.libsvm: write_libsvm}[to]
        write(load(model), target)


@contextmanager
def uncertified_without_warning() -> Iterator[None]:
    """The command says itself, and by its exit code, that a fit is not certified."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Relative duality gap asked")
        yield


@contextmanager
def names_may_differ() -> Iterator[None]:
    """scikit-learn warns where only one of the model and the data has names of features, as text files never have."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X (has|does not have valid) feature names")
        yield


@contextmanager
def nowhere() -> Iterator[Any]:
    import os

    with open(os.devnull, "wb") as file:
        yield file


def check_for_proofs(estimator: Any, model: Path) -> None:
    if not hasattr(estimator, "certificate_"):
        raise ValueError(f"{model} has no certificate (it was imported), so that nothing can be proved of its predictions.")
    if takes_kernel_values(estimator):
        raise ValueError(
            "--certified needs k(x, x), which a file of kernel values does not hold: use SVC.certified_predict(X, diagonal)."
        )


def takes_kernel_values(estimator: Any) -> bool:
    return getattr(estimator, "kernel", None) == "precomputed"


def read(
    path: Path, label_column: str | None, zero_based: bool | None, n_features: int | None, dtype: str, is_kernel: bool
) -> Any:
    from maxmargin.io.kernel_values import read_kernel
    from maxmargin.io.tables import read_data

    if is_kernel:
        refuse_zero_based(zero_based)
        K, y = read_kernel(path, label_column=label_column, dtype=dtype)
        if n_features not in (None, K.shape[1]):
            raise ValueError(f"{path} holds the kernel of {K.shape[1]} samples, not of {n_features}.")
        return K, y
    base = "auto" if zero_based is None else zero_based
    return read_data(path, label_column=label_column, n_features=n_features, zero_based=base, dtype=dtype)


def pieces(path: Path, n_features: int | None, zero_based: bool, label_column: str | None, is_kernel: bool) -> Iterator[Any]:
    from maxmargin.io.kernel_values import stream_kernel
    from maxmargin.io.svmlight import stream_svmlight
    from maxmargin.io.tables import is_text, read_data

    if is_kernel:
        refuse_zero_based(zero_based)
        yield from stream_kernel(path, n_samples=n_features or 0, label_column=label_column)
    elif is_text(path):
        yield from stream_svmlight(path, n_features=n_features, zero_based=zero_based)
    else:
        yield read_data(path, label_column=label_column)


def refuse_zero_based(zero_based: bool | None) -> None:
    if zero_based:
        raise ValueError("Kernel values count from 1, feature 0 is the number of the sample: leave --zero-based out.")


def load(path: Path) -> Any:
    """A model, by what its first bytes say."""
    from maxmargin.io import load_model, read_liblinear, read_libsvm

    with open(path, "rb") as file:
        start = file.read(16)
    if start.startswith(b"solver_type"):
        return read_liblinear(path)
    return read_libsvm(path) if start.startswith(b"svm_type") else load_model(path)
