r"""Exact reductions of a sparse linear problem to a smaller or faster one, and the way back.

**Equal rows are merged.** Samples with the same x and y are one sample whose C is the sum; its alpha is shared out in
proportion to their C.

**Features are renumbered** by falling frequency, so that the part of w that is used most lies together in the near caches.

**A feature that occurs in one row only is folded into the diagonal.** It touches no other row, and :math:`w_j = \alpha_i
y_i x_{ij}`, so in row i's gradient it is :math:`\alpha_i x_{ij}^2`: exactly what :math:`D_{ii}` is. The column is dropped,
the square added to :math:`D_{ii}`, and :math:`w_j` recovered at the end.

**Columns are centred** if there is an intercept: w stays, and b moves by w . c. Without centring, the differences within a
column of seconds since 1970 would be lost beside its mean. (The penalty on an intercept then couples it with w: see
``maxmargin.solvers.linear.newton.newton``.)

**Few long rows are rotated.** With fewer samples than features X = L Q, L square and the rows of Q orthonormal, so w = Q' v has
the margins L v and |w| = |v|: as many weights as samples.

Each reduction costs several passes over X and a copy of the reduced X, so it pays off only before a long run. The certificate
never uses a reduction: it is computed on the original data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array, CsrRows, DenseRows, Rows
from maxmargin.data.threads import Crew
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import DualBox
from maxmargin.solvers import presolve_loops as compiled


@dataclass(frozen=True)
class PresolvePolicy:
    """When a reduction is worth its cost."""

    most_counted: int = 1 << 16
    """Occurrences up to which features are sorted by frequency. The order among more frequent features does not matter: all of
    them stay in the near caches."""
    dense_share: float = 0.3
    """A sparse X is made dense if it stores at least this share of its elements: the copy is then at most three times as
    large."""
    far_from_zero: float = 10.0
    """A column is centred if its mean is at least this many standard deviations from zero. The condition number of the Hessian
    grows with the square of that ratio."""
    coarse_centre: float = 0.1
    """Standard deviations to which a centre is rounded, at most."""
    long_column: float = 1e6
    """How many times as great as the median of all columns a column is that is not rotated with the others: a millionth of the
    digits of a weight. An estimate, not measured."""
    few_elements: int = 1 << 18
    """Stored elements up to which equal rows are found without compiled code: the search takes milliseconds, compiling takes
    half a second."""


DEFAULT = PresolvePolicy()
MIXER = np.uint64(0xFF51AFD7ED558CCD)
"""An odd number whose bits look random: products with it spread equal bits over a word."""


@dataclass(frozen=True, eq=False)
class FoldedProblem(LinearProblem):
    """The dual of a problem with some features folded into the diagonal. Its w lacks the weights of these features."""

    folded: Array = field(default_factory=lambda: np.empty(0))

    @cached_property
    def box(self) -> DualBox:
        box = self.loss.dual(self.C, self.targets)
        return box._replace(D=box.D + self.folded)


@dataclass(frozen=True, eq=False)
class RenumberedColumns:
    """A sparse problem with its features in another order and without those that occur once or never."""

    original: LinearProblem
    problem: FoldedProblem
    numbers: Array
    crew: Crew
    w: Array

    @classmethod
    def of(cls, problem: LinearProblem, in_single: bool = False, policy: PresolvePolicy = DEFAULT) -> RenumberedColumns:
        """``in_single`` keeps the values in float32: less memory, faster steps, and a problem that is equal only up to that
        rounding."""
        rows, n = problem.compiled_rows, problem.n_samples
        crew = Crew(problem.rows.n_stored)
        counts, numbers = np.zeros(problem.rows.n_features, np.uint32), np.empty(problem.rows.n_features, np.uint32)
        compiled.count_features(rows, counts)
        n_left = compiled.number_by_frequency(counts, numbers, policy.most_counted)
        indptr = np.zeros(n + 1, np.int64)
        crew.share(n, lambda _, *part: compiled.kept_lengths(rows, numbers, indptr[1:], *part))
        np.cumsum(indptr, out=indptr)
        values, indices = np.empty(indptr[-1], np.float32 if in_single else rows.values.dtype), np.empty(indptr[-1], np.uint32)
        renumbered = compiled.Renumbered(values, indices, indptr, folded=np.empty(n))
        crew.share(n, lambda _, *part: compiled.renumber(rows, numbers, renumbered, *part))
        matrix = sparse.csr_array((n, max(1, n_left)), dtype=values.dtype)
        matrix.data, matrix.indices, matrix.indptr = values, indices.view(np.int32), indptr
        reduced = FoldedProblem(
            Rows(matrix),
            problem.y,
            problem.C,
            problem.loss,
            problem.intercept_scaling,
            problem.penalizes_intercept,
            renumbered.folded,
        )
        return cls(problem, reduced, numbers, crew, np.zeros(problem.n_weights))

    def reduce(self, alpha: Array) -> Array:
        return alpha

    def expand(self, w: Array, alpha: Array) -> tuple[Array, Array]:
        """The w of the original problem and alpha unchanged. The next call overwrites w."""
        n_features = self.original.rows.n_features
        compiled.spread(np.ascontiguousarray(w), self.numbers, self.w)
        self.w[n_features:] = w[self.problem.rows.n_features :]
        scales, rows = alpha * self.original.signs, self.original.compiled_rows
        self.crew.share(len(alpha), lambda _, *part: compiled.unfold(rows, self.numbers, scales, self.w, *part))
        return self.w, alpha


@dataclass(frozen=True, eq=False)
class CentredColumns:
    """A problem with an intercept whose columns have about the mean zero, in a dense copy. The penalty is that of the original.

    A centre is a round number, so that x - centre is exact where a column is far from zero for its spread: its values have no
    finer digits than the centre. A rounding error of x - centre, times alpha, would be lost in w(alpha)."""

    original: LinearProblem
    problem: LinearProblem
    centre: Array

    @classmethod
    def of(cls, problem: LinearProblem, policy: PresolvePolicy = DEFAULT) -> CentredColumns | None:
        """None if the copy would be much larger than X, or if no column has a mean far from zero for its spread."""
        n_elements = problem.n_samples * problem.rows.n_features
        if problem.intercept_scaling == 0.0 or problem.rows.n_stored < policy.dense_share * n_elements:
            return None
        X = problem.rows.dense()
        centre, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
        if not np.any(np.abs(centre) > policy.far_from_zero * spread):
            return None
        centre = exact_centre(centre, spread, policy)
        return cls(problem, replace(problem, rows=Rows(X - centre)), centre)

    def reduce(self, alpha: Array) -> Array:
        return alpha

    def expand(self, w: Array, alpha: Array) -> tuple[Array, Array]:
        shifted = w.copy()
        shift = np.sum(w[:-1] * self.centre, dtype=np.longdouble) / self.original.intercept_scaling
        shifted[-1] = float(w[-1] - shift)
        return shifted, alpha


def exact_centre(means: Array, spreads: Array, policy: PresolvePolicy = DEFAULT) -> Array:
    """The means as multiples of powers of two, about a tenth of the spreads. A spread of zero, or one that has overflowed,
    rounds nothing."""
    steps = policy.coarse_centre * spreads
    is_step = (steps > 0.0) & np.isfinite(steps)
    units = np.exp2(np.floor(np.log2(np.where(is_step, steps, 1.0))))
    return np.where(is_step, np.round(means / units) * units, means)


@dataclass(frozen=True, eq=False)
class RotatedRows:
    """A problem with about as many features as it has samples, for one with more. Columns that are far longer than most are
    kept as they are: w has a small weight there, and a rotation would make that as wrong as the greatest."""

    original: LinearProblem
    problem: LinearProblem
    axes: Array
    kept: Array
    rotated: Array

    @classmethod
    def of(cls, problem: LinearProblem) -> RotatedRows:
        """X' = Q' L' by Householder's reflections, whose rounding is relative to the length of each row. The constant feature
        of a penalised intercept is rotated like the others."""
        columns = problem.rows.dense().T.astype(np.float64, copy=False)
        scaling = problem.intercept_scaling
        if problem.penalizes_intercept and scaling != 0.0:
            columns, scaling = np.vstack([columns, np.full(problem.n_samples, scaling)]), 0.0
        greatest = np.abs(columns).max(axis=1)
        is_kept = greatest > PresolvePolicy.long_column * np.median(greatest)
        kept, rotated = np.flatnonzero(is_kept), np.flatnonzero(~is_kept)
        axes, triangle = np.linalg.qr(columns[rotated] if len(kept) else columns)
        features = np.vstack([columns[kept], triangle]) if len(kept) else triangle
        rows = Rows(np.ascontiguousarray(features.T))
        return cls(problem, replace(problem, rows=rows, intercept_scaling=scaling), axes, kept, rotated)

    def reduce(self, alpha: Array) -> Array:
        return alpha

    def expand(self, w: Array, alpha: Array) -> tuple[Array, Array]:
        n, n_kept = self.problem.rows.n_features, len(self.kept)
        features = np.empty(n_kept + len(self.rotated))
        features[self.kept], features[self.rotated] = w[:n_kept], self.axes @ w[n_kept:n]
        return np.concatenate([features, w[n:]]), alpha


class Merging(NamedTuple):
    """Sets of samples with equal x and y: for each sample its set and its share in the set's C, for each set its C and its
    first sample."""

    group: Array
    share: Array
    C: Array
    first: Array

    @classmethod
    def of(cls, rows: DenseRows | CsrRows, y: Array, C: Array, least_saving: float) -> Merging | None:
        """None when fewer than this share of the samples would go."""
        n = len(y)
        group, n_groups = equal_rows(rows, y)
        if n_groups > (1.0 - least_saving) * n:
            return None
        first = np.empty(n_groups, np.intp)
        first[group[::-1]] = np.arange(n)[::-1]
        return cls.of_groups(group, C, first)

    @classmethod
    def of_groups(cls, group: Array, C: Array, first: Array) -> Merging:
        """The merging from the sets, whatever the costs are."""
        sums = np.bincount(group, C, len(first))
        with np.errstate(invalid="ignore"):
            share = np.where(C > 0.0, C / sums[group], 0.0)
        return cls(group, share, sums, first)

    def reduce(self, alpha: Array) -> Array:
        return np.bincount(self.group, alpha, len(self.C))

    def expand(self, alpha: Array, most: Array) -> Array:
        """Each set's alpha shared out; none gets more than its bound by rounding."""
        return np.minimum(alpha[self.group] * self.share, most)


