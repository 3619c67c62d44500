"""What every kernel can do, and what those have in common that are functions of dot products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.problem.points import Points, dot_products

SECOND_ORDER = 1.01
"""A bound of first order is multiplied by this, for the terms of second order and for its own rounding."""


class DotFunction(NamedTuple):
    """A kernel as a function of x . z, in the terms of a compiled loop; "rbf" also needs |x|^2 and |z|^2.

    ========  =========================================
    name      k(x, z)
    ========  =========================================
    identity  x . z
    rbf       exp(-gamma (|x|^2 + |z|^2 - 2 x . z))
    power     (gamma x . z + coef0)^degree
    tanh      tanh(gamma x . z + coef0)
    ========  =========================================
    """

    name: Literal["identity", "rbf", "power", "tanh"]
    gamma: float = 1.0
    coef0: float = 0.0
    degree: int = 1


class Kernel(Protocol):
    """What every kernel can do. A class that inherits from this one must define ``is_positive_semidefinite``, ``block``,
    ``diagonal``, ``rounding_error`` and ``sum_errors``; the other methods have defaults."""

    is_given: ClassVar[bool] = False
    """The values are given: X holds them, and row i is k(x_i, .)."""
    is_foreign: ClassVar[bool] = False
    """The values come from a function of the user. It is called by one thread only, and for few large blocks, because a call
    may take long to begin."""
    is_gaussian: ClassVar[bool] = False
    """k(x, z) = exp(-gamma |x - z|^2): no value is greater than one, and x and z enter by their distance alone."""
    is_polynomial: ClassVar[bool] = False
    """The kernel is a polynomial of x . z, so ``polynomial`` needs only additions and multiplications."""

    @property
    def is_positive_semidefinite(self) -> bool: ...

    def block(self, one: Points, other: Points) -> Array:
        """k(x, z) for each x of one and z of the other, in float64."""

    def diagonal(self, points: Points) -> Array:
        """k(x, x)"""

    def rounding_error(self, one: Points, other: Points) -> float:
        """How wrong an entry of ``block`` can be by rounding."""

    def sum_errors(self, vectors: Points, sizes: Array, samples: Points) -> Array | float:
        """How wrong sum_j s_j k(z_j, x) can be for each sample x by the rounding of kernel values; ``sizes`` are |s_j|."""

    @property
    def dot_function(self) -> DotFunction | None:
        """The kernel as a function of dot products; None if it is no such function."""
        return None

    def of_dots(self, dots: Array, one: Array, other: Array) -> Array:
        """The kernel from dot products, which it may overwrite; ``one`` and ``other`` are squared norms, shaped to broadcast.
        Only kernels with a ``dot_function`` have this."""
        raise TypeError(f"{self!r} is not a function of dot products.")

    def polynomial(self, dots: Array) -> Array:
        """The kernel from dot products of any element type, in that type. Only kernels that are polynomials have this."""
        raise TypeError(f"{self!r} is not a polynomial of dot products.")

    def feature_distance(self, distance: Array) -> Array | None:
        """The greatest |phi(x) - phi(z)| of points x and z at this distance from each other. None where it depends on more than
        the distance."""
        return None

    def gram(self, points: Points, chosen: Any, among: Any) -> Array:
        """k(x_i, x_j) in float64, for each point i of ``chosen`` and each point j of ``among``."""
        return self.block(points[chosen], points[among])

    def part(self, points: Points, samples: Array) -> Points:
        """Some of the points, in this order. Of values that are given, the columns are chosen too."""
        return points[samples]

    def quick_block(self, one: Points, other: Points) -> Array:
        """``block``, by compiled code where the kernel has some. The bound on the rounding error is the same."""
        return self.block(one, other)

    def prepared(self, points: Points) -> Points:
        """The points in the form in which ``block`` is fastest."""
        return points

    def suited_to(self, *parts: Points) -> Kernel:
        """The same kernel, in the form whose values are right for these points."""
        return self

    def greatest_value(self, one: Points, other: Points) -> float:
        """An upper bound on |k(x, z)| for x of one and z of the other, by the inequality of Cauchy and Schwarz."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = [float(np.abs(self.diagonal(part)).max(initial=0.0)) for part in (one, other)]
            return float(np.sqrt(squares[0] * squares[1]))

    def largest_operand(self, points: Points) -> float:
        """The largest number in the computation of a kernel value. It decides which element type can hold them all."""
        return float(np.abs(self.diagonal(points)).max(initial=0.0))


class OfDotProducts(Kernel, ABC):
    """A kernel that is a function of x . z, |x|^2 and |z|^2."""

    @property
    def is_positive_semidefinite(self) -> bool:
        return True

    @property
    @abstractmethod
    def dot_function(self) -> DotFunction: ...

    @abstractmethod
    def of_dots(self, dots: Array, one: Array, other: Array) -> Array: ...

    def block(self, one: Points, other: Points) -> Array:
        return self.of_dots(dot_products(one, other), one.sqnorms[:, None], other.sqnorms[None, :])

    def diagonal(self, points: Points) -> Array:
        return self.of_dots(points.sqnorms.copy(), points.sqnorms, points.sqnorms)

    def prepared(self, points: Points) -> Points:
        return points.in_double()

    def largest_operand(self, points: Points) -> float:
        return max(super().largest_operand(points), float(points.sqnorms.max(initial=0.0)))

    def rounding_error(self, one: Points, other: Points) -> float:
        n_roundings = most_terms(one, other) + 8.0
        greatest = float(max(one.sqnorms.max(initial=0.0), other.sqnorms.max(initial=0.0)))
        return UNIT_ROUNDOFF * n_roundings * self._sensitivity(greatest)

    def sum_errors(self, vectors: Points, sizes: Array, samples: Points) -> Array | float:
        """Bound the errors by |x . z| <= |x| |z|, so that a few long samples do not spoil the bounds of the others. The sum
        over the vectors of a polynomial in |x| |z_j| needs only the sums of the powers of |z_j|."""
        n_roundings = most_terms(vectors, samples) + 8.0
        lengths, others = np.sqrt(samples.sqnorms), np.sqrt(vectors.sqnorms)
        errors = np.zeros(len(samples))
        for power, coefficient in enumerate(self._sensitivity_powers()):
            if coefficient:
                errors += coefficient * float(sizes @ others**power) * lengths**power
        return UNIT_ROUNDOFF * n_roundings * SECOND_ORDER * errors

    def _sensitivity(self, greatest_sqnorm: float) -> float:
        """How wrong a value of the kernel can be when every sqnorm and dot product, none above this, is wrong by one part
        in one, and the value itself by one part in one."""
        return float(sum(c * greatest_sqnorm**power for power, c in enumerate(self._sensitivity_powers())))

    @abstractmethod
    def _sensitivity_powers(self) -> list[float]:
        """``_sensitivity`` as a polynomial in the product of two lengths: its coefficients, that of the power zero first."""


def most_terms(*parts: Points) -> int:
    """The most terms of a dot product between rows of these points. A term of a feature that a sparse row does not have is
    zero, and adding it rounds nothing."""
    return min(_longest_row(points.matrix) for points in parts)


def _longest_row(matrix: Any) -> int:
    return int(np.diff(matrix.indptr).max(initial=0)) if sparse.issparse(matrix) else int(matrix.shape[1])
