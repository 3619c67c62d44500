"""The optimum of a face of the dual: a linear system for the free variables, by LAPACK."""

from __future__ import annotations

import numpy as np

from maxmargin.data.rows import Array


def solution_of(K: Array, v: Array, has_offset: bool) -> Array | None:
    """The d of K d + b = v with sum d = 0, or with b = 0. By Cholesky's method, which takes half of the time of elimination;
    where K is not positive definite to rounding, by elimination; None where that fails, too."""
    from scipy.linalg.lapack import dposv

    n = len(v)
    _, found, info = dposv(K.T, np.stack([v, np.ones(n)]).T, lower=1)
    if info == 0:
        one, two = found.T
        return np.asarray(one - (one.sum() / two.sum()) * two if has_offset else one)
    system, right = K, v
    if has_offset:
        system, right = np.ones((n + 1, n + 1)), np.append(v, 0.0)
        system[:n, :n], system[n, n] = K, 0.0
    try:
        return np.asarray(np.linalg.solve(system, right)[:n])
    except np.linalg.LinAlgError:
        return None
