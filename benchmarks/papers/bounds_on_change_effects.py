"""What else Guillory and Bilmes (2007) say of their experiments: the effect of h, other rules for the step, how long Pegasos
has to run, and a descent on text that is as long as theirs. All but the objective values are counts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Table
from benchmarks.papers.bounds_on_change_data import Case, Split
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.pruned_loss import PrunedLoss
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber
from maxmargin.solvers.linear.pegasos import Pegasos
from maxmargin.solvers.linear.pruned_gradient import PrunedGradient, cost_from_lambda

WIDTHS = (0.1, 0.01, 0.001)
WIDTH_ITERATIONS, STEP_ITERATIONS, LONG_ITERATIONS = 500, 500, 6031
"""The last is the paper's shortest run on RCV1."""
LOOKS = (500, 1000, 2000, 3000, 4000, 5000, LONG_ITERATIONS)
LONGEST = 900.0
"""Seconds of processor time after which the long run ends with the look that it has come to."""
CONVERGED = 0.01
"""The paper's T is the least power of ten whose objective is less than this below that of the power before. Here: that
differs by less than this, as the objective rises at first on covtype."""
SEEDS = 2


def descent_problem(case: Case, split: Split, width: float) -> LinearProblem:
    X, y = split.train
    return LinearProblem.build(X, y, cost_from_lambda(case.lambda_2, len(y)), Huber(width), 1.0, False)


class WidthEffect(NamedTuple):
    """Shares of the margins that were computed, as printed and by our variant, and the objective reached."""

    name: str
    width: float
    printed: float
    ours: float
    objective: float


def width_effects(case: Case, split: Split) -> list[WidthEffect]:
    return [_width_effect(case, split, width) for width in WIDTHS]


def _width_effect(case: Case, split: Split, width: float) -> WidthEffect:
    problem = descent_problem(case, split, width)
    printed, ours = (PrunedGradient(evaluation=kind).init(problem, None, 0) for kind in ("paper", "pruned"))
    for state in (printed, ours):
        state.averages.weight = 0.0
        for _ in range(WIDTH_ITERATIONS):
            state.iterate()
    all_margins = WIDTH_ITERATIONS * problem.n_samples
    shares = [state.loss.tally.examined / all_margins for state in (printed, ours)]
    return WidthEffect(case.name, width, shares[0], shares[1], ours.objective)


def widths_table(lines: Iterable[WidthEffect]) -> Table:
    table = Table("data", "h", "margins computed, as printed", "margins computed, ours", "objective")
    for line in lines:
        shares = (f"{100 * share:.0f}%" for share in (line.printed, line.ours))
        table.add(line.name, f"{line.width:g}", *shares, f"{line.objective:.5f}")
    return table


class StepEffect(NamedTuple):
    """The objective after so many iterations, by what halves the step."""

    name: str
    iterations: int
    objective: float
    train_errors: float
    held_out_errors: float
    constant: float


def step_effects(case: Case, split: Split) -> list[StepEffect]:
    """The step is halved when the objective rises (the paper's rule), when the errors on the training samples do, when those on
    a held-out tenth of them do, or never (the best of the constant steps 100, 10, 1)."""
    X, y = split.train
    is_held_out = np.arange(len(y)) % 10 == 9
    problem = descent_problem(case, Split(type(split.train)(X[~is_held_out], y[~is_held_out]), split.test), 0.01)
    held_out_X, held_out_y = X[is_held_out], y[is_held_out]

    def errors_held_out(w: Array) -> float:
        return float(np.mean((held_out_X @ w[:-1] + w[-1]) * held_out_y <= 0.0))

    def errors(w: Array) -> float:
        return float(np.mean(problem.margins(w) <= 0.0))

    def never(w: Array) -> float:
        return 0.0

    effect = StepEffect(
        case.name,
        STEP_ITERATIONS,
        _descended(problem, 100.0, None),
        _descended(problem, 100.0, errors),
        _descended(problem, 100.0, errors_held_out),
        min(_descended(problem, step, never) for step in (100.0, 10.0, 1.0)),
    )
    return [effect]


def _descended(problem: LinearProblem, step: float, measured: Callable[[Array], float] | None) -> float:
    """The least objective that was met. The step is halved when ``measured`` rises; None stands for the objective."""
    loss, total = PrunedLoss(problem, overhead=math.inf), float(problem.C.sum())
    w, last, least = np.zeros(problem.rows.n_features + 1), math.inf, math.inf
    for _ in range(STEP_ITERATIONS):
        here = loss.evaluate(w)
        objective = (here.loss + 0.5 * problem.sqnorm(w)) / total
        value = objective if measured is None else measured(w)
        step = 0.5 * step if value > last else step
        w = w - step / total * (problem.regulariser * w - here.weights)
        last, least = value, min(least, objective)
    return least


def steps_table(lines: Iterable[StepEffect]) -> Table:
    halved = ("halved when the objective rises", "when training errors rise", "when held-out errors rise", "constant")
    table = Table("data", "iterations", *halved)
    for line in lines:
        table.add(line.name, line.iterations, *(f"{value:.5f}" for value in line[2:]))
    return table


