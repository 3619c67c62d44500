"""What Pegasos knows between two iterations, however it bounds the margins."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from maxmargin.data.random_loops import first_word
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.pruned_loss import STEP_ELEMENTS, costs_and_stride, shape_of
from maxmargin.margin_bounds.pruned_loss_loops import evaluate_all
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber
from maxmargin.solvers.base import Stage
from maxmargin.solvers.linear.dual_point import slopes_from
from maxmargin.solvers.linear.pegasos_loop import DRAWN, STATE

WARM_EPOCHS = 100
WIDE_SHARE = 0.25
"""Three passes over vectors as long as w in every iteration are too many where they have more elements than this share of
the rows drawn."""


class PegasosState(ABC):
    """v and its scale, the draws and their slopes, and the counters of the loop in ``record``."""

    is_stuck: ClassVar[bool] = False
    stage: ClassVar[Stage] = Stage("pegasos")

    def __init__(self, problem: LinearProblem, k: int, overhead: float, seed: int) -> None:
        n, width = problem.n_samples, problem.rows.n_features + 1
        self.problem, self.shape = problem, shape_of(problem.loss)
        self.penalty = 1.0 / float(problem.C.sum())
        self.ball = math.sqrt((1.0 if isinstance(problem.loss, Hinge) else 2.0) / self.penalty)
        costs, self.stride = costs_and_stride(problem.C)
        self.costs = costs / float(problem.C.mean())
        self.overhead = overhead
        self.row_elements = problem.rows.n_stored / n + STEP_ELEMENTS
        self.is_wide = 3.0 * width > WIDE_SHARE * k * self.row_elements
        self.averages = np.zeros(n, DRAWN)
        self.v, self.base = np.zeros(width), np.zeros(width)
        self.drawn, self._undecided, self._active = (np.zeros(k + 1, np.uint32) for _ in range(3))
        self.drawn, self._batch_slopes = self.drawn[:k], np.zeros(k + 1)
        self.record = np.zeros(1, STATE)
        self.record["random"], self.record["t"], self.record["scale"] = first_word(seed), 1.0, 1.0
        self.iterations = self.averaged_from = self.times_stored = 0
        self.most_iterations = math.inf
        self.has_best_w = isinstance(problem.loss, Huber)  # along whose lines nobody looks for a better one
        self._slopes = np.zeros(n)

    def begin_at(self, alpha: Array) -> None:
        """As if so many epochs had led to w(alpha) that a draw changes its alpha_i by no more than C_i / WARM_EPOCHS."""
        self._slopes = slopes_from(self.problem, alpha)
        self.v[: self.problem.n_weights] = self.problem.weights(alpha)
        self.record["sqnorm"] = self.v @ self.v
        self.record["t"] = 1.0 + math.ceil(WARM_EPOCHS * self.problem.n_samples / len(self.drawn))

    @property
    def looks_done(self) -> bool:
        """All of the T iterations are made, where there is a T."""
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
        """Make so many iterations, or fewer if margins should be stored."""

    @abstractmethod
    def _store(self) -> None:
        """Algorithm 1 without its sort: compute the margins at w of every sample."""

    def _margins_stored(self) -> Array:
        """w' becomes w: returns the margins of every sample there."""
        state = self.record[0]
        self.times_stored += 1
        self.base = self.w
        margins, weights = np.empty(self.problem.n_samples), np.zeros_like(self.v)
        evaluate_all(
            self.problem.compiled_rows, self.problem.y, self.costs, self.stride, self.base, *self.shape[:3], True, weights,
            margins, True, _NOWHERE, 0.0,
        )  # fmt: skip
        state["stored_sqnorm"] = self.base @ self.base
        state["since"] = state["skipped"] = state["recent"] = 0.0
        state["prunes"] = 1
        return margins

    def _begin_averages(self) -> None:
        self._slopes = self.slopes()
        self.averages["count"] = self.averages["slopes"] = 0.0
        self.averaged_from = self.iterations

    def slopes(self) -> Array:
        """The mean slope of each sample over its draws since the averages began; of one not drawn since, that of before."""
        counts, slopes = (self.averages[name].astype(np.float64) for name in ("count", "slopes"))
        return np.divide(slopes, counts, out=self._slopes.copy(), where=counts > 0.0)


_NOWHERE = np.empty(0)
