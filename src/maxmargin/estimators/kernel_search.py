"""The folds of a search with the RBF kernel of two classes, all on one kernel matrix.

For each gamma the kernel values of all samples are computed once, in float32. Every fold is trained on them for all values of
C, in rising order; at the first of them a fold begins where the first fold ended (:mod:`maxmargin.solvers.kernel.fold_smo`).
Then all models are judged together, in float64 and from the data (:mod:`maxmargin.certificate.many_sums`): the relative gap,
the ball around the exact optimum, and with it the validation labels that are proved. A model whose gap is above ``tol`` is
trained again from its exact outputs; if float32 is not precise enough for that, the estimator of the fold takes over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.certificate.kernel_sums import KernelSums
from maxmargin.certificate.many_sums import ManySums, Multiple, multiple_of, sums_of_many
from maxmargin.certificate.predictions import CertifiedLabels, kernel_lengths
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.estimators import checks
from maxmargin.estimators.jobs import thread_count
from maxmargin.estimators.search import TRAINED, BoundedMetric, Fold, FoldScore, ListSearch
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.model_selection.points import Expansion
from maxmargin.model_selection.transfer import (
    Fit,
    dual_expansion,
    expansion_fit,
    row_lengths,
    scaled_costs,
    score_interval,
    with_costs,
)
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Kernel, Points
from maxmargin.solvers.kernel.fold_smo import FoldEnd, FoldSMO, Mend


@dataclass(frozen=True)
class SharedPolicy:
    """When the folds share one matrix, and how often a model is trained again."""

    least_tol: float = 1e-5
    """The least relative gap that is asked of float32 kernel values."""
    limited_share: float = 2.0 / 3.0
    """The share of a limit on seconds that a search on one matrix gets. On 2,000 rows of banana with three gammas it took a
    sixth to a ninth of the time of folds that are trained by themselves, which go on where it does not end."""
    rounds: int = 3
    """How often a model is trained again from its exact outputs before the estimator of the fold takes over."""
    sharper: float = 0.25
    """What multiplies the target each time."""
    like: float = 1e-12
    """The distance up to which a model is taken for a multiple of another one, as a share of its coefficients: no more than the
    rounding of a kernel value times their number."""
    worth_waiting: float = 1.0 / 3.0
    """If at least this share of the values of C seems unable to win after all folds but one, these folds are judged first. The
    last fold is then trained for the other values only. Judging takes about as long as training a fold."""


class Trained(NamedTuple):
    """A model of a fold: its feasible alpha, and its w, which is ``stretch`` times w(alpha), plus the ``mend``."""

    alpha: Array
    stretch: float
    mend: Mend | None
    estimate: float
    """The share of the validation labels that are right, by float32 outputs. It proves nothing."""


class Judged(NamedTuple):
    """The places of a model in the sums: of alpha, as a multiple of a column, and of its mend, which is -1 where there is
    none."""

    sums: ManySums
    alpha: Multiple
    mend: int

    def of_alpha(self, rows: Array) -> KernelSums:
        return self.sums.of_multiple(rows, self.alpha)


@dataclass
class SharedFold:
    """A fold as a set of rows of the matrix of all samples."""

    fold: Fold
    kernel: Kernel
    has_offset: bool
    class_weight: object
    smo: FoldSMO | None = None

    @cached_property
    def problem(self) -> KernelProblem:
        """The problem of this fold at C = 1."""
        fold = self.fold
        costs = checks.sample_costs(1.0, self.class_weight, fold.sample_weight, fold.X, fold.classes, fold.y)
        signs = np.where(fold.y == fold.classes[1], 1, -1)
        return KernelProblem.build(fold.X, signs, costs, self.kernel, self.has_offset, check=False)

    @cached_property
    def lengths(self) -> Array:
        return row_lengths(self.problem)

    @cached_property
    def test_lengths(self) -> Array:
        return kernel_lengths(self.kernel, Points.of(self.fold.X_test))

    def begin(self, K: Array, n: int) -> None:
        """Begin with no steps made, on the kernel matrix K of all n samples."""
        y, costs, rows = np.zeros(n), np.zeros(n), self.fold.train_rows
        y[rows], costs[rows] = self.problem.signs, self.problem.C
        self.smo = FoldSMO(K, np.diagonal(K).copy(), y, costs, self.has_offset)

    @property
    def is_begun(self) -> bool:
        """Whether some value of C was trained."""
        return self.smo is not None and self.smo.C > 0.0

    def forget(self) -> None:
        """Give memory back that only the next value of C could use."""
        if self.smo is not None:
            self.smo.forget()

    def train(self, C: float, tol: float, other: FoldEnd | None = None) -> Trained:
        """Train at the next C, from where the last C ended, or from where another fold ended at this C."""
        assert self.smo is not None
        self.smo.move_to(C)
        if other is not None:
            self.smo.seed(other)
        return self._steps(tol)

    def train_again(self, C: float, model: Trained, outputs: Array, tol: float) -> Trained:
        """Train again, from a model whose outputs are exact."""
        assert self.smo is not None
        self.smo.move_to(C)
        s = np.zeros(len(outputs))
        s[self.fold.train_rows] = self.problem.signs * model.alpha
        self.smo.take(s, outputs)
        return self._steps(tol)

    def _steps(self, tol: float) -> Trained:
        assert self.smo is not None
        reached = self.smo.train(tol)
        at_C = with_costs(self.problem, scaled_costs(self.problem.C, self.smo.C))
        alpha = at_C.nearest_feasible(np.abs(self.smo.s[self.fold.train_rows]))
        self.b = reached.b
        is_second = reached.outputs[self.fold.test_rows] + reached.b > 0.0
        is_right = is_second == (self.fold.y_test == self.fold.classes[1])
        return Trained(alpha, reached.stretch, reached.mend, float(np.mean(is_right)))

    @property
    def end(self) -> FoldEnd:
        """Where the last training ended."""
        assert self.smo is not None
        return self.smo.end(self.b)

    def fit(self, C: float, model: Trained, judged: Judged) -> Fit:
        problem = with_costs(self.problem, scaled_costs(self.problem.C, C))
        v = dual_expansion(problem, model.alpha, judged.of_alpha(self.fold.train_rows), self.lengths)
        return expansion_fit(problem, model.alpha, v, self._primal(v, model, judged, self.fold.train_rows), C, self.lengths)

    def _primal(self, v: Expansion, model: Trained, judged: Judged, rows: Array) -> Expansion:
        """The w of a model, with its outputs at these rows. It is exact: a w need not be balanced."""
        w = v._replace(error=0.0)
        if model.mend is None:
            return w.scaled(model.stretch)
        change = np.zeros(len(judged.sums.outputs))
        change[model.mend.samples] = model.mend.change
        return w.plus(Expansion(change[rows], *judged.sums.of(rows, judged.mend)))

    def labels(self, fit: Fit, model: Trained, judged: Judged) -> CertifiedLabels:
        """Labels of the validation samples, and which of them are proved."""
        rows, ball = self.fold.test_rows, fit.ball_at(fit.C)
        v = Expansion(np.zeros(len(rows)), *judged.of_alpha(rows))
        w = self._primal(v, model, judged, rows)
        middle = w.mixed(0.5, v, 0.5)
        errors = middle.output_errors + 4.0 * np.finfo(np.float64).eps * np.abs(middle.outputs)
        low, high = score_interval(ball, fit.offsets_in(ball, fit.C), lambda _: (middle.outputs, errors), self.test_lengths)
        is_second = w.outputs + fit.b > 0.0
        return CertifiedLabels(self.fold.classes[is_second.astype(int)], (low > 0.0) | (high < 0.0))


def relative_gap(fit: Fit) -> float:
    primal = 0.5 * fit.w.greatest_norm**2 + fit.C * fit.loss
    return relative(fit.gap, primal, primal - fit.gap)


@dataclass
class SharedSearch(ListSearch):
    """The search over the values of C, which are in rising order, with one gamma."""

    matrix: KernelMatrix | None = None
    class_weight: object = None
    has_offset: bool = True
    policy: SharedPolicy = field(default_factory=SharedPolicy)

    def run(self) -> SharedSearch:
        assert self.matrix is not None
        assert self.matrix.whole is not None
        kernel, n = self.matrix.kernel, self.matrix.n_samples
        self.shared = [SharedFold(fold, kernel, self.has_offset, self.class_weight) for fold in self.folds]
        for one in self.shared:
            one.begin(self.matrix.whole, n)
        self.models: dict[tuple[int, int], Trained] = {}
        self.ends: dict[int, FoldEnd] = {}
        self.estimates = np.zeros((len(self.folds), len(self.Cs)))
        with single_threaded_blas():
            self._train_folds([0])
            self._train_folds(list(range(1, len(self.folds) - 1)))
            if self._many_seem_lost():
                self._judge()
            if len(self.folds) > 1:
                self._train_folds([len(self.folds) - 1])
            self._judge()
        self.best_low = max(self.best_low, float(self.low.mean(axis=0).max()))
        return self

    def _train_folds(self, places: list[int]) -> None:
        if thread_count(self.n_jobs, max(1, len(places))) > 1:
            self._in_threads(self._train_fold, places)
            return
        for i in places:
            self._train_fold(i)

    def _train_fold(self, i: int) -> None:
        """All values of C in rising order. The first one begins where the first fold ended."""
        for k in np.argsort(self.Cs, kind="stable"):
            if self._can_win(k):
                one, begun = self.shared[i], self.shared[i].is_begun
                model = one.train(float(self.Cs[k]), self.limits.tol, None if begun else self.ends.get(int(k)))
                self.models[i, int(k)], self.estimates[i, k] = model, model.estimate
                if not (begun or self.ends):
                    self.ends[int(k)] = one.end
        self.shared[i].forget()

    def _many_seem_lost(self) -> bool:
        """Whether judging all folds but the last one may save training that one for many values."""
        highest = (self.estimates.sum(axis=0) + 1.0) / len(self.folds)
        return bool(np.mean(highest < self.best_low) >= self.policy.worth_waiting)

    def _judge(self) -> None:
        """All models that are trained and not judged; those above ``tol`` are trained again."""
        tol, keys = self.limits.tol, list(self.models)
        for _ in range(self.policy.rounds + 1):
            if not keys:
                return
            judged = self._sums(keys)
            tol *= self.policy.sharper
            keys = [key for key, each in zip(keys, judged, strict=True) if not self._settle(key, each, tol)]
        for i, k in keys:
            del self.models[i, k]
            self._train(i, k)  # by the estimator of the fold

    def _sums(self, keys: list[tuple[int, int]]) -> list[Judged]:
        """The sums of all models, and those of their mends, in one pass."""
        assert self.matrix is not None
        mended = [key for key in keys if self.models[key].mend is not None]
        columns, multiples = self._columns(keys)
        signed = np.zeros((self.matrix.n_samples, len(columns) + len(mended)))
        signed[:, : len(columns)] = np.stack(columns, axis=1)
        for place, key in enumerate(mended, len(columns)):
            mend = self.models[key].mend
            assert mend is not None
            signed[mend.samples, place] = mend.change
        sums = sums_of_many(self.matrix.kernel, self.matrix.points, signed)
        places = dict(zip(mended, range(len(columns), signed.shape[1]), strict=True))
        return [Judged(sums, multiple, places.get(key, -1)) for key, multiple in zip(keys, multiples, strict=True)]

    def _columns(self, keys: list[tuple[int, int]]) -> tuple[list[Array], list[Multiple]]:
        """The signed coefficients of the models. One that is a multiple of the last column, because no step was made from one C
        to the next, needs no column of its own."""
        assert self.matrix is not None
        columns: list[Array] = []
        multiples = []
        for i, k in keys:
            signed = np.zeros(self.matrix.n_samples)
            signed[self.folds[i].train_rows] = self.shared[i].problem.signs * self.models[i, k].alpha
            near = multiple_of(len(columns) - 1, columns[-1], signed) if columns else None
            if near is None or near.away > self.policy.like * near.factor * float(np.abs(columns[-1]).sum()):
                columns.append(signed)
                near = Multiple(len(columns) - 1, 1.0, 0.0)
            multiples.append(near)
        return columns, multiples

    def _settle(self, key: tuple[int, int], judged: Judged, next_tol: float) -> bool:
        """Keep the score of a model that is within ``tol``; train it again if it is not."""
        i, k = key
        one, model, C = self.shared[i], self.models[key], float(self.Cs[k])
        fit = one.fit(C, model, judged)
        if not relative_gap(fit) <= self.limits.tol:
            outputs = judged.of_alpha(np.arange(len(judged.sums.outputs))).outputs
            self.models[key] = one.train_again(C, model, outputs, next_tol)
            return False
        labels = one.labels(fit, model, judged)
        assert isinstance(self.metric, BoundedMetric)
        weights = one.fold.score_params.get("sample_weight")
        self._note(i, k, self.metric(one.fold.y_test, labels, one.fold.classes, weights), TRAINED)
        del self.models[key]
        return True

    def _note(self, i: int, k: int, score: FoldScore, outcome: str) -> None:
        self.scores[i, k], self.low[i, k], self.high[i, k] = score
        self.outcomes[i, k] = outcome