class RunLength(NamedTuple):
    """The objective of Pegasos after powers of ten, in the mean over the seeds, and the T that the paper's rule finds."""

    name: str
    k: int
    objectives: list[float]
    paper_T: int

    @property
    def T(self) -> int | None:
        for power in range(1, len(self.objectives)):
            if abs(self.objectives[power - 1] - self.objectives[power]) < CONVERGED:
                return int(10 ** (power + 1))
        return None


def run_lengths(case: Case, split: Split) -> list[RunLength]:
    X, y = split.train
    problem = LinearProblem.build(X, y, cost_from_lambda(case.lambda_3, len(y)), Hinge())
    lines = []
    for k, powers in ((100, 5), (1000, 4)):
        states = [Pegasos(k).init(problem, None, seed) for seed in range(SEEDS)]
        objectives = []
        for power in range(1, powers + 1):
            for state in states:
                state.averages = state.averages[:0]
                state.run(10**power - state.iterations)
            values = [case.lambda_3 * problem.primal(state.w[: problem.n_weights]) for state in states]
            objectives.append(float(np.mean(values)))
        lines.append(RunLength(case.name, k, objectives, case.T[k]))
    return lines


def run_lengths_table(lines: Iterable[RunLength]) -> Table:
    powers = [f"T = 1e{power}" for power in range(1, 6)]
    table = Table("data", "k", *powers, "T by the paper's rule", "T of the paper")
    for line in lines:
        values = [f"{value:.4f}" for value in line.objectives] + ["-"] * (5 - len(line.objectives))
        table.add(line.name, line.k, *values, f"{line.T:.0e}" if line.T else "not reached", f"{line.paper_T:.0e}")
    return table


class LongRun(NamedTuple):
    """The descent as printed on text, looked at now and then: iterations, the share of margins computed so far and since the
    last look, sorts, and the last relative change of the objective."""

    name: str
    iterations: int
    computed: float
    computed_lately: float
    sorts: int
    change: float
    objective: float
    seconds: float


def long_run(case: Case, split: Split) -> list[LongRun]:
    """All looks that come within LONGEST seconds of processor time."""
    lines: list[LongRun] = []
    for line in looks_at_long_run(case, split):
        print(f"{line}", flush=True)
        lines.append(line)
        if line.seconds > LONGEST:
            break
    return lines


def looks_at_long_run(case: Case, split: Split) -> Iterator[LongRun]:
    begun = time.process_time()
    state = PrunedGradient(evaluation="paper").init(descent_problem(case, split, 0.01), None, 0)
    state.averages.weight = 0.0
    n, examined, seen = state.problem.n_samples, 0, 0
    for end in LOOKS:
        while state.iterations < end:
            state.iterate()
        tally = state.loss.tally
        lately = (tally.examined - examined) / ((end - seen) * n)
        shares, seconds = (tally.examined / (end * n), lately), time.process_time() - begun
        yield LongRun(case.name, end, *shares, tally.sorted, state.change, state.objective, seconds)
        examined, seen = tally.examined, end


def long_run_table(lines: Iterable[LongRun]) -> Table:
    table = Table(
        "data", "iterations", "margins computed", "since the line above", "sorts", "relative change", "objective", "processor s"
    )
    for line in lines:
        shares = (f"{100 * share:.0f}%" for share in (line.computed, line.computed_lately))
        table.add(
            line.name,
            line.iterations,
            *shares,
            line.sorts,
            f"{line.change:.1e}",
            f"{line.objective:.3e}",
            f"{line.seconds:.0f}",
        )
    return table


class Layout(NamedTuple):
    """Milliseconds of a plain evaluation in either layout, the fastest of several."""

    name: str
    csr: float
    dense: float
    two_products: float


def layout_of(name: str, split: Split) -> Layout:
    X, y = split.train
    dense, w = X.toarray(), np.full(X.shape[1] + 1, 1e-3)
    evaluations: list[Callable[[], Any]] = []
    for matrix in (X, dense):
        loss = PrunedLoss(LinearProblem.build(matrix, y, 1.0, Huber(0.01)), overhead=math.inf)
        evaluations.append(partial(loss.evaluate, w))
    evaluations.append(partial(_two_products, dense, y, w[:-1]))
    return Layout(name, *(1e3 * _fastest(evaluation) for evaluation in evaluations))


def layouts(lines: Iterable[Layout]) -> Table:
    table = Table("data", "CSR (ms)", "dense (ms)", "dense, two BLAS products (ms)")
    for line in lines:
        table.add(line.name, *(f"{value:.1f}" for value in line[1:]))
    return table


def _two_products(X: Array, y: Array, w: Array) -> Array:
    """The margins and the gradient by BLAS, which goes through X twice."""
    gradient: Array = X.T @ (y * (y * (X @ w) < 1.0))
    return gradient


def _fastest(run: Callable[[], Any], repeats: int = 5) -> float:
    run()
    return min(seconds_of_run(run) for _ in range(repeats))


def seconds_of_run(run: Callable[[], Any]) -> float:
    """Processor time."""
    start = time.process_time()
    run()
    return time.process_time() - start
