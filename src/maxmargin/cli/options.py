"""The options of the command line: what they are called, and what they mean for an estimator.

Named as LIBLINEAR's and LIBSVM's are. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from maxmargin.models.checkpoint import Checkpoint


class Loss(StrEnum):
    hinge = "hinge"
    squared_hinge = "squared_hinge"


class StopBy(StrEnum):
    gap = "gap"
    paper = "paper"


class Format(StrEnum):
    maxmargin = "maxmargin"
    liblinear = "liblinear"
    libsvm = "libsvm"


LOSS_OF_TYPE = {1: Loss.squared_hinge, 2: Loss.squared_hinge, 3: Loss.hinge}
"""LIBLINEAR's -s."""
KERNEL_OF_TYPE = {"0": "linear", "1": "poly", "2": "rbf", "3": "sigmoid", "4": "precomputed", "polynomial": "poly"}
"""LIBSVM's -t, and its word for what scikit-learn calls poly."""
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
CACHE_MB = 500.0

Data = Annotated[Path, typer.Argument(help="svmlight text (also .gz .bz2 .xz .zst), scipy .npz, .csv or .parquet.")]
Model = Annotated[Path, typer.Argument(help="A model of maxmargin's, of LIBLINEAR's or of LIBSVM's.")]
Cost = Annotated[float, typer.Option("-c", "--C", "--cost", help="Weight of the loss.")]
Tolerance = Annotated[float, typer.Option("-e", "--tol", help="Relative duality gap to reach.")]
Stop = Annotated[
    StopBy,
    typer.Option(help="What ends a fit: gap, a certificate within --tol; paper, the stopping rule of the solver's own paper."),
]
Epsilon = Annotated[float | None, typer.Option(help="Of the solver's own stopping rule (--stop paper). Default: the paper's.")]
ZeroBased = Annotated[
    bool | None, typer.Option("--zero-based/--one-based", help="What the first feature is called. Default: 0 if a 0 occurs.")
]
LabelColumn = Annotated[str | None, typer.Option("--label-column", help="The column with the labels, for .csv and .parquet.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Kernel = Annotated[
    str | None,
    typer.Option(
        "-t",
        "--kernel",
        help="As in LIBSVM: 0 linear, 1 poly, 2 rbf, 3 sigmoid, 4 precomputed (DATA holds 0:number 1:k(x, x_1) ...). "
        "Default: the linear solver, no kernel.",
    ),
]
Gamma = Annotated[
    str | None,
    typer.Option(
        "-g", "--gamma", help="Of the kernel: a number, scale (the default: 1 / (features x variance)) or auto (1 / features)."
    ),
]
Degree = Annotated[int | None, typer.Option("-d", "--degree", help="Of the kernel poly. Default: 3.")]
Coef0 = Annotated[float | None, typer.Option("-r", "--coef0", help="Of the kernels poly and sigmoid. Default: 0.")]
CacheSize = Annotated[float | None, typer.Option("-m", "--cache-size", help="Megabytes for kernel rows. Default: 500.")]


def linear_settings(
    loss: Loss | None, kind: int | None, bias: float | None, free_intercept: bool, sharp_proofs: bool, **of_kernels: Any
) -> dict[str, Any]:
    """For the linear solver; what only a kernel machine has is refused."""
    for option, value in of_kernels.items():
        if value is not None:
            raise ValueError(f"--{option.replace('_', '-')} belongs to a kernel: choose one with -t.")
    value = 1.0 if bias is None else bias
    return {
        "loss": loss_from(loss, kind),
        "fit_intercept": value >= 0.0,
        "intercept_scaling": value if value > 0.0 else 1.0,
        "penalize_intercept": not free_intercept,
        "sharp_proofs": sharp_proofs,
    }


def kernel_settings(
    kernel: str, gamma: str | None, degree: int | None, coef0: float | None, cache_size: float | None, **of_linear: Any
) -> dict[str, Any]:
    """For a kernel machine; what only the linear solver has is refused."""
    given = {"degree": degree, "coef0": coef0, "gamma": None if gamma is None else gamma_from(gamma)}
    bias = of_linear["bias"]
    refuse_options_of_the_linear_solver(**of_linear)
    return {
        "kernel": kernel_from(kernel),
        "cache_size": CACHE_MB if cache_size is None else cache_size,
        "fit_intercept": bias is None,
        **{key: value for key, value in given.items() if value is not None},
    }


def refuse_options_of_the_linear_solver(
    loss: Loss | None, kind: int | None, bias: float | None, free_intercept: bool, sharp_proofs: bool
) -> None:
    if loss is not None or kind not in (None, 0):
        raise ValueError("With a kernel (-t) the loss is hinge, LIBSVM's C-SVC (-s 0): leave --loss and -s out.")
    if sharp_proofs:
        raise ValueError("--sharp-proofs is there for linear models only: leave -t out.")
    if free_intercept:
        raise ValueError("With a kernel (-t) the intercept is never penalised: leave -R out.")
    if bias is not None and bias >= 0.0:
        raise ValueError(
            "With a kernel (-t) the intercept is no feature with a value: -B takes only a negative number, for none."
        )


def kernel_from(text: str) -> str:
    kernel = KERNEL_OF_TYPE.get(text, text)
    if kernel not in KERNELS:
        raise ValueError(f"-t {text} is not there: 0 is linear, 1 poly, 2 rbf, 3 sigmoid, 4 precomputed.")
    return kernel


def gamma_from(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def loss_from(loss: Loss | None, kind: int | None) -> str:
    if kind is not None and kind not in LOSS_OF_TYPE:
        raise ValueError(f"-s {kind} is not there: 3 is hinge loss, 1 and 2 are squared hinge loss.")
    return (loss or Loss.squared_hinge if kind is None else LOSS_OF_TYPE[kind]).value


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


def classifier_for(path: Path, has_kernel: bool) -> Any:
    """Our own reader has checked svmlight text already; what other files hold, scikit-learn checks."""
    from importlib import import_module

    from maxmargin.io.tables import is_text

    module, name = {
        (False, True): ("linear_classifier", "LinearClassifier"),
        (False, False): ("linear_svc", "LinearSVC"),
        (True, True): ("kernel_classifier", "KernelClassifier"),
        (True, False): ("svc", "SVC"),
    }[has_kernel, is_text(path)]
    return getattr(import_module(f"maxmargin.estimators.{module}"), name)


def chosen_solver(solver: str, settings: dict[str, Any], stop: StopBy, epsilon: float | None) -> Any:
    """The solver of that name, for an estimator with these settings, which ends as was asked: by the gap the name will do."""
    from maxmargin.solvers.registry import ending_by_own_rule

    if stop is StopBy.paper:
        return ending_by_own_rule(_made(solver, settings), epsilon)
    if epsilon is not None:
        raise ValueError("--epsilon belongs to the solver's own stopping rule: ask for that with --stop paper.")
    return solver


def checkpointed(solver: Any, settings: dict[str, Any], checkpoint: Checkpoint, seconds: float) -> Any:
    """The solver, for an estimator with these settings, saving its state."""
    from maxmargin.models.checkpoint import Checkpointed, CheckpointedKernelSolver

    saving = CheckpointedKernelSolver if "kernel" in settings else Checkpointed
    return saving(_made(solver, settings), checkpoint, seconds)


def _made(solver: Any, settings: dict[str, Any]) -> Any:
    from maxmargin.estimators.kernel_classifier import kernel_solver
    from maxmargin.solvers.registry import solver_named

    return kernel_solver(solver, True, settings["cache_size"]) if "kernel" in settings else solver_named(solver)
