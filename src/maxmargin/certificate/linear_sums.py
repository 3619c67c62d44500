"""The sums over rows of which a certificate of a linear model is made, for all rows or for a part of them.

The sums of several parts add up to those of the whole (:meth:`PartSums.plus`), in whatever order: the bound on rounding in
:mod:`maxmargin.certificate.linear_verdict` holds for every order of summation. That is what lets a certificate be one pass over
blocks on a disk, or one round of messages to workers, with alpha staying where it is.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.certificate import Counts
from maxmargin.certificate.lane_loops import LANES
from maxmargin.certificate.rounding import SMALLEST, gamma, two_sum, vector
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array, CsrRows, DenseRows
from maxmargin.data.threads import Crew
from maxmargin.problem.dual_box import UNIT_ROUNDOFF, ResidualPieces
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge

HINGE, SQUARED_HINGE = Hinge().margin_pieces(), SquaredHinge().margin_pieces()
"""The losses that ``margin_loops.py`` knows."""
SHORTFALL = ResidualPieces(0.0, 1.0, 0.0)
"""The loss that ``shortfall_loops.py`` knows, where all targets are zero."""
LONG_ROWS_A_COLUMN = 4
"""The rows of a column for one class where rows are long, because they are read twice: with 16 rows of mnist they leave the
first-level cache, and a certificate takes 1.15 times as long. Not more than ``LANES``."""


class DualTotals(NamedTuple):
    """What the alpha of some samples add up: how many they are, sum_i |alpha_i|, sum_i alpha_i sigma_i less the prices of the
    offset, sum_i |alpha_i| (|p_i| + e), and the counts of a certificate. ``linear`` has p_i less the offset where that may move
    the targets, and is zero where the intercept is penalised."""

    n_samples: int
    total: float
    excess: float
    linear: float
    n_support: int
    n_at_bound: int

    @classmethod
    def of(cls, problem: LinearProblem, alpha: Array, linear: float) -> DualTotals:
        box = problem.box
        counts = Counts.of(alpha, (alpha == box.U) | (alpha == box.L))
        total, excess = float(np.sum(np.abs(alpha))), float(np.sum(problem.unbalanced(alpha)))
        return cls(len(alpha), total, excess, linear, *counts)

    @classmethod
    def of_rows(cls, rows: RowTotals, n_samples: int, linear: float) -> DualTotals:
        """The same from a compiled pass over residuals or margins, which has counted already."""
        return cls(n_samples, rows.total, rows.excess, linear, int(rows.n_support), int(rows.n_at_bound))

    def plus(self, other: DualTotals) -> DualTotals:
        sums: tuple[Any, ...] = tuple(a + b for a, b in zip(self, other, strict=True))
        return DualTotals(*sums)


class PartSums(NamedTuple):
    """All that a certificate needs of some samples. ``weights`` is their part of w(alpha), and ``rests`` what that lacks where
    it was summed in about twice the precision. Where ``is_feasible`` is false, nothing else counts."""

    rows: RowTotals
    dual: DualTotals
    weights: Array
    rests: Array | None
    is_feasible: bool

    def plus(self, other: PartSums) -> PartSums:
        """The sums of both parts. Those of this one are used up."""
        if self.rests is None or other.rests is None:
            weights, rests = np.add(self.weights, other.weights, out=self.weights), None
        else:
            weights, lost = two_sum(self.weights, other.weights)
            rests = self.rests + other.rests + lost
        rows = RowTotals(*(a + b for a, b in zip(self.rows, other.rows, strict=True)))
        dual = self.dual.plus(other.dual)
        return PartSums(rows, dual, weights, rests, self.is_feasible and other.is_feasible)


def part_sums(
    problem: LinearProblem, w: Array, alpha: Array, *, is_precise: bool = False, margins: Array | None = None
) -> PartSums:
    """The sums of one part, whose samples are ``problem``'s. It costs one pass over them, on all cores where they are many.
    ``margins``, if given, is filled with the outputs sigma_i (w . x_i)."""
    w = np.ascontiguousarray(vector(w, problem.n_weights, "w"))
    alpha = vector(alpha, problem.n_samples, "alpha")
    with np.errstate(all="ignore"):
        crew = Crew.in_parts(problem.rows.n_stored, 2 * problem.n_weights)
        weights = np.zeros((crew.n_parts, problem.rows.n_features + 1))
        rests = np.zeros_like(weights) if is_precise else None
        dual = DualTotals.of(problem, alpha, 0.0)
        if not problem.is_feasible(alpha):
            return PartSums(RowTotals.nothing(), dual, weights[0], None if rests is None else rests[0], False)
        totals = shared_sums(problem, crew, PassOutput(w, alpha, margins, weights, rests))
    return PartSums(totals, dual, weights[0], None if rests is None else rests[0], True)


class PassOutput(NamedTuple):
    """What a pass judges, w and alpha, and where it writes: margins (or None), for each part of the rows its share of w(alpha)
    and what that lacks (or None), and |x_i|^2 (or None)."""

    w: Array
    alpha: Array
    margins: Array | None
    weights: Array
    rests: Array | None
    squares: Array | None = None


def shared_sums(problem: LinearProblem, crew: Crew, output: PassOutput) -> RowTotals:
    """Add up over all rows of ``problem``, part by part; the first of ``weights`` is w(alpha) afterwards, and the
    first of ``rests`` what it lacks."""
    weights, rests = output.weights, output.rests
    if crew.size == 1:
        check_point()
        alone = output._replace(weights=weights[0], rests=None if rests is None else rests[0])
        return _sum_over_rows(problem, alone, 0, len(output.alpha))
    sums = crew.share(
        len(output.alpha),
        lambda k, *part: _sum_over_rows(
            problem, output._replace(weights=weights[k], rests=None if rests is None else rests[k]), *part
        ),
    )
    for k in range(1, crew.n_parts):
        if rests is None:
            weights[0] += weights[k]
        else:
            weights[0], lost = two_sum(weights[0], weights[k])
            rests[0] += rests[k] + lost
    return RowTotals(*map(math.fsum, zip(*sums, strict=True)))


class RowTotals(NamedTuple):
    """The sums of a pass over some of the rows, besides their part of w(alpha). Where ``has_compiled_sums`` says so, the pass
    also adds up what ``DualTotals`` asks of alpha. In regression it counts the alpha outside of their box."""

    loss: float
    conjugate: float
    gap: float
    error: float
    weights_scale: float
    total: float = 0.0
    excess: float = 0.0
    n_support: float = 0.0
    n_at_bound: float = 0.0
    n_outside: float = 0.0

    @classmethod
    def nothing(cls) -> RowTotals:
        return cls(0.0, 0.0, 0.0, 0.0, 0.0)


class JudgedPair(NamedTuple):
    """What a pass judges: w, the weight of the constant feature, and sigma_i alpha_i of the rows at hand."""

    w: Array
    bias_weight: float
    signed_alpha: Array


class RowSums(NamedTuple):
    """What a pass writes: the outputs of the rows at hand, the sums of their magnitudes, their squared norms, and a part of
    w(alpha)."""

    outputs: Array
    magnitudes: Array
    squares: Array
    weights: Array


def has_compiled_sums(problem: LinearProblem) -> bool:
    """Whether a compiled loop adds up over the samples: in regression, and for many samples with one of the two usual losses.
    Then it also adds up and counts what ``DualTotals`` asks of alpha."""
    if problem.loss.is_regression:
        return True
    is_usual = problem.loss.margin_pieces() in (HINGE, SQUARED_HINGE)
    return is_usual and problem.offset_prices is None and problem.n_samples >= policy.LINEAR.many_rows


def rows_together(problem: LinearProblem) -> int:
    """The rows of a column in the pass for one class."""
    is_short = problem.rows.n_stored <= policy.LINEAR.short_row * problem.rows.n_samples
    return LANES if is_short else LONG_ROWS_A_COLUMN


def has_shortfalls(problem: LinearProblem) -> bool:
    """Whether the problem is that of one class, all of whose sums are made in the pass over X."""
    is_priced = problem.offset_prices is not None and problem.intercept_scaling != 0.0 and problem.loss.is_regression
    if not is_priced or problem.targets.strides != (0,) or float(problem.targets[0]) != 0.0:
        return False
    return bool(problem.loss.residual_pieces() == SHORTFALL)  # type: ignore[attr-defined]


def _sum_over_rows(problem: LinearProblem, output: PassOutput, start: int, stop: int) -> RowTotals:
    """Sums over the rows start <= i < stop; their part of w(alpha) goes to ``output.weights``, and what that lacks to
    ``output.rests``: it is None where float64 is enough."""
    output.weights[:] = 0.0
    most = policy.LINEAR.rows_of_residuals if has_compiled_sums(problem) else policy.LINEAR.rows_a_block
    size = max(1, min(most, stop - start))
    block_pass = _BlockPass.of(problem, output, size)
    found = [block_pass.sums(slice(first, min(first + size, stop))) for first in range(start, stop, size)]
    return found[0] if len(found) == 1 else RowTotals(*map(math.fsum, zip(*found, strict=True)))


class _BlockPass(NamedTuple):
    """A pass over some rows, block by block: who judges the rows, or None if ``judge_shortfalls`` does, and memory for a
    block."""

    problem: LinearProblem
    output: PassOutput
    judge_rows: Any
    memory: Array

    @classmethod
    def of(cls, problem: LinearProblem, output: PassOutput, size: int) -> _BlockPass:
        is_fused = output.rests is None and has_shortfalls(problem)
        judge_rows = None if is_fused else judge_of_rows(problem.rows.is_sparse, output.rests)
        return cls(problem, output, judge_rows, np.empty((3, size)))

    @property
    def is_precise(self) -> bool:
        return self.output.rests is not None

    def sums(self, block: slice) -> RowTotals:
        """The sums of the rows of one block."""
        problem, output, n = self.problem, self.output, block.stop - block.start
        outputs = self.memory[0, :n] if output.margins is None else output.margins[block]
        squares = self.memory[2, :n] if output.squares is None else output.squares[block]
        if self.judge_rows is None:
            return self._of_shortfalls(block, outputs, squares)
        sums = RowSums(outputs, self.memory[1, :n], squares, output.weights)
        bias_weight = output.w[-1] if problem.intercept_scaling != 0.0 else 0.0
        alpha, is_plain = output.alpha[block], problem.loss.is_regression  # all signs are one
        signed = np.ascontiguousarray(alpha) if is_plain else alpha * problem.signs[block]
        pair = JudgedPair(output.w, bias_weight, signed)
        scale = self.judge_rows(problem.compiled_rows, block.start, block.stop, pair, sums)
        if not has_compiled_sums(problem):
            return self._of_margins(block, sums, scale)
        return self._of_residuals(block, sums, scale) if is_plain else self._of_many_margins(block, sums, scale)

    def _of_shortfalls(self, block: slice, outputs: Array, squares: Array) -> RowTotals:
        """One class, by one compiled pass and five sums, as in ``_of_residuals``."""
        from maxmargin.certificate.shortfall_loops import KINDS, ShortfallSamples, judge_shortfalls

        problem, output, rows = self.problem, self.output, self.problem.compiled_rows
        prices: Any = problem.offset_prices
        together = rows_together(problem)
        C, price = each_or_one(problem.C[block], prices[block])
        lanes, numbers = np.empty(KINDS * LANES), np.empty(together, np.uint64)
        samples = ShortfallSamples(_read_only(output.alpha[block]), C, price, outputs, squares, lanes, numbers)
        totals = np.empty((5, -(-len(outputs) // together)))
        scale, *counts = judge_shortfalls(rows, block.start, block.stop, output.w, samples, output.weights, totals)
        loss, gap, error, total, excess = np.add.reduce(totals, axis=1).tolist()
        return RowTotals(loss, 0.0, gap, error, scale, total, excess, *counts)

    def _of_margins(self, block: slice, sums: RowSums, scale: float) -> RowTotals:
        """Two classes."""
        problem, outputs = self.problem, sums.outputs
        np.multiply(outputs, problem.signs[block], out=outputs)
        targets, roundings = np.abs(problem.targets[block]), operations(problem.compiled_rows, block)
        errors = residual_errors(outputs, sums.magnitudes, targets, roundings, is_precise=self.is_precise)
        return RowTotals(*_sums_over_margins(problem, block, outputs, errors, self.output.alpha[block]), scale)

    def _of_many_margins(self, block: slice, sums: RowSums, scale: float) -> RowTotals:
        """Two classes, by one compiled pass over the margins and five sums, as in ``_of_residuals``."""
        from maxmargin.certificate.margin_loops import KINDS, MarginSamples, judge_margins

        problem, alpha, margins, signs = self.problem, self.output.alpha[block], sums.outputs, self.problem.signs[block]
        np.multiply(margins, signs, out=margins)
        samples = MarginSamples(_read_only(alpha), *each_or_one(problem.C[block], operations(problem.compiled_rows, block)))
        memory = np.empty(KINDS * LANES), np.empty((5, -(-len(alpha) // LANES)))
        counts = judge_margins(margins, sums.magnitudes, samples, problem.loss.is_smooth, self.is_precise, *memory)
        loss, conjugate, gap, error, total = np.add.reduce(memory[1], axis=1).tolist()
        return RowTotals(loss, conjugate, gap, error, scale, total, float(np.sum(alpha * signs)), *counts)

    def _of_residuals(self, block: slice, sums: RowSums, scale: float) -> RowTotals:
        """Regression, by one compiled pass over the residuals and six sums. A sum is made of columns of few samples each, so
        that it goes through fewer roundings than ``PAIRWISE_ROUNDINGS``."""
        problem, rows, prices = self.problem, self.problem.compiled_rows, self.problem.offset_prices
        price = 0.0 if prices is None else prices[block]
        several = problem.C[block], problem.targets[block], price, operations(rows, block)
        totals = residual_totals(problem, sums.outputs, sums.magnitudes, self.output.alpha[block], several, self.is_precise)
        return totals._replace(weights_scale=scale)


def residual_totals(
    problem: LinearProblem,
    outputs: Array,
    magnitudes: Array,
    alpha: Array,
    several: tuple[Array | float, ...],
    is_precise: bool,
) -> RowTotals:
    """The sums of a regression over some samples, without the scale of the weights. ``several`` are C, the targets, the prices
    of the offset and the roundings in an output, each an array or one number for all samples."""
    from maxmargin.certificate.residual_loops import KINDS, ResidualSamples, judge_residuals

    samples = ResidualSamples(_read_only(alpha), *each_or_one(*several))
    pieces: Any = problem.loss.residual_pieces()  # type: ignore[attr-defined]
    memory = np.empty(KINDS * LANES), np.empty((6, -(-len(alpha) // LANES)))
    counts = judge_residuals(outputs, magnitudes, samples, pieces, is_precise, *memory)
    loss, conjugate, gap, error, total, excess = np.add.reduce(memory[1], axis=1).tolist()
    return RowTotals(loss, conjugate, gap, error, 0.0, total, excess, *counts)


def each_or_one(*several: Array | float) -> list[Array]:
    """Arrays of one type, which a loop is compiled for: each with a number for each sample, or with one for all of them, which
    is repeated ``LANES`` times."""
    return [_read_only(_repeated(values)) for values in several]


def _repeated(values: Array | float) -> Array:
    if isinstance(values, float):
        return np.full(LANES, values)
    return np.full(LANES, values[0]) if values.strides == (0,) else values


def _sums_over_margins(
    problem: LinearProblem, block: slice, outputs: Array, errors: Array, alpha: Array
) -> tuple[float, float, float, float]:
    """The first four of ``RowTotals``, of one block of two classes."""
    loss, targets, C = problem.loss, problem.targets[block], problem.C[block]
    return (
        float(C @ loss.value(outputs, targets)),
        float(np.sum(problem.box_of(block).terms(alpha))),
        float(np.sum(loss.gap_terms(outputs, alpha, C, targets))),
        float(np.sum(loss.gap_sensitivity(outputs, alpha, C, errors, targets))),
    )


def _read_only(values: Array) -> Array:
    """A contiguous array that cannot be written to, so that the loop is compiled once."""
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view


def residual_errors(outputs: Array, magnitudes: Array, targets: Array, operations: Array | float, *, is_precise: bool) -> Array:
    """How wrong t_i - f_i can be: by its dot product, and by the rounding of the difference."""
    if is_precise:
        lost = np.square(gamma(operations)) * magnitudes
        return lost + 2.0 * UNIT_ROUNDOFF * (targets + np.abs(outputs)) + 4.0 * operations * SMALLEST
    return gamma(operations) * magnitudes + 2.0 * UNIT_ROUNDOFF * (targets + magnitudes) + operations * SMALLEST


def judge_of_rows(is_sparse: bool, rests: Array | None) -> Any:
    if rests is None:
        from maxmargin.certificate.linear_loops import judge_csr_rows, judge_dense_rows

        return judge_csr_rows if is_sparse else judge_dense_rows
    from maxmargin.certificate.precise_linear_loops import judge_csr_rows_precisely, judge_dense_rows_precisely

    return partial(_judge_precisely, judge_csr_rows_precisely if is_sparse else judge_dense_rows_precisely, rests)


def _judge_precisely(judge_rows: Any, rests: Array, *arguments: Any) -> float:
    scale: float = judge_rows(*arguments, rests)
    return scale


def operations(rows: CsrRows | DenseRows, block: slice) -> Array | float:
    """The roundings in each row's dot product: those of its stored elements and of the intercept."""
    if isinstance(rows, CsrRows):
        counts = np.diff(rows.indptr[block.start : block.stop + 1]).astype(np.float64)
        return np.add(counts, 3.0, out=counts)
    return rows.values.shape[1] + 3.0
