r"""Fits with an L1 or elastic-net penalty along a path over C.

Between two fits the mixtures of w and of alpha are feasible: the dual asks for :math:`|v_j| \le 1`, which is convex. The
penalty g is convex in w, and minus the dual is convex in alpha and C together. With the sums of losses
:math:`L = \sum_i c_i \ell_i`,

.. math:: \text{gap}_\theta \le (1 - \theta) \text{gap}_1 + \theta \, \text{gap}_2
          + \theta (1 - \theta) (C_2 - C_1)(L_1 - L_2) ,

the bound of :mod:`maxmargin.model_selection.transfer` without the squares that strong convexity adds. A scaled alpha is
feasible at a smaller C only, and there is no ball around the optimum."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

from maxmargin.data.rows import Array
from maxmargin.model_selection.transfer import Between, Fit, Problem, linear_fit
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.solution import Solution


def refuse_kinks(problem: Problem, what: str) -> None:
    """Where a proof takes a ball around the optimum."""
    if isinstance(problem, LinearProblem) and problem.penalty.has_kink:
        raise ValueError(f"{what} is proved for the L2 penalty only; got {problem.penalty!r}.")


@dataclass(frozen=True, eq=False)
class SparseFit(Fit):
    """A fit whose gap is that of its certificate, with the rounding of a mixture of its w with another."""

    certified_gap: float

    @cached_property
    def gap(self) -> float:
        return self.certified_gap

    def gap_at(self, C: float) -> float:
        if C != self.C:
            raise ValueError(f"With {self.problem.penalty!r} a fit proves no gap at another C; got {C!r}.")  # type: ignore[union-attr]
        return self.certified_gap


class SparseBetween(Between):
    """The bound between two such fits."""

    @cached_property
    def bend(self) -> float:
        one, two = self.first, self.second
        fall = (one.loss - two.loss + one.loss_error + two.loss_error) * (two.C - one.C)
        return fall + abs(fall) * 8.0 * UNIT_ROUNDOFF


def sparse_fit(problem: LinearProblem, solution: Solution, C: float, lengths: Array | None) -> SparseFit:
    """A solution as a knot. A rounding of w changes the losses by at most a few ``loss_error``, the penalty by a few units."""
    fit = linear_fit(problem, solution.w, solution.alpha, C, lengths)
    certificate, size = solution.certificate, problem.penalty.value(solution.w[: problem.n_penalised])
    rounding = 4.0 * C * fit.loss_error + 16.0 * UNIT_ROUNDOFF * size
    shared = {item.name: getattr(fit, item.name) for item in fields(Fit)}
    return SparseFit(**shared, certified_gap=certificate.gap + certificate.rounding_error + rounding)
