r"""The certificate of a kernel problem with hinge loss, an offset and one C for all samples, in one compiled call.

A model of 26 classes has 325 problems of some eighty samples. The arithmetic of a certificate takes a few microseconds there,
and as many steps of Python would take ten times as long. The sums are those of ``maxmargin.problem.kernel_loops``. What follows
from them is what ``maxmargin.certificate.certificate`` says, whose functions are compiled here and not written again. The bound
on the offset is that of ``maxmargin.certificate.intercept``: optimal offsets are quantiles of kinks, and each kink is within
its reach of the optimal one, beside its own rounding."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.certificate import GapParts, Imbalance, distance_of, joined, relative
from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, gamma
from maxmargin.data.caching import njit
from maxmargin.data.rows import Array
from maxmargin.problem.kernel_loops import even_offsets, even_sums
from maxmargin.problem.kernels import SECOND_ORDER
from maxmargin.problem.losses import UNIT_ROUNDOFF

PRIMAL, DUAL, GAP, RELATIVE_GAP, ROUNDING, DISTANCE, N_SUPPORT, N_AT_BOUND = range(8)
"""Where ``judge_even`` writes the numbers of a certificate, in the order of its fields."""
OFFSET, OFFSET_BOUND, REACH, TOTAL = range(8, 12)
"""Where it writes b, the bound on the error of b, sum_i alpha_i l_i and sum_i alpha_i."""
N_NUMBERS = 12
JUDGE_ROWS = 5
"""The rows of the memory of the judge. The first holds the outputs afterwards, the third the bounds on their errors."""

sums_of, offsets_of = njit(inline="always")(even_sums.py_func), njit(inline="always")(even_offsets.py_func)
joined_parts, distance_within = njit(inline="always")(joined), njit(inline="always")(distance_of)
relative_to, gamma_of = njit(inline="always")(relative), njit(inline="always")(gamma)


class EvenSamples(NamedTuple):
    """The labels in float64, the lengths l with |k(x_i, x_j)| <= l_i l_j, and C. A kernel value is wrong by at most ``share``
    l_i l_j. ``is_uniform``: all lengths are one. ``is_positive``: the kernel was declared positive semidefinite."""

    signs: Array
    lengths: Array
    C: float
    share: float
    is_uniform: bool
    is_positive: bool


def imbalance_at(total: float, excess: float, slope: float, reach: float, b: float) -> tuple[float, float, float, float]:
    """The fields of an :class:`Imbalance`, from sum_i |alpha_i|, which is not zero, sum_i s_i, sum_i |alpha_i| (|p_i - sigma_i
    f_i| + epsilon), sum_i |alpha_i| k(x_i, x_i)^1/2, and the offset. The feasible alpha' has the heavier sign of s_i scaled by
    1 - e, e <= 2 |r| / sum |alpha|, and the dual falls by at most e slope + (e reach)^2 / 2."""
    hidden = PAIRWISE_ROUNDINGS * UNIT_ROUNDOFF / (1.0 - PAIRWISE_ROUNDINGS * UNIT_ROUNDOFF) * total
    worst = abs(excess) + hidden
    small, large = 2.0 * abs(excess) / total, 2.0 * worst / total
    fall = small * slope + 0.5 * (small * reach) ** 2
    greatest_fall = large * slope + 0.5 * (large * reach) ** 2
    error = greatest_fall - fall + hidden * abs(b)
    return abs(excess) * abs(b), fall, error, worst * (2.0 / total * reach)


imbalance_here = njit(inline="always")(imbalance_at)


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def judge_even(values, is_there, alpha, samples, memory, numbers):
    """Write the certificate of alpha, its offset and the bound on that into ``numbers``. False where alpha is zero, outside its
    box, or a kernel row of it is not there. ``memory`` has JUDGE_ROWS rows of n numbers."""
    n, signs, lengths = alpha.shape[0], samples.signs, samples.lengths
    bounds = lengths, SECOND_ORDER * (samples.share + gamma_of(n + 2.0)), 4.0 * UNIT_ROUNDOFF
    n_support, b, low, high, greatest, reach, sums = sums_of(values, is_there, alpha, signs, samples.C, bounds, memory)
    if n_support <= 0:
        return False
    loss, terms, error, sqnorm, total, excess, slope, n_at_bound = sums
    shift, fall, hidden, move = imbalance_here(total, excess, slope, reach, b)
    roundings = gamma_of(float(PAIRWISE_ROUNDINGS))
    parts = GapParts(0.5 * sqnorm + loss, total - 0.5 * sqnorm, terms, error, roundings, 0.0, 1.0)
    dual, gap, rounding = joined_parts(parts, Imbalance(shift, fall, hidden, move))
    is_finite = math.isfinite(parts.primal) and math.isfinite(dual) and math.isfinite(gap) and math.isfinite(rounding)
    is_proof = samples.is_positive and sqnorm >= -(error + hidden + roundings * terms)
    numbers[PRIMAL], numbers[DUAL], numbers[GAP], numbers[ROUNDING] = parts.primal, dual, gap, rounding
    numbers[RELATIVE_GAP] = relative_to(gap, parts.primal, dual)
    numbers[DISTANCE] = distance_within(gap + rounding, move, 1.0) if is_proof else np.inf
    if not is_finite:
        numbers[PRIMAL], numbers[DUAL], numbers[GAP], numbers[ROUNDING] = np.inf, -np.inf, np.inf, np.inf
        numbers[RELATIVE_GAP], numbers[DISTANCE], n_at_bound = np.inf, np.inf, 0
    numbers[N_SUPPORT], numbers[N_AT_BOUND], numbers[OFFSET] = n_support, n_at_bound, b
    numbers[REACH], numbers[TOTAL], numbers[OFFSET_BOUND] = reach, total, np.inf
    distance = numbers[DISTANCE] * (1.0 + samples.share) * OUTWARDS
    if math.isfinite(distance) and math.isfinite(greatest):
        if samples.is_uniform:
            far = distance + memory[2, 0]
            moved = far + 2.0 * UNIT_ROUNDOFF * (greatest + far)
            low, high = low - moved, high + moved
        else:
            for i in range(n):
                far = distance * lengths[i] + memory[2, i]
                memory[3, i] = far * OUTWARDS + 4.0 * UNIT_ROUNDOFF * (greatest + far)
            low, high = offsets_of(memory[0], signs, memory[3], memory[4])
        farthest = high - b if high - b > b - low else b - low
        if math.isfinite(farthest):
            numbers[OFFSET_BOUND] = farthest + 4.0 * UNIT_ROUNDOFF * (farthest + abs(b))
    return True
