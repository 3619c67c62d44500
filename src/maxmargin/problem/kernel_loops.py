"""Kernel values by their definition, for the judges: nothing here uses fast-math, and nothing is shared with a solver but the
rows of a matrix that both read.

No loop over samples is a reduction, so all of them run in vectors without a licence to reorder sums. ``fma`` rounds a b + c
once: it is written where it is meant, not left to the compiler.
"""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.error_free_loops import fma

SHIFT = 1.5 * 2.0**52
"""x + SHIFT has no room for a fraction: its low bits are x rounded to a whole number."""
MANTISSA_BITS, ONE_BITS = np.int64(52), np.int64(1023 << 52)
LEAST = -1022.0
IDENTITY, HYPERBOLIC = 1, 3
"""Forms of a kernel as a function of dot products: see :class:`maxmargin.problem.held_values.RowFunction`."""
SUMMED_SAMPLES, TERMS_A_BLOCK = 1024, 32
"""The greatest number of samples whose terms are added up by ``hinge_sums``, and the terms of a block. With both, no term goes
through more than 64 roundings."""


ALPHA, OUTPUTS, ERRORS, LENGTHS, SIGNS, N_ROWS = range(6)
"""The rows of the array of samples of :class:`maxmargin.certificate.even.EvenSums`, and how many there are."""
N_SUPPORT, OFFSET, LOW, HIGH, GREATEST, REACH, SUMS = range(7)
"""The columns of its numbers, in the order in which ``even_sums`` returns them. The sums are the last ones."""
N_NUMBERS = SUMS + 8
TOTAL, N_AT_BOUND = SUMS + 4, SUMS + 7
"""The columns with sum_i alpha_i, and with the number of alpha_i that are C."""


P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10 = (
    float(power)
    for power in [
        "0.6931471805599453",
        "0.24022650695910097",
        "0.0555041086648216",
        "0.009618129107606888",
        "0.0013333558146416936",
        "0.0001540353044173605",
        "1.525273382983612e-05",
        "1.321544258792169e-06",
        "1.0178062445845774e-07",
        "7.072585949269223e-09",
        "4.4549605981865186e-10",
    ]
)
"""The polynomial that is (2^r - 1) / r at the Chebyshev nodes of |r| <= 1/2. A test computes it again in rational arithmetic,
which takes 0.07 s: too long for every process that fits."""


@njit(inline="always")
def halve_exponent(products, here, sample_sqnorms, log2_scale, power, bits):
    """exp(-gamma |x - x_i|^2) = 2^(log2_scale |x - x_i|^2) from x . x_i and ``here`` = |x|^2, as two factors: products[i] for
    the fraction of the exponent, power[i] for its whole part. ``bits`` are those of ``power``."""
    n = np.uint64(sample_sqnorms.shape[0])
    for i in range(n):
        square = fma(-2.0, products[i], here + sample_sqnorms[i])
        x = log2_scale * (square if square > 0.0 else 0.0)
        x = x if x > LEAST else LEAST
        whole = x + SHIFT
        power[i] = whole
        r = x - (whole - SHIFT)
        p = fma(fma(fma(fma(fma(P10, r, P9), r, P8), r, P7), r, P6), r, P5)
        p = fma(fma(fma(fma(fma(p, r, P4), r, P3), r, P2), r, P1), r, P0)
        products[i] = fma(p, r, 1.0)
    for i in range(n):
        bits[i] = (bits[i] << MANTISSA_BITS) + ONE_BITS


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def rbf_values(products, sqnorms, other_sqnorms, log2_scale, power, bits):
    """exp(-gamma |x_j - z_i|^2) in the place of each x_j . z_i. ``power`` is memory for one row, and ``bits`` are its bits: to
    allocate and to view inside takes a quarter of a second to compile."""
    for j in range(np.uint64(products.shape[0])):
        halve_exponent(products[j], sqnorms[j], other_sqnorms, log2_scale, power, bits)
        for i in range(np.uint64(other_sqnorms.shape[0])):
            products[j, i] *= power[i]


