r"""The penalty g(w) of the primal. With v = w(alpha) the duality gap has the part

.. math:: g(w) + g^*(v) - w \cdot v \ge 0 ,

which is zero where v is a subgradient of g at w. A penalty is a function of the elements of w that it penalises: a free
intercept is not among them.

============  =========================================  =======================================================
penalty       g(w)                                       g*(v)
============  =========================================  =======================================================
L2            :math:`\tfrac12 |w|^2`                     :math:`\tfrac12 |v|^2`
L1            :math:`|w|_1`                              0 if all :math:`|v_j| \le 1`, else infinity
ElasticNet    :math:`r |w|_1 + \tfrac{1 - r}{2} |w|^2`   :math:`\sum_j (|v_j| - r)_+^2 / (2 - 2r)`
============  =========================================  =======================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Protocol

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF


class Penalty(Protocol):
    """``strong_convexity`` is the m in g(w + u) >= g(w) + g'(w) . u + m |u|^2 / 2: it turns a gap into a distance.
    ``has_kink``: elements of w are zero at the optimum, and g is ``l1`` |w|_1 + ``l2`` |w|^2 / 2."""

    has_kink: ClassVar[bool]

    @property
    def strong_convexity(self) -> float: ...

    @property
    def l1(self) -> float: ...

    @property
    def l2(self) -> float: ...

    def value(self, w: Array) -> float:
        """g(w)"""

    def conjugate(self, v: Array) -> float:
        """g*(v), the greatest value of w . v - g(w)."""

    def gap_terms(self, w: Array, v: Array) -> Array:
        """g(w) + g*(v) - w . v for each element, where g*(v) is finite: none is negative."""

    def feasible_share(self, v: Array) -> float:
        """The greatest t <= 1 for which g*(t v) is finite."""


@dataclass(frozen=True)
class L2:
    """|w|^2 / 2. Its gap is |w - v|^2 / 2, and the w that answers v is v itself."""

    has_kink: ClassVar[bool] = False
    strong_convexity: ClassVar[float] = 1.0
    l1: ClassVar[float] = 0.0
    l2: ClassVar[float] = 1.0

    def value(self, w: Array) -> float:
        return 0.5 * float(w @ w)

    def conjugate(self, v: Array) -> float:
        return 0.5 * float(v @ v)

    def gap_terms(self, w: Array, v: Array) -> Array:
        return 0.5 * np.square(w - v)

    def feasible_share(self, v: Array) -> float:
        return 1.0


@dataclass(frozen=True)
class L1:
    """|w|_1: a sparse w, and no distance from a gap."""

    has_kink: ClassVar[bool] = True
    strong_convexity: ClassVar[float] = 0.0
    l1: ClassVar[float] = 1.0
    l2: ClassVar[float] = 0.0

    def value(self, w: Array) -> float:
        return float(np.sum(np.abs(w)))

    def conjugate(self, v: Array) -> float:
        """Zero also where a v that was scaled to one is above it by rounding."""
        return 0.0 if float(np.max(np.abs(v), initial=0.0)) <= 1.0 + 4.0 * UNIT_ROUNDOFF else np.inf

    def gap_terms(self, w: Array, v: Array) -> Array:
        return np.abs(w) - w * np.clip(v, -1.0, 1.0)

    def feasible_share(self, v: Array) -> float:
        return 1.0 / max(1.0, float(np.max(np.abs(v), initial=0.0)))


@dataclass(frozen=True)
class ElasticNet:
    """``l1_ratio`` |w|_1 + (1 - ``l1_ratio``) |w|^2 / 2, as in scikit-learn. The ratio is below one: with one it is ``L1``."""

    l1_ratio: float = 0.5
    has_kink: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.l1_ratio, Real) and 0.0 <= self.l1_ratio < 1.0):
            raise ValueError(f"l1_ratio must be at least 0 and below 1; got {self.l1_ratio!r}.")

    @property
    def strong_convexity(self) -> float:
        return self.l2

    @property
    def l1(self) -> float:
        return float(self.l1_ratio)

    @property
    def l2(self) -> float:
        return 1.0 - float(self.l1_ratio)

    def value(self, w: Array) -> float:
        return self.l1 * float(np.sum(np.abs(w))) + 0.5 * self.l2 * float(w @ w)

    def conjugate(self, v: Array) -> float:
        beyond = np.maximum(np.abs(v) - self.l1, 0.0)
        return float(beyond @ beyond) / (2.0 * self.l2)

    def gap_terms(self, w: Array, v: Array) -> Array:
        """With w(v), the w that answers v: l2 (w - w(v))^2 / 2 + l1 |w| - w clip(v, -l1, l1)."""
        clipped = np.clip(v, -self.l1, self.l1)
        return 0.5 * self.l2 * np.square(w - (v - clipped) / self.l2) + (self.l1 * np.abs(w) - w * clipped)

    def feasible_share(self, v: Array) -> float:
        return 1.0


def penalty_of(l1_ratio: float) -> Penalty:
    """The penalty with this share of the L1 norm: ``L1`` at one, and ``L2`` at zero."""
    if l1_ratio == 0.0:
        return L2()
    return L1() if l1_ratio == 1.0 else ElasticNet(l1_ratio)
