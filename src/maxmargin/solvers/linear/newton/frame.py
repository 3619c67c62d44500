"""The coordinates in which the semismooth Newton method works, and the way back to w.

Targets of a regression are scaled to size one. If the intercept is free, columns far from zero are centred. Columns that
use up the digits of float64 and depend on others are turned (``turned_columns.py``). Few long rows are rotated until there are
as many features as samples (``maxmargin.solvers.presolve``). At the end w may be made a little longer, so that rounding errors
cost less.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.problem.offset import best_offsets
from maxmargin.solvers.linear.newton import policy
from maxmargin.solvers.linear.newton.hessian import Regulariser
from maxmargin.solvers.linear.newton.turned_columns import TurnedColumns
from maxmargin.solvers.presolve import CentredColumns, PresolvePolicy, RotatedRows
from maxmargin.solvers.scaled_targets import ScaledTargets

Reduction = CentredColumns | TurnedColumns | RotatedRows | ScaledTargets


def lengthened(problem: LinearProblem, w: Array) -> Array:
    """w, made a little longer if that lowers a bound on its primal value: by three times the rounding error of a margin, or
    until the least margin is one.

    A support vector's margin is one up to rounding. A rounding error below one costs C_i times the error; above one it costs
    alpha_i times the error. If C is 1e8 and alpha_i is 1, as on separable data, the difference can be the whole objective."""
    error, (margins, sqnorm) = _margin_error(problem, w), (problem.margins(w), problem.sqnorm(w))
    present = problem.C > 0.0
    least, greatest = float(margins[present].min()), float(np.max(error))

    def bound(length: float) -> float:
        return 0.5 * length * length * sqnorm + float(problem.C @ problem.loss.value(length * margins - error))

    lengths = [1.0, 1.0 + 3.0 * greatest]
    if least > 0.5:
        lengths.append(float(np.max(((1.0 + 2.0 * error) / margins)[present])))
    return min(lengths, key=bound) * w


def _margin_error(problem: LinearProblem, w: Array) -> Array | float:
    """A bound on the rounding error of all margins; one for each, where rows of very different lengths make that of all too
    coarse."""
    columns = problem.rows.column_magnitudes()
    offset = abs(float(w[-1])) * problem.intercept_scaling
    roundings = UNIT_ROUNDOFF * (problem.n_weights + 4)
    error = roundings * (float(np.abs(w[: len(columns)]) @ columns) + offset)
    if error <= policy.DEFAULT.coarse_margin:
        return error
    return roundings * (np.asarray(abs(problem.rows.matrix) @ np.abs(w[: len(columns)])) + offset)


def straightened(problem: LinearProblem, w: Array, alpha: Array) -> Array:
    """w, moved by least squares until the residuals of the free samples are at their kinks, if that lowers its primal value.

    A residual that is off its kink by an error of w costs C_i times the error. Where targets are an exact sum of columns, the
    residuals are zero, and the cost of errors in the last digits of w can be a noticeable part of |w|^2 / 2. Beside columns far
    from zero for their spread, margins that should be one are off by 1e-4.

    An alpha that makes good the rounding of others (``dual_mending.py``) is tiny, and its sample is not at a kink."""
    box, tiny = problem.box, policy.DEFAULT.border * float(np.abs(alpha).max())
    free = np.flatnonzero((alpha > box.L + tiny) & (alpha < box.U - tiny) & ((np.abs(alpha) > tiny) | (box.e == 0.0)))
    if len(free) * problem.n_weights > policy.DEFAULT.matrix.most_reflected or not len(free):
        return w
    rows = problem.rows.matrix[free]
    columns = np.array(rows.toarray() if problem.rows.is_sparse else rows, dtype=np.float64)
    if problem.n_weights > columns.shape[1]:
        columns = np.column_stack([columns, np.full(len(free), problem.intercept_scaling)])
    columns *= problem.signs[free, None]
    lengths = np.linalg.norm(columns, axis=0)
    lengths[lengths == 0.0] = 1.0
    kinks, value = problem.targets[free] - box.e * np.sign(alpha[free]), problem.primal(w)
    for _ in range(policy.DEFAULT.refinements):
        missing = kinks - problem.margins(w)[free]
        moved = w + np.linalg.lstsq(columns / lengths, missing, rcond=policy.DEFAULT.border)[0] / lengths
        lower = problem.primal(moved)
        if not lower < value:
            break
        w, value = moved, lower
    return w


def with_best_offset(problem: LinearProblem, w: Array, outputs: Array | None = None) -> Array:
    """w with its best offset, where the offset has a price. If several offsets are equally good, the greatest. ``outputs`` are
    w . x_i if they are known.

    The support vectors on the border have outputs that are equal up to rounding. The offset is raised until all of them are on
    the inner side, whatever the rounding errors of their outputs."""
    w = np.append(w[:-1], 0.0)
    outputs = problem.margins(w) if outputs is None else outputs
    kinks = problem.loss.kinks(outputs, problem.C, problem.targets)  # type: ignore[attr-defined]
    level = kinks.level - float(problem.offset_prices.sum())  # type: ignore[union-attr]
    best = best_offsets(kinks.offsets, kinks.rises, level).middle
    magnitude = _greatest_output(problem, w)
    on_border = kinks.offsets[np.abs(kinks.offsets - best) <= policy.DEFAULT.border * magnitude]
    highest = float(on_border.max(initial=best)) + UNIT_ROUNDOFF * (problem.n_weights + 4) * magnitude
    w[-1] = highest / problem.intercept_scaling
    return w


def _greatest_output(problem: LinearProblem, w: Array) -> float:
    """A bound on the sum of the magnitudes of an output's terms, and so on its rounding errors in units of the last place. In
    columns of very different scales |w| |x| is far above it."""
    lengths = float(np.linalg.norm(w[:-1])) * math.sqrt(float(problem.rows.squared_norms().max()))
    return min(lengths, float(np.abs(w[:-1]) @ problem.rows.column_magnitudes()))


def reduced(problem: LinearProblem) -> list[Reduction]:
    """The reductions that make Newton's matrix smaller or better conditioned: targets of size one in regression, and those of
    ``framed``."""
    if not problem.loss.is_regression:
        return framed(problem, is_careful=True)
    scaled = ScaledTargets.of(problem)
    return [scaled, *framed(scaled.problem, is_careful=True)]


def framed(problem: LinearProblem, is_careful: bool = False) -> list[Reduction]:
    """Centred columns if the intercept is free, wide columns turned that depend on others, and rotation of few long rows. With
    a penalised intercept columns are turned only if ``is_careful``."""
    reductions: list[Reduction] = []
    original = problem
    centred = None if problem.penalizes_intercept or problem.offset_prices is not None else CentredColumns.of(problem)
    if centred is not None:
        reductions.append(centred)
        problem = centred.problem
    turned = TurnedColumns.of(original, centred, is_careful)
    if turned is not None:
        reductions, problem = [turned], turned.problem
    if is_rotated(problem):
        reductions.append(RotatedRows.of(problem))
    return reductions


def regulariser_of(problem: LinearProblem, reductions: list[Reduction]) -> Regulariser:
    shift = None
    if problem.penalizes_intercept and reductions and isinstance(reductions[-1], CentredColumns):
        shift = reductions[-1].centre / problem.intercept_scaling
    return Regulariser(problem.regulariser, shift)


def is_rotated(problem: LinearProblem) -> bool:
    n, n_features = problem.n_samples, problem.rows.n_features
    is_dense = problem.rows.n_stored >= PresolvePolicy.dense_share * n * n_features
    return n < n_features and n * n_features <= policy.DEFAULT.matrix.most_rotated and is_dense
