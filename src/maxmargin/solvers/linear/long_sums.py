"""Sums that keep some 150 bits, where terms cancel to far below their last digits.

``math.fsum`` is exact, and takes 80 nanoseconds a term where the terms have very different sizes. These sums are made in
halves, all columns at a time, and take a tenth of that."""

from __future__ import annotations

import math

import numpy as np

from maxmargin.certificate.rounding import two_product, two_sum
from maxmargin.data.rows import Array


def long_sums(terms: Array) -> Array:
    """The sum of each column as three numbers: the sum in float64, the sum of its rounding errors, and the sum of theirs.
    Together they are wrong by some 2^-150 of the sum of magnitudes."""
    high, middle, low = terms, np.zeros((len(terms), 1)), np.zeros((len(terms), 1))
    while len(high) > 1:
        (high, lost), (middle, lost_too) = two_sum(*_halves(high)), two_sum(*_halves(middle))
        middle, lost_again = two_sum(middle, lost)
        low = sum(_halves(low)) + lost_too + lost_again
    return np.vstack([np.broadcast_to(part, (1, terms.shape[1])) for part in (high, middle, low)])


def rounded(sums: Array) -> Array:
    """Long sums, or their terms, in float64."""
    return np.array([math.fsum(column) for column in sums.T.tolist()])


class RunningProducts:
    """The long sums X's, for vectors s of which each has few other elements than the one before."""

    def __init__(self, columns: Array) -> None:
        self.columns = columns
        self._last, self._sums = np.zeros(len(columns)), np.zeros((3, columns.shape[1]))

    def of(self, s: Array) -> Array:
        changed = np.flatnonzero(s != self._last)
        if 2 * len(changed) > np.count_nonzero(s):
            self._last, self._sums = np.zeros_like(s), np.zeros_like(self._sums)
            changed = np.flatnonzero(s)
        parts, was = [self._sums], changed[self._last[changed] != 0.0]
        for values, samples in ((s, changed), (-self._last, was)):
            parts += two_product(values[samples, None], self.columns[samples])
        self._last, self._sums = s.copy(), long_sums(np.concatenate(parts))
        return self._sums


def _halves(terms: Array) -> tuple[Array, Array]:
    """Both halves, with a row of zeros where there is one row too few."""
    half = (len(terms) + 1) // 2
    first, second = terms[:half], terms[half:]
    return first, second if len(second) == half else np.concatenate([second, np.zeros((1, terms.shape[1]))])
