r"""How far the intercept of an answer can be from that of the exact optimum, where it is free.

The gap bounds the distance of w from w*, not that of b from b*. But b* minimises the sum of the losses for the outputs
:math:`f_i^* = \langle w^*, \phi(x_i) \rangle`, each of which is within a known :math:`\rho_i = |w - w^*| |\phi(x_i)|` of the
:math:`f_i` at hand, and for every convex loss of the margin the slope in b,

.. math:: G(b; f) = \sum_i C_i \sigma_i \ell'(\sigma_i (f_i + b), t_i),

rises with b and with each f_i. So :math:`G(b; f + \rho) < 0` proves b* > b and :math:`G(b; f - \rho) > 0` proves b* < b. With
hinge loss that is the interval of quantiles of docs/screening.md; with the smooth losses two roots are enclosed by bisection.
The optimal offsets may be an interval: what is bounded is the distance to the farthest of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.kernel import BestKinks, KernelVerdict
from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, SMALLEST, gamma, length
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.dual_box import UNIT_ROUNDOFF, Kinks, one_or_all, summed
from maxmargin.problem.kernel import EvenProblem, KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.offset import Interval, offset_interval


def linear_offset_bound(problem: LinearProblem, w: Array, certificate: Certificate, data_error: float = 0.0) -> float:
    """An upper bound on |b - b*|. It is zero where the intercept is absent, or penalised and so a part of w. It takes one pass
    over X, and a second one where the elements of X are only known to a relative ``data_error``. The
    rounding of an output is bounded by |w| |x_i|, which needs no pass of its own."""
    if problem.penalizes_intercept:
        return 0.0
    if not math.isfinite(certificate.distance_bound):
        return math.inf
    with np.errstate(all="ignore"):
        rows, weights = problem.rows, w[: problem.rows.n_features]
        roundings = float(rows.longest) + 8.0
        lengths = np.sqrt(_squares(rows) + roundings * SMALLEST) * (1.0 + gamma(roundings))
        rounding = gamma(roundings) * float(np.linalg.norm(weights)) * (1.0 + gamma(len(weights) + 8.0))
        reach = (certificate.distance_bound * (1.0 + data_error) + rounding) * lengths + roundings * SMALLEST
        if data_error:
            reach += data_error * (np.abs(rows.matrix) @ np.abs(weights))
        b = float(w[-1]) * problem.intercept_scaling
        return _bound(problem, np.asarray(rows.matrix @ weights), reach * OUTWARDS, b)


def _squares(rows: Rows) -> Array:
    """|x_i|^2. Few dense rows do without the compiled loop, which a first fit may not need otherwise."""
    if rows.is_sparse or rows.n_stored > policy.INTERCEPT.few_elements:
        return rows.squared_norms()
    X = rows.dense().astype(np.float64, copy=False)
    return np.asarray(np.einsum("ij,ij->i", X, X))


def priced_offset_bound(problem: LinearProblem, w: Array, certificate: Certificate, margins: Array, squares: Array) -> float:
    """``linear_offset_bound`` where the offset has a price, from the outputs with their offset and from |x_i|^2, both of which
    the certificate has computed.

    Optimal offsets are quantiles of kinks. The offset at hand is one, so that kinks are taken from there: all that matter are
    near zero. With R the greatest distance of a kink from the optimal one, a kink beyond F on either side stays beyond F - R if
    it is moved inwards, and beyond F if outwards. The quantile of kinks that are all moved down is that of the kinks within F,
    if it is found between -F and F - R, and of those moved up if between R - F and F; 0.1 R is left to spare. F is 1.2 R first:
    a quantile moves by R at most, so that those of an offset on a kink are found. Where no sample is free, the offset is in the
    middle between two kinks, and F is 1.5 R more than the farther one."""
    if not math.isfinite(certificate.distance_bound):
        return math.inf
    if problem.loss.is_smooth or _has_several_kinks(problem):
        return linear_offset_bound(problem, w, certificate)
    with np.errstate(all="ignore"):
        roundings, b = float(problem.rows.longest) + 8.0, float(w[-1]) * problem.intercept_scaling
        size = length(w[:-1]) * (1.0 + gamma(len(w) + 8.0))
        steepness = (certificate.distance_bound + gamma(roundings) * size) * (1.0 + gamma(roundings)) * OUTWARDS
        flat = (gamma(roundings) * abs(b) + roundings * SMALLEST) * OUTWARDS
        reach = steepness * math.sqrt(float(squares.max()) + roundings * SMALLEST) * OUTWARDS + flat
        reaches = _Reaches(steepness, flat, roundings * SMALLEST, reach)
        for far in _distances(problem, margins, reach):
            interval = _interval_within(problem, margins, squares, reaches, far)
            near, wide = far - 1.1 * reach, far - 0.1 * reach
            if -wide <= interval.low <= near and -near <= interval.high <= wide:
                break
    return farthest_of(interval, 0.0) * OUTWARDS


def _has_several_kinks(problem: LinearProblem) -> bool:
    """Whether the loss of a sample bends at several residuals, and not at zero alone."""
    found: Kinks = problem.loss.kinks(np.zeros(1), problem.C[:1], np.zeros(1))  # type: ignore[attr-defined]
    return len(found.offsets) != 1


def _distances(problem: LinearProblem, margins: Array, reach: float) -> Iterator[float]:
    """The distances from the offset at hand within which kinks are looked for, one after the other."""
    yield 1.2 * reach
    shifted = margins - one_or_all(problem.targets)
    above, below = np.where(shifted > 0.0, shifted, math.inf), np.where(shifted > 0.0, math.inf, -shifted)
    yield 1.5 * reach + max(float(above.min()), float(below.min()))
    yield math.inf


class _Reaches(NamedTuple):
    """How far a kink can be from the optimal one: ``steepness`` sqrt(|x_i|^2 + ``least``) + ``flat``, and at most
    ``greatest``."""

    steepness: float
    flat: float
    least: float
    greatest: float


def _interval_within(problem: LinearProblem, margins: Array, squares: Array, reaches: _Reaches, far: float) -> Interval:
    """The interval of quantiles of all kinks, taken from the offset at hand, if it is found among the kinks within ``far``: the
    others count by their weight alone. A kink is at t - f."""
    assert problem.offset_prices is not None
    targets, C, n = one_or_all(problem.targets), problem.C, problem.n_samples
    shifted = margins - targets if targets.any() else margins
    is_below = shifted > far
    near = np.flatnonzero(~is_below & (shifted >= -far))  # np.abs would take memory for another number a sample
    kinks = problem.targets[near] - margins[near]
    greatest = max(float(kinks.max(initial=0.0)), -float(kinks.min(initial=0.0)))
    own = reaches.steepness * np.sqrt(squares[near] + reaches.least) + reaches.flat
    moved = own + 2.0 * UNIT_ROUNDOFF * (greatest + reaches.greatest)
    below = float(C[0]) * np.count_nonzero(is_below) if C.strides == (0,) else float(C[is_below].sum())
    total = summed(C)
    level = total - summed(problem.offset_prices)
    slack = 4.0 * UNIT_ROUNDOFF * (n + 1.0) * (total + abs(level))
    costs = C[: len(near)] if C.strides == (0,) else C[near]
    return offset_interval(kinks, costs, level - below, moved, slack)


def kernel_offset_bound(problem: KernelProblem, verdict: KernelVerdict) -> float:
    """An upper bound on |b - b*|: zero without an offset, and infinite where the kernel is not positive semidefinite."""
    if not problem.has_offset:
        return 0.0
    if not (problem.kernel.is_positive_semidefinite and math.isfinite(verdict.certificate.distance_bound)):
        return math.inf
    if verdict.kinks is not None and problem.even is not None:
        return farthest_of(_even_interval(problem.even, verdict, verdict.kinks, problem.kernel.is_gaussian), verdict.b)
    with np.errstate(all="ignore"):
        entry_error = problem.held.error if problem.held else problem.kernel.rounding_error(problem.points, problem.points)
        squares = _one_or_all(problem.diagonal) + entry_error
        lengths = (math.sqrt(squares) if isinstance(squares, float) else np.sqrt(np.maximum(squares, 0.0))) * OUTWARDS
        reaches = verdict.certificate.distance_bound * lengths + _one_or_all(verdict.output_errors)
        return _bound(problem, verdict.outputs, reaches, verdict.b)


def _even_interval(even: EvenProblem, verdict: KernelVerdict, kinks: BestKinks, is_uniform: bool) -> Interval:
    """``offsets_within`` where the certificate has found the kinks. ``is_uniform``: no value of the kernel is greater than one,
    and one bound serves all outputs."""
    distance = verdict.certificate.distance_bound * (1.0 + even.bounds.share) * OUTWARDS
    if is_uniform:
        return between(kinks, distance + float(verdict.output_errors[0]))
    from maxmargin.problem.kernel_loops import even_offsets

    moved = moved_kinks(distance * even.bounds.lengths + verdict.output_errors, kinks.greatest)
    if not math.isfinite(float(moved.max())):
        return Interval(-math.inf, math.inf)
    return Interval(*even_offsets(verdict.outputs, even.signs, moved, np.empty(len(moved))))


def moved_kinks(reaches: Array, greatest: Array | float) -> Array:
    """How far each kink can be from the optimal one: the reach of its output, and the rounding of the kink, which is at most
    ``greatest`` in magnitude."""
    return reaches * OUTWARDS + 4.0 * UNIT_ROUNDOFF * (greatest + reaches)


def between(kinks: BestKinks, reach: float) -> Interval:
    """``offsets_within`` where the kinks on both sides of the best offset are known. Optimal offsets are quantiles of kinks,
    and each kink is within ``reach`` of the optimal one, beside its own rounding."""
    moved = reach + 2.0 * UNIT_ROUNDOFF * (kinks.greatest + reach)
    return Interval(kinks.low - moved, kinks.high + moved)


def _one_or_all(numbers: Array) -> Array | float:
    """One number where it is the same for all samples."""
    return float(numbers[0]) if numbers.strides == (0,) else numbers


def _bound(problem: LinearProblem | KernelProblem, outputs: Array, reach: Array | float, b: float) -> float:
    return farthest_of(offsets_within(problem, outputs, reach, b), b)


def farthest_of(interval: Interval, b: float) -> float:
    farthest = max(interval.high - b, b - interval.low)
    return float(farthest + 4.0 * UNIT_ROUNDOFF * (farthest + abs(b))) if math.isfinite(farthest) else math.inf


def offsets_within(problem: LinearProblem | KernelProblem, outputs: Array, reach: Array | float, b: float) -> Interval:
    """An interval that holds every optimal offset, if each optimal output is within ``reach`` of the given one."""
    if not (math.isfinite(float(outputs.sum())) and _are_finite(reach)):
        return Interval(-math.inf, math.inf)
    if not problem.loss.is_smooth:
        kinks = _kinks(problem, outputs)
        greatest = max(float(kinks.offsets.max(initial=0.0)), -float(kinks.offsets.min(initial=0.0)))
        moved = reach + 2.0 * UNIT_ROUNDOFF * (greatest + reach)
        if not isinstance(moved, float) and len(kinks.offsets) > len(moved):
            moved = np.tile(moved, len(kinks.offsets) // len(moved))  # several kinks a sample
        return offset_interval(kinks.offsets, kinks.rises, kinks.level, moved)
    sigma, t, C, loss = problem.signs, problem.targets, problem.C, problem.loss
    steepest = loss.steepness()  # type: ignore[attr-defined]

    def sign(b: float, f: Array) -> int:
        """The sign of G(b; f) with a smooth loss; 0 where rounding hides it."""
        slopes = loss.slope(sigma * (f + b), t)
        slope = -float(np.sum(sigma * C * slopes))
        scale = float(np.sum(C * (steepest * (np.abs(t) + np.abs(f) + abs(b)) + np.abs(slopes))))
        return 0 if abs(slope) <= gamma(PAIRWISE_ROUNDINGS + 8.0) * scale else (1 if slope > 0.0 else -1)

    step = float(np.mean(reach)) + UNIT_ROUNDOFF * (1.0 + abs(b))
    low = b - _reach_of_sign(lambda distance: sign(b - distance, outputs + reach) < 0, step)
    high = b + _reach_of_sign(lambda distance: sign(b + distance, outputs - reach) > 0, step)
    return Interval(low, high)


def _are_finite(reach: Array | float) -> bool:
    return math.isfinite(reach) if isinstance(reach, float) else bool(np.isfinite(reach).all())


def _kinks(problem: LinearProblem | KernelProblem, outputs: Array) -> Kinks:
    """The offsets at which a piecewise linear loss bends."""
    if problem.loss.is_regression:
        found: Kinks = problem.loss.kinks(outputs, problem.C, problem.y)  # type: ignore[attr-defined]
        prices = getattr(problem, "offset_prices", None)
        return found if prices is None else found._replace(level=found.level - float(prices.sum()))
    is_positive, C = problem.y > 0, problem.C
    level = float(np.count_nonzero(is_positive) * C[0] if C.strides == (0,) else C[is_positive].sum())
    return Kinks(problem.signs - outputs, C, level)


def _reach_of_sign(holds: Callable[[float], bool], step: float) -> float:
    """A distance at which the condition holds. The condition must hold from some distance on; the answer is near the least one,
    or infinite where none is found."""
    far = step
    for _ in range(policy.PREDICTIONS.most_doublings):
        if holds(far):
            break
        far *= 2.0
    else:
        return math.inf
    near = 0.5 * far if far > step else 0.0
    for _ in range(policy.PREDICTIONS.most_halvings):
        if far - near <= policy.PREDICTIONS.sharpness * far:
            break
        middle = 0.5 * (near + far)
        near, far = (near, middle) if holds(middle) else (middle, far)
    return far
