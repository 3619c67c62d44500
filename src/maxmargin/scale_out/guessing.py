"""A first w from a part of the rows, where rows do not leave their worker.

Each partition solves the problem of a random sample of its own rows in memory, as if the other partitions were like it, and the
mean of these w is the guess. Where partitions are random parts of the data, the margins of the guess are about
sqrt(d / rows of all samples) from those of the optimum. Where partitions differ (they may be sorted by class), the guess is
poor: it costs rounds, and never the answer."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.linear import LinearProblem
from maxmargin.scale_out.passes import Framing, Part
from maxmargin.solvers.registry import solver_named
from maxmargin.solving.driver import Limits, drive
from maxmargin.solving.solution import Solution


class Sampling(NamedTuple):
    """What the partitions are told: the share of all rows that is wanted, the fewest rows that make a sample, the rows of all
    partitions, the gap to which samples are solved, how long that may take, and a seed."""

    share: float
    fewest_rows: int
    n_samples: int
    tol: float
    seconds: float
    seed: int

    def share_of(self, n_rows: int) -> float:
        """The share of a partition's rows: all, where the partition is small."""
        return min(1.0, max(self.share, self.fewest_rows / n_rows))


class Guessed(NamedTuple):
    """The sum of the w of the samples, each times its number of rows, and the rows."""

    w: Array
    n_rows: int

    def plus(self, other: Guessed) -> Guessed:
        return Guessed(self.w + other.w, self.n_rows + other.n_rows)


def guess_part(part: Part, framing: Framing, sampling: Sampling) -> Guessed | None:
    """The task: the solution for a sample of this partition. Where samples take more than their share of the rows, only some of
    the partitions have one. None where the rows are too few or of one class."""
    problem = part.problem
    random = np.random.default_rng([sampling.seed, part.number])
    share = sampling.share_of(problem.n_samples)
    places = np.flatnonzero(random.random(problem.n_samples) < share)
    costs = np.array(problem.C[places]) * (sampling.n_samples / max(1, len(places)))
    is_one_class = framing.positive is not None and len(np.unique(problem.y[places])) < 2
    if random.random() * share > sampling.share or len(places) < 0.9 * sampling.fewest_rows or is_one_class or not costs.any():
        return None
    rows = Rows.from_matrix(problem.rows.matrix[places], check=False)
    sample = LinearProblem(rows, np.array(problem.y[places]), costs, framing.loss, framing.intercept_scaling)
    solution = solved(sample, sampling.tol, Stop.after(sampling.seconds), sampling.seed)
    return Guessed(len(places) * solution.w, len(places))


def solved(problem: LinearProblem, tol: float, stop: Stop, seed: int, start: Array | None = None) -> Solution:
    """Solve the sample by the ordinary solver in memory."""
    limits = Limits(tol, math.inf, stop.seconds_left)
    return drive(problem, solver_named("auto"), limits, warm_start=start, callback=None, seed=seed, stop=stop)