@njit(inline="always")
def begin_row(rows, i):
    """Row i of the matrix with dot products in the place of values that are not known. Values within the own part are copied
    where they are known. Beyond the samples the row holds zeros. Returns |x_i|^2, those of the samples whose dot products
    there are, and where these begin."""
    values, middle, n = rows.values, np.uint64(rows.middle), np.uint64(rows.n)
    is_first, zero = i < middle, np.uint64(0)
    own = rows.first if is_first else rows.second
    known, place = np.uint64(own.square.shape[0]), i if is_first else i - middle
    has_known = known > zero
    other = rows.first if has_known and not is_first else rows.second
    known_at, start = (zero if is_first else middle), (middle if has_known and is_first else zero)
    for k in range(known):
        values[i, known_at + k] = own.square[place, k]
    for k in range(n, np.uint64(values.shape[1])):
        values[i, k] = 0.0
    multiply(values, i, start, own.samples, place, other.columns, rows.features)
    rows.is_there[i] = 1
    rows.counts[0] += 1
    return own.sqnorms[place], other.sqnorms, start


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, fastmath=False)
def make_row(rows, i):
    """Make row i of the matrix of the RBF kernel: see :class:`maxmargin.problem.held_values.RowsOnDemand`. A solver's loop
    calls this function, and Numba gives a function the fast-math of its caller unless it says no, as this one does."""
    here, sqnorms, start = begin_row(rows, i)
    halve_exponent(rows.values[i, start:], here, sqnorms, rows.function.scale, rows.power, rows.bits)
    for k in range(np.uint64(sqnorms.shape[0])):
        rows.values[i, start + k] *= rows.power[k]


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, fastmath=False)
def make_bent_row(rows, i):
    """The same for the other functions of dot products. They are compiled only where they are used."""
    _, sqnorms, start = begin_row(rows, i)
    if rows.function.form != IDENTITY:
        bend(rows.values, i, start, np.uint64(sqnorms.shape[0]), rows.function, rows.power)


@njit(inline="always")
def bend(values, i, start, width, function, base):
    """(gamma x . z + coef0)^degree, or tanh of gamma x . z + coef0, in the place of each x . z. ``base`` is memory."""
    for k in range(width):
        base[k] = fma(function.scale, values[i, start + k], function.shift)
        values[i, start + k] = base[k]
    if function.form == HYPERBOLIC:
        for k in range(width):
            values[i, start + k] = np.tanh(base[k])
    else:
        for _ in range(1, function.degree):
            for k in range(width):
                values[i, start + k] *= base[k]


