"""Two applications that Guillory and Bilmes (2007) propose in section 5 and do not measure, judged by counted work.

**Dual coordinate descent.** A step of DCD computes a margin, and where alpha_i is at a bound and the margin is on the right
side of one, it does nothing with it. The bounds (2) say so without the product. Tried are the distance along the path (the
margin of a sample is kept from its last visit, and w is no farther away than the sum of its steps), and the distance from one
w', whose margins are stored by a pass over all samples. There |w - w'| is carried along exactly: a step changes its square by
what the new and the stored margin tell. The iterates are bit for bit those of DCD without shrinking.

**Quadratic pieces.** Squared hinge loss over the samples that are for certain below the margin one is a quadratic function of
w, known from sums of x_i x_i'. As in ``maxmargin.margin_bounds.pruned_loss``, the sums belong to w', and the undecided
samples are
corrected one by one; when margins are stored again, the samples that have changed sides change the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from benchmarks.datasets import load
from benchmarks.measure import Table
from benchmarks.papers.bounded_sweep_loop import (
    ALONG_THE_PATH,
    EVERYWHERE,
    FROM_ONE_POINT,
    KNOWN,
    TRAVEL,
    bounded_sweep,
    store_margins,
)
from maxmargin.data.random_loops import first_word
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.bound import ROUNDED_UP, LossAt, Tally
from maxmargin.margin_bounds.pruned_loss import PrunedLoss
from maxmargin.margin_bounds.sorted_sums import Resort, Resorting
from maxmargin.margin_bounds.spheres import Spheres
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Loss, SquaredHinge
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solvers.linear.pruned_gradient import PrunedGradient, cost_from_lambda

MOST_SWEEPS = 100
SWEEPS_BETWEEN = 3
"""Sweeps between two times that margins are stored, at least: a pass costs as many products as a sweep."""
QUADRATIC_ITERATIONS, QUADRATIC_LAMBDA, QUADRATIC_C = 300, 1e-4, 10.0
DUAL_SETS = (("a9a", 0.01), ("a9a", 1.0), ("w7a", 1.0), ("ijcnn1", 1.0), ("mnist", 0.01))
QUADRATIC_SETS = ("ijcnn1", "a9a", "covtype.binary.scale")


class DualTrial(NamedTuple):
    """Products, relative to those of DCD without shrinking; how often margins were stored is included in ``from_one_point``."""

    name: str
    loss: str
    C: float
    epsilon: float
    sweeps: int
    along_the_path: float
    from_one_point: float
    stored: int
    shrinking: float


class _Run(NamedTuple):
    products: int
    sweeps: int
    stored: int
    w: Array


def dual_trials(name: str, C: float) -> list[DualTrial]:
    X, y = load(name)
    losses: tuple[Loss, ...] = (Hinge(), SquaredHinge())
    return [_dual_trial(name, LinearProblem.build(X, y, C, loss), C, epsilon) for loss in losses for epsilon in (0.1, 0.01)]


def _dual_trial(name: str, problem: LinearProblem, C: float, epsilon: float) -> DualTrial:
    plain, path, point = (_sweeps(problem, how, epsilon) for how in (EVERYWHERE, ALONG_THE_PATH, FROM_ONE_POINT))
    if not (np.array_equal(path.w, plain.w) and np.array_equal(point.w, plain.w)):
        raise AssertionError("The bounds have changed a step.")
    return DualTrial(
        name,
        type(problem.loss).__name__,
        C,
        epsilon,
        plain.sweeps,
        path.products / plain.products,
        point.products / plain.products,
        point.stored,
        _shrinking_steps(problem, epsilon) / plain.products,
    )


def _sweeps(problem: LinearProblem, how: int, epsilon: float) -> _Run:
    """DCD from alpha = 0 until (17) holds, or for MOST_SWEEPS."""
    n, data = problem.n_samples, (problem.compiled_rows, problem.y)
    known, travel, index = np.zeros(n, KNOWN), np.zeros(1, TRAVEL), np.arange(n, dtype=np.uint32)
    known["U"], known["D"] = problem.box.U, problem.box.D
    w = np.zeros(problem.rows.n_features + 1)
    travel["random"] = first_word(0)
    store_margins(*data, known, w)  # all are zero: no products are counted for it
    known["path"] = -np.inf if how == ALONG_THE_PATH else 0.0
    resorting = Resorting(Resort.ADAPTIVE, n, SWEEPS_BETWEEN, n)
    resorting.begin()
    products = sweeps = stored = 0
    while sweeps < MOST_SWEEPS:
        if how == FROM_ONE_POINT and resorting.is_due:
            store_margins(*data, known, w)
            travel["squared"] = 0.0
            resorting.begin()
            products, stored = products + n, stored + 1
        bounded_sweep(*data, known, index, w, travel, how)
        computed = int(travel["products"][0])
        resorting.count(n - computed)
        products, sweeps = products + computed, sweeps + 1
        if travel["M"][0] - travel["m"][0] < epsilon:
            break
    return _Run(products, sweeps, stored, w)


def _shrinking_steps(problem: LinearProblem, epsilon: float) -> int:
    """Of the paper of DCD with (16), to the same rule or limit."""
    solver = DCD(epsilon=epsilon, stop="paper")
    state = solver.init(problem, None, 0)
    while not state.looks_done and state.sweeps < MOST_SWEEPS:
        solver.advance(problem, state, Budget(problem.n_samples, 0.0))
    return state.steps


def dual_table(trials: Iterable[DualTrial]) -> Table:
    columns = "data", "loss", "C", "epsilon of (17)", "sweeps", "bounds along the path", "bounds from one w'", "stored"
    table = Table(*columns, "shrinking (16)", numbers_from=2)
    for trial in trials:
        sweeps = f"{trial.sweeps} (limit)" if trial.sweeps == MOST_SWEEPS else f"{trial.sweeps}"
        table.add(
            trial.name,
            trial.loss,
            f"{trial.C:g}",
            f"{trial.epsilon:g}",
            sweeps,
            f"{trial.along_the_path:.2f}",
            f"{trial.from_one_point:.2f}",
            trial.stored,
            f"{trial.shrinking:.2f}",
        )
    return table


class QuadraticTrial(NamedTuple):
    """Work of a descent in elements of rows read, and in elements of the d x d sum touched, relative to going through all
    samples at every evaluation."""

    name: str
    n_features: int
    iterations: int
    margins_zero_piece: float
    margins_both_pieces: float
    work_both_pieces: float
    of_it_sums: float


class QuadraticSums:
    """Squared hinge loss with both pieces pruned, for one C and no offset. ``work`` counts elements."""

    def __init__(self, problem: LinearProblem) -> None:
        self.problem, self.tally = problem, Tally()
        self._X = problem.rows.matrix.multiply(problem.y[:, None]).tocsr()
        self._lengths = np.diff(self._X.indptr)
        self._norms = np.sqrt(problem.rows.squared_norms()) * ROUNDED_UP
        self._C = float(problem.C[0])
        self._below = np.zeros(problem.n_samples, bool)
        d = problem.rows.n_features
        self._matrix, self._sum = np.zeros((d, d)), np.zeros(d)
        self._resorting = Resorting(Resort.ADAPTIVE, problem.n_samples, QUADRATIC_C, problem.n_samples)
        self.row_work = self.sum_work = 0.0

    def evaluate(self, w: Array) -> LossAt:
        self.tally.evaluations += 1
        if self._resorting.is_due:
            self._store(w[:-1])
        w, d = w[:-1], len(w) - 1
        reach = float(np.linalg.norm(w - self._w)) * self._norms * ROUNDED_UP
        is_open = np.where(self._below, self._margins + reach >= 1.0, self._margins - reach < 1.0)
        chosen = np.flatnonzero(is_open)
        rows, before = self._X[chosen], self._below[chosen]
        slack = 1.0 - rows @ w
        product = self._matrix @ w
        loss = self._count - 2.0 * float(w @ self._sum) + float(w @ product)
        loss += float(np.sum(np.where(slack > 0.0, slack, 0.0) ** 2 - np.where(before, slack, 0.0) ** 2))
        change = 2.0 * slack * ((slack > 0.0).astype(float) - before)
        weights = self._C * (2.0 * (self._sum - product) + rows.T @ change)
        self.row_work += float(self._lengths[chosen].sum() + self._lengths[chosen[change != 0.0]].sum())
        self.sum_work += float(d * d)
        self.tally.examined += len(chosen)
        self._resorting.count(self.problem.n_samples - len(chosen))
        return LossAt(self._C * loss, np.append(weights, 0.0), 0.0, len(chosen))

    def _store(self, w: Array) -> None:
        """Margins at w', and the sums over the samples below one: those that have changed sides change them."""
        margins = self._X @ w
        below = margins < 1.0
        for sign, changed in ((1.0, below & ~self._below), (-1.0, self._below & ~below)):
            rows = self._X[changed]
            self._matrix += sign * (rows.T @ rows).toarray()
            self._sum += sign * np.asarray(rows.sum(axis=0)).ravel()
            self.sum_work += float(np.sum(self._lengths[changed].astype(float) ** 2))
        self._w, self._margins, self._below = w.copy(), margins, below
        self._count = float(np.count_nonzero(below))
        self._resorting.begin()
        self.row_work += float(self._lengths.sum())
        self.tally.stored += 1
        self.tally.examined += self.problem.n_samples


