r"""Finite feature maps: phi with :math:`k(x, z) = \phi(x) \cdot \phi(z)`, where it has few elements.

A kernel problem with such a map is a linear problem on the rows phi(x_i), and Newton's method solves that whatever the scales
of the columns are.

========================  ===============================================================================
kernel                    phi
========================  ===============================================================================
Linear                    x itself
Polynomial, coef0 >= 0    monomials :math:`c_e x^e`, :math:`c_e^2 = \binom{p}{e} \gamma^{|e|} r^{p - |e|}`
========================  ===============================================================================

with e the exponents, :math:`\binom{p}{e}` the multinomial coefficient of a monomial in the expansion of :math:`(\gamma x \cdot
z + r)^p`, p the degree and r = coef0. With r = 0 only the monomials of degree p are there. The constant monomial is left out
where the problem has an offset: a constant k(x, z) makes no difference where :math:`\sum_i \alpha_i y_i = 0`.

**Rounding.** x is scaled by a power of two, exactly, so that gamma is near one. A monomial is then a product of at most p + 1
numbers, and its coefficient is right to 4 units of roundoff. So a feature is right to ``relative_error`` = (p + 5) u, plus
``absolute_error``, which bounds what underflow can take from it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.problem import policy
from maxmargin.problem.kernels import DotFunction, Kernel
from maxmargin.problem.losses import UNIT_ROUNDOFF

COEFFICIENT_ROUNDINGS = 5.0
"""Units of roundoff in the coefficient of a monomial and in the product with it. Two powers, two products and half of them
after the root make 3.5, and the product makes one more."""
UNDERFLOW = 2.0**-1000
"""A bound on what the products of one monomial lose by underflow, after x is scaled."""


class FeatureMap(Protocol):
    @property
    def n_features(self) -> int:
        """The length of phi(x)."""

    @property
    def relative_error(self) -> float: ...

    @property
    def absolute_error(self) -> float: ...

    def of(self, X: Any) -> Any:
        """phi of each row, as a row."""


@dataclass(frozen=True)
class Itself:
    """phi(x) = x."""

    n_features: int
    relative_error: ClassVar[float] = 0.0
    absolute_error: ClassVar[float] = 0.0

    def of(self, X: Any) -> Any:
        return X


@dataclass(frozen=True)
class Monomials:
    """phi of a polynomial kernel with coef0 >= 0."""

    kernel: DotFunction
    n_inputs: int
    has_constant: bool
    absolute_error: ClassVar[float] = UNDERFLOW

    @property
    def n_features(self) -> int:
        return sum(math.comb(self.n_inputs + k - 1, k) for k in self._degrees)

    @property
    def relative_error(self) -> float:
        return (self.kernel.degree + COEFFICIENT_ROUNDINGS) * UNIT_ROUNDOFF

    def of(self, X: Any) -> Array:
        """phi of each row, in float64. A value that float64 cannot hold becomes infinite."""
        with np.errstate(all="ignore"):
            scaled = np.ldexp(np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64), self._exponent)
            powers, columns = np.ones((len(scaled), 1)), []
            last: list[tuple[int, ...]] = [()]
            for degree in range(self.kernel.degree + 1):
                if degree:
                    powers, last = _multiplied(powers, last, scaled)
                if degree in self._degrees:
                    columns.append(powers * np.array([self._coefficient(monomial) for monomial in last]))
            return np.ascontiguousarray(np.concatenate(columns, axis=1))

    def terms(self) -> list[tuple[Array, Array]]:
        """For each degree the variables of its monomials, a row each, and their coefficients: phi in the order of ``of``."""
        parts = []
        for degree in self._degrees:
            monomials = list(combinations_with_replacement(range(self.n_inputs), degree))
            coefficients = [math.ldexp(self._coefficient(monomial), degree * self._exponent) for monomial in monomials]
            parts.append((np.array(monomials, dtype=np.int64).reshape(len(monomials), degree), np.array(coefficients)))
        return parts

    @property
    def _degrees(self) -> range:
        """The degrees of the monomials of this map."""
        p = int(self.kernel.degree)
        return range(0 if self.has_constant else 1, p + 1) if self.kernel.coef0 > 0.0 else range(p, p + 1)

    @cached_property
    def _exponent(self) -> int:
        """The e with which x is multiplied by 2^e. 2^e is near the root of gamma."""
        return round(0.5 * math.log2(self.kernel.gamma))

    def _coefficient(self, monomial: tuple[int, ...]) -> float:
        p, k = int(self.kernel.degree), len(monomial)
        orders = math.factorial(p) // math.factorial(p - k)
        for count in Counter(monomial).values():
            orders //= math.factorial(count)
        gamma = math.ldexp(float(self.kernel.gamma), -2 * self._exponent)
        return math.sqrt(orders * gamma**k * float(self.kernel.coef0) ** (p - k))


def _multiplied(powers: Array, monomials: list[tuple[int, ...]], X: Array) -> tuple[Array, list[tuple[int, ...]]]:
    """All monomials of the next degree: each monomial times every variable from its own last variable on."""
    parents, variables = [], []
    for place, monomial in enumerate(monomials):
        for variable in range(monomial[-1] if monomial else 0, X.shape[1]):
            parents.append(place)
            variables.append(variable)
    grown = [(*monomials[place], variable) for place, variable in zip(parents, variables, strict=True)]
    return powers[:, parents] * X[:, variables], grown


def feature_map(kernel: Kernel, n_inputs: int, has_offset: bool) -> FeatureMap | None:
    """The map of a kernel of rows of this length; None where it is not finite, or too long."""
    function = kernel.dot_function
    if function is None or not (kernel.is_polynomial and kernel.is_positive_semidefinite and function.degree >= 1):
        return None
    if function.name == "identity":
        return Itself(n_inputs)
    monomials = Monomials(function, n_inputs, has_constant=not has_offset)
    return monomials if monomials.n_features <= policy.KERNEL.most_monomials else None