@njit(inline="always")
def multiply(values, i, start, samples, place, columns, features):
    """values[i, start + k] = x . z_k, where x is row ``place`` of ``samples`` and z_k column k of ``columns``. Features in
    which x is zero add nothing. The others are taken four at a time, so that the sums are read and written a quarter as often;
    the last feature, which is zero in all samples, makes up their number."""
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    present, width, last = np.uint64(0), np.uint64(columns.shape[1]), np.uint64(columns.shape[0] - 1)
    for feature in range(last):
        if samples[place, feature] != 0.0:
            features[present] = feature
            present += one
    features[present], features[present + one], features[present + two] = last, last, last
    for k in range(width):
        values[i, start + k] = 0.0
    for at in range(np.uint64(0), present, four):
        e, f, g, h = features[at], features[at + one], features[at + two], features[at + three]
        a, b, c, d = samples[place, e], samples[place, f], samples[place, g], samples[place, h]
        for k in range(width):
            total = fma(a, columns[e, k], values[i, start + k])
            total = fma(b, columns[f, k], total)
            total = fma(c, columns[g, k], total)
            values[i, start + k] = fma(d, columns[h, k], total)


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def make_rows(rows, chosen):
    """Make those of the chosen rows that are not there."""
    for k in range(chosen.shape[0]):
        if not rows.is_there[chosen[k]]:
            make_row(rows, np.uint64(chosen[k]))


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def make_bent_rows(rows, chosen):
    """The same for the other functions of dot products."""
    for k in range(chosen.shape[0]):
        if not rows.is_there[chosen[k]]:
            make_bent_row(rows, np.uint64(chosen[k]))


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def held_outputs(values, signed, outputs):
    """f_i = sum_j s_j K_ij, added to ``outputs``, from a symmetric matrix that is held: a row for each s_j that is not zero."""
    n = np.uint64(signed.shape[0])
    for j in range(n):
        scale = signed[j]
        if scale != 0.0:
            for i in range(n):
                outputs[i] = fma(scale, values[j, i], outputs[i])


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def hinge_sums(outputs, errors, alpha, y, C, b, own_error):
    """Everything that the certificate with hinge loss adds up over at most SUMMED_SAMPLES samples: C_i loss_i, gap terms,
    what an error of the output does to each, of alpha_i y_i f_i, of alpha_i, of alpha_i y_i and of alpha_i |1 - y_i f_i|;
    and how many alpha_i > 0 are C_i. The error of a margin is ``errors`` and ``own_error`` (1 + |margin| + |b|)."""
    losses = gaps = roundings = sqnorms = totals = imbalances = slopes = 0.0
    n, n_at_bound = np.uint64(outputs.shape[0]), 0
    for first in range(np.uint64(0), n, np.uint64(TERMS_A_BLOCK)):
        loss = gap = rounding = sqnorm = total = imbalance = slope = 0.0
        last = first + np.uint64(TERMS_A_BLOCK)
        for i in range(first, last if last < n else n):
            margin = y[i] * (outputs[i] + b)
            slack, room, a = 1.0 - margin, C[i] - alpha[i], alpha[i]
            below, above = 0.0 if slack < 0.0 else slack, 0.0 if slack > 0.0 else -slack  # what is not a number stays that
            error = errors[i] + own_error * (1.0 + abs(margin) + abs(b))
            is_in_doubt = abs(slack) <= error
            steepest = room if (room > a if is_in_doubt else slack > 0.0) else a
            loss += C[i] * below
            gap += room * below + a * above
            rounding += steepest * error
            sqnorm += a * y[i] * outputs[i]
            total += a
            imbalance += a * y[i]
            slope += a * abs(1.0 - y[i] * outputs[i])
            n_at_bound += a == C[i] and a > 0.0
        losses, gaps, roundings, sqnorms = losses + loss, gaps + gap, roundings + rounding, sqnorms + sqnorm
        totals, imbalances, slopes = totals + total, imbalances + imbalance, slopes + slope
    return losses, gaps, roundings, sqnorms, totals, imbalances, slopes, n_at_bound


summed = njit(inline="always")(hinge_sums.py_func)


