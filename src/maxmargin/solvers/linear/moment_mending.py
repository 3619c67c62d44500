r"""An alpha whose w(alpha) is a given w, digit by digit, in the monomials of a polynomial kernel.

With features :math:`\phi` of 1e27 the last digit of an alpha of 1 moves w(alpha) by 1e11, where w is 1e-27, and the gap has the
term :math:`|w - w(\alpha)|^2 / 2`. But a small alpha has finer digits. So alpha is made in levels. First some samples whose
alpha is zero get tiny values, those of each level some 2^40 times smaller than those of the level before. Then least squares
with the free samples bring w(alpha) to w as far as the digits of their alphas reach, then with the samples of the first level,
and so on. A tiny alpha may move either way, and its own gap term is tiny.

The residual :math:`w - w(\alpha)` is computed exactly in every round, so least squares in float64 only have to be right to a
few digits. Where there are fewer free samples than features, some residuals cannot vanish. These must be the cheap ones: the
rows of the system are sorted and weighted by the size of their features, and QR with column pivoting is stable by rows then
(A. J. Cox and N. J. Higham, "Stability of Householder QR factorization for weighted least squares problems", 1998)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxmargin.certificate.monomials import MonomialJudge
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.whole_monomials import Scaled, exact_sum


@dataclass(frozen=True)
class MomentPolicy:
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
    negligible: float = 1e-8
    """Share of the primal value: tiny values do not mend a residual that costs less."""
    cutoff: float = 1e-13
    """Share of the greatest singular value below which one counts as zero."""


@dataclass(frozen=True, eq=False)
class MomentMending:
    """The mending of dual points for one w. ``alpha`` is the dual point to begin with."""

    judge: MonomialJudge
    w: Array
    alpha: Array
    policy: MomentPolicy = MomentPolicy()

    def attempts(self) -> list[float]:
        """The ratios to try, for ``mended``."""
        return list(self.policy.falls)

    def mended(self, fall: float) -> Array:
        alpha, levels = self.alpha.copy(), [np.flatnonzero(self._is_free)]
        for k, samples in enumerate(self._tiny_samples()):
            alpha[samples] = float(self.alpha.max()) * fall ** (k + 1)
            levels.append(samples)
        for k, samples in enumerate(levels):
            self._mend_level(alpha, samples, is_tiny=k > 0)
        return alpha

    @cached_property
    def _is_free(self) -> Array:
        return (self.alpha > 0.0) & (self.alpha < self.judge.problem.C)

    def _tiny_samples(self) -> list[Array]:
        """Samples with alpha = 0 for each level, spread evenly over all of them. A level has at least as many samples
        as the equations have rank."""
        zeros = np.flatnonzero((self.alpha == 0.0) & (self.judge.problem.C > 0.0))
        rank = max(1, self._rank)
        n_levels = min(self.policy.most_levels, len(zeros) // rank)
        most = self.policy.samples_a_weight * rank
        parts = [zeros[k::n_levels] for k in range(n_levels)]
        return [part[:: max(1, len(part) // most)][:most] for part in parts]

    def _mend_level(self, alpha: Array, samples: Array, *, is_tiny: bool) -> None:
        """Bring w(alpha) nearer to w by the alphas of these samples, in place."""
        C, last, own = self.judge.problem.C[samples], math.inf, alpha[samples]
        for _ in range(self.policy.rounds if len(samples) else 0):
            check_point()
            residual = self._residual(alpha, is_tiny)
            size = float(np.linalg.norm(residual * self._sizes))
            if not size < last:
                alpha[samples] = own
            if not 0.0 < size < self.policy.progress * last:
                return
            last, own = size, alpha[samples]
            room = own if is_tiny else np.minimum(own, C - own)
            step = room * self._least_squares(self._rows[:, samples] * room, residual)
            alpha[samples] = own + np.clip(step, -self.policy.room * own, self.policy.room * (C - own))

    def _least_squares(self, rows: Array, residual: Array) -> Array:
        """The shortest step where all residuals can vanish. Where they cannot, the costs of those that are left are least."""
        from scipy.linalg import qr

        short, _, rank, _ = np.linalg.lstsq(rows, residual, rcond=self.policy.cutoff)
        if rank >= self._rank:
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

    @property
    def _has_offset(self) -> bool:
        return not self.judge.problem.penalizes_intercept

    @cached_property
    def _features(self) -> Array:
        return np.asarray(self.judge.problem.rows.matrix)

    @cached_property
    def _centre(self) -> Array:
        """The features are taken from their means where sum_i s_i = 0 is one of the equations."""
        return self._features.mean(axis=0) if self._has_offset else np.zeros(self._features.shape[1])

    @cached_property
    def _sizes(self) -> Array:
        """The greatest magnitude of each centred feature; for the sum of s, that of all features: what a residual costs."""
        sizes = np.abs(self._features - self._centre).max(axis=0)
        sizes[sizes == 0.0] = 1.0
        return np.append(sizes, np.abs(self._features).max()) if self._has_offset else sizes

    @cached_property
    def _rows(self) -> Array:
        """The equations, a column a sample, of size one."""
        rows = ((self._features - self._centre) / self._sizes[: self._features.shape[1]]).T
        rows = np.vstack([rows, np.ones(rows.shape[1])]) if self._has_offset else rows
        return rows * self.judge.problem.signs

    def _residual(self, alpha: Array, is_tiny: bool) -> Array:
        """What the equations lack, computed exactly. For tiny values, zero where that costs little."""
        exact, coefficients = self._exact_residuals(alpha), self.judge.coefficients
        excess = exact_sum(-alpha * self.judge.problem.signs) if self._has_offset else Scaled(0, 0)
        found = np.array(
            [float(one.minus(excess.times(centre))) for one, centre in zip(exact, self._whole_centre, strict=True)]
        )
        found = found * coefficients / self._sizes[: len(found)]
        found = np.append(found, float(excess)) if self._has_offset else found
        if not is_tiny:
            return found
        cost = self.policy.negligible * self.judge.problem.primal(self.w) / len(found)
        return np.where(np.square(found * self._sizes) <= cost, 0.0, found)

    def _exact_residuals(self, alpha: Array) -> list[Scaled]:
        return [target.minus(total) for target, total in zip(self._targets, self.judge.sums(alpha), strict=True)]

    @cached_property
    def _targets(self) -> list[Scaled]:
        """The sums at which w(alpha) = w."""
        return [Scaled.of(float(value)) for value in self.w[: self._features.shape[1]] / self.judge.coefficients]

    @cached_property
    def _whole_centre(self) -> list[Scaled]:
        return [Scaled.of(float(value)) for value in self._centre / self.judge.coefficients]
