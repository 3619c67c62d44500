"""``maxmargin path``: a linear model for every C of a range, with a gap that is proved at each, and a picture of it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from maxmargin.cli import options as of
from maxmargin.cli.machine import regression_settings
from maxmargin.cli.switches import REGRESSION_LOSSES


@dataclass(frozen=True)
class PathOptions:
    """The options of ``path``."""

    data: of.Data
    picture: of.Picture = None
    least: of.LeastC = 1e-3
    greatest: of.GreatestC = 1e3
    tol: of.Tolerance = 1e-3
    loss: of.LossName = None
    tube: of.Tube = None
    quantile: of.QuantileLevel = None
    penalty: of.PenaltyName = of.PenaltyChoice.l2
    bias: of.Bias = None
    free_intercept: of.FreeIntercept = False
    zero_based: of.ZeroBased = None
    label_column: of.LabelColumn = None
    as_json: of.AsJson = False
    quiet: of.Quiet = False


@dataclass(frozen=True)
class PathReport:
    """The knots of the path. ``certified`` means that the relative gap is within ``tol`` at every C of the range."""

    certified: bool
    tol: float
    relative_gap: float
    Cs: list[float]
    support_vectors: list[int]
    nonzero_weights: list[int]
    objectives: list[float]
    picture: str | None
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def words(self) -> str:
        """A few lines for a person: the ends, and what is proved between them."""
        verdict = "Certified" if self.certified else "Not certified"
        lines = [
            f"{verdict}: between C = {self.Cs[0]:g} and {self.Cs[-1]:g} the objective is within {self.relative_gap:.2g} of the "
            f"optimum at every C (asked: {self.tol:g}).",
            f"{len(self.Cs)} fits in {self.seconds:.2f} s. Support vectors: {self.support_vectors[0]} at the least C, "
            f"{self.support_vectors[-1]} at the greatest. Weights that are not zero: {self.nonzero_weights[0]} and "
            f"{self.nonzero_weights[-1]}.",
        ]
        return "\n".join(lines + ([f"Picture: {self.picture}"] if self.picture else []))


def along(options: PathOptions) -> PathReport:
    """Read the data, compute the path and draw it."""
    from maxmargin.cli.data import DataFile
    from maxmargin.model_selection.path import path

    _check_picture(options.picture)
    samples = DataFile(options.data, options.label_column, options.zero_based).read()
    X = samples.X.to_numpy() if hasattr(samples.X, "to_numpy") else samples.X
    model = _model(options)
    begun = time.perf_counter()
    found = path(model, X, samples.y, C_range=(options.least, options.greatest), tol=options.tol)
    seconds = time.perf_counter() - begun
    if options.picture is not None:
        _draw(found, options.picture)
    objectives = [solution.certificate.primal for solution in found.solutions]
    return PathReport(
        certified=found.is_certified,
        tol=options.tol,
        relative_gap=found.relative_gap,
        Cs=found.Cs.tolist(),
        support_vectors=found.n_support.tolist(),
        nonzero_weights=found.n_nonzero.tolist(),
        objectives=objectives,
        picture=None if options.picture is None else str(options.picture),
        seconds=seconds,
    )


def _model(options: PathOptions) -> Any:
    """The estimator of classes, or of a regression where its loss is named."""
    from maxmargin.estimators.linear_svc import LinearSVC
    from maxmargin.estimators.linear_svr import LinearSVR

    bias = 1.0 if options.bias is None else options.bias
    intercept: dict[str, Any] = {
        "fit_intercept": bias > 0.0,
        "intercept_scaling": bias if bias > 0.0 else 1.0,
        "penalize_intercept": not options.free_intercept,
    }
    loss: Any = "squared_hinge" if options.loss is None else options.loss.value
    if loss not in REGRESSION_LOSSES:
        if options.tube is not None or options.quantile is not None:
            raise ValueError("-p and --quantile belong to a regression: name its loss with --loss.")
        return LinearSVC(penalty="l1" if options.penalty == "l1" else "l2", loss=loss, **intercept)
    if options.penalty != "l2":
        raise ValueError(f"--penalty {options.penalty.value} is for two classes; got --loss {loss}.")
    return LinearSVR(**regression_settings(loss, options.tube, options.quantile), **intercept)


def _check_picture(picture: Path | None) -> None:
    """Before any work: the folder is there, and matplotlib knows the format."""
    if picture is None:
        return
    from matplotlib.backend_bases import FigureCanvasBase

    if picture.suffix.lstrip(".").lower() not in FigureCanvasBase.get_supported_filetypes():
        raise ValueError(f"{picture}: a picture needs the ending of a format that matplotlib writes, such as .png or .svg.")
    if not picture.parent.is_dir():
        raise ValueError(f"{picture.parent} is not a folder.")


def _draw(found: Any, picture: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from maxmargin.displays.model_selection import PathDisplay

    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    PathDisplay.from_path(found, ax=figure.subplots())
    figure.savefig(picture, dpi=130)
