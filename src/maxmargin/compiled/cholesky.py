"""Rows and columns taken out of a Cholesky factor."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.caching import njit


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def drop_columns(U, places):
    """Of the factor U of A = U'U, upper triangular: the rows and columns of A at the ascending ``places`` go. What is left is
    factored by the leading square of U.

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
