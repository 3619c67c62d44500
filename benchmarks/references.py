"""Reference solutions: what every contestant's answer is measured against.

A reference is a pair (w, alpha) with its certificate, kept in ``.cache/`` because the tight ones take long. The certificate is
computed anew whenever a reference is loaded, so a stale file can make a table less sharp but never wrong: its
dual value is a lower bound of the optimum, whoever found it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.datasets import CACHE, Data, write_atomically
from maxmargin import Certificate, LinearProblem, certify, solve
from maxmargin.data import Array
from maxmargin.losses import Hinge, Loss, SquaredHinge

LOSSES: dict[str, Loss] = {"hinge": Hinge(), "squared_hinge": SquaredHinge()}
TOLERANCE = 1e-6
MAX_SECONDS = 120.0


@dataclass(frozen=True)
class Reference:
    """A solution known to be within ``certificate.relative_gap`` of the optimum."""

    problem: LinearProblem
    w: Array
    alpha: Array
    certificate: Certificate

    def excess(self, w: Array) -> float:
        """By how much P(w) can lie above the optimum at most, relative to it: proved, by the certificate of (w, alpha)."""
        return certify(self.problem, w, self.alpha).gap / self.certificate.dual

    def quick_excess(self, w: Array) -> float:
        """The same number without the bound on its rounding, for curves with many points."""
        return (self.problem.primal(w) - self.certificate.dual) / self.certificate.dual


def linear_problem(data: Data, C: float, loss: str) -> LinearProblem:
    """No intercept, as in all of these comparisons."""
    return LinearProblem.build(data.X, data.y, C, LOSSES[loss])


def reference(name: str, data: Data, C: float, loss: str) -> Reference:
    """The solution of a data set to a relative gap of 1e-6, or the best within two minutes."""
    problem = linear_problem(data, C, loss)
    cached = CACHE / "references" / f"{name}-{loss}-{C:g}.npz"
    if not cached.exists():
        solution = solve(problem, tol=TOLERANCE, max_seconds=MAX_SECONDS)
        write_atomically(cached, lambda path: np.savez(path, w=solution.w, alpha=solution.alpha))
    with np.load(cached) as arrays:
        w, alpha = arrays["w"], arrays["alpha"]
    return Reference(problem, w, alpha, certify(problem, w, alpha))
