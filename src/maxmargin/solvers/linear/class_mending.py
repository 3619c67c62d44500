r"""Coefficients of Crammer and Singer's machine whose W(a) is a given W, digit by digit.

The last digit of an a of 1 moves W(a) by 2e-4 beside a time of 1e12, where W is 1e-12: see ``level_mending.py``, of which this
is the form for several classes. Some coefficients that are nearly zero get tiny values instead, those of a level 2^-40 times
those of the level before. The others move first, until W(a) is W as nearly as their digits allow, then the tiny ones of each
level. What W(a) lacks of W is computed with 150 bits.

Columns are centred for that by round numbers c: :math:`\sum_i b_i x_i = \sum_i b_i (x_i - c) + c \sum_i b_i`, and the sum of
the b of a class is to be the weight of its intercept, divided by the scaling."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve

from maxmargin.certificate.rounding import two_product, two_sum
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.solvers.linear.class_frame import ClassFrame, coefficients, factor, longest
from maxmargin.solvers.linear.class_policy import ClassInteriorPolicy
from maxmargin.solvers.linear.long_sums import RunningProducts, rounded
from maxmargin.solvers.presolve import exact_centre

Entries = tuple[Array, Array]
"""Samples and classes."""


class ClassMending:
    """The mending of one a for one W, which is V in the columns of ``frame``. The distance may cost ``enough``."""

    def __init__(self, frame: ClassFrame, W: Array, V: Array, a: Array, enough: float, policy: ClassInteriorPolicy) -> None:
        self.frame, self.problem, self.W, self.V, self.policy = frame, frame.problem, W, V, policy
        self.a, self.enough, self.price = np.maximum(a, 0.0), enough, policy.price * enough / a.size

    def best(self) -> Array:
        """The b whose W(a) is nearest to W, of those tried until the distance costs little."""
        best, least = coefficients(self.problem, self.a), math.inf
        for fall in (None, *self.policy.falls):
            a = self.mended(fall)
            cost = 0.5 * float(np.sum(np.square(self._lack(a)))) if self._is_feasible(a) else math.inf
            if cost < least:
                best, least = coefficients(self.problem, a), cost
            if cost <= self.enough:
                break
        return best

    def _is_feasible(self, a: Array) -> bool:
        """Whether rounds at a level have left all in their bounds."""
        others = np.where(np.arange(a.shape[1]) == self.problem.y[:, None], 0.0, a)
        return bool(np.all(others >= 0.0) and np.all(others.sum(axis=1) <= self.problem.C))

    def mended(self, fall: float | None) -> Array:
        """a after moves of all, and of levels of tiny values with this ratio, if there is one."""
        a, levels = self.a.copy(), self._levels() if fall else []
        still = np.zeros(a.shape, bool)
        for power, entries in enumerate(levels, 1):
            a[entries], still[entries] = float(a.max()) * float(fall or 0.0) ** power, True
            self._make_room(a, entries, still)
        self._complete(a, still)
        a = self.frame.moved(self.V, a, self.policy.last_moves, self.price, self.policy, still)
        for entries in levels:
            self._mend_level(a, entries)
        return a

    def _make_room(self, a: Array, entries: Entries, still: Array) -> None:
        """Leave each sample's own class some times what its tiny values are, for these to grow, and keep it there."""
        each = self.problem.own
        room = self.policy.room_to_grow * np.bincount(entries[0], a[entries], minlength=len(a))
        is_short = a[each] < room
        a[each], still[each] = np.where(is_short, room, a[each]), still[each] | is_short

    def _complete(self, a: Array, still: Array) -> None:
        """Share out what is left of C_i among the others, in proportion: the loss of a sample that has a greatest slack of one
        needs all of C_i, and what its own class gets is lost."""
        moving = np.where(still, 0.0, a)
        sums = moving.sum(axis=1)
        factors = (self.problem.C - np.where(still, a, 0.0).sum(axis=1)) / np.where(sums > 0.0, sums, 1.0)
        np.copyto(a, moving * np.maximum(factors, 0.0)[:, None], where=~still)

    def _levels(self) -> list[Entries]:
        """The smallest coefficients, for each level, in an order without pattern. Where few are nearly zero there is one level
        of about as many as there are weights."""
        shares = np.where(self.problem.C[:, None] > 0.0, self.a / self.problem.C[:, None], np.inf)
        shares[self.problem.own] = np.inf
        n_small, rank = int(np.count_nonzero(shares <= self.policy.tiny)), self.V.shape[0] * (self.V.shape[1] - 1)
        n_levels = min(self.policy.most_levels, max(1, n_small // (2 * rank)))
        size = max(int(self.policy.least_a_weight * rank), min(self.policy.coefficients_a_weight * rank, n_small // n_levels))
        size = min(size, np.count_nonzero(np.isfinite(shares)) // 2)
        order = np.argsort(shares, axis=None, kind="stable")[: n_levels * size]
        order = np.random.default_rng(0).permutation(order)
        return [np.unravel_index(order[k::n_levels], shares.shape) for k in range(n_levels)]  # type: ignore[misc]

    def _mend_level(self, a: Array, entries: Entries) -> None:
        """Bring W(a) nearer to W by these coefficients, in place."""
        rows, last, before = self._moves_of(entries), math.inf, a[entries]
        for _ in range(self.policy.rounds):
            check_point()
            lack = self._lack(a)
            size = float(np.linalg.norm(lack))
            if not size < last:
                a[entries] = before
            if not 0.0 < size < self.policy.progress * last:
                return
            last, before = size, a[entries]
            step = self._least_squares(rows, before, self.frame.turned(lack))
            a[entries] = before + min(1.0, self.policy.to_zero * longest(before, step)) * step

    def _least_squares(self, rows: Array, sizes: Array, lack: Array) -> Array:
        """The steps that make good what W(a) lacks, each in proportion to the square of its coefficient."""
        greatest = float(sizes.max())
        weighted = rows * (sizes / greatest)[:, None]
        H = weighted.T @ weighted
        H[np.diag_indices(len(H))] += np.tile(self.price / greatest**2 * self.frame.ridge, self.V.shape[1] - 1)
        scales = 1.0 / np.sqrt(H.diagonal())
        wanted = scales * lack[:, :-1].T.reshape(-1)
        found = scales * cho_solve(factor(H * (scales[:, None] * scales), self.policy), wanted, check_finite=False)
        return np.asarray((weighted @ found) * (sizes / greatest))

    def _moves_of(self, entries: Entries) -> Array:
        """How X'b moves with each coefficient: a row each, the classes one after another, without the last."""
        (samples, classes), (d, k) = entries, self.V.shape
        rows, each = np.zeros((len(samples), k, d)), np.arange(len(samples))
        rows[each, self.problem.y[samples]] = self.frame.X[samples]
        rows[each, classes] = -self.frame.X[samples]
        return rows[:, :-1].reshape(len(samples), -1)

    @cached_property
    def _centre(self) -> Array:
        X = self.problem.rows.dense()
        if self.problem.intercept_scaling == 0.0:
            return np.zeros(X.shape[1])
        return exact_centre(X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64))

    @cached_property
    def _products(self) -> list[RunningProducts]:
        columns = np.asfortranarray(self.problem.rows.dense() - self._centre)
        return [RunningProducts(columns) for _ in range(2 * self.problem.n_classes)]

    def _lack(self, a: Array) -> Array:
        """W - W(a), right to its last digits."""
        others = np.where(np.arange(a.shape[1]) == self.problem.y[:, None], 0.0, a)
        total, rest = np.zeros(len(a)), np.zeros(len(a))
        for values in others.T:
            total, lost = two_sum(total, values)
            rest += lost
        total, rest = two_sum(total, rest)
        return np.column_stack([self._lack_of(m, others[:, m], total, rest) for m in range(a.shape[1])])

    def _lack_of(self, m: int, a: Array, total: Array, rest: Array) -> Array:
        """The same of one class. A sum of coefficients is a pair of numbers."""
        is_own, d, scaling = self.problem.y == m, self.problem.rows.n_features, self.problem.intercept_scaling
        first, second = np.where(is_own, -total, a), np.where(is_own, -rest, 0.0)
        wanted = float(self.W[-1, m]) / scaling if scaling else 0.0
        known = np.array([self.W[:d, m], *two_product(np.full(d, -wanted), self._centre)])
        products = self._products[2 * m : 2 * m + 2]
        found = rounded(np.concatenate([products[0].of(first), products[1].of(second), known]))
        if not scaling:
            return found
        lacking = math.fsum([*first.tolist(), *second.tolist(), wanted])
        return np.append(found + self._centre * lacking, scaling * lacking)
