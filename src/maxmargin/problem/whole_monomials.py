r"""Sums of monomials without any rounding: every float64 is a whole number times a power of two, and so are its products.

A polynomial kernel of columns in the millions has features of 1e20 and more. At the optimum :math:`\sum_i s_i x_i^e` is nearly
zero for each of them, so that float64, or twice its precision, shows nothing but rounding errors. Python's whole numbers have
as many digits as are needed. A product of two of them takes 0.1 microseconds here, which few features can afford."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.feature_maps import Monomials

DIGITS = 53
"""Binary digits of a float64."""
KEPT_DIGITS = 64
"""Leading binary digits that are kept of a whole number before it is rounded to a float64: far more than ``DIGITS``."""


class Scaled(NamedTuple):
    """The number ``whole`` times 2 to the power of ``exponent``."""

    whole: int
    exponent: int

    @classmethod
    def of(cls, value: float) -> Scaled:
        fraction, exponent = math.frexp(value)
        return cls(int(fraction * 2.0**DIGITS), exponent - DIGITS)

    def minus(self, other: Scaled) -> Scaled:
        least = min(self.exponent, other.exponent)
        return Scaled(
            (self.whole << (self.exponent - least)) - (other.whole << (other.exponent - least)),
            least,
        )

    def times(self, other: Scaled) -> Scaled:
        return Scaled(self.whole * other.whole, self.exponent + other.exponent)

    def __float__(self) -> float:
        """The nearest float64, to within 1.01 units of roundoff. Infinite where that is too large."""
        spare = max(0, abs(self.whole).bit_length() - KEPT_DIGITS)
        try:
            return math.ldexp(float(self.whole >> spare), self.exponent + spare)
        except OverflowError:
            return math.inf if self.whole > 0 else -math.inf


class WholeColumn(NamedTuple):
    """Whole numbers, of which each is to be multiplied by the same power of two."""

    numbers: Array
    exponent: int

    @classmethod
    def of(cls, values: Array) -> WholeColumn:
        fractions, exponents = np.frexp(np.asarray(values, dtype=np.float64))
        wholes = (fractions * 2.0**DIGITS).astype(np.int64)
        exponents = exponents.astype(np.int64) - DIGITS
        trailing = np.frexp((wholes & -wholes).astype(np.float64))[1] - 1
        ends = (exponents + trailing)[wholes != 0]
        least = int(ends.min()) if len(ends) else 0
        numbers = np.empty(len(wholes), dtype=object)
        numbers[:] = [_shifted(int(whole), int(exponent) - least) for whole, exponent in zip(wholes, exponents, strict=True)]
        return cls(numbers, least)


def _shifted(whole: int, places: int) -> int:
    """Divisions by a power of two are exact here: the digits that go are zeros."""
    return whole << places if places >= 0 else whole >> -places


@dataclass(frozen=True, eq=False)
class WholeMonomials:
    """x_i^e for each sample i and each monomial e of a feature map, in its order. ``values`` has a row for each sample."""

    values: Array
    exponents: list[int]
    rows_a_turn: int = 256

    @classmethod
    def of(cls, map: Monomials, X: Array) -> WholeMonomials:
        columns = [WholeColumn.of(column) for column in np.asarray(X, dtype=np.float64).T]
        one = WholeColumn(np.array([1] * len(X), dtype=object), 0)
        known: dict[tuple[int, ...], WholeColumn] = {(): one}

        def monomial(variables: tuple[int, ...]) -> WholeColumn:
            if variables not in known:
                check_point()
                rest, last = monomial(variables[:-1]), columns[variables[-1]]
                known[variables] = WholeColumn(rest.numbers * last.numbers, rest.exponent + last.exponent)
            return known[variables]

        wanted = [monomial(tuple(row.tolist())) for variables, _ in map.terms() for row in variables]
        values = np.empty((len(X), len(wanted)), dtype=object)
        for k, column in enumerate(wanted):
            values[:, k] = column.numbers
        return cls(values, [column.exponent for column in wanted])

    def sums(self, signed: Array) -> list[Scaled]:
        """sum_i s_i x_i^e for each monomial, exactly."""
        factors = WholeColumn.of(signed)
        chosen = np.flatnonzero(signed)
        totals = np.zeros(len(self.exponents), dtype=object)
        for start in range(0, len(chosen), self.rows_a_turn):
            check_point()
            part = chosen[start : start + self.rows_a_turn]
            totals = totals + factors.numbers[part] @ self.values[part]
        return [Scaled(int(total), e + factors.exponent) for total, e in zip(totals, self.exponents, strict=True)]


def exact_sum(values: Array) -> Scaled:
    """The sum of float64 numbers, exactly."""
    column = WholeColumn.of(values)
    return Scaled(int(sum(column.numbers.tolist())), column.exponent)
