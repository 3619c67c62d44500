r"""The penalty g(w) of the primal. With v = w(alpha) the duality gap has the part

.. math:: g(w) + g^*(v) - w \cdot v \ge 0 ,

which is zero where v is a subgradient of g at w. A penalty is a function of the elements of w that it penalises: a free
intercept is not among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from maxmargin.data.rows import Array


class Penalty(Protocol):
    """``strong_convexity`` is the m in g(w + u) >= g(w) + g'(w) . u + m |u|^2 / 2: it turns a gap into a distance."""

    strong_convexity: ClassVar[float]

    def value(self, w: Array) -> float:
        """g(w)"""

    def conjugate(self, v: Array) -> float:
        """g*(v), the greatest value of w . v - g(w)."""


@dataclass(frozen=True)
class L2:
    """|w|^2 / 2. Its gap is |w - v|^2 / 2, and the w that answers v is v itself."""

    strong_convexity: ClassVar[float] = 1.0

    def value(self, w: Array) -> float:
        return 0.5 * float(w @ w)

    def conjugate(self, v: Array) -> float:
        return 0.5 * float(v @ v)
