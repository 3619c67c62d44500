"""The optimum of a face of the dual: a linear system for the free variables, by LAPACK."""

from __future__ import annotations

import numpy as np

from maxmargin.data.rows import Array

RIDGE = 1e-13
"""What is added to the diagonal of a system, relative to its greatest element: some hundred times the rounding of a kernel
value, so that what rounding leaves of a zero eigenvalue does not count. This follows from float64 and is not a setting."""


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


def change_in_groups(K: Array, v: Array, samples: Array, groups: Array) -> Array:
    """The d of K d + G b = v with G'd = 0 for free variables, given by their samples and groups; G says which group each is of.
    Where both variables of a sample are free, the two groups have one offset, and the system is that of the samples: such a
    pair shares its change, and makes the sums of the groups zero."""
    own, where, place = np.unique(samples, return_index=True, return_inverse=True)
    is_paired = (np.bincount(place) == 2)[place]
    has_pairs = bool(is_paired.any())
    members = np.ones((len(own), 1)) if has_pairs else (groups[where, None] == np.unique(groups)).astype(np.float64)
    change = _solution_in_groups(K[own[:, None], own], v[own], members)[place]
    if has_pairs:
        is_first = groups == 0
        change[is_paired] *= 0.5
        missing = change[is_first].sum() / np.count_nonzero(is_paired & is_first)
        change[is_paired] += np.where(is_first, -missing, missing)[is_paired]
    return change


def _solution_in_groups(K: Array, v: Array, members: Array) -> Array:
    """The solution of such a system by Cholesky's method with a ridge, and a step of refinement. What is added within a group
    changes nothing where its sum is zero, and keeps that sum at zero to rounding where few features make K singular. With equal
    samples this is nearly the shortest solution. Not a number where a ridge is not enough: K is then little but rounding."""
    from scipy.linalg.lapack import dpotrf, dpotrs

    greatest = float(K.diagonal().max())
    system = K + greatest * (members @ members.T)
    ridged = system.copy()
    ridged.flat[:: len(K) + 1] += RIDGE * greatest
    factor, info = dpotrf(ridged.T, lower=1, overwrite_a=1)
    if info != 0:
        return np.full(len(v), np.nan)
    columns, _ = dpotrs(factor, np.asfortranarray(members), lower=1)
    found, residual = np.zeros(len(v)), v
    for _ in range(2):
        step, _ = dpotrs(factor, residual, lower=1)
        b = np.linalg.lstsq(members.T @ columns, members.T @ (found + step), rcond=None)[0]
        found = found + step - columns @ b
        residual = v - system @ found - members @ b
    return found
