r"""Kernels: what each is, in NumPy and float64. This is the definition that the certificate uses; solvers have faster forms.

===========  ====================================================
kernel       k(x, z)
===========  ====================================================
Linear       x . z
RBF          exp(-gamma |x - z|^2)
Polynomial   (gamma x . z + coef0)^degree
Sigmoid      tanh(gamma x . z + coef0); **not positive semidefinite**
Precomputed  the matrix itself: row i of X holds k(x_i, .)
Custom       any function of two matrices of rows
===========  ====================================================

All but the last two depend on x . z and the two norms alone, so a block of kernel values is one matrix product and a
function of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.problem.points import Points as Points
from maxmargin.problem.points import dot_products as dot_products

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
        n_roundings = one.matrix.shape[1] + 8.0
        greatest = float(max(one.sqnorms.max(initial=0.0), other.sqnorms.max(initial=0.0)))
        return UNIT_ROUNDOFF * n_roundings * self._sensitivity(greatest)

    def sum_errors(self, vectors: Points, sizes: Array, samples: Points) -> Array | float:
        """Bound the errors by |x . z| <= |x| |z|, so that a few long samples do not spoil the bounds of the others. The sum
        over the vectors of a polynomial in |x| |z_j| needs only the sums of the powers of |z_j|."""
        n_roundings = samples.matrix.shape[1] + 8.0
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


@dataclass(frozen=True)
class Linear(OfDotProducts):
    is_polynomial: ClassVar[bool] = True

    def polynomial(self, dots: Array) -> Array:
        return dots

    def feature_distance(self, distance: Array) -> Array:
        return distance

    @property
    def dot_function(self) -> DotFunction:
        return DotFunction("identity")

    def of_dots(self, dots: Array, one: Array, other: Array) -> Array:
        return dots

    def _sensitivity_powers(self) -> list[float]:
        return [0.0, 1.0]


@dataclass(frozen=True)
class RBF(OfDotProducts):
    gamma: float
    is_gaussian: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _positive("gamma", self.gamma)

    @property
    def dot_function(self) -> DotFunction:
        return DotFunction("rbf", gamma=float(self.gamma))

    def of_dots(self, dots: Array, one: Array, other: Array) -> Array:
        dots *= -2.0
        dots += one
        dots += other
        np.maximum(dots, 0.0, out=dots)
        dots *= -self.gamma
        np.exp(dots, out=dots)
        return dots

    def feature_distance(self, distance: Array) -> Array:
        """|phi(x) - phi(z)|^2 = 2 - 2 k(x, z)."""
        return np.asarray(np.sqrt(-2.0 * np.expm1(-self.gamma * np.square(distance))))

    def quick_block(self, one: Points, other: Points) -> Array:
        """The exponential is compiled: as exact as NumPy's, and five times as fast."""
        from maxmargin.problem.kernel_loops import rbf_values

        products = np.ascontiguousarray(dot_products(one, other))
        power = np.empty(len(other))
        rbf_values(products, one.sqnorms, other.sqnorms, -self.gamma / math.log(2.0), power, power.view(np.int64))
        return products

    def diagonal(self, points: Points) -> Array:
        return np.broadcast_to(1.0, len(points))

    def greatest_value(self, one: Points, other: Points) -> float:
        return 1.0

    def _sensitivity_powers(self) -> list[float]:
        """A polynomial in the square of the greater of two lengths. ``sum_errors`` is overridden for this reason."""
        return [1.0, 4.0 * self.gamma]

    def sum_errors(self, vectors: Points, sizes: Array, samples: Points) -> Array | float:
        return self.rounding_error(vectors, samples) * float(sizes.sum())


@dataclass(frozen=True)
class Polynomial(OfDotProducts):
    """Positive semidefinite when gamma > 0, coef0 >= 0 and the degree is a whole number."""

    gamma: float
    coef0: float = 0.0
    degree: int = 3
    is_polynomial: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _positive("gamma", self.gamma)
        _finite("coef0", self.coef0)
        if not isinstance(self.degree, Integral) or isinstance(self.degree, bool) or self.degree < 0:
            raise ValueError(f"degree must be a whole number >= 0; got {self.degree!r}.")

    @property
    def is_positive_semidefinite(self) -> bool:
        return self.coef0 >= 0.0

    @property
    def dot_function(self) -> DotFunction:
        return DotFunction("power", float(self.gamma), float(self.coef0), int(self.degree))

    def of_dots(self, dots: Array, one: Array, other: Array) -> Array:
        dots *= self.gamma
        dots += self.coef0
        np.power(dots, self.degree, out=dots)
        return dots

    def polynomial(self, dots: Array) -> Array:
        number = dots.dtype.type
        base = number(self.gamma) * dots + number(self.coef0)
        value = np.ones_like(base)
        for _ in range(int(self.degree)):
            value *= base
        return value

    def _sensitivity_powers(self) -> list[float]:
        """(p + 1) (gamma |x| |z| + |coef0|)^p, multiplied out. NumPy's floats overflow to infinity, where Python's would raise:
        a bound may be infinite."""
        p, r, gamma = int(self.degree), np.float64(abs(self.coef0)), np.float64(self.gamma)
        with np.errstate(over="ignore", invalid="ignore"):
            powers = [(p + 1.0) * math.comb(p, k) * gamma**k * r ** (p - k) for k in range(p + 1)]
        return [float(power) for power in powers]


