r"""An alpha of a regression whose w(alpha) is a given w, by whole multiples of the last digits of a dozen elements.

The gap has the term :math:`|w - w(\alpha)|^2 / 2`. With milliseconds since 1970 and C = 1e6, the last digit of an alpha moves
w(alpha) by 160. No single change brings w(alpha) nearer than that, and where most samples are outside of the tube, no alpha is
small enough to have finer digits. But the last digits of several samples together make far finer steps (``lattice.py``). A
sample at the end of its box is first moved inside by some digits, which costs next to nothing. A sample inside of its tube may
have a tiny alpha.

A free intercept asks for :math:`\sum_i \alpha_i = 0`, as one more feature does that is as long as the longest row."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from maxmargin.certificate.rounding import exact_sums
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.lattice import nearest_multiples


@dataclass(frozen=True)
class DigitPolicy:
    """When digits are mended, and how far they may move."""

    most_weights: int = 8
    """Weights up to which it is done. A basis of 16 vectors takes some hundredths of a second to reduce."""
    more_samples: int = 8
    """Samples besides one for each weight. Eight more, by 2^20 digits each, make steps that are 1e9 times finer."""
    aim: float = 1e-7
    """Share of the objective that the distance of w(alpha) from w, and the changes of alpha, may cost each."""
    most_digits: float = 2.0**26
    """Digits by which an alpha may move: far less than it has, so that the unit of its last digit stays the same."""
    most_digits_of_w: float = 2.0**40
    """The same of a weight, which is at no end of a box. An estimate, not measured."""
    tiny: float = 2.0**-30
    """The unit of an alpha that is zero, in digits of the greatest alpha."""


DEFAULT = DigitPolicy()


def can_mend_digits(problem: LinearProblem, policy: DigitPolicy = DEFAULT) -> bool:
    """Whether the problem is a plain regression with few weights."""
    is_plain = problem.loss.is_regression and problem.offset_prices is None and not problem.penalty.has_kink
    return is_plain and problem.n_weights <= policy.most_weights


def mended_in_digits(problem: LinearProblem, w: Array, alpha: Array, policy: DigitPolicy = DEFAULT) -> Array:
    """alpha with changes of the last digits of a few elements that bring w(alpha) to w, unless they bring it farther away."""
    with np.errstate(all="ignore"):
        mending = DigitMending(problem, w, policy)
        try:
            return min((mending.mended(alpha), alpha), key=mending.distance)
        except (OverflowError, ValueError, np.linalg.LinAlgError):
            return alpha


@dataclass(frozen=True, eq=False)
class DigitMending:
    problem: LinearProblem
    w: Array
    policy: DigitPolicy = field(default=DEFAULT)

    def distance(self, alpha: Array) -> float:
        """About |w - w(alpha)|."""
        return float(np.linalg.norm(self._missing(alpha)))

    def mended(self, alpha: Array) -> Array:
        chosen = self._chosen(alpha)
        moved = self._moved_inside(alpha, chosen)
        units = self._units(alpha)[chosen]
        size = np.sqrt(2.0 * self._aim / len(self._columns))
        steps = (self._columns[:, chosen] * units).T / size
        multiples = nearest_multiples(steps, self._missing(moved) / size, self._prices(units, chosen))
        moved[chosen] += multiples * units
        return np.clip(moved, self.problem.box.L, self.problem.box.U)

    @cached_property
    def _columns(self) -> Array:
        """The features, one after another; last the constant one, if there is an intercept."""
        X, scaling = np.asarray(self.problem.rows.dense(), dtype=np.float64), self.problem.intercept_scaling
        if scaling == 0.0:
            return np.ascontiguousarray(X.T)
        if not self.problem.penalizes_intercept:
            scaling = float(np.abs(X).max(initial=1.0))
        return np.vstack([X.T, np.full(len(X), scaling)])

    def _missing(self, alpha: Array) -> Array:
        wanted = self.w if self.problem.penalizes_intercept else np.append(self.w[:-1], 0.0)
        return exact_sums(self._columns, -alpha, terms=[wanted])

    @cached_property
    def _slack(self) -> Array:
        """What a change of alpha costs for each unit: how far a residual is from its kink."""
        residuals = np.abs(self.problem.targets - self.problem.margins(self.w))
        return np.where(self.problem.box.D > 0.0, 0.0, np.abs(residuals - self.problem.box.e))

    @cached_property
    def _aim(self) -> float:
        return self.policy.aim * self.problem.primal(self.w)

    def _units(self, alpha: Array) -> Array:
        """The last digit of each alpha."""
        return np.spacing(np.where(alpha == 0.0, self.policy.tiny * np.abs(alpha).max(), np.abs(alpha)))

    def _chosen(self, alpha: Array) -> Array:
        """The samples whose digits cost the least."""
        rates = np.where(self.problem.C > 0.0, self._units(alpha) * self._slack, np.inf)
        return np.argsort(rates, kind="stable")[: len(self._columns) + self.policy.more_samples]

    def _moved_inside(self, alpha: Array, chosen: Array) -> Array:
        """alpha with those of the chosen samples that are at an end of their box moved inside."""
        box, moved = self.problem.box, alpha.copy()
        room = self.policy.most_digits * self._units(alpha)[chosen]
        moved[chosen] = np.clip(moved[chosen], box.L[chosen] + room, box.U[chosen] - room)
        return moved

    def _prices(self, units: Array, chosen: Array) -> Array:
        """What a digit costs, in units of the root of what all may cost."""
        share, D = self._aim / len(chosen), self.problem.box.D[chosen]
        prices = units * np.where(D > 0.0, np.sqrt(D / (2.0 * share)), self._slack[chosen] / share)
        return np.maximum(prices, 1.0 / self.policy.most_digits)
