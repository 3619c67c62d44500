"""The certificate's pass over X for one class: the sums of ``linear_loops.py`` and those of ``residual_loops.py`` at once, for
the loss max(0, -f) and the box 0 <= alpha <= C. Nothing here is shared with a solver, and nothing uses fast-math."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.certificate.lane_loops import COUNT, LANES, ONE, ZERO, add_up, clear, fill
from maxmargin.certificate.linear_loops import csr_add, csr_sums, dense_add, dense_sums
from maxmargin.certificate.residual_loops import UNDERFLOW, UNIT_ROUNDOFF, greater, positive
from maxmargin.data.by_type import by_type, loop_by_type
from maxmargin.data.rows import Array, CsrRows, DenseRows

OUTPUT, MAGNITUDE, ALPHA, COST, PRICE, ROUNDINGS = (np.uint64(LANES * k) for k in range(6))
LOSS, GAP, ERROR, TOTAL, EXCESS = (np.uint64(LANES * k) for k in range(6, 11))
KINDS = 11
"""Kinds of numbers in a column: what its terms are made of, and the terms."""


class ShortfallSamples(NamedTuple):
    """An element for each sample: alpha, C, the price of the offset, and memory for the outputs and for |x_i|^2. A number that
    is the same for all samples is repeated ``LANES`` times. ``lanes`` is memory for ``KINDS`` times ``LANES`` numbers, and
    ``numbers`` for the samples of a column."""

    alpha: Array
    C: Array
    prices: Array
    outputs: Array
    squares: Array
    lanes: Array
    numbers: Array


@by_type
def sums_of(rows, i, w, bias_weight):
    """w . x_i, sum_j |w_j x_ij| and |x_i|^2, the first two with the constant feature."""


@by_type
def add(rows, i, alpha, weights):
    """weights += alpha x_i, without the constant feature."""


@by_type
def roundings_of(rows, i):
    """The roundings in an output: see ``linear_sums.operations``."""


@sums_of.when(CsrRows)
def _(rows, i, w, bias_weight):
    return csr_sums(rows, i, w, bias_weight)


@add.when(CsrRows)
def _(rows, i, alpha, weights):
    csr_add(rows, i, alpha, weights)


@roundings_of.when(CsrRows)
def _(rows, i):
    return np.float64(rows.indptr[i + ONE] - rows.indptr[i]) + 3.0


@sums_of.when(DenseRows)
def _(rows, i, w, bias_weight):
    return dense_sums(rows, i, w, bias_weight)


@add.when(DenseRows)
def _(rows, i, alpha, weights):
    dense_add(rows, i, alpha, weights)


@roundings_of.when(DenseRows)
def _(rows, i):
    return rows.values.shape[1] + 3.0


@loop_by_type("rows", cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy")
def judge_shortfalls(rows, start, stop, w, samples, weights, totals):
    """Write sums over the rows start <= i < stop to ``totals``, and add alpha_i x_i to ``weights``. A column of ``totals`` is
    for so many rows one after the other as make the columns suffice, at most ``LANES``. Its rows are C_i loss_i, the gap term,
    how wrong the gap term can be when its output is wrong, alpha_i, and alpha_i less its price: the formulas of
    ``judge_residuals``. Returned are sum_i |alpha_i x_i|, and how many alpha_i are not zero, at the bound, and outside of their
    box. The rows of a column are added to ``weights`` after all of its sums: ``numbers`` has their numbers, so that no branch
    depends on alpha, which is not to be foreseen. A loop does one thing at a time: the compiler makes one that does all of them
    twice as slow."""
    alphas, C, prices, outputs, squares, lanes, numbers = samples
    scale, n_support, n_at_bound, n_outside = 0.0, 0, 0, 0
    first, end, last = np.uint64(start), np.uint64(stop), np.uint64(weights.shape[0] - 1)
    bias, a_column = rows.bias, (end - first + np.uint64(totals.shape[1]) - ONE) // np.uint64(totals.shape[1])
    for column in range(np.uint64(totals.shape[1])):
        begin, n_added = first + column * a_column, ZERO
        behind = begin + a_column if begin + a_column < end else end
        at, length = begin - first, behind - begin
        if length < COUNT:
            clear(lanes)
        for k in range(length):
            lanes[OUTPUT + k], lanes[MAGNITUDE + k], squares[at + k] = sums_of(rows, begin + k, w, w[last])
            lanes[ROUNDINGS + k], outputs[at + k] = roundings_of(rows, begin + k), lanes[OUTPUT + k]
        fill(lanes, ALPHA, alphas, at, length, end - first)
        fill(lanes, COST, C, at, length, end - first)
        fill(lanes, PRICE, prices, at, length, end - first)
        for k in range(length):
            numbers[n_added] = at + k
            n_added += ONE if lanes[ALPHA + k] != 0.0 else ZERO
        for k in range(COUNT):
            output, alpha, cost = lanes[OUTPUT + k], lanes[ALPHA + k], lanes[COST + k]
            lost = lanes[ROUNDINGS + k] * UNIT_ROUNDOFF
            wrong = (lost / (1.0 - lost) + 2.0 * UNIT_ROUNDOFF) * lanes[MAGNITUDE + k]
            wrong += UNDERFLOW + 2.0 * UNIT_ROUNDOFF * abs(output)
            missing = positive(-output)
            lanes[LOSS + k] = cost * missing
            lanes[GAP + k] = positive(cost - alpha) * missing + alpha * positive(output)
            lanes[ERROR + k] = greater(alpha if output > -wrong else 0.0, cost - alpha if output < wrong else 0.0) * wrong
            lanes[TOTAL + k], lanes[EXCESS + k] = abs(alpha), alpha - lanes[PRICE + k]
            n_outside += 0 if (alpha >= 0.0) & (alpha <= cost) else 1
            n_at_bound += 1 if (alpha == cost) & (alpha != 0.0) else 0
        add_up(lanes, LOSS, totals, column)
        n_support += n_added
        for place in range(n_added):
            k = numbers[place]
            add(rows, first + k, alphas[k], weights)
            weights[last] += alphas[k] * bias
            scale += abs(alphas[k]) * np.sqrt(squares[k] + bias * bias)
    return scale, n_support, n_at_bound, n_outside