@dataclass(frozen=True, eq=False)
class MergedRows:
    """A problem with one sample for each set of equal ones."""

    original: LinearProblem
    problem: LinearProblem
    merging: Merging

    @classmethod
    def of(cls, problem: LinearProblem, least_saving: float) -> MergedRows | None:
        """None when fewer than this share of the samples would go."""
        merging = Merging.of(problem.compiled_rows, problem.y, problem.C, least_saving)
        if merging is None:
            return None
        rows = Rows(problem.rows.matrix[merging.first])
        settings = problem.loss, problem.intercept_scaling, problem.penalizes_intercept
        return cls(problem, LinearProblem(rows, problem.y[merging.first], merging.C, *settings), merging)

    def with_costs(self, problem: LinearProblem) -> MergedRows:
        """The same sets for the same samples at the costs of ``problem``."""
        merging = Merging.of_groups(self.merging.group, problem.C, self.merging.first)
        return MergedRows(problem, replace(self.problem, C=merging.C), merging)

    def reduce(self, alpha: Array) -> Array:
        return self.merging.reduce(alpha)

    def expand(self, w: Array, alpha: Array) -> tuple[Array, Array]:
        return w, self.merging.expand(alpha, self.original.box.U)


@dataclass(frozen=True, eq=False)
class MergedSamples:
    """A kernel problem with one sample for each set of equal ones."""

    original: KernelProblem
    problem: KernelProblem
    merging: Merging

    @classmethod
    def of(cls, problem: KernelProblem, least_saving: float) -> MergedSamples | None:
        """None when fewer than this share of the samples would go, or X is dense, or the rows of X are not the samples. Samples
        with equal targets are rare in regression: there none are merged."""
        if not problem.rows.is_sparse or problem.kernel.is_given or problem.loss.is_regression:
            return None
        merging = Merging.of(problem.rows.compiled(), problem.y, problem.C, least_saving)
        if merging is None:
            return None
        rows, y = Rows(problem.rows.matrix[merging.first]), problem.y[merging.first]
        return cls(problem, KernelProblem(rows, y, merging.C, problem.kernel, problem.has_offset), merging)

    def reduce(self, alpha: Array) -> Array:
        return self.merging.reduce(alpha)

    def expand(self, alpha: Array) -> Array:
        """alpha for the original samples. With an offset sum_i alpha_i y_i is off by rounding."""
        return self.merging.expand(alpha, self.original.C)

    def reduce_outputs(self, outputs: Array) -> Array:
        return outputs[self.merging.first]


