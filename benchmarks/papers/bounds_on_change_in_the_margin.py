"""Tables 2 and 3, Figure 3 and the claims of Guillory and Bilmes, "Practical Methods for Exploiting Bounds on Change in the
Margin" (2007), made again on covtype.binary.scale, mnist (8 against the rest), usps (8 against the rest), and two sets of text
that stand for RCV1: svmlight_example1, which is Reuters text too but a tenth as large, and news20_bigram, which is as large but
has forty times the features. The paper's USPS has 266,079 samples; ours is the original one with 7,291.

The contestants are the same program, one thread: without pruning, with Algorithms 1 to 3 as printed, and with our variant.
They take turns, a block of iterations each, so that a busy moment hits all alike. Every case is kept in ``.cache`` by the
hash of the sources: a run that was cut off goes on where it was. ``--part`` measures some of the parts, and the report has
the parts that were measured. All take half an hour.

usps is dense, the others CSR, which for covtype (22% nonzero) and mnist (19%) is the faster layout of the two for a plain
evaluation, as a table shows. The plain evaluation is one compiled pass that computes the margin of a row and, while it is in
the cache, adds it to the gradient.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import CACHE, ROOT, Data, write_text
from benchmarks.measure import arguments, write_figure, write_report
from benchmarks.papers.bounds_on_change_data import CASES, MNIST, NEWS20, TEXTS, USPS, Case, Split, split_of
from benchmarks.papers.bounds_on_change_effects import (
    Layout,
    LongRun,
    RunLength,
    StepEffect,
    WidthEffect,
    layout_of,
    layouts,
    long_run,
    long_run_table,
    run_lengths,
    run_lengths_table,
    seconds_of_run,
    step_effects,
    steps_table,
    width_effects,
    widths_table,
)
from benchmarks.papers.bounds_on_change_report import (
    EPSILONS,
    GOALS_2,
    Descent,
    Followed,
    Stochastic,
    claims,
    followed_table,
    table_2,
    table_3,
)
from benchmarks.papers.bounds_on_change_synthetic import figure_3, figure_3_data
from benchmarks.papers.bounds_on_change_text import NOTES, TRIED
from benchmarks.papers.bounds_tried import (
    DUAL_SETS,
    QUADRATIC_SETS,
    DualTrial,
    QuadraticTrial,
    dual_table,
    dual_trials,
    quadratic_table,
    quadratic_trial,
)
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.coded_centres import CodedCentres
from maxmargin.margin_bounds.pruned_loss import PrunedLoss
from maxmargin.margin_bounds.spheres import Spheres
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber
from maxmargin.solvers.linear.pegasos import Pegasos
from maxmargin.solvers.linear.pegasos_state import PegasosState
from maxmargin.solvers.linear.pruned_gradient import DescentState, PrunedGradient, cost_from_lambda

STEM = "bounds_on_change_in_the_margin"
WIDTH = 0.01
BLOCKS = 60
"""In so many blocks, at most, a run is cut."""
REPEATS = 1
"""Runs of each case. Blocks are short and the contestants take turns, so that one is fair already."""
MOST_CODED = 10_000
"""Features: with more, centres are not coded."""
QUICK_ITERATIONS = 150
PLAIN, PRINTED, OURS = "plain", "paper", "ours"


def table_2_of(case: Case, split: Split, most: int, repeats: int) -> list[Descent]:
    """The descents side by side, several times; as all are the same every time, so are the blocks."""
    X, y = split.train
    problem = LinearProblem.build(X, y, cost_from_lambda(case.lambda_2, len(y)), Huber(WIDTH), 1.0, False)
    _warm_up(problem, partial(_descent, problem), descend)
    runs = [_descend_once(case, split, problem, most) for _ in range(repeats)]
    fastest = np.min([run.seconds for run in runs], axis=0)
    lines = []
    for line, blocks in zip(runs[0].lines, runs[0].ends, strict=True):
        plain, printed, pruned = (float(seconds) for seconds in fastest[:blocks].sum(axis=0))
        lines.append(line._replace(plain_seconds=plain, printed_seconds=printed, pruned_seconds=pruned))
        print(f"{case.name} {line.epsilon:g}: {line.iterations} iterations, {lines[-1].speed_up:.2f}x", flush=True)
    return lines


class DescentRun(NamedTuple):
    """``seconds`` of each contestant in every block; the lines, and how many blocks belong to each."""

    seconds: list[list[float]]
    lines: list[Descent]
    ends: list[int]


def _descend_once(case: Case, split: Split, problem: LinearProblem, most: int) -> DescentRun:
    """A block ends where the next epsilon is met, so that its line has the time to just there."""
    run = DescentRun([], [], [])
    plain, printed, pruned = (_descent(problem, kind) for kind in (PLAIN, PRINTED, OURS))
    for epsilon in EPSILONS:
        plain.epsilon = epsilon
        while plain.iterations < most and not plain.change < epsilon:
            block = min(max(25, plain.iterations // 8), most - plain.iterations)
            seconds = [seconds_of_run(partial(_until_change, plain, block))]
            for state in (printed, pruned):
                seconds.append(seconds_of_run(partial(descend, state, plain.iterations - state.iterations)))
            run.seconds.append(seconds)
        run.lines.append(_line_2(case, split, epsilon, pruned, printed, plain))
        run.ends.append(len(run.seconds))
        if not run.lines[-1].reached:
            break
    return run


def _descent(problem: LinearProblem, kind: str, overhead: float = 10.0) -> DescentState:
    settings = PrunedGradient(
        overhead=math.inf if kind == PLAIN else overhead, evaluation="paper" if kind == PRINTED else "pruned"
    )
    state = settings.init(problem, None, 0)
    state.averages.weight = 0.0  # no dual point: the paper's algorithm alone is timed
    return state


def descend(state: DescentState, iterations: int) -> None:
    for _ in range(iterations):
        state.iterate()


def _until_change(state: DescentState, iterations: int) -> None:
    for _ in range(iterations):
        if state.change < state.epsilon:
            return
        state.iterate()


def _warm_up(problem: LinearProblem, make: Callable[[str, float], Any], advance: Callable[[Any, int], None]) -> None:
    """Compile, and touch the memory; a w that stands still is the way to a sorted index."""
    for kind in (PLAIN, PRINTED, OURS):
        advance(make(kind, 0.01), 12)
    loss = PrunedLoss(problem, spheres=Spheres.default(problem))
    for _ in range(15):
        loss.evaluate(np.zeros(problem.rows.n_features + 1))


def _line_2(
    case: Case, split: Split, epsilon: float, pruned: DescentState, printed: DescentState, plain: DescentState
) -> Descent:
    all_margins = plain.problem.n_samples * plain.iterations
    return Descent(
        case.name,
        epsilon,
        bool(plain.change < epsilon),
        plain.iterations,
        math.nan,
        math.nan,
        math.nan,
        1.0 - printed.loss.tally.examined / all_margins,
        1.0 - pruned.loss.tally.examined / all_margins,
        printed.loss.tally.sorted,
        abs(pruned.objective - plain.objective) / plain.objective,
        _error(split.train, pruned.w),
        _error(split.test, pruned.w),
    )


def _error(data: Data, w: Array) -> float:
    return 100.0 * float(np.mean((data.X @ w[:-1] + w[-1]) * data.y <= 0.0))


def difference(one: Array, other: Array) -> float:
    scale = float(np.linalg.norm(other))
    return float(np.linalg.norm(one - other)) / scale if scale else 0.0


def follow(case: Case, split: Split, iterations: int) -> Followed:
    """Not timed: at every w of the pruned descent the same is computed by brute force."""
    X, y = split.train
    problem = LinearProblem.build(X, y, cost_from_lambda(case.lambda_2, len(y)), Huber(WIDTH), 1.0, False)
    pruned, printed, plain, other = (_descent(problem, kind) for kind in (OURS, PRINTED, PLAIN, PLAIN))
    brute_force, farthest = PrunedLoss(problem, overhead=math.inf), 0.0
    for k in range(iterations):
        before = [state.w.copy() for state in (pruned, printed)]
        for state in (pruned, printed, plain, other):
            state.iterate()
        if k == 0:
            other.w = np.nextafter(other.w, np.inf)
            other.origin = other.w
        farthest = max(farthest, *map(_evaluations_apart, (pruned, printed), before, [brute_force] * 2))
    return Followed(case.name, iterations, farthest, difference(pruned.w, plain.w), difference(other.w, plain.w))


def _evaluations_apart(state: DescentState, w: Array, brute_force: PrunedLoss) -> float:
    """The objective that the descent has found at w, and the step that it has made from there, against brute force."""
    exact = brute_force.evaluate(w)
    problem, shrinking = state.problem, state.step / state.total_cost
    objective = (exact.loss + 0.5 * float(np.sum(problem.regulariser * w * w))) / state.total_cost
    after = w - shrinking * problem.regulariser * w + shrinking * exact.weights
    return max(abs(objective - state.objective) / objective, difference(state.w, after))


def table_3_of(case: Case, split_for: Callable[[], Split], k: int, T: int, repeats: int) -> list[Stochastic]:
    split = split_for()
    X, y = split.train
    problem = LinearProblem.build(X, y, cost_from_lambda(case.lambda_3, len(y)), Hinge())
    _warm_up(problem, partial(_pegasos, problem, k), PegasosState.run)
    _touch_codes(problem)
    rounds: list[list[list[float]]] = []
    for _ in range(repeats):
        plain, printed, pruned = states = [_pegasos(problem, k, kind) for kind in (PLAIN, PRINTED, OURS)]
        rounds.append([])
        while plain.iterations < T:
            block = min(max(20, T // BLOCKS), T - plain.iterations)
            rounds[-1].append([seconds_of_run(partial(state.run, block)) for state in states])
    plain_seconds, printed_seconds, pruned_seconds = (float(seconds) for seconds in np.min(rounds, axis=0).sum(axis=0))
    w = plain.w
    line = Stochastic(
        case.name,
        k,
        T,
        plain_seconds,
        printed_seconds,
        pruned_seconds,
        1.0 - printed.examined / (k * T),
        1.0 - pruned.examined / (k * T),
        printed.times_stored * len(y) / (k * T),
        max(difference(state.w, w) for state in (printed, pruned)),
        case.lambda_3 * problem.primal(w[: problem.n_weights]),
        _error(split.test, np.append(w[: problem.rows.n_features], 0.0)),
    )
    print(f"{case.name} k = {k}: as printed {line.printed_speed_up:.2f}x, ours {line.speed_up:.2f}x", flush=True)
    return [line]


def _pegasos(problem: LinearProblem, k: int, kind: str, overhead: float = 10.0) -> PegasosState:
    bounds = "paper" if kind == PRINTED else "coded"
    state = Pegasos(k, math.inf if kind == PLAIN else overhead, bounds).init(problem, None, 0)
    state.averages = state.averages[:0]  # no dual point
    return state


def _touch_codes(problem: LinearProblem) -> None:
    """Compile what comes late in a run. No more is kept of it."""
    few = LinearProblem.build(problem.rows.matrix[:2], problem.y[:2], 1.0, Hinge())
    if few.rows.n_features <= MOST_CODED:
        CodedCentres.of(few)


def _digest() -> str:
    sources = sorted((ROOT / "src" / "maxmargin").rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]


PARTS = ("table-3", "tried", "effects", "table-2", "long")


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", help="a name for this run: cases of other runs, of the same sources, are not used")
    parser.add_argument("--part", choices=PARTS, action="append", help="measure this part alone (may be given several times)")


class Session(NamedTuple):
    """Where cases are kept, whether all is shortened, and which parts are measured if they are not there yet."""

    folder: Path
    is_quick: bool
    parts: tuple[str, ...]

    def kept(self, part: str, name: str, line: Callable[..., Any], compute: Callable[[], list[Any]]) -> list[Any]:
        """What ``compute`` returns; from the file, if a run of the same sources has got that far before. Nothing, if the part
        is not asked for and not there."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            if part not in self.parts:
                return []
            write_text(path, json.dumps([value._asdict() for value in compute()]))
        return [line(**value) for value in json.loads(path.read_text())]


