r"""Alpha mended in levels (``level_mending.py``), in the monomials of a polynomial kernel.

Features :math:`\phi` of 1e27 are usual there: the last digit of an alpha of 1 moves w(alpha) by 1e11, where w is 1e-27."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from maxmargin.certificate.monomials import MonomialJudge
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.whole_monomials import Scaled, exact_sum
from maxmargin.solvers.linear.level_mending import LevelMending


@dataclass(frozen=True, eq=False)
class MomentMending(LevelMending):
    judge: MonomialJudge = field(kw_only=True)

    @property
    def problem(self) -> LinearProblem:
        return self.judge.problem

    @property
    def _has_offset(self) -> bool:
        return not self.problem.penalizes_intercept

    @cached_property
    def _features(self) -> Array:
        return np.asarray(self.problem.rows.matrix)

    @cached_property
    def _centre(self) -> Array:
        """The features are taken from their means where sum_i s_i = 0 is one of the equations."""
        return self._features.mean(axis=0) if self._has_offset else np.zeros(self._features.shape[1])

    @cached_property
    def _sizes(self) -> Array:
        """The greatest magnitude of each centred feature; for the sum of s, that of all features."""
        sizes = np.abs(self._features - self._centre).max(axis=0)
        sizes[sizes == 0.0] = 1.0
        return np.append(sizes, np.abs(self._features).max()) if self._has_offset else sizes

    @cached_property
    def _rows(self) -> Array:
        rows = ((self._features - self._centre) / self._sizes[: self._features.shape[1]]).T
        rows = np.vstack([rows, np.ones(rows.shape[1])]) if self._has_offset else rows
        return rows * self.problem.signs

    def _exact_residual(self, alpha: Array) -> Array:
        exact, coefficients = self._exact_residuals(alpha), self.judge.coefficients
        excess = exact_sum(-alpha * self.problem.signs) if self._has_offset else Scaled(0, 0)
        found = np.array(
            [float(one.minus(excess.times(centre))) for one, centre in zip(exact, self._whole_centre, strict=True)]
        )
        found = found * coefficients / self._sizes[: len(found)]
        return np.append(found, float(excess)) if self._has_offset else found

    def _exact_residuals(self, alpha: Array) -> list[Scaled]:
        return [target.minus(total) for target, total in zip(self._targets, self.judge.sums(alpha), strict=True)]

    @cached_property
    def _targets(self) -> list[Scaled]:
        """The sums at which w(alpha) = w."""
        return [Scaled.of(float(value)) for value in self.w[: self._features.shape[1]] / self.judge.coefficients]

    @cached_property
    def _whole_centre(self) -> list[Scaled]:
        return [Scaled.of(float(value)) for value in self._centre / self.judge.coefficients]
