"""The state of Pegasos between two iterations, whichever bounds on the margins it uses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from maxmargin.data.random_loops import first_word
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.bound import pieces_of, samples_of
from maxmargin.margin_bounds.pruned_loss_loops import SlopeSums, evaluate_all
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Stage
from maxmargin.solvers.linear.dual_point import slopes_from
from maxmargin.solvers.linear.pegasos_loop import DRAWN, STATE, BallDescent, Batch, ScaledWeights


@dataclass(frozen=True)
class PegasosPolicy:
    """What the papers leave open. Costs are counted in stored elements of rows that follow each other in memory."""

    usual_k: int = 1000
    """Samples in a batch, unless the caller says how many."""
    warm_epochs: int = 100
    """Epochs that count as done at a warm start: a draw then changes its alpha_i by at most C_i / warm_epochs."""
    sample_elements: float = 8.0
    """Elements that a sample costs besides those of its row."""
    wide_share: float = 0.25
    """Three passes over vectors as long as w are made in every iteration if they take at most this share of a batch's
    elements."""
    far_bytes: int = 2**24
    """Bytes of X from which a row that is drawn is not in a cache. Where w is long, w is what is not in the cache."""
    miss_elements: float = 130.0
    """Elements that such a row costs besides its own."""
    miss_factor: float = 2.5
    """Factor on the elements of such a row."""
    skipped_worth: float = 0.6
    """Draws that one skipped margin saves. Less than one: its bound is read, and some rows are added all the same."""
    class_passes: float = 1.5
    """Passes over X that the spheres around the classes cost."""
    coding_passes: float = 6.0
    """Passes over X that the coded centres cost."""
    not_paid: float = 2.0
    """Factor on the period between two stores of all margins, when the last store did not pay."""
    recent_weight: float = 0.1
    """Weight of an iteration in the mean of skipped margins over the last few iterations."""
    least_share: float = 0.02
    """The least share of skipped margins, in that mean. Below it pruning stops until margins are stored again."""
    fewest_iterations: float = 10.0
    """Iterations after a store before that share is checked."""

    def draw_elements(self, problem: LinearProblem) -> float:
        """What a row in the order of memory costs, in elements."""
        return problem.rows.n_stored / problem.n_samples + self.sample_elements


class Setting(NamedTuple):
    """What Pegasos is run with: the batch size, the paper's c, the seed of the draws, and the policy."""

    k: int
    overhead: float
    seed: int
    policy: PegasosPolicy


class PegasosState(ABC):
    """v and its scale, the draws and their slopes, and the counters of the loop in ``record``."""

    is_stuck: ClassVar[bool] = False
    stage: ClassVar[Stage] = Stage("pegasos")

    has_best_w: ClassVar[bool] = False

    def __init__(self, problem: LinearProblem, setting: Setting) -> None:
        n, k, width = problem.n_samples, setting.k, problem.rows.n_features + 1
        self.problem, self.setting, self.overhead = problem, setting, setting.overhead
        samples = samples_of(problem)
        self.samples = samples._replace(C=samples.C / float(problem.C.mean()))
        self.row_elements = setting.policy.draw_elements(problem)
        self.is_wide = 3.0 * width > setting.policy.wide_share * k * self.row_elements
        self.descent = _descent(problem, self.is_wide)
        self.averages = np.zeros(n, DRAWN)
        self.v, self.base = np.zeros(width), np.zeros(width)
        undecided, active = np.zeros(k + 1, np.uint32), np.zeros(k + 1, np.uint32)
        self.batch = Batch(np.zeros(k, np.uint32), undecided, active, np.zeros(k + 1))
        self.drawn = self.batch.drawn
        self.record = np.zeros(1, STATE)
        self.record["random"], self.record["t"], self.record["scale"] = first_word(setting.seed), 1.0, 1.0
        self.iterations = self.averaged_from = self.times_stored = 0
        self.most_iterations = math.inf
        self._slopes = np.zeros(n)

    def begin_at(self, alpha: Array) -> None:
        """Begin at w(alpha), with the counters as if ``warm_epochs`` epochs had led there: a draw then changes its alpha_i by
        at most C_i / warm_epochs."""
        self._slopes = slopes_from(self.problem, alpha)
        self.v[: self.problem.n_weights] = self.problem.weights(alpha)
        self.record["sqnorm"] = self.v @ self.v
        self.record["t"] = 1.0 + math.ceil(self.setting.policy.warm_epochs * self.problem.n_samples / len(self.drawn))

    @property
    def point(self) -> ScaledWeights:
        return ScaledWeights(self.v, self.base, self.record)

    @property
    def looks_done(self) -> bool:
        """Whether all T iterations are made, if there is a T."""
        return self.iterations >= self.most_iterations

    @property
    def steps(self) -> int:
        return self.iterations * len(self.drawn)

    @property
    def active(self) -> int:
        """How many margins an iteration has computed of late."""
        return len(self.drawn) - int(self.record["recent"][0]) if self.record["prunes"][0] else len(self.drawn)

    @property
    def examined(self) -> int:
        """How many margins were computed for draws."""
        return int(self.record["examined"][0])

    @property
    def w(self) -> Array:
        return self.v * self.record["scale"][0]

    def run(self, iterations: int) -> None:
        end = self.iterations + iterations
        while self.iterations < end:
            if len(self.averages) and self.iterations >= 2 * self.averaged_from + 2:
                self._begin_averages()
            stop = min(end, 2 * self.averaged_from + 2) if len(self.averages) else end
            self._descend(stop - self.iterations)
            if self.iterations < stop:
                self._store()

    @abstractmethod
    def _descend(self, iterations: int) -> None:
        """Make the given number of iterations, or fewer if margins should be stored first."""

    @abstractmethod
    def _store(self) -> None:
        """Algorithm 1 without its sort: compute the margins at w of every sample."""

    def _margins_stored(self) -> Array:
        """w' becomes w: returns the margins of every sample there."""
        state = self.record[0]
        self.times_stored += 1
        self.base = self.w
        margins, weights = np.empty(self.problem.n_samples), np.zeros_like(self.v)
        without_gradient = self.descent.pieces._replace(is_step=True)
        evaluate_all(self.samples, self.base, without_gradient, weights, margins, SlopeSums(_NOWHERE, 0.0))
        state["stored_sqnorm"] = self.base @ self.base
        state["since"] = state["skipped"] = state["recent"] = 0.0
        state["prunes"] = 1
        return margins

    def _begin_averages(self) -> None:
        self._slopes = self.slopes()
        self.averages["count"] = self.averages["slopes"] = 0.0
        self.averaged_from = self.iterations

    def slopes(self) -> Array:
        """The mean slope of each sample over its draws since the averages began. A sample not drawn since then keeps its
        earlier mean."""
        counts, slopes = (self.averages[name].astype(np.float64) for name in ("count", "slopes"))
        return np.divide(slopes, counts, out=self._slopes.copy(), where=counts > 0.0)


def _descent(problem: LinearProblem, is_wide: bool) -> BallDescent:
    """lambda = 1 / sum_i C_i, and a ball that holds the optimum: |w*|^2 <= 1 / lambda for hinge loss (Pegasos, Theorem 1), and
    2 / lambda for the others, as f(0) = 1."""
    pieces, penalty = pieces_of(problem.loss), 1.0 / float(problem.C.sum())
    return BallDescent(pieces, penalty, math.sqrt((1.0 if pieces.has_kink else 2.0) / penalty), is_wide)


_NOWHERE = np.empty(0)
