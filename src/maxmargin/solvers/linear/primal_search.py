"""A better primal point from the w(alpha) of a dual method.

At large C the primal value of w(alpha) is far worse than its dual value. Two line searches recover most of the difference: one
over the multiples of w(alpha), and one from the best point so far to the best multiple. Margins are linear in w, so a point on
either line costs one pass over n margins and none over X. The derivative along a line rises, and a few passes find its root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.threads import Crew
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.newton.pass_loops import signed_products
from maxmargin.solvers.linear.primal_search_loop import loss_along, residual_loss_along
from maxmargin.solvers.presolve import RenumberedColumns


@dataclass(frozen=True)
class PrimalSearchPolicy:
    """How many passes a line search may take. A pass over n margins is cheap beside a pass over X if the rows of X are long."""

    elements_a_pass: int = 4
    """A search may take one pass over the margins for each of this many elements of a mean row."""
    fewest_passes: int = 5
    """Passes that a search may take, however short the rows are."""
    most_passes: int = 30
    """Passes that a search may take, however long the rows are."""
    farthest: float = 4.0
    """Largest number by which w(alpha) is multiplied."""
    narrowest: float = 1e-9
    """A search ends when its interval is shorter than this. The unit is the step."""
    block_weights: int = 1 << 16
    """Weights that are mixed at a time: half a megabyte. w can be long, and a whole copy would double its memory."""

    def passes(self, problem: LinearProblem) -> int:
        row_length = problem.rows.n_stored // problem.n_samples
        return min(max(self.fewest_passes, row_length // self.elements_a_pass), self.most_passes)


DEFAULT = PrimalSearchPolicy()


@dataclass
class Point:
    """A w with its margins, |w|^2 and its primal value."""

    w: Array
    margins: Array
    sqnorm: float
    primal: float


class PrimalPoint:
    """The best point so far, for a problem in which all of w is penalised. ``best`` owns its memory."""

    def __init__(self, problem: LinearProblem, policy: PrimalSearchPolicy = DEFAULT) -> None:
        self.problem, self.policy = problem, policy
        self.best: Point | None = None
        self._origin = np.zeros(problem.n_samples)
        self._loss_along = _loss_along(problem)
        self._passes = policy.passes(problem)

    def offer(self, w: Array, margins: Array, sqnorm: float) -> float:
        """Search the multiples of w, then the line from the best point to the best multiple. Returns the best primal value.
        ``margins`` is scaled in place."""
        t, primal = self._minimum(self._origin, margins, lambda t: (0.5 * t * t * sqnorm, t * sqnorm), self.policy.farthest)
        margins *= t
        if self.best is None:
            self.best = Point(t * w, margins.copy(), t * t * sqnorm, primal)
        else:
            self._move_towards(t, Point(w, margins, t * t * sqnorm, primal))
        return self.best.primal

    def _move_towards(self, scale: float, found: Point) -> None:
        """Offer a point whose w is ``scale`` times the w of ``found``."""
        best = self.best
        assert best is not None
        product = scale * float(best.w @ found.w)

        def regulariser(t: float) -> tuple[float, float]:
            value = (1.0 - t) ** 2 * best.sqnorm + 2.0 * t * (1.0 - t) * product + t * t * found.sqnorm
            return 0.5 * value, -(1.0 - t) * best.sqnorm + (1.0 - 2.0 * t) * product + t * found.sqnorm

        t, primal = self._minimum(best.margins, found.margins, regulariser, 1.0)
        if primal < best.primal:
            self._mix(best.w, 1.0 - t, found.w, t * scale)
            self._mix(best.margins, 1.0 - t, found.margins, t)
            best.sqnorm, best.primal = 2.0 * regulariser(t)[0], primal

    def _minimum(
        self, start: Array, end: Array, regulariser: Callable[[float], tuple[float, float]], farthest: float
    ) -> tuple[float, float]:
        """The t in [0, farthest] with the least primal value among those tried, and that value."""

        def look(t: float) -> tuple[float, float]:
            loss, slope = self._loss_along(start, end, t)
            value, value_slope = regulariser(t)
            return loss + value, slope + value_slope

        return _least(look, farthest, self._passes, self.policy.narrowest)

    def _mix(self, target: Array, scale: float, other: Array, other_scale: float) -> None:
        """target = scale target + other_scale other, block by block to save memory."""
        size = self.policy.block_weights
        for start in range(0, len(target), size):
            block = slice(start, start + size)
            target[block] = scale * target[block] + other_scale * other[block]


def _loss_along(problem: LinearProblem) -> Callable[[Array, Array, float], tuple[float, float]]:
    """The loss of all samples and its derivative by t, at the outputs (1 - t) start + t end."""
    C, loss = np.ascontiguousarray(problem.C), problem.loss
    if loss.is_regression:
        residual_pieces = loss.residual_pieces()  # type: ignore[attr-defined]
        return lambda start, end, t: residual_loss_along(start, end, t, C, problem.targets, residual_pieces)
    pieces = loss.margin_pieces()
    return lambda start, end, t: loss_along(start, end, t, C, pieces)


def _least(look: Callable[[float], tuple[float, float]], farthest: float, passes: int, narrowest: float) -> tuple[float, float]:
    """An approximate minimiser of a convex function: false position on its derivative, with the Illinois rule."""
    t, (value, slope) = 1.0, look(1.0)
    best_t, best = t, value
    low, low_slope, high, high_slope = 0.0, np.nan, np.inf, np.nan
    for _ in range(passes):
        if slope < 0.0:
            low, low_slope, high_slope = t, slope, 0.5 * high_slope
        else:
            high, high_slope, low_slope = t, slope, 0.5 * low_slope
        if low >= farthest or high - low < narrowest:
            break
        t = _between(low, low_slope, high, high_slope, farthest)
        value, slope = look(t)
        if value < best:
            best_t, best = t, value
    return best_t, best


def _between(low: float, low_slope: float, high: float, high_slope: float, farthest: float) -> float:
    if not np.isfinite(high):
        return min(2.0 * low, farthest)
    if not (low_slope < 0.0 < high_slope):
        return 0.5 * (low + high)
    return low - low_slope * (high - low) / (high_slope - low_slope)


class PrimalSearch:
    """The search on a problem that may be reduced. A feature folded into the diagonal of row i has the weight alpha_i times its
    value. All folded features of row i act as one coordinate h_i = alpha_i sqrt(folded_i) of a longer w."""

    def __init__(
        self, problem: LinearProblem, reduction: RenumberedColumns | None, policy: PrimalSearchPolicy = DEFAULT
    ) -> None:
        self.problem = problem
        self.reduction = reduction
        self.point = PrimalPoint(problem, policy)
        self._root = np.sqrt(reduction.problem.folded) if reduction else np.empty(0)
        self._w = np.empty(problem.n_weights + len(self._root))
        self._margins = np.empty(problem.n_samples)
        self._crew = Crew(problem.rows.n_stored)

    def look(self, w: Array, alpha: Array) -> float:
        """Search from w(alpha) and its margins, at the cost of half an epoch. Returns the best primal value."""
        d, rows, y = self.problem.n_weights, self.problem.compiled_rows, self.problem.signs
        padded = np.zeros(self.problem.rows.n_features + 1)
        padded[:d] = w
        self._w[:d] = w
        self._crew.share(len(alpha), lambda _, *part: signed_products(rows, y, padded, self._margins, *part))
        if self.reduction:
            np.multiply(alpha, self._root, out=self._w[d:])
            self._margins += self._w[d:] * self._root
        return self.point.offer(self._w, self._margins, float(self._w @ self._w))

    def candidate(self, alpha: Array) -> tuple[Array, Array]:
        """The best w, for the original problem, with the present alpha."""
        if self.point.best is None:
            self.look(self.problem.weights(alpha), alpha)
        assert self.point.best is not None
        w = self.point.best.w
        if self.reduction is None:
            return w, alpha
        d = self.problem.n_weights
        hidden = np.divide(w[d:], self._root, out=np.zeros_like(self._root), where=self._root > 0.0)
        return self.reduction.expand(w[:d], hidden)[0], alpha
