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
function of it. Where columns are so large that the RBF kernel loses its digits in that way, ``differences`` has another form
of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.problem import policy
from maxmargin.problem.kernel_base import SECOND_ORDER as SECOND_ORDER
from maxmargin.problem.kernel_base import DotFunction as DotFunction
from maxmargin.problem.kernel_base import Kernel as Kernel
from maxmargin.problem.kernel_base import OfDotProducts, most_terms
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.problem.points import Points as Points
from maxmargin.problem.points import dot_products as dot_products


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

    def share_of_lengths(self, points: Points) -> float:
        """How wrong a value can be, as a share of |x| |z|."""
        return UNIT_ROUNDOFF * (most_terms(points) + 8.0)

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

    def suited_to(self, *parts: Points) -> RBF:
        """By differences, where |x|^2 + |z|^2 - 2 x . z has too few digits left."""
        if 4.0 * self.gamma * max(points.at_most for points in parts) <= policy.KERNEL.far:
            return self
        greatest = max(float(points.sqnorms.max(initial=0.0)) for points in parts)
        if 4.0 * self.gamma * greatest <= policy.KERNEL.far or self.rounding_error(parts[0], parts[-1]) <= policy.KERNEL.coarse:
            return self
        from maxmargin.problem.differences import RBFByDifferences

        return RBFByDifferences(self.gamma)

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
        if not 1 <= self.degree <= policy.KERNEL.most_factors:
            return np.asarray(np.power(dots, self.degree, out=dots))
        base = dots.copy() if self.degree > 1 else dots
        for _ in range(1, int(self.degree)):  # NumPy's power takes ten times as long
            dots *= base
        return dots

    def polynomial(self, dots: Array) -> Array:
        number = dots.dtype.type
        base = number(self.gamma) * dots + number(self.coef0)
        value = np.ones_like(base)
        for _ in range(int(self.degree)):
            value *= base
        return value

    def share_of_lengths(self, points: Points) -> float:
        """How wrong a value can be, as a share of (k(x, x) k(z, z))^1/2, where coef0 >= 0: that root is at least (gamma |x| |z|
        + coef0)^p by the inequality of Cauchy and Schwarz."""
        return UNIT_ROUNDOFF * (self.degree + 1.0) * (most_terms(points) + 8.0)

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
