"""The options of the command line: what they are called, and what is said of them by --help.

Named as LIBLINEAR's and LIBSVM's are. Nothing heavy is imported here, so that --help is instant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer


def takes(options: Any) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Give a command one option for each field of the dataclass ``options``.

    typer reads the options of a command off the signature of its function. The signature is made here from the fields: their
    annotations are those below, their defaults those of the options. The command itself receives the dataclass.
    """
    types = get_type_hints(options, include_extras=True)
    parameters = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=types[field.name],
        )
        for field in fields(options)
    ]

    def with_options(command: Callable[[Any], None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            command(options(**values))

        run.__annotations__ = types
        vars(run)["__signature__"] = Signature(parameters)
        return run

    return with_options


class PenaltyChoice(StrEnum):
    """What is added to the loss: half the squared length of w, or the sum of its magnitudes."""

    l2 = "l2"
    l1 = "l1"


class LossChoice(StrEnum):
    hinge = "hinge"
    squared_hinge = "squared_hinge"
    epsilon_insensitive = "epsilon_insensitive"
    squared_epsilon_insensitive = "squared_epsilon_insensitive"
    quantile = "quantile"


class StopBy(StrEnum):
    gap = "gap"
    paper = "paper"


class Format(StrEnum):
    maxmargin = "maxmargin"
    liblinear = "liblinear"
    libsvm = "libsvm"


Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="svmlight text (also .gz .bz2 .xz .zst), scipy .npz, .csv or .parquet.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model of maxmargin's, of LIBLINEAR's or of LIBSVM's.")]
NewModel = Annotated[
    Path | None, typer.Argument(metavar="MODEL", help="Where to write the model. Default: DATA's name and .model.")
]
Cost = Annotated[float, typer.Option("-c", "--C", "--cost", help="Weight of the loss.")]
CostOfModel = Annotated[
    float | None, typer.Option("-c", "--C", "--cost", help="The C of the model; ours know it, others do not.")
]
Tolerance = Annotated[float, typer.Option("-e", "--tol", help="Relative duality gap to reach.")]
Folds = Annotated[
    int | None,
    typer.Option("-v", "--folds", help="Cross-validate with this number of stratified folds instead of writing a model."),
]
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
        "-g",
        "--gamma",
        help="Gamma of the kernel: a number, scale (default, 1 / (features x variance)) or auto, 1 / features.",
    ),
]
Degree = Annotated[int | None, typer.Option("-d", "--degree", help="Degree of the kernel poly. Default: 3.")]
Coef0 = Annotated[float | None, typer.Option("-r", "--coef0", help="Constant of the kernels poly and sigmoid. Default: 0.")]
CacheSize = Annotated[float | None, typer.Option("-m", "--cache-size", help="Megabytes for kernel rows. Default: 500.")]
Shrinking = Annotated[
    bool | None,
    typer.Option("--shrinking/--no-shrinking", help="Whether a kernel solver may set samples aside; LIBSVM's -h. Default: on."),
]
PenaltyName = Annotated[PenaltyChoice, typer.Option(help="l2, or l1, with which most weights are zero (LIBLINEAR's -s 5).")]
LossName = Annotated[
    LossChoice | None,
    typer.Option(
        help="squared_hinge (LIBLINEAR's -s 1), the default, or hinge (its -s 3); for regression epsilon_insensitive (-s 13), "
        "squared_epsilon_insensitive (-s 11) or quantile."
    ),
]
Kind = Annotated[
    int | None,
    typer.Option(
        "-s",
        "--type",
        help="As in LIBLINEAR: 3 hinge, 1 or 2 squared hinge, 4 all classes together, 5 L1 penalty; 13 regression, "
        "11 or 12 with squared loss; 21 one-class. "
        "With -t as in LIBSVM: 0 C-SVC, 1 nu-SVC, 2 one-class, 3 epsilon-SVR, 4 nu-SVR.",
    ),
]
Tube = Annotated[
    float | None, typer.Option("-p", "--tube", help="For regression: residuals up to this size cost nothing. Default: 0.1.")
]
QuantileLevel = Annotated[
    float | None,
    typer.Option("--quantile", help="The share of targets below the prediction, for --loss quantile. Default: 0.5."),
]
Nu = Annotated[
    float | None,
    typer.Option(
        "--nu", help="A share of the samples, for one-class SVMs, nu-SVC and nu-SVR; -n is the same there. Default: 0.5."
    ),
]
TubeOfModel = Annotated[
    float | None,
    typer.Option("-p", "--tube", help="The tube of a regression, which models of LIBLINEAR and LIBSVM do not say."),
]
NuOfModel = Annotated[
    float | None, typer.Option("-n", "--nu", help="The nu of the training, which models of LIBLINEAR and LIBSVM do not say.")
]
Bias = Annotated[
    float | None, typer.Option("-B", "--bias", help="Value of the constant feature, by default 1; negative: no intercept.")
]
FreeIntercept = Annotated[
    bool, typer.Option("-R", "--free-intercept", help="Leave the intercept out of the penalty, as LIBSVM does.")
]
SharpProofs = Annotated[
    bool, typer.Option("--sharp-proofs", help="Keep an ellipsoid around the optimum, for predict --certified (linear only).")
]
ClassWeight = Annotated[
    list[str] | None,
    typer.Option(
        "-w",
        "--class-weight",
        metavar="<label=weight>",
        help="'balanced', or LABEL=WEIGHT, once for each label; LIBLINEAR's -w1 2 -w-1 0.5 will do.",
    ),
]
SolverName = Annotated[
    str,
    typer.Option(help="auto, dcd, avsf, newton, pruned-gradient or pegasos; with a kernel auto, batched-smo, smo or irwls."),
]
Stop = Annotated[
    StopBy,
    typer.Option(help="What ends a fit: gap, a certificate within --tol; paper, the stopping rule of the solver's own paper."),
]
Epsilon = Annotated[
    float | None, typer.Option(help="The epsilon of the solver's own stopping rule (--stop paper). Default: the paper's.")
]
MostEpochs = Annotated[int, typer.Option(help="Limit on epochs; -1 for none.")]
MostSeconds = Annotated[float | None, typer.Option(help="Limit on the time of the fit, all classes together.")]
MostSecondsOfProof = Annotated[float, typer.Option(help="Limit on the search for a dual bound, for each binary problem.")]
MostSecondsOfPeer = Annotated[float, typer.Option(help="Limit on each fit of a peer, and on the proof of its gap.")]
Repeats = Annotated[int, typer.Option("--repeats", help="Fits of each contestant.")]
Threads = Annotated[int | None, typer.Option("-n", "--n-jobs", help="Threads for several classes; -1 for all cores.")]
Seed = Annotated[int, typer.Option(help="Seeds the order of the steps, and the folds of -v.")]
Probability = Annotated[
    int, typer.Option("-b", "--probability", help="LIBSVM's -b. Only 0 is supported: maxmargin trains no probabilities yet.")
]
Width = Annotated[int | None, typer.Option(help="Width of the data. Default: the greatest index.")]
Float32 = Annotated[bool, typer.Option("--float32", help="Keep the values in single precision.")]
ZeroBased = Annotated[
    bool | None, typer.Option("--zero-based/--one-based", help="What the first feature is called. Default: 0 if a 0 occurs.")
]
ZeroBasedStream = Annotated[bool, typer.Option("--zero-based/--one-based", help="What the first feature is called.")]
LabelColumn = Annotated[str | None, typer.Option("--label-column", help="The column with the labels, for .csv and .parquet.")]
CheckpointFile = Annotated[
    Path | None, typer.Option(help="Save the state here at intervals; the same command resumes from it.")
]
CheckpointSeconds = Annotated[float, typer.Option(help="The interval.")]
ReportPage = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a page about the model here: HTML, in one file.")
]
MemoryBudget = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Train within this much memory, such as 2G: the data go to blocks on the disk beside MODEL first. Linear models.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]