@dataclass(frozen=True)
class Sigmoid(OfDotProducts):
    gamma: float
    coef0: float = 0.0

    def __post_init__(self) -> None:
        _positive("gamma", self.gamma)
        _finite("coef0", self.coef0)

    @property
    def is_positive_semidefinite(self) -> bool:
        return False

    @property
    def dot_function(self) -> DotFunction:
        return DotFunction("tanh", float(self.gamma), float(self.coef0))

    def greatest_value(self, one: Points, other: Points) -> float:
        return 1.0

    def of_dots(self, dots: Array, one: Array, other: Array) -> Array:
        dots *= self.gamma
        dots += self.coef0
        np.tanh(dots, out=dots)
        return dots

    def _sensitivity_powers(self) -> list[float]:
        return [abs(self.coef0) + 1.0, self.gamma]


@dataclass(frozen=True)
class Precomputed(Kernel):
    """Points are rows of the kernel matrix of the training samples; the other points are named by their places in it."""

    is_given: ClassVar[bool] = True

    @property
    def is_positive_semidefinite(self) -> bool:
        return True

    def block(self, one: Points, other: Points) -> Array:
        raise TypeError("A precomputed kernel has no points to compute from.")

    def part(self, points: Points, samples: Array) -> Points:
        return Points(points.matrix[samples][:, samples])

    def gram(self, points: Points, chosen: Any, among: Any) -> Array:
        if isinstance(among, slice) and not sparse.issparse(points.matrix):
            return np.asarray(points.matrix[chosen, among], dtype=np.float64)
        part = points.matrix[chosen][:, among]
        return np.asarray(part.toarray() if sparse.issparse(part) else part, dtype=np.float64)

    def diagonal(self, points: Points) -> Array:
        matrix = points.matrix
        return np.array(matrix.diagonal() if sparse.issparse(matrix) else np.diagonal(matrix), dtype=np.float64)

    def rounding_error(self, one: Points, other: Points) -> float:
        return 0.0

    def sum_errors(self, vectors: Points, sizes: Array, samples: Points) -> Array | float:
        return 0.0


@dataclass(frozen=True)
class Custom(Kernel):
    """``function(A, B)`` gives a matrix with a row for each row of A and a column for each of B."""

    is_foreign: ClassVar[bool] = True

    function: Callable[[Any, Any], Any]

    @property
    def is_positive_semidefinite(self) -> bool:
        return True

    def block(self, one: Points, other: Points) -> Array:
        block = np.asarray(self.function(one.matrix, other.matrix), dtype=np.float64)
        if block.shape != (len(one), len(other)):
            raise ValueError(f"The kernel function returned shape {block.shape} for {len(one)} and {len(other)} rows.")
        if not np.isfinite(block).all():
            raise ValueError("The kernel function returned a value that is not finite.")
        return block

    def diagonal(self, points: Points) -> Array:
        return np.array([self.block(points[i : i + 1], points[i : i + 1])[0, 0] for i in range(len(points))])

    def rounding_error(self, one: Points, other: Points) -> float:
        return 4.0 * UNIT_ROUNDOFF

    def sum_errors(self, vectors: Points, sizes: Array, samples: Points) -> Array | float:
        return self.rounding_error(vectors, samples) * float(sizes.sum())


def _positive(name: str, value: Any) -> None:
    if not isinstance(value, Real) or not 0.0 < float(value) < np.inf:
        raise ValueError(f"{name} must be positive and finite; got {value!r}.")


def _finite(name: str, value: Any) -> None:
    if not isinstance(value, Real) or not np.isfinite(float(value)):
        raise ValueError(f"{name} must be finite; got {value!r}.")
