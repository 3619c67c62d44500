r"""Table 1 of F. Perez-Cruz, P. L. Alarcon-Diana, A. Navia-Vazquez, A. Artes-Rodriguez, "Fast training of support vector
classifiers", compiled: working sets of tens of samples, where a call of LAPACK from Python takes longer than the system.

The paper's beta_i is :math:`y_i s_i` here. Multiplied by y_i, its linear system reads

.. math:: \begin{bmatrix} K_{11} + D_a^{-1} & 1 \\ 1' & 0 \end{bmatrix} \begin{bmatrix} s_1 \\ b \end{bmatrix} =
          \begin{bmatrix} t_1 - K_{13} s_3 \\ T - 1' s_3 \end{bmatrix}, \qquad t = y - D_y G_{in}, \quad T = G_{b,in} .

Comments give the step of Table 1. A = K_11 + 1/a is factored as U'U, and b follows from the last row:
b = (1' A^-1 r - T + 1' s_3) / (1' A^-1 1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.solvers.kernel.irwls.cholesky_loops import OPTIONS, factor, substitute

S1, S2, S3 = np.int8(1), np.int8(2), np.int8(3)
SETTLED, NOT_SETTLED, NO_SOLUTION = 0, 1, 2
"""The sets stay as they are and the errors of S1 are within the tolerance; the limit on iterations was reached; a system
has no solution, because S1 is empty or its matrix is not positive definite."""
NOISE, UNIT_ROUNDOFF = 8.0, 2.0**-53
"""An error counts as rounding below this many units in the last place of the terms of its sum."""
ZERO, ONE = np.uint64(0), np.uint64(1)


class Terms(NamedTuple):
    """The working set: K, the right-hand sides t and T, and for each sample y and C."""

    K: np.ndarray
    right: np.ndarray
    total: float
    has_offset: bool
    y: np.ndarray
    C: np.ndarray


class Rules(NamedTuple):
    """What may be set: see ``maxmargin.solvers.kernel.irwls.table_1.Table1``."""

    weight: float
    projects: bool
    searches: bool
    jitter: float
    tolerance: float
    max_iterations: int


@njit(**OPTIONS)
def add_product(K, change, scale, out):
    """out += scale K change, by the rows of what has changed."""
    q = np.uint64(len(change))
    for j in range(q):
        if change[j] != 0.0:
            step, row = scale * change[j], K[j]
            for i in range(q):
                out[i] += step * row[i]


@njit(**OPTIONS)
def middle_offset(terms, sets, s, missing):
    """b where S1 is empty and the system has no equation: anything from the greatest t - K s that may rise to the least that
    may fall is as good, and the middle is taken. nan where the sum is not T, which without S1 it cannot become."""
    if not terms.has_offset:
        return 0.0
    if abs(missing) > NOISE * UNIT_ROUNDOFF * (1.0 + abs(terms.total) + np.abs(s).sum()):
        return np.nan
    e = terms.right.copy()
    add_product(terms.K, s, -1.0, e)
    top, bottom = -np.inf, np.inf
    for i in range(len(s)):
        if (sets[i] == S3) == (terms.y[i] > 0.0):  # it can fall
            bottom = min(bottom, e[i])
        else:
            top = max(top, e[i])
    return 0.5 * (top + bottom)


@njit(**OPTIONS)
def solve_system(terms, sets, inverse_a, jitter, U, s, b):
    """Step 1: s of S1 from the system, 0 in S2, y C in S3. Returns b, or nan where there is no solution."""
    q = np.uint64(len(s))
    members = np.empty(q, np.uint64)
    fixed = np.empty(q, np.uint64)
    n, m = ZERO, ZERO
    total = terms.total
    for i in range(q):
        s[i] = 0.0
        if sets[i] == S1:
            members[n] = i
            n += ONE
        elif sets[i] == S3:
            s[i] = terms.y[i] * terms.C[i]
            total -= s[i]
            fixed[m] = i
            m += ONE
    if n == ZERO:
        return middle_offset(terms, sets, s, total)
    found, ones = np.empty(n), np.ones(n)
    for k in range(n):
        row = terms.K[members[k]]
        value = terms.right[members[k]]
        for j in range(m):
            value -= row[fixed[j]] * s[fixed[j]]
        found[k] = value
        for i in range(k, n):
            U[k, i] = row[members[i]]
        U[k, k] += inverse_a[members[k]] + jitter
    if not factor(U, n):
        return np.nan
    substitute(U, n, found)
    if terms.has_offset:
        substitute(U, n, ones)
        b = (found.sum() - total) / ones.sum()
        for k in range(n):
            found[k] -= b * ones[k]
    for k in range(n):
        s[members[k]] = found[k]
    return b if np.isfinite(found.sum()) else np.nan


@njit(**OPTIONS)
def project(terms, s):
    """The nearest point in the box with the sum T: all are shifted by one number and clipped. The number is found by bisection,
    as the sum falls with it."""
    low, high = np.inf, -np.inf
    for i in range(len(s)):
        end = terms.y[i] * terms.C[i]
        low, high = min(low, s[i] - max(end, 0.0)), max(high, s[i] - min(end, 0.0))
    if not terms.has_offset:
        low = high = 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        total = 0.0
        for i in range(len(s)):
            end = terms.y[i] * terms.C[i]
            total += min(max(s[i] - middle, min(end, 0.0)), max(end, 0.0))
        if total > terms.total:
            low = middle
        else:
            high = middle
    shift = 0.5 * (low + high)
    for i in range(len(s)):
        end = terms.y[i] * terms.C[i]
        s[i] = min(max(s[i] - shift, min(end, 0.0)), max(end, 0.0))


@njit(**OPTIONS)
def step_length(change, product, e):
    """The t in 0 .. 1 with the greatest dual on the way: t = e.d / d.K.d. (The sum of d is 0, so that b does not matter.)"""
    slope = curvature = 0.0
    for i in range(len(change)):
        slope += change[i] * e[i]
        curvature += change[i] * product[i]
    if not slope > 0.0:
        return 0.0
    return min(1.0, slope / curvature) if curvature > 0.0 else 1.0


@njit(**OPTIONS)
def rounding(terms, s, b):
    """The rounding error of an e: the sign of a smaller e means nothing. In S1 y_i e_i = beta_i / a_i may vanish while other
    samples are still far from optimal, and the sign of its rounding error would remove the sample from S1."""
    greatest = total = 0.0
    for i in range(len(s)):
        root = np.sqrt(abs(terms.K[i, i]))
        greatest = max(greatest, root)
        total += abs(s[i]) * root
    return NOISE * UNIT_ROUNDOFF * (1.0 + abs(b) + greatest * total)


@njit(**OPTIONS)
def reorder(terms, sets, s, e, inverse_a, weight, noise):
    """Steps 3 and 4: 1/a_i of all samples, and who changes sets. Returns how many do. A sample with C = 0 stays in S2."""
    changes = 0
    for i in range(len(s)):
        error = e[i] * terms.y[i]
        before = sets[i]
        inverse_a[i] = max(error, 0.0) / (weight * terms.C[i])  # 3
        if before == S3 and error < -noise:
            sets[i] = S2  # 4a
        elif before == S1 and s[i] * terms.y[i] >= terms.C[i]:
            sets[i] = S3  # 4b
        elif before == S1 and (error < -noise or (error <= noise and s[i] * terms.y[i] < 0.0)):
            sets[i] = S2  # 4c; y_i e_i = beta_i / a_i there, so that beta_i has the sign where rounding hides that of e_i
        elif before == S2 and error > noise and terms.C[i] > 0.0:
            sets[i] = S1  # 4d
        changes += sets[i] != before
    return changes


@njit(**OPTIONS)
def greatest_error(terms, sets, s, e):
    """The greatest error of S1, and of those that a projection or a line search keeps from the bound of their set."""
    greatest = 0.0
    for i in range(len(e)):
        bound = terms.y[i] * terms.C[i] if sets[i] == S3 else 0.0
        if sets[i] == S1 or abs(s[i] - bound) > NOISE * UNIT_ROUNDOFF * terms.C[i]:
            greatest = max(greatest, abs(e[i]))
    return greatest


@njit(**OPTIONS)
def table_1(terms, rules, sets, s, e):
    """Steps 0 to 6. ``s`` and ``e`` are where it begins, and are changed in place, as ``sets`` is: the outcome, the iterations,
    and b."""
    q = len(s)
    U, inverse_a = np.empty((q, q)), np.ones(q)  # 0: a = 1
    before, change, product = np.empty(q), np.empty(q), np.empty(q)
    b = 0.0
    for iteration in range(rules.max_iterations):
        for i in range(q):
            before[i] = s[i]
        new_b = solve_system(terms, sets, inverse_a, rules.jitter, U, s, b)
        if np.isnan(new_b):
            return NO_SOLUTION, iteration + 1, b
        if rules.projects:
            project(terms, s)
        if rules.searches:
            for i in range(q):
                change[i], product[i] = s[i] - before[i], 0.0
            add_product(terms.K, change, 1.0, product)
            t = step_length(change, product, e)
            for i in range(q):
                s[i] = before[i] + t * change[i]
        for i in range(q):
            e[i] = terms.right[i] - new_b
        add_product(terms.K, s, -1.0, e)  # 2, from s itself: the same, and no rounding is left over from earlier iterations
        b = new_b
        changes = reorder(terms, sets, s, e, inverse_a, rules.weight, rounding(terms, s, b))
        if changes == 0 and greatest_error(terms, sets, s, e) <= rules.tolerance:
            return SETTLED, iteration + 1, b
    return NOT_SETTLED, rules.max_iterations, b
