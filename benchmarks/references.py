"""Reference solutions: what every contestant's answer is measured against.

A reference is a pair (w, alpha) with its certificate, kept in ``.cache/``. It comes from maxmargin itself, and that does no
harm: the certificate is computed anew whenever a reference is loaded, and its dual value is a lower bound of the optimum,
whoever found it. A stale file can make a table less sharp but never wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.datasets import CACHE, Data, write_atomically
from maxmargin import Certificate, LinearProblem, certify, solve
from maxmargin.data.rows import Array
from maxmargin.problem.losses import Hinge, Loss, SquaredHinge

LOSSES: dict[str, Loss] = {"hinge": Hinge(), "squared_hinge": SquaredHinge()}
TOLERANCE = 1e-9
MAX_SECONDS = 60.0


@dataclass(frozen=True)
class Reference:
    """A solution known to be within ``certificate.relative_gap`` of the optimum."""

    problem: LinearProblem
    w: Array
    alpha: Array
    certificate: Certificate
    asked: float = math.inf
    """The relative gap that was asked for. A larger one in the certificate is all that could be had in the time."""

    def excess(self, w: Array) -> float:
        """By how much P(w) can lie above the optimum at most, relative to it: proved, by the certificate of (w, alpha)."""
        return certify(self.problem, w, self.alpha).gap / self.certificate.dual

    def quick_excess(self, w: Array) -> float:
        """The same number without the bound on its rounding, for curves with many points."""
        return (self.problem.primal(w) - self.certificate.dual) / self.certificate.dual

    def is_as_good_as(self, tolerance: float) -> bool:
        return min(self.certificate.relative_gap, self.asked) <= tolerance


def linear_problem(data: Data, C: float, loss: str) -> LinearProblem:
    """No intercept, as in all of these comparisons."""
    return LinearProblem.build(data.X, data.y, C, LOSSES[loss])


def reference(name: str, data: Data, C: float, loss: str, tolerance: float = TOLERANCE) -> Reference:
    """The solution of a data set to a relative gap of 1e-9, or the best within a minute. It starts from what is cached."""
    problem = linear_problem(data, C, loss)
    cached = CACHE / "references" / f"{name}-{loss}-{C:g}.npz"
    known = _load(cached, problem) if cached.exists() else None
    if known is None or not known.is_as_good_as(tolerance):
        solution = solve(problem, tol=tolerance, max_seconds=MAX_SECONDS, warm_start=None if known is None else known.alpha)
        write_atomically(cached, lambda path: np.savez(path, w=solution.w, alpha=solution.alpha, asked=tolerance))
        known = _load(cached, problem)
    return known


def _load(cached: Path, problem: LinearProblem) -> Reference:
    with np.load(cached) as arrays:
        w, alpha = arrays["w"], arrays["alpha"]
        asked = float(arrays["asked"]) if "asked" in arrays else math.inf
    return Reference(problem, w, alpha, certify(problem, w, alpha), asked)
