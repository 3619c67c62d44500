"""A solver watched from outside: how far from the optimum it is after each epoch, the clock stopped while it is judged."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.datasets import Data
from benchmarks.references import Reference
from maxmargin.data.rows import Array
from maxmargin.solvers.base import Budget, Solver

ALL_EPOCHS_UP_TO = 20
"""Every epoch is judged up to here, later on only every twentieth part of those made."""


class Point(NamedTuple):
    """Where the solver stands. ``accuracy`` is that on the test set, and NaN without one."""

    seconds: float
    epochs: float
    excess: float
    accuracy: float


@dataclass(frozen=True)
class Trace:
    points: tuple[Point, ...]

    def seconds_to(self, goal: float) -> float:
        """When the excess was within ``goal`` for the first time; infinite if it never was."""
        return next((point.seconds for point in self.points if point.excess <= goal), math.inf)

    def epochs_to(self, goal: float) -> float:
        return next((point.epochs for point in self.points if point.excess <= goal), math.inf)

    @property
    def seconds_an_epoch(self) -> float:
        return self.points[-1].seconds / self.points[-1].epochs


def follow(
    solver: Solver,
    reference: Reference,
    goal: float,
    *,
    max_seconds: float = math.inf,
    max_epochs: float = math.inf,
    seed: int = 0,
    accuracy: Callable[[Array], float] = lambda w: math.nan,
) -> Trace:
    """Epoch after epoch, each as many steps as there are samples, until the excess is within ``goal`` or a limit is met."""
    problem = reference.problem
    start = time.perf_counter()
    state = solver.init(problem, None, seed)
    seconds = time.perf_counter() - start
    points: list[Point] = []
    while not points or not (points[-1].excess <= goal or seconds > max_seconds or points[-1].epochs >= max_epochs):
        epochs = max(1, int(points[-1].epochs) // ALL_EPOCHS_UP_TO) if points else 1
        end = state.steps + epochs * problem.n_samples
        start = time.perf_counter()
        while state.steps < end and not state.is_stuck:
            solver.advance(problem, state, Budget(end - state.steps, 0.0))
        seconds += time.perf_counter() - start
        w, _ = solver.candidate(problem, state)
        points.append(Point(seconds, state.steps / problem.n_samples, reference.quick_excess(w), accuracy(w)))
        if state.is_stuck:
            break
    return Trace(tuple(points))


def accuracy_on(test: Data | None) -> Callable[[Array], float]:
    """The share of a test set that w labels rightly, in percent."""
    if test is None:
        return lambda w: math.nan
    return lambda w: 100.0 * float(np.mean((test.X @ w > 0.0) == (test.y > 0.0)))
