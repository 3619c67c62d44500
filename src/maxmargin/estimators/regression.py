"""What linear regression and regression with kernels share: the checks of their parameters, and where the next fit starts."""

from __future__ import annotations

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
    if not model.warm_start or last is None or np.shape(last.alphas) != columns.shape:
        return [None] * len(columns)
    return [alpha * (model.C / last.C) for alpha in last.alphas]


def check_loss(model: Any, losses: Iterable[str]) -> None:
    """Check the loss of ``model`` and the numbers that the loss depends on."""
    checks.one_of("loss", model.loss, tuple(losses))
    checks.number("C", model.C, above=0.0)
    checks.number("epsilon", model.epsilon, at_least=0.0)
    checks.between("quantile", model.quantile, 0.0, 1.0)