def equal_rows(rows: DenseRows | CsrRows, y: Array) -> tuple[Array, int]:
    """Find, for each sample of a sparse problem, the number of its set of samples with equal x and y, and how many sets there
    are."""
    assert isinstance(rows, CsrRows)
    if len(rows.values) <= DEFAULT.few_elements:
        return _equal_rows_of_few(rows, y)
    n = len(y)
    words = _bits(rows.values)
    hashes, group = np.empty(n, np.uint64), np.empty(n, np.int64)
    Crew(len(rows.values)).share(n, lambda _, *part: compiled.hash_rows(rows, y, words, hashes, *part))
    n_groups = compiled.group_equal_rows(rows, y, np.argsort(hashes), hashes, group)
    return group, n_groups


def _equal_rows_of_few(rows: CsrRows, y: Array) -> tuple[Array, int]:
    """The same without compiled code. A row's hash is the sum of those of its elements; rows whose hash no other row has are
    alone, and the bytes of the others decide."""
    elements = rows.indices.astype(np.uint64) * MIXER ^ _bits(rows.values).astype(np.uint64)
    elements = (elements ^ elements >> np.uint64(29)) * MIXER
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(elements ^ elements >> np.uint64(32), dtype=np.uint64)])
    hashes = (sums[rows.indptr[1:]] - sums[rows.indptr[:-1]]) ^ (y > 0).astype(np.uint64)
    _, place, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    first, known = np.arange(len(y)), dict[tuple[bool, bytes, bytes], int]()
    for i in np.flatnonzero(sizes[place] > 1).tolist():
        row = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
        first[i] = known.setdefault((bool(y[i] > 0), rows.indices[row].tobytes(), rows.values[row].tobytes()), i)
    sets, group = np.unique(first, return_inverse=True)
    return group, len(sets)


def _bits(values: Array) -> Array:
    return values.view(np.dtype(f"u{values.dtype.itemsize}"))