Predictions = Annotated[
    Path | None, typer.Argument(metavar="OUTPUT", help="Where to write the predictions, one a line. Default: nowhere.")
]
DecisionValues = Annotated[bool, typer.Option("--decision-values", "-d", help="Decision values instead of labels.")]
Probabilities = Annotated[
    int,
    typer.Option("-b", "--probability", help="1: each label and the probability of every class, from a calibrated model."),
]
Certified = Annotated[
    bool,
    typer.Option(
        "--certified",
        help="Report the share of the labels that the exact optimum is proved to give too; in OUTPUT a last column has 1 "
        "where that is proved, else 0.",
    ),
]

Converted = Annotated[Path, typer.Argument(metavar="OUTPUT", help="Where to write it.")]
To = Annotated[Format, typer.Option(help="The format to write.")]

Scaled = Annotated[
    Path | None, typer.Argument(metavar="OUTPUT", help="Where to write the scaled data. Default: standard output.")
]
Lower = Annotated[float | None, typer.Option("-l", "--lower", help="The least value of a feature becomes this. Default: -1.")]
Upper = Annotated[float | None, typer.Option("-u", "--upper", help="The greatest value becomes this. Default: 1.")]
TargetBounds = Annotated[
    tuple[float, float] | None,
    typer.Option("-y", "--target", metavar="<float float>", help="Scale the labels, too, to lie between two numbers."),
]
SaveRanges = Annotated[Path | None, typer.Option("-s", "--save", help="Write the ranges of the features here.")]
RestoreRanges = Annotated[
    Path | None, typer.Option("-r", "--restore", help="Scale by the ranges in this file, as the training data was scaled.")
]

Picture = Annotated[Path | None, typer.Argument(metavar="PICTURE", help="Where to draw the path: .png, .svg or .pdf.")]
LeastC = Annotated[float, typer.Option("--from", help="The least C.")]
GreatestC = Annotated[float, typer.Option("--to", help="The greatest C.")]
FindC = Annotated[
    bool, typer.Option("-C", "--find-C", help="Search for the best C by cross-validation (-v folds, or 5), and write no model.")
]
