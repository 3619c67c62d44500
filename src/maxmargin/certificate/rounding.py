r"""Bounds on the rounding errors of float64 sums, and sums that keep their rounding errors.

A sum of k products is wrong by at most :math:`\gamma_k \sum_j |a_j b_j|`, :math:`\gamma_k = k u / (1 - k u)`, with the unit
roundoff u (N. J. Higham, Accuracy and Stability of Numerical Algorithms, section 3.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF

Number = TypeVar("Number", bound=Array | float)

SMALLEST = 2.0**-1074
"""The smallest positive float64: what a product that underflows can lose."""
PAIRWISE_ROUNDINGS = 64
"""NumPy adds up a contiguous array in pairs, so no element goes through more roundings than this."""
OUTWARDS = 1.0 + 8.0 * UNIT_ROUNDOFF
"""The factor that rounds a few operations on upper bounds upwards."""


def gamma(k: Number) -> Number:
    return k * UNIT_ROUNDOFF / (1.0 - k * UNIT_ROUNDOFF)  # type: ignore[return-value]


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b, rounded, and its exact rounding error (Knuth)."""
    total = a + b
    added = total - a
    return total, (a - (total - added)) + (b - added)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a b, rounded, and its rounding error, by splitting both factors (Dekker, Veltkamp). Exact unless a part overflows."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _split(a: Array) -> tuple[Array, Array]:
    scaled = (2.0**27 + 1.0) * a
    high = scaled - (scaled - a)
    return high, a - high


def exact_sums(rows: Array, *factors: Array, terms: Sequence[Array] = ()) -> Array:
    """For each row x the sum of x . v over all v of ``factors``, plus one number of each of ``terms``, exact until it is
    rounded once. A product below 2^-960 may lose its last digits, so that the sum can be wrong by 2^-1000 besides. Raises an
    ``OverflowError`` or a ``ValueError`` where a product overflows."""
    parts = [part for v in factors for part in two_product(rows, np.broadcast_to(v, rows.shape))]
    parts += [np.asarray(term, dtype=np.float64).reshape(-1, 1) for term in terms]
    return np.array([math.fsum(row) for row in np.hstack(parts).tolist()])


def length(array: Array) -> float:
    """The norm of a vector: ``np.linalg.norm`` in a third of its time, which counts in small fits."""
    return math.sqrt(float(array @ array))


def vector(array: Array, length: int, name: str) -> Array:
    """A vector of float64 of this length, or an error that names it."""
    array = np.asarray(array, dtype=np.float64)
    if array.shape != (length,):
        raise ValueError(f"{name} must be a vector of {length} numbers for this problem; its shape is {array.shape}.")
    return array
