r"""An alpha whose w(alpha) is a given w, digit by digit.

The gap has the term :math:`|w - w(\alpha)|^2 / 2`. In a column of nanoseconds since 1970, x is 1.6e18. The last digit of an
alpha of 1 moves w(alpha) by 180 there, where w is 1e-17: rounding alpha alone costs more than the whole objective, however good
w is. But a small alpha has finer digits. So alpha is made in levels. First some samples whose alpha is zero get tiny values,
those of each level some 2^40 times smaller than those of the level before. Then least squares with the free samples bring
w(alpha) to w as far as the digits of their alphas reach, then with the samples of the first level, and so on. A tiny alpha may
move either way, and its own gap term is tiny. Where no alpha is zero, the smallest ones are the last level.

The residual :math:`w - w(\alpha)` is computed exactly in every round, so least squares in float64 only have to be right to a
few digits. Where there are fewer free samples than features, some residuals cannot vanish. These must be the cheap ones: the
rows of the system are sorted and weighted by the size of their features, and QR with column pivoting is stable by rows then
(A. J. Cox and N. J. Higham, "Stability of Householder QR factorization for weighted least squares problems", 1998)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem


@dataclass(frozen=True)
class LevelPolicy:
    """How alpha is mended."""

    falls: tuple[float, ...] = (2.0**-43, 2.0**-37)
    """The ratio of the values of one level to those of the level before: the first that succeeds. Least squares move a value
    by some 2^10 roundings of the level before on most tables, and by 2^16 on ill-conditioned ones."""
    most_levels: int = 3
    """Levels of tiny values: milliseconds since 1970 to the third power need two."""
    samples_a_weight: int = 4
    """Samples of a level, for each weight. Twice as many as weights are enough on most tables."""
    rounds: int = 8
    """Rounds of least squares at a level, at most. Three were enough on most tables."""
    progress: float = 0.5
    """Share of the residual that a round must remove for another to follow."""
    room: float = 0.9
    """Share of its distance to a bound that an alpha may move in a round."""
    stops: int = 4
    """How often the alphas that would move farther are stopped there, and the others solved for again."""
    tiny: float = 1e-9
    """Share of the greatest alpha up to which an alpha counts as zero: it may get a tiny value instead."""
    negligible: float = 1e-8
    """Share of the primal value: tiny values do not mend a residual that costs less."""
    cutoff: float = 1e-13
    """Share of the greatest singular value below which one counts as zero."""


@dataclass(frozen=True, eq=False)
class LevelMending(ABC):
    """The mending of dual points for one w. ``alpha`` is the dual point to begin with. Equations say what w(alpha) is to be:
    ``_rows`` has one column a sample, with elements of size one, and ``_residual`` says what they lack."""

    w: Array
    alpha: Array
    policy: LevelPolicy = LevelPolicy()

    @property
    @abstractmethod
    def problem(self) -> LinearProblem: ...

    @property
    @abstractmethod
    def _rows(self) -> Array:
        """The equations, a column a sample, of size one."""

    @property
    @abstractmethod
    def _sizes(self) -> Array:
        """What a residual of one costs, as a length."""

    @abstractmethod
    def _exact_residual(self, alpha: Array) -> Array:
        """What the equations lack, right to the last digits."""

    def attempts(self) -> list[float]:
        """The ratios to try, for ``mended``."""
        return list(self.policy.falls)

    def mended(self, fall: float) -> Array:
        alpha, levels = self.alpha.copy(), [np.flatnonzero(self._is_free)]
        tiny = self._tiny_samples()
        for k, samples in enumerate(tiny):
            alpha[samples] = float(self.alpha.max()) * fall ** (k + 1)
            levels.append(samples)
        for k, samples in enumerate(levels if tiny else [*levels, self._smallest]):
            self._mend_level(alpha, samples, is_tiny=k > 0)
        return alpha

    @cached_property
    def _is_zero(self) -> Array:
        return self.alpha <= self.policy.tiny * float(self.alpha.max())

    @cached_property
    def _is_free(self) -> Array:
        return ~self._is_zero & (self.alpha < self.problem.box.U)

    @property
    def _smallest(self) -> Array:
        """The free samples with the finest digits."""
        free = np.flatnonzero(self._is_free)
        return free[np.argsort(self.alpha[free], kind="stable")[: self.policy.samples_a_weight * max(1, self._rank)]]

    def _tiny_samples(self) -> list[Array]:
        """Samples with alpha = 0 for each level, spread evenly over all of them. A level has at least as many samples
        as the equations have rank."""
        zeros = np.flatnonzero(self._is_zero & (self.problem.C > 0.0))
        rank = max(1, self._rank)
        n_levels = min(self.policy.most_levels, len(zeros) // rank)
        most = self.policy.samples_a_weight * rank
        parts = [zeros[k::n_levels] for k in range(n_levels)]
        return [part[:: max(1, len(part) // most)][:most] for part in parts]

    def _mend_level(self, alpha: Array, samples: Array, *, is_tiny: bool) -> None:
        """Bring w(alpha) nearer to w by the alphas of these samples, in place."""
        most, last, own = self.problem.box.U[samples], math.inf, alpha[samples]
        for _ in range(self.policy.rounds if len(samples) else 0):
            check_point()
            residual = self._residual(alpha, is_tiny)
            size = float(np.linalg.norm(residual * self._sizes))
            if not size < last:
                alpha[samples] = own
            if not 0.0 < size < self.policy.progress * last:
                return
            last, own = size, alpha[samples]
            alpha[samples] = own + self._step(self._rows[:, samples], residual, own, math.inf if is_tiny else most - own)

    def _step(self, rows: Array, residual: Array, below: Array, above: Array | float) -> Array:
        """The step of alphas with this room below and above that brings the residual to zero, as far as the room allows."""
        room, step, moves = np.minimum(below, above), np.zeros(len(below)), np.ones(len(below), bool)
        for _ in range(self.policy.stops):
            missing = residual - rows[:, ~moves] @ step[~moves]
            step[moves] = room[moves] * self._least_squares(rows[:, moves] * room[moves], missing)
            wanted, step = step, np.clip(step, -self.policy.room * below, self.policy.room * above)
            moves &= step == wanted
            if (step == wanted).all() or not moves.any():
                break
        return step

    def _residual(self, alpha: Array, is_tiny: bool) -> Array:
        """What the equations lack. For tiny values, zero where that costs little."""
        found = self._exact_residual(alpha)
        if not is_tiny:
            return found
        return np.where(np.square(found * self._sizes) <= self._negligible_cost / len(found), 0.0, found)

    @cached_property
    def _negligible_cost(self) -> float:
        """What a residual may cost, as a square of its length."""
        return self.policy.negligible * self.problem.primal(self.w)

    def _least_squares(self, rows: Array, residual: Array) -> Array:
        """The shortest step where all residuals can vanish. Where they cannot, the costs of those that are left are least."""
        from scipy.linalg import qr

        short, _, rank, _ = np.linalg.lstsq(rows, residual, rcond=self.policy.cutoff)
        if rank >= self._rank or rank == 0:
            return np.asarray(short)
        columns, weighted = qr(rows, mode="r", pivoting=True)[1][:rank], np.zeros(rows.shape[1])
        weighted[columns] = self._weighted(rows[:, columns], residual)
        return min(short, weighted, key=lambda step: float(np.linalg.norm((residual - rows @ step) * self._sizes)))

    def _weighted(self, rows: Array, residual: Array) -> Array:
        """Least squares with independent columns, and the rows weighted by their sizes."""
        from scipy.linalg import qr, solve_triangular

        order = np.argsort(-self._sizes * np.abs(rows).max(axis=1), kind="stable")
        Q, R, places = qr((rows * self._sizes[:, None])[order], mode="economic", pivoting=True)
        rank, found = int(np.count_nonzero(np.diag(R))), np.zeros(rows.shape[1])
        found[places[:rank]] = solve_triangular(R[:rank, :rank], (Q.T @ (residual * self._sizes)[order])[:rank])
        return found

    @cached_property
    def _rank(self) -> int:
        """The rank of all equations."""
        return int(np.linalg.matrix_rank(self._rows, rtol=self.policy.cutoff))
