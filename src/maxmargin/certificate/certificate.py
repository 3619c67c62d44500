r"""What a certificate says, and how it is put together from the parts of a gap.

For any w, offset b and dual point :math:`\alpha` the gap is a sum of terms that are never negative (Fenchel and Rockafellar),

.. math:: P - D = \left[ g(w) + g^*(v) - w \cdot v \right]
          + \sum_i \left[ C_i \ell(f_i, t_i) + \ell^*(\alpha_i) + \alpha_i f_i \right], \qquad v = w(\alpha) .

With a free offset the dual asks for :math:`\sum_i s_i = 0` of the signed variables. Where the sum is not zero, an
:class:`Imbalance` is added to the gap. Every judge makes a :class:`GapParts` and calls :func:`assemble`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.html import certificate_html
from maxmargin.data.rows import Array


@dataclass(frozen=True)
class Certificate:
    """A proof that ``primal`` is within ``gap`` (and its rounding error) of the optimum of the problem.

    ``distance_bound`` is how far w can be from the true optimum in the Euclidean norm: sqrt(gap) where w = w(alpha), else
    sqrt(2 gap), the rounding error included. An alpha outside its box proves nothing: its dual value is minus infinity and its
    gap infinite. Where a kernel is not positive semidefinite the gap is that of the conditions of optimality, and the distance
    is not bounded. With an L1 penalty the gap is a proof, but no distance follows from it, and ``is_strongly_convex`` is False.
    Where ``has_bounded_weights`` is True the dual value is that of alpha and of proved intervals of single weights of the
    optimum (``weight_bounds.py``), and more than that of alpha alone.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    rounding_error: float
    distance_bound: float
    n_support: int
    n_at_bound: int
    is_strongly_convex: bool = True
    has_bounded_weights: bool = False

    def meets(self, tol: float) -> bool:
        """Whether the relative gap is at most ``tol`` even after the rounding error is added to the gap. An objective of zero
        has no relative gap, but nothing is below zero: a gap of zero is the optimum."""
        if self.scale == 0.0:
            return self.gap == 0.0
        return self.relative_gap <= tol and self.gap + self.rounding_error <= tol * self.scale

    @property
    def is_proof(self) -> bool:
        """Whether the certificate bounds the optimum. It does not if alpha is outside its box, nor if the kernel is not
        positive semidefinite, because the dual value is then no bound."""
        if self.is_strongly_convex:
            return math.isfinite(self.distance_bound)
        return math.isfinite(self.gap + self.rounding_error)

    @property
    def is_limited_by_rounding(self) -> bool:
        """Whether the whole gap may be rounding error."""
        return self.gap <= 2.0 * self.rounding_error

    def is_safer_than(self, other: Certificate | None) -> bool:
        """Whether rounding limits the other certificate, and the primal value of this one is lower once the rounding errors of
        both are counted. With a large C, a margin that rounding may put below one can cost more than two primal values
        differ by."""
        if other is None or not other.is_limited_by_rounding:
            return False
        return self.primal + self.rounding_error < other.primal + other.rounding_error

    @property
    def scale(self) -> float:
        """The number that a relative gap is relative to."""
        return max(abs(self.primal), abs(self.dual))

    def __str__(self) -> str:
        within = f"within {self.relative_gap:.2e} of the optimum"
        return (
            f"primal {self.primal:.10g}, dual {self.dual:.10g}: "
            f"{within if self.is_proof else f'{self.relative_gap:.2e} apart, which proves no optimum'} "
            f"(gap {self.gap:.2e}, known to {self.rounding_error:.0e}; "
            f"{self.n_support} support vectors, {self.n_at_bound} at the bound)"
        )

    def __repr__(self) -> str:
        return f"<Certificate: relative gap {self.relative_gap:.2e}, objective {self.primal:.6g}>"

    def _repr_html_(self) -> str:
        return certificate_html(self)


def relative(gap: float, primal: float, dual: float) -> float:
    """The gap relative to the greater of the two values; infinite where that says nothing."""
    scale = max(abs(primal), abs(dual))
    return gap / scale if 0.0 < scale < np.inf else (0.0 if gap == 0.0 else np.inf)


class GapParts(NamedTuple):
    """P, D and P - D before an imbalance is added. The rounding error of the gap is at most ``error`` plus ``roundings`` times
    the gap itself. ``apart`` is at least |w - w(alpha)|. ``strong_convexity`` is that of the penalty."""

    primal: float
    dual: float
    gap: float
    error: float
    roundings: float
    apart: float = 0.0
    strong_convexity: float = 1.0


