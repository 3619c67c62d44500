"""What linear regression and regression with kernels share: the checks of their parameters, and where the next fit starts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.estimators import checks
from maxmargin.solving.solution import Solution


class WarmStart(NamedTuple):
    """The C and the alphas of a fit, from which the next fit may start."""

    C: float
    alphas: list[Array]

    @classmethod
    def of(cls, model: Any, solutions: list[Solution]) -> WarmStart | None:
        """What ``model`` keeps after a fit: nothing without ``warm_start``."""
        return cls(model.C, [solution.alpha for solution in solutions]) if model.warm_start else None


def starts_of(model: Any, columns: Array) -> list[Array | None]:
    """The alphas of the last fit, scaled to the new C, where the columns of y have the same shape as then."""
    last: WarmStart | None = getattr(model, "_warm_start", None)
    if not model.warm_start or last is None or np.shape(last.alphas) != columns.shape or math.isinf(model.C + last.C):
        return [None] * len(columns)
    return [alpha * (model.C / last.C) for alpha in last.alphas]


def check_loss(model: Any, losses: Iterable[str]) -> None:
    """Check the loss of ``model`` and the numbers that the loss depends on."""
    checks.one_of("loss", model.loss, tuple(losses))
    checks.cost(model.C)
    checks.number("epsilon", model.epsilon, at_least=0.0)
    checks.between("quantile", model.quantile, 0.0, 1.0)
    if has_hard_tube(model) and (model.loss == "quantile" or model.epsilon == 0.0):
        what = "loss='quantile'" if model.loss == "quantile" else "epsilon=0"
        raise ValueError(
            f"C = infinity with {what} asks for predictions that equal the targets exactly, which no rounded number proves. "
            "Use a finite C, or an epsilon > 0 with a loss that has one."
        )


def has_hard_tube(model: Any) -> bool:
    """Whether every residual has to stay within epsilon."""
    return math.isinf(model.C)


def finite_cost(model: Any) -> float:
    """C, and one where it is infinite: of that problem only counts which samples have a weight."""
    return 1.0 if has_hard_tube(model) else float(model.C)
