r"""Rows that are settled, and a problem in memory of the rows that are not.

With :math:`|w - w^*| \le r`, the distance of a certificate, a sample whose residual is farther than :math:`r |x_i|` from a kink
of the loss is on the same piece of the loss at the optimum: its :math:`\alpha_i` is *proved* (safe screening). Where the loss
is linear on that piece, all such samples of one class are together one sample: the mean of their rows, weighted by their costs,
whose cost is the sum. So proved rows are taken out for good, and what is left is a problem of its own with one row or two more:
an ordinary :class:`maxmargin.LinearProblem`, for an ordinary solver.

Where the rows that are not proved do not fit in memory, those nearest to a kink are kept, and the others are taken to stay on
their piece. That is not a proof. The certificate over all rows then says how wrong it was, and the next round begins from
there."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.certificate.linear_sums import PartSums, part_sums
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.dual_box import Loss
from maxmargin.problem.linear import LinearProblem
from maxmargin.scale_out.passes import Framing, Part

LEAST_POWER, MOST_POWER, BINS_A_POWER = -40, 30, 4
"""The bins of a survey: distances to a kink, in units of |x|, from 2^-40 to 2^30, four bins for each power of two."""
ROW_OVERHEAD = 96
"""Bytes that a solver in memory keeps for each row, besides its elements: alpha, its bounds, its place, its margin."""


class Nearness(NamedTuple):
    """For each sample: the alpha that answers w, and the distance of its residual to the nearest kink in units of |x|; zero
    where the sample cannot be settled."""

    answer: Array
    distance: Array


def nearness(problem: LinearProblem, margins: Array, alpha: Array | None, norms: Array) -> Nearness:
    """``alpha``, if given, must be the answer already for a sample to be settled. ``norms`` are the |x_i|."""
    loss, box = problem.loss, problem.box
    answer = np.clip(problem.C * loss.slope(margins, problem.targets), box.L, box.U)
    residuals = kink_distance(loss, problem.targets - margins)
    distance = np.divide(residuals, norms, out=np.full(len(norms), math.inf), where=norms > 0.0)
    if loss.is_smooth:
        distance[answer != 0.0] = 0.0  # on its curved piece
    if alpha is not None:
        distance[alpha != answer] = 0.0
    distance[problem.C == 0.0] = math.inf
    return Nearness(answer, distance)


def kink_distance(loss: Loss, residual: Array) -> Array:
    """How far a residual is from the nearest kink of the loss."""
    if not loss.is_regression:
        return np.abs(residual)
    epsilon = loss.residual_pieces().epsilon  # type: ignore[attr-defined]
    return np.minimum(np.abs(residual - epsilon), np.abs(residual + epsilon))


class Distances(NamedTuple):
    """How many bytes of rows are in each bin of distances to a kink; the same for what the samples that can move are wrong by,
    in units of |x|; the number of these samples, and the sum of the squares of that."""

    bytes_at: Array
    wrong_bytes_at: Array
    n_moving: int
    squares: float

    def plus(self, other: Distances) -> Distances:
        bins = self.bytes_at + other.bytes_at, self.wrong_bytes_at + other.wrong_bytes_at
        return Distances(*bins, self.n_moving + other.n_moving, self.squares + other.squares)

    @property
    def violation(self) -> float:
        """The root of the mean of those squares."""
        return math.sqrt(self.squares / self.n_moving) if self.n_moving else 0.0

    @property
    def n_bytes(self) -> float:
        """What all rows take."""
        return float(self.bytes_at.sum())

    def bytes_within(self, reach: float) -> float:
        """What the rows up to a distance take, rounded up to a bin."""
        return float(self.bytes_at[edges_of_bins() <= reach].sum())

    def keep(self, room_bytes: float) -> float:
        """The least violation from which on all rows fit in the room."""
        fits = np.flatnonzero(np.cumsum(self.wrong_bytes_at[::-1]) > room_bytes)
        return 0.0 if len(fits) == 0 else float(edges_of_bins()[-1 - fits[0]])

    def reach(self, room_bytes: float) -> float:
        """The greatest distance up to which all rows fit in the room; zero if not even those fit that cannot be settled, and
        infinity if all rows do."""
        fits = np.flatnonzero(np.cumsum(self.bytes_at) > room_bytes)
        if len(fits) == 0:
            return math.inf
        return 0.0 if fits[0] == 0 else float(2.0 ** (LEAST_POWER + (fits[0] - 1) / BINS_A_POWER))


class Recalled(NamedTuple):
    """What samples remember of their last visits, without a look at their rows: distances, and the sum of their gap terms."""

    distances: Distances
    gap: float


def recalled(distance: Array, gaps: Array, n_bytes: Array) -> Recalled:
    """``distance`` as samples remember it: minus what they are wrong by, where they can move."""
    distance = distance.astype(np.float64)
    moving = np.flatnonzero(distance <= 0.0)
    wrong = -distance[moving]
    bins = binned(np.maximum(distance, 0.0), n_bytes), binned(wrong, n_bytes[moving])
    return Recalled(Distances(*bins, len(moving), float(np.sum(np.square(wrong)))), float(np.sum(gaps, dtype=np.float64)))


class Survey(NamedTuple):
    """The sums of a certificate, and how far rows are from a kink."""

    sums: PartSums
    distances: Distances

    def plus(self, other: Survey) -> Survey:
        return Survey(self.sums.plus(other.sums), self.distances.plus(other.distances))


def survey_part(part: Part, w: Array, uses_alpha: bool) -> Survey:
    """The task: judge, and look how many rows are near a kink."""
    problem, alpha = part.problem, part.memory.alpha
    margins = np.empty(problem.n_samples)
    sums = part_sums(problem, w, alpha, margins=margins)
    return Survey(sums, distances_of(problem, margins, alpha if uses_alpha else None)[1])


def distances_of(
    problem: LinearProblem, margins: Array, alpha: Array | None, norms: Array | None = None
) -> tuple[Array, Distances]:
    """The distance of each sample, or minus what it is wrong by where it can move; and all of them in bins. ``norms`` are the
    |x_i|, where they are known."""
    norms = norms_of(problem) if norms is None else norms.astype(np.float64)
    distance = nearness(problem, margins, alpha, norms).distance
    moving, n_bytes = np.flatnonzero(distance == 0.0), row_bytes(problem.rows)
    bins, wrong = binned(distance, n_bytes), np.zeros(0)
    if alpha is not None:
        residuals = kink_distance(problem.loss, problem.targets - margins - problem.box.D * alpha)[moving]
        wrong = residuals / norms[moving]
        distance[moving] = -wrong
    return distance, Distances(bins, binned(wrong, n_bytes[moving]), len(moving), float(np.sum(np.square(wrong))))


def binned(distances: Array, n_bytes: Array) -> Array:
    """Bytes in each bin. The first is for zero."""
    n_bins = len(edges_of_bins())
    with np.errstate(divide="ignore"):
        bins = np.ceil((np.log2(distances) - LEAST_POWER) * BINS_A_POWER)
    bins = np.clip(np.nan_to_num(bins, neginf=0.0, posinf=n_bins - 1.0) + 1.0, 0, n_bins - 1)
    bins[distances == 0.0] = 0
    return np.bincount(bins.astype(np.intp), n_bytes[: len(bins)], n_bins)


def edges_of_bins() -> Array:
    """The greatest distance in each bin but the last."""
    edges: Array = 2.0 ** (LEAST_POWER + np.arange(-1, (MOST_POWER - LEAST_POWER) * BINS_A_POWER + 1) / BINS_A_POWER)
    return edges


def norms_of(problem: LinearProblem) -> Array:
    norms: Array = np.sqrt(problem.rows.squared_norms(problem.intercept_scaling))
    return norms


def row_bytes(rows: Rows) -> Array:
    """What each row takes in memory."""
    if not rows.is_sparse:
        return np.full(rows.n_samples, rows.n_features * rows.matrix.itemsize + ROW_OVERHEAD, dtype=np.float64)
    return np.diff(rows.matrix.indptr) * (4.0 + rows.matrix.data.itemsize) + ROW_OVERHEAD


class Merged(NamedTuple):
    """The settled samples whose alpha is not zero, in two groups: the positive class and the negative one, or in regression
    those above the tube and those below. Sums over each of C_i, C_i x_i and C_i y_i."""

    costs: Array
    rows: Array
    targets: Array

    def plus(self, other: Merged) -> Merged:
        return Merged(*(a + b for a, b in zip(self, other, strict=True)))


class Chosen(NamedTuple):
    """Rows of one partition: its number, their places in it, and what a problem needs of them."""

    number: int
    places: Array
    X: Any
    y: Array
    C: Array
    alpha: Array


class Remainder(NamedTuple):
    """The rows that are not settled, from several partitions, and the settled ones as two."""

    chosen: list[Chosen]
    merged: Merged

    def plus(self, other: Remainder) -> Remainder:
        return Remainder(self.chosen + other.chosen, self.merged.plus(other.merged))

    def problem(self, framing: Framing) -> tuple[LinearProblem, Array]:
        """The problem of the rows that are left, and the alpha that it may start from. The chosen rows are given up, as the
        problem has copies of them."""
        used = np.flatnonzero(self.merged.costs > 0.0)
        merged = np.broadcast_to(self.merged.rows, (2, framing.n_features))[used] / self.merged.costs[used, None]
        is_sparse = bool(self.chosen) and sparse.issparse(self.chosen[0].X)
        X = _stacked([each.X for each in self.chosen], merged, is_sparse)
        if framing.positive is None:
            ends: Array = self.merged.targets[used] / self.merged.costs[used]
        else:
            ends = np.array([1, -1], dtype=np.int8)[used]
        y = np.concatenate([*(each.y for each in self.chosen), ends])
        C = np.concatenate([*(each.C for each in self.chosen), self.merged.costs[used]])
        problem = LinearProblem(Rows.from_matrix(X, check=False), y, C, framing.loss, framing.intercept_scaling)
        bounds = [problem.box.U[-len(used) :], problem.box.L[-len(used) :]] if len(used) else [np.empty(0), np.empty(0)]
        at_bound = np.where((used == 0) | (framing.positive is not None), *bounds)
        return problem, np.concatenate([*(each.alpha for each in self.chosen), at_bound])


def _stacked(parts: list[Any], merged: Array, is_sparse: bool) -> Any:
    if is_sparse:
        last = sparse.csr_matrix(merged.astype(parts[0].dtype))
        return sparse.vstack([*parts, last], format="csr")
    dtype = parts[0].dtype if parts else np.float64
    return np.concatenate([*parts, merged.astype(dtype)])


def settle_part(part: Part, w: Array, reach: float, uses_alpha: bool) -> Remainder:
    """The task: settle the samples farther than ``reach`` from a kink, and take the others along."""
    problem, memory = part.problem, part.memory
    near = nearness(problem, problem.margins(w), memory.alpha if uses_alpha else None, norms_of(problem))
    is_settled = near.distance > reach
    memory.alpha = np.where(is_settled, near.answer, memory.alpha if uses_alpha else near.answer)
    places = np.flatnonzero(~is_settled)
    matrix = problem.rows.matrix
    chosen = Chosen(
        part.number, places, matrix[places], np.array(problem.y[places]), np.array(problem.C[places]), memory.alpha[places]
    )
    return Remainder([chosen] if len(places) else [], _merged(problem, np.where(is_settled, near.answer, 0.0)))


def _merged(problem: LinearProblem, alpha: Array) -> Merged:
    """The groups of the settled samples with an alpha that is not zero: all of these are at a bound."""
    first = (problem.signs > 0) & (alpha > 0.0)
    second = (alpha < 0.0) if problem.loss.is_regression else (problem.signs < 0) & (alpha > 0.0)
    costs = np.stack([np.where(first, problem.C, 0.0), np.where(second, problem.C, 0.0)])
    rows = np.asarray((problem.rows.matrix.T @ costs.T).T)
    return Merged(costs.sum(axis=1), rows, costs @ problem.y.astype(np.float64))


def _nothing_merged() -> Merged:
    """No rows, for any number of features: with many features two rows of zeros would be a long message."""
    return Merged(np.zeros(2), np.zeros((2, 1)), np.zeros(2))


def sample_part(part: Part, share: float, seed: int) -> Remainder:
    """The task: a random share of the rows, each as heavy as all that it stands for."""
    problem = part.problem
    random = np.random.default_rng([seed, part.number])
    places = np.flatnonzero(random.random(problem.n_samples) < share)
    chosen = Chosen(
        part.number,
        places,
        problem.rows.matrix[places],
        np.array(problem.y[places]),
        np.array(problem.C[places]) / share,
        np.zeros(len(places)),
    )
    return Remainder([chosen] if len(places) else [], _nothing_merged())
