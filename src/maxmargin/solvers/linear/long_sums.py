"""Sums that keep some 150 bits, where terms cancel to far below their last digits.

``math.fsum`` is exact, and takes 80 nanoseconds a term where the terms have very different sizes. These sums are made in
halves, all columns at a time, and take a tenth of that."""

from __future__ import annotations

import math

import numpy as np

from maxmargin.certificate.rounding import two_sum
from maxmargin.data.rows import Array


def long_sums(terms: Array) -> Array:
    """The sum of each column, wrong by some 2^-150 of the sum of its magnitudes, before it is rounded once. A sum is kept as
    three numbers: the sum in float64, the sum of its rounding errors, and the sum of theirs."""
    high, middle, low = terms, np.zeros((len(terms), 1)), np.zeros((len(terms), 1))
    while len(high) > 1:
        (high, lost), (middle, lost_too) = two_sum(*_halves(high)), two_sum(*_halves(middle))
        middle, lost_again = two_sum(middle, lost)
        low = sum(_halves(low)) + lost_too + lost_again
    parts = np.vstack([np.broadcast_to(part, (1, terms.shape[1])) for part in (high, middle, low)])
    return np.array([math.fsum(column) for column in parts.T.tolist()])


def _halves(terms: Array) -> tuple[Array, Array]:
    """Both halves, with a row of zeros where there is one row too few."""
    half = (len(terms) + 1) // 2
    first, second = terms[:half], terms[half:]
    return first, second if len(second) == half else np.concatenate([second, np.zeros((1, terms.shape[1]))])