class Results(NamedTuple):
    descents: list[Descent]
    stochastic: list[Stochastic]
    followed: list[Followed]
    layouts: list[Layout]
    widths: list[WidthEffect]
    steps: list[StepEffect]
    lengths: list[RunLength]
    long: list[LongRun]


def measure(session: Session, case: Case, results: Results) -> None:
    split = cache(partial(split_of, case.name, session.is_quick))
    most = QUICK_ITERATIONS if session.is_quick else case.most
    name = case.name.partition(" ")[0]
    for k, T in case.T.items():
        length = min(T, QUICK_ITERATIONS) if session.is_quick else T
        compute = partial(table_3_of, case, split, k, length, REPEATS)
        results.stochastic.extend(session.kept("table-3", f"{name}-pegasos-{k}", Stochastic, compute))
    results.descents.extend(
        session.kept("table-2", f"{name}-descent", Descent, lambda: table_2_of(case, split(), most, REPEATS))
    )
    results.followed.extend(
        session.kept("table-2", f"{name}-followed", Followed, lambda: [follow(case, split(), min(most, case.followed))])
    )
    if case.name in GOALS_2:
        compute_layout = partial(_layouts_of, case, split)
        results.layouts.extend(session.kept("table-2", f"{name}-layouts", Layout, compute_layout))
    if case.name in (MNIST, USPS):
        results.widths.extend(session.kept("effects", f"{name}-widths", WidthEffect, lambda: width_effects(case, split())))
        results.steps.extend(session.kept("effects", f"{name}-steps", StepEffect, lambda: step_effects(case, split())))
    if case.name not in TEXTS:
        results.lengths.extend(session.kept("effects", f"{name}-lengths", RunLength, lambda: run_lengths(case, split())))
    if case.name == NEWS20 and not session.is_quick:
        results.long.extend(session.kept("long", f"{name}-long", LongRun, lambda: long_run(case, split())))