@njit(inline="always")
def order(kinks, rank):
    """Move the ``rank`` least kinks to the front. Returns the greatest of them and the least of the others: minus infinity and
    infinity where there is none. C. A. R. Hoare, "Algorithm 65: find", 1961."""
    first, last = 0, kinks.shape[0] - 1
    while first < last:
        middle, i, j = kinks[(first + last) >> 1], first, last
        while i <= j:
            while kinks[i] < middle:
                i += 1
            while kinks[j] > middle:
                j -= 1
            if i <= j:
                kinks[i], kinks[j] = kinks[j], kinks[i]
                i, j = i + 1, j - 1
        if rank <= j:
            last = j
        elif rank >= i:
            first = i
        else:
            break
    low, high = -np.inf, np.inf
    for i in range(rank):
        low = kinks[i] if kinks[i] > low else low
    for i in range(rank, kinks.shape[0]):
        high = kinks[i] if kinks[i] < high else high
    return low, high


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def even_sums(values, is_there, alpha, signs, C, bounds, memory):
    """Everything that the certificate needs with hinge loss, an offset, and one C for all: the number of support vectors, the
    best offset, the kinks on both sides of it, the greatest magnitude of a kink, which is not finite if one of them is not, the
    reach sum_j alpha_j l_j, and the sums of ``hinge_sums``. The ``bounds`` are lengths l with |k(x_i, x_j)| <= l_i l_j, the
    error of output i as a share of l_i times the reach, and the own error of a margin. ``memory`` takes the outputs, kinks,
    errors and costs of the samples. Where an alpha_i is outside its box, or its kernel row is not there, the number of support
    vectors is -1."""
    lengths, relative_error, own_error = bounds
    outputs, kinks, errors, costs = memory[0], memory[1], memory[2], memory[3]
    n, reach, greatest, finite, n_support, n_positive, is_sound = np.uint64(alpha.shape[0]), 0.0, 0.0, 0.0, 0, 0, True
    for i in range(n):
        outputs[i] = 0.0
    for j in range(n):
        reach += alpha[j] * lengths[j]
        n_positive += signs[j] > 0.0
        is_sound &= alpha[j] >= 0.0 and alpha[j] <= C
        if alpha[j] != 0.0:
            n_support += 1
            is_sound &= is_there[j] > 0
            scale = alpha[j] * signs[j]
            for i in range(n):
                outputs[i] = fma(scale, values[j, i], outputs[i])
    for i in range(n):
        kink = signs[i] - outputs[i]
        kinks[i], errors[i], costs[i] = kink, relative_error * reach * lengths[i], C
        greatest = abs(kink) if abs(kink) > greatest else greatest
        finite += 0.0 * kink  # zero, or not a number
    low, high = order(kinks, n_positive)
    b = 0.5 * (low + high) if n_positive > 0 and n_positive < n else (low if n_positive > 0 else high)
    sums = summed(outputs, errors, alpha, signs, costs, b, own_error)
    return (n_support if is_sound else -1), b, low, high, greatest + finite, reach, sums


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def even_offsets(outputs, signs, reaches, memory):
    """The offsets between which every optimal one is, with hinge loss and one C for all, if each optimal kink is within its
    reach of the given one. Optimal offsets are quantiles of kinks."""
    n, n_positive, low, high = outputs.shape[0], 0, -np.inf, np.inf
    for i in range(n):
        n_positive += signs[i] > 0.0
    for side in range(2):
        for i in range(n):
            memory[i] = signs[i] - outputs[i] + (-reaches[i] if side == 0 else reaches[i])
        if side == 0:
            low, _ = order(memory, n_positive)
        else:
            _, high = order(memory, n_positive)
    return low, high


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def many_even_offsets(samples, reaches, edges, memory, intervals):
    """``even_offsets`` of many problems. The samples of problem k begin at ``edges[k]``."""
    outputs, signs = samples[OUTPUTS], samples[SIGNS]
    for k in range(intervals.shape[0]):
        own = slice(edges[k], edges[k + 1])
        low, high = even_offsets(outputs[own], signs[own], reaches[own], memory[: edges[k + 1] - edges[k]])
        intervals[k, 0], intervals[k, 1] = low, high


@njit(cache=True, nogil=True, boundscheck=False)
def sparse_sqnorms(values, indices, indptr):
    """|x_i|^2 right to the last digit, in the form that the certificate's loop is given a matrix in."""
    sqnorms = np.empty(indptr.shape[0] - 1)
    for i in range(sqnorms.shape[0]):
        total = rest = 0.0
        for s in range(indptr[i], indptr[i + 1]):
            total, rest = add_square(np.float64(values[s]), total, rest)
        sqnorms[i] = total + rest
    return sqnorms


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def dense_sqnorms(matrix, sqnorms):
    """sqnorms_i = |x_i|^2 right to the last digit."""
    for i in range(matrix.shape[0]):
        total = rest = 0.0
        for k in range(matrix.shape[1]):
            total, rest = add_square(np.float64(matrix[i, k]), total, rest)
        sqnorms[i] = total + rest


@njit(inline="always")
def add_square(x, total, rest):
    """total + x^2, with what the square and the addition lose added to the rest."""
    square = x * x
    new = total + square
    added = new - total
    return new, rest + (fma(x, x, -square) + ((total - (new - added)) + (square - added)))
