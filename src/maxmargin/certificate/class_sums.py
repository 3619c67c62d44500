r"""The sums of the judge of Crammer and Singer's machine: the outputs of W, how wrong slacks can be, and |W - W(a)|.

In raw columns, such as times in seconds since 1970, the sums of W(a) cancel by many digits. Where the bound on rounding is of
the size of the gap, they are made again as pairs of numbers (``precise_linear_loops.py``): a sum of m products is then wrong by
at most :math:`\gamma_m^2` times the sum of its magnitudes.

**The coefficient of a sample's own class** is the sum :math:`A_i` of the others, of which float64 has no room for all digits.
It is a pair, too, wrong by at most :math:`\gamma_k^2 A_i`, and each half of it is multiplied by :math:`x_i`. So a column of
W(a) is a sum of at most 2 n products, and with :math:`s = \sum_{im} |b_i^m| |x_i|` over both halves

.. math:: |W(a) - \text{its pairs}| \le (\gamma_{2n}^2 + \gamma_k^2) s .

What is lost where W and the pairs are subtracted is at most u times the second numbers of the pairs, which are at most
:math:`\gamma_{2n}` times the magnitudes, and u times the difference. :math:`\gamma_{2n + k + 16}^2` is greater than all but the
last of these.

**A slack** :math:`1 + z^m - z^y` has two outputs. Each is a pair that is rounded once, and both additions round once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.certificate.linear_sums import JudgedPair, RowSums, judge_of_rows, operations
from maxmargin.certificate.rounding import OUTWARDS, SMALLEST, gamma, two_sum
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.problem.dual_box import UNIT_ROUNDOFF


class Coefficients(NamedTuple):
    """a with zero for the class of each sample, and its sums A. Exactly, no sum is above C_i."""

    a: Array
    A: Array


class ClassSums(NamedTuple):
    """The outputs of W, how wrong the slacks of each sample can be, |W(a)|^2, |W - W(a)| and how wrong that can be."""

    outputs: Array
    wrong: Array
    sqnorm: float
    apart: float
    apart_error: float


def plain_sums(problem: CrammerSingerProblem, W: Array, W_of_a: Array, found: Coefficients) -> ClassSums:
    """The sums in float64. ``W_of_a`` may be W itself."""
    apart = 0.0 if W is W_of_a else float(np.linalg.norm(W - W_of_a))
    error = _weights_error(problem, found) + UNIT_ROUNDOFF * float(np.linalg.norm(W))
    return ClassSums(problem.outputs(W), _slack_errors(problem, W), float(np.vdot(W_of_a, W_of_a)), apart, error)


def precise_sums(problem: CrammerSingerProblem, W: Array, found: Coefficients) -> ClassSums:
    """The sums in pairs, one pass over X a class."""
    n, k = found.a.shape
    rows, made = problem.rows.compiled(problem.intercept_scaling), np.empty((2, n, k))
    difference, weights, scale = np.empty_like(W), np.empty_like(W), 0.0
    own = _sums_in_pairs(found.a)
    for m in range(k):
        check_point()
        totals = np.zeros((2, problem.rows.n_features + 1))
        for values in _halves(problem, found.a, own, m):
            scale += _judged(problem, rows, W[:, m], values, totals, made[:, :, m])
        totals = totals[:, : len(W)]
        total, lost = two_sum(W[:, m], -totals[0])
        difference[:, m], weights[:, m] = total + (lost - totals[1]), totals[0] + totals[1]
    apart = float(np.linalg.norm(difference))
    error = gamma(2.0 * n + k + 16.0) ** 2 * scale * (1.0 + gamma(n + W.size + 16.0))
    error += 4.0 * n * k * SMALLEST * len(W) + gamma(W.size + 8.0) * apart
    wrong = _precise_slack_errors(operations(rows, slice(0, n)), *made)
    return ClassSums(made[0], wrong, float(np.vdot(weights, weights)), apart, error)


def _halves(problem: CrammerSingerProblem, a: Array, own: tuple[Array, Array], m: int) -> list[Array]:
    """The coefficients of a class, and what those of its own samples lack in float64."""
    is_own = problem.y == m
    first, rest = np.where(is_own, own[0], -a[:, m]), np.where(is_own, own[1], 0.0)
    return [first, rest] if rest.any() else [first]


def _sums_in_pairs(a: Array) -> tuple[Array, Array]:
    """The sum of each row as a pair of numbers, the first of which is rounded to nearest."""
    total, rest = np.zeros(len(a)), np.zeros(len(a))
    for values in a.T:
        total, lost = two_sum(total, values)
        rest += lost
    return two_sum(total, rest)


def _judged(problem: CrammerSingerProblem, rows: object, w: Array, values: Array, totals: Array, made: Array) -> float:
    """Fill ``made`` with the outputs of one class and their magnitudes, and add its W(a) to ``totals``. Returned is the sum of
    |b_i| |x_i|."""
    n, w = len(values), np.ascontiguousarray(w)
    outputs, magnitudes, squares = np.empty((3, n))
    pair = JudgedPair(w, float(w[-1]) if problem.intercept_scaling else 0.0, values)
    judge_rows = judge_of_rows(problem.rows.is_sparse, totals[1])
    scale = float(judge_rows(rows, 0, n, pair, RowSums(outputs, magnitudes, squares, totals[0])))
    made[0], made[1] = outputs, magnitudes
    return scale


def _precise_slack_errors(roundings: Array | float, outputs: Array, magnitudes: Array) -> Array:
    """How wrong the slacks of a sample can be, by its greatest output and the greatest magnitude of one."""
    largest = np.maximum(outputs.max(axis=1), -outputs.min(axis=1))
    lost = 2.0 * np.square(gamma(roundings + 4.0)) * magnitudes.max(axis=1) + 8.0 * roundings * SMALLEST
    return np.asarray((lost + 8.0 * UNIT_ROUNDOFF * (1.0 + largest)) * OUTWARDS)


def _slack_errors(problem: CrammerSingerProblem, W: Array) -> Array:
    """How wrong the slacks of a sample can be: two dot products and their difference, by the greatest |w_jm| of a feature."""
    largest = np.maximum(W.max(axis=1), -W.min(axis=1))
    magnitudes = np.abs(problem.rows.matrix) @ largest[: problem.rows.n_features]
    if problem.intercept_scaling:
        magnitudes = magnitudes + problem.intercept_scaling * largest[-1]
    operations = problem.rows.n_features if not problem.rows.is_sparse else np.diff(problem.rows.matrix.indptr).astype(float)
    return np.asarray((2.0 * gamma(operations + 4.0) * magnitudes + 4.0 * UNIT_ROUNDOFF * (1.0 + magnitudes)) * OUTWARDS)


def _weights_error(problem: CrammerSingerProblem, found: Coefficients) -> float:
    """How far W(a) can be off: by roundings of its sums, and because each A_i is rounded."""
    lengths = np.sqrt(problem.rows.squared_norms(problem.intercept_scaling)) * OUTWARDS
    sizes = np.sqrt(np.einsum("ij,ij->i", found.a, found.a) + np.square(found.A)) * OUTWARDS
    return gamma(problem.n_samples + problem.n_classes + 16) * float(lengths @ sizes) * OUTWARDS