def quadratic_trial(name: str) -> QuadraticTrial:
    X, y = load(name)
    problem = LinearProblem.build(X, y, cost_from_lambda(QUADRATIC_LAMBDA, len(y)), SquaredHinge())
    both, zero = QuadraticSums(problem), PrunedLoss(problem, spheres=Spheres.around_origin(problem))
    brute_force, descent = PrunedLoss(problem, overhead=math.inf), PrunedGradient(overhead=math.inf).init(problem, None, 0)
    plain_work = 0.0
    for _ in range(QUADRATIC_ITERATIONS):
        w = descent.w.copy()
        zero.evaluate(w)
        if not math.isclose(both.evaluate(w).loss, brute_force.evaluate(w).loss, rel_tol=1e-9):
            raise AssertionError("The sums over quadratic pieces are not exact.")
        violating = np.count_nonzero(problem.margins(w[:-1]) < 1.0) / problem.n_samples
        plain_work += problem.rows.n_stored * (1.0 + violating)
        descent.iterate()
    all_margins = problem.n_samples * QUADRATIC_ITERATIONS
    return QuadraticTrial(
        name,
        problem.rows.n_features,
        QUADRATIC_ITERATIONS,
        zero.tally.examined / all_margins,
        both.tally.examined / all_margins,
        (both.row_work + both.sum_work) / plain_work,
        both.sum_work / (both.row_work + both.sum_work),
    )


def quadratic_table(trials: Iterable[QuadraticTrial]) -> Table:
    columns = "data", "d", "iterations", "margins, zero piece pruned", "margins, both pruned", "elements, both pruned"
    table = Table(*columns, "of them for sums of x x'")
    for trial in trials:
        table.add(*trial[:3], *(f"{share:.2f}" for share in trial[3:6]), f"{100 * trial.of_it_sums:.0f}%")
    return table