class Imbalance(NamedTuple):
    """The cost of r = sum_i s_i where the sum should be zero. ``shift`` is |b r| in the gap terms, ``fall`` what the dual loses
    on the way to a feasible point, ``error`` how large an r rounding can hide, and ``move`` the distance of w(alpha) from the w
    of that point."""

    shift: float = 0.0
    fall: float = 0.0
    error: float = 0.0
    move: float = 0.0

    @classmethod
    def of(cls, excess: float, excess_error: float, offset: float, fall: Callable[[float], float], move: float) -> Imbalance:
        """``fall(r)`` bounds the fall for an imbalance of r, and ``move`` is the move for an imbalance of one."""
        worst = excess + excess_error
        hidden = fall(worst) - fall(excess) + excess_error * offset
        return cls(excess * offset, fall(excess), hidden, worst * move)


BALANCED = Imbalance()
"""No offset, or one that is penalised."""


class Counts(NamedTuple):
    """How many alpha_i are not zero, and how many of them are at a bound."""

    n_support: int
    n_at_bound: int

    @classmethod
    def of(cls, alpha: Array, is_at_bound: Array) -> Counts:
        return cls(int(np.count_nonzero(alpha)), int(np.count_nonzero(is_at_bound & (alpha != 0.0))))


def assemble(parts: GapParts, imbalance: Imbalance, counts: Counts, *, is_proof: bool = True) -> Certificate:
    """The certificate of an answer. Numbers that are not finite prove nothing.

    The gap is a sum without cancellation, but the dual value is a difference: beside targets of 1e12 it may be rounding and
    nothing else, and a gap would count as small relative to it. So it is moved to primal - gap, the bound that is proved, up to
    the rounding error.

    With a penalty that is m-strongly convex, m |w - w*|^2 + m |w(alpha') - w*|^2 <= 2 gap, with alpha' the feasible point."""
    dual, gap, rounding = joined(parts, imbalance)
    if not all(map(math.isfinite, (parts.primal, dual, gap, rounding))):
        return refusal(counts.n_support)
    distance = _distance(gap + rounding, parts.apart + imbalance.move, parts.strong_convexity)
    dual = min(max(dual, parts.primal - gap - rounding), parts.primal - gap + rounding)
    return Certificate(
        primal=parts.primal,
        dual=dual,
        gap=gap,
        relative_gap=relative(gap, parts.primal, dual),
        rounding_error=rounding,
        distance_bound=distance if is_proof else math.inf,
        n_support=counts.n_support,
        n_at_bound=counts.n_at_bound,
        is_strongly_convex=parts.strong_convexity > 0.0,
    )


def joined(parts: GapParts, imbalance: Imbalance) -> tuple[float, float, float]:
    """The dual value, the gap and its rounding error, with the imbalance. The fields may be arrays, one element a problem."""
    gap = parts.gap + imbalance.shift + imbalance.fall
    return parts.dual - imbalance.fall, gap, parts.error + imbalance.error + parts.roundings * gap


def _distance(worst: float, apart: float, convexity: float) -> float:
    """How far w can be from the optimum, infinite without strong convexity."""
    if convexity == 0.0:
        return math.inf
    worst = worst / convexity
    return min(math.sqrt(2.0 * worst), math.sqrt(worst) + 0.5 * apart)


def or_zero(certificate: Certificate, value: float) -> Certificate:
    """The same certificate, unless all its values are below ``value``, the rounding error of a zero. They then count as zeros,
    known to within ``value``. A zero has no relative gap, and the gap with its rounding error is a bound as before."""
    worst = certificate.scale + certificate.gap + certificate.rounding_error
    return as_zero(certificate, value) if worst <= value else certificate


def as_zero(certificate: Certificate, value: float) -> Certificate:
    """The certificate of an optimum that is zero, known to within ``value``."""
    return replace(certificate, primal=0.0, dual=0.0, gap=0.0, relative_gap=0.0, rounding_error=value)


def refusal(n_support: int) -> Certificate:
    """A certificate that proves nothing."""
    return Certificate(
        primal=np.inf,
        dual=-np.inf,
        gap=np.inf,
        relative_gap=np.inf,
        rounding_error=np.inf,
        distance_bound=np.inf,
        n_support=n_support,
        n_at_bound=0,
    )