def measure_all(session: Session) -> tuple[Results, list[object]]:
    results = Results([], [], [], [], [], [], [], [])
    trials = tried(session)
    for case in CASES:
        measure(session, case, results)
    return results, trials


def _layouts_of(case: Case, split: Callable[[], Split]) -> list[Layout]:
    return [layout_of(case.name, split())]


def tried(session: Session) -> list[object]:
    duals: list[DualTrial] = []
    quadratics: list[QuadraticTrial] = []
    for name, C in DUAL_SETS:
        duals += session.kept("tried", f"dual-{name}-{C:g}", DualTrial, partial(dual_trials, name, C))
    for name in QUADRATIC_SETS:
        quadratics += session.kept("tried", f"quadratic-{name}", QuadraticTrial, partial(_quadratic_trials, name))
    return [TRIED, dual_table(duals), quadratic_table(quadratics)]


def _quadratic_trials(name: str) -> list[QuadraticTrial]:
    return [quadratic_trial(name)]


def main() -> None:
    options = arguments(__doc__, _own_options)
    quick = bool(options.quick)
    folder = CACHE / STEM / "-".join(filter(None, (_digest(), options.run, "quick" if quick else "")))
    print(f"Cases: {folder.relative_to(ROOT)}", flush=True)
    session = Session(folder, quick, tuple(options.part or PARTS))
    for part in session.parts:
        measure_all(session._replace(parts=(part,)))
    results, trials = measure_all(session)
    synthetic = figure_3_data(5000 if quick else 100_000)
    parts: list[object] = ["## The claims", claims(*results[:3], synthetic)]
    parts += ["## Table 2: gradient descent", table_2(results.descents), "## Table 3: Pegasos", table_3(results.stochastic)]
    parts += ["## Iterates with and without pruning", followed_table(results.followed)]
    parts += ["## A plain evaluation by layout", layouts(results.layouts), NOTES]
    parts += ["## The effect of h", widths_table(results.widths), "## Rules for the step", steps_table(results.steps)]
    parts += ["## How long Pegasos has to run", run_lengths_table(results.lengths)]
    parts += ["## Text, for as long as in the paper", long_run_table(results.long)] if results.long else []
    parts += trials
    parts += [f"## Figure 3: points to examine for zero-one loss\n\n![Figure 3]({STEM}.png)"]
    write_figure(options.results / f"{STEM}.png", figure_3(synthetic))
    write_report(options.results / f"{STEM}.md", "Guillory and Bilmes (2007), made again", parts, quick)


if __name__ == "__main__":
    main()
