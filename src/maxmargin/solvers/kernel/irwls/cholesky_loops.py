"""Cholesky factors of tens of variables, where a call of LAPACK takes longer than the factor; and rows and columns that are
taken out of a factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.caching import njit

FLAGS = {"contract", "nsz", "reassoc", "arcp"}
"""Not ``nnan``: what is not finite must be seen."""
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy", "fastmath": FLAGS}
LOOP: dict[str, Any] = OPTIONS | {"allocates": False}
"""Options of loops that make no array: Numba counts no references there."""
ZERO, ONE, TWO, THREE, FOUR = (np.uint64(k) for k in range(5))


@njit(inline="always")
def subtract_four(U, first, last, n):
    """The products of the four rows from ``first`` on are taken from the rows from ``last`` on, two of them at a time. What
    lies left of the diagonal of the second is overwritten, and is never read."""
    one, two, three, four = U[first], U[first + ONE], U[first + TWO], U[first + THREE]
    for k in range(last, n - ONE, TWO):
        row, next_row = U[k], U[k + ONE]
        p, q, r, t = one[k], two[k], three[k], four[k]
        p1, q1, r1, t1 = one[k + ONE], two[k + ONE], three[k + ONE], four[k + ONE]
        for i in range(k, n):
            row[i] -= p * one[i] + q * two[i] + r * three[i] + t * four[i]
            next_row[i] -= p1 * one[i] + q1 * two[i] + r1 * three[i] + t1 * four[i]
    if (n - last) % TWO == ONE:
        k = n - ONE
        U[k, k] -= one[k] * one[k] + two[k] * two[k] + three[k] * three[k] + four[k] * four[k]


@njit(**LOOP)
def factor(U, n_rows):
    """U'U = A for the leading square of size ``n_rows``, whose upper triangle holds A and is overwritten. False: A is not
    positive definite. Four rows are finished at a time, so that the rest is read and written once for the four."""
    n = np.uint64(n_rows)
    for first in range(ZERO, n, FOUR):
        last = min(first + FOUR, n)
        for k in range(first, last):
            for earlier in range(first, k):
                scale = U[earlier, k]
                for i in range(k, n):
                    U[k, i] -= scale * U[earlier, i]
            pivot = U[k, k]
            if not (pivot > 0.0 and pivot < np.inf):
                return False
            inverse = 1.0 / np.sqrt(pivot)
            for i in range(k, n):
                U[k, i] *= inverse
        if last < n:  # then there are four
            subtract_four(U, first, last, n)
    return True


@njit(**LOOP)
def substitute(U, n_rows, x):
    """x becomes A^-1 x."""
    n = np.uint64(n_rows)
    for k in range(ZERO, n):
        value = x[k] / U[k, k]
        x[k] = value
        for i in range(k + ONE, n):
            x[i] -= value * U[k, i]
    for j in range(ZERO, n):
        k = n - ONE - j
        value = x[k]
        for i in range(k + ONE, n):
            value -= U[k, i] * x[i]
        x[k] = value / U[k, k]


@njit(**LOOP)
def substitute_two(U, n_rows, x, z):
    """x becomes A^-1 x and z becomes A^-1 z, by one pass over U."""
    n = np.uint64(n_rows)
    for k in range(ZERO, n):
        row, inverse = U[k], 1.0 / U[k, k]
        p, q = x[k] * inverse, z[k] * inverse
        x[k], z[k] = p, q
        for i in range(k + ONE, n):
            x[i] -= p * row[i]
            z[i] -= q * row[i]
    for j in range(ZERO, n):
        k = n - ONE - j
        row, inverse = U[k], 1.0 / U[k, k]
        p, q = x[k], z[k]
        for i in range(k + ONE, n):
            p -= row[i] * x[i]
            q -= row[i] * z[i]
        x[k], z[k] = p * inverse, q * inverse


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def drop_columns(U, places):
    """Remove rows and columns of A = U'U at the ascending ``places`` from its upper triangular factor U. The leading square of
    U becomes the factor of the remaining matrix.

    Column p gone, the rows above keep theirs; the triangle T behind it becomes that of T'T + x x', where x is what row p
    held there, by a Givens rotation a row (G. Golub, C. Van Loan, "Matrix computations", section 6.5.4)."""
    n = U.shape[0]
    for place in places[::-1]:
        for k in range(place):
            for i in range(place + 1, n):
                U[k, i - 1] = U[k, i]
        x = U[place, :n].copy()
        for k in range(place + 1, n):
            old = U[k, k]
            new = np.hypot(old, x[k])
            cosine, sine = old / new, x[k] / new
            for i in range(k + 1, n):
                here = U[k, i]
                U[k - 1, i - 1] = cosine * here + sine * x[i]
                x[i] = cosine * x[i] - sine * here
            U[k - 1, k - 1] = new
        n -= 1
