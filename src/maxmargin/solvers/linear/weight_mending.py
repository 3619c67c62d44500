r"""The w of an exact pair (``exact_pair.py``) in float64.

The first choice is w(alpha), rounded. Its residuals are wrong by the last digit of the greatest :math:`|w_j x_{ij}|`.
Another weight has finer digits. So the columns with the coarsest products are held, and the shortest change of the others mends
the residuals, as far as their own digits reach; then more columns are held. The change costs its squared length, and the digits
of :math:`|w_j x_{ij}|` cost C times themselves: the cheapest of all these w is the answer. Residuals inside a tube are made a
few digits shorter than its width, so that rounding does not push them out.

Where all digits are equally coarse, whole multiples of them make finer steps (``lattice.py``).

Where a column of 1.6e18 nanoseconds stands beside columns of size one, no w of float64 is good enough: to mend 1e-16 these take
weights of 1e-16, far more than the w of that column, which is 1e-18."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.rounding import exact_sums
from maxmargin.data.rows import Array
from maxmargin.solvers.linear.digit_mending import DEFAULT, DigitPolicy
from maxmargin.solvers.linear.exact_pair import DualPoint, ExactSolve
from maxmargin.solvers.linear.lattice import nearest_multiples
from maxmargin.solvers.linear.row_factor import RowFactor

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class WeightMending:
    """w(alpha), rounded and mended. At a level some columns are held, the coarsest ones, and others mend the residuals."""

    solve: ExactSolve
    point: DualPoint
    digits: DigitPolicy = DEFAULT

    def w(self) -> Array:
        """The cheapest w of all levels, with changes of all columns that are not held or of as few as possible. The few leave
        finer digits to the next level, and cost a little more. Where the objective is zero, nothing is aimed at."""
        levels = [self._of_levels(RowFactor.shortest), self._of_levels(RowFactor.fewest)]
        best = min(levels, key=_cost)
        if best.cost > self._aim >= SMALLEST_NORMAL and self._is_few:
            best = min(best, self._in_digits(best.w), key=_cost)
        return best.w

    @property
    def _is_few(self) -> bool:
        """Whether the weights and the free samples are few enough for the reduction of a lattice."""
        most = self.digits.most_weights
        return len(self.point.free) <= most and int(np.count_nonzero(self._sizes)) <= most + self.digits.more_samples

    @cached_property
    def _aim(self) -> float:
        """What the rounding of w may cost: a share of the objective, without the losses of the free samples."""
        problem, (first, rest) = self.solve.problem, self.point.parts
        losses = problem.C * problem.loss.value(-exact_sums(self.solve.X, -first, -rest, terms=[problem.targets]), 0.0)
        losses[self.point.free] = 0.0
        return self.digits.aim * (0.5 * problem.sqnorm(first) + float(losses.sum()))

    def _in_digits(self, w: Array) -> MendedWeights:
        """w after changes of its last digits by whole numbers, of all columns together."""
        chosen, C = np.flatnonzero(self._sizes), self.solve.problem.C[self.point.free]
        size, units = np.abs(w[chosen]), self._units[chosen]
        digits = np.spacing(np.where(size == 0.0, self.digits.tiny * size.max(), size))
        scale = C * len(C) / self._aim
        scale = np.where(self.solve.problem.box.D[self.point.free] > 0.0, np.sqrt(scale), scale)
        steps = (self.solve.X[self.point.free][:, chosen] * digits).T * scale
        prices = np.maximum(digits / units * np.sqrt(0.5 * len(chosen) / self._aim), 1.0 / self.digits.most_digits_of_w)
        moved = w.copy()
        moved[chosen] += digits * nearest_multiples(steps, self._priced(w).missing * scale, prices)
        return self._priced(moved)

    def _of_levels(self, change: Callable[[RowFactor, Array], Array]) -> MendedWeights:
        best = self._priced(self.point.parts[0])
        w, held = best.w, self._sizes == 0.0
        factor = self._factor(held)
        while factor is not None:
            best = min(best, self._refined(w, held, partial(change, factor)), key=_cost)
            w = best.w
            held, factor = self._next(w, held)
        return best

    def _refined(self, w: Array, held: Array, change: Callable[[Array], Array]) -> MendedWeights:
        """w after changes of the columns that are not held, until these gain little."""
        best = self._priced(w)
        for _ in range(self.solve.policy.refinements):
            moved = best.w.copy()
            moved[~held] += change(best.missing) * self._units[~held]
            found, last = self._priced(moved), best.cost
            best = min(best, found, key=_cost)
            if not found.cost < self.solve.policy.enough * last:
                break
        return best

    @cached_property
    def _rows(self) -> Array:
        return self.solve.X[self.point.free] * self._units

    @cached_property
    def _sizes(self) -> Array:
        """The greatest element of each column."""
        return np.abs(self.solve.X[self.point.free]).max(axis=0)

    @cached_property
    def _units(self) -> Array:
        """The units in which the length of a change counts: a free intercept costs as little as the longest column."""
        units = np.ones(self.solve.X.shape[1])
        if self.solve.is_balanced:
            units[-1] = max(1.0, float(np.abs(self.solve.X[self.point.free]).max()))
        return units

    def _priced(self, w: Array) -> MendedWeights:
        """What w adds to the gap: its distance from w(alpha), and what the residuals are wrong by."""
        problem, (first, rest) = self.solve.problem, self.point.parts
        missing = self.solve.missing(self.point, (w,), is_inside=True)
        apart = ((w - first) - rest)[: problem.n_penalised]
        C, is_squared = problem.C[self.point.free], problem.box.D[self.point.free] > 0.0
        losses = C * np.where(is_squared, np.square(missing), np.abs(missing))
        return MendedWeights(w, missing, 0.5 * float(apart @ apart) + float(losses.sum()))

    def _next(self, w: Array, held: Array) -> tuple[Array, RowFactor | None]:
        """More columns held, the coarsest ones, and the factor of the others. None where the others are too few."""
        digits = np.where(held, -1.0, np.spacing(np.abs(w)) * self._sizes)
        group = held | (digits >= self.solve.policy.group * digits.max())
        factor = self._factor(group)
        if factor is not None:
            return group, factor
        for j in np.argsort(-digits, kind="stable")[: min(self.solve.policy.tries, np.count_nonzero(~held))]:
            one = held.copy()
            one[j] = True
            factor = self._factor(one)
            if factor is not None:
                return one, factor
        return held, None

    def _factor(self, held: Array) -> RowFactor | None:
        """The factor of the columns that are not held, if these can mend all residuals."""
        if held.all():
            return None
        factor = RowFactor.of(self._rows[:, ~held], self.solve.policy.cutoff)
        return factor if factor.rank == self._rank else None

    @cached_property
    def _rank(self) -> int:
        return RowFactor.of(self._rows, self.solve.policy.cutoff).rank


class MendedWeights(NamedTuple):
    """A w, what its residuals are above those that are asked for, and what that costs."""

    w: Array
    missing: Array
    cost: float


def _cost(found: MendedWeights) -> float:
    return found.cost
