"""Tables 2 and 3, Figure 3 and the claims of Guillory and Bilmes, "Practical Methods for Exploiting Bounds on Change in the
Margin" (2007), made again on covtype.binary.scale, mnist (8 against the rest), usps (8 against the rest) and news20_bigram,
which stands for RCV1. The paper's USPS has 266,079 samples; ours is the original one with 7,291.

Both contestants of a pair are the same program, one thread, with and without pruning. They take turns, a block of iterations
each, so that a busy moment hits both alike; the whole is done several times, and of each block the fastest counts. Every case
is kept in ``.cache`` by the hash of the sources: a run that was cut off goes on where it was. It takes a quarter of an hour.

usps is dense, the others CSR, which for covtype (22% nonzero) and mnist (19%) is the faster layout of the two for a plain
evaluation, as a table shows. The plain evaluation is one compiled pass that computes the margin of a row and, while it is in
the cache, adds it to the gradient.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import math
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.datasets import CACHE, ROOT, Data, data_folder, load, load_test, write_text
from benchmarks.measure import Table, arguments, write_figure, write_report
from benchmarks.papers.bounds_on_change_report import (
    CASES,
    EPSILONS,
    GOALS_2,
    NOTES,
    USPS,
    Case,
    Descent,
    Followed,
    Stochastic,
    claims,
    figure_3,
    figure_3_data,
    followed_table,
    table_2,
    table_3,
)
from maxmargin.data import Array
from maxmargin.losses import Hinge, Huber
from maxmargin.margin_bounds import PrunedLoss, Spheres
from maxmargin.problem import LinearProblem
from maxmargin.solvers.coded_centres import CodedCentres
from maxmargin.solvers.pegasos import Pegasos
from maxmargin.solvers.pegasos_state import PegasosState
from maxmargin.solvers.pruned_gradient import DescentState, PrunedGradient, cost_from_lambda

STEM = "bounds_on_change_in_the_margin"
WIDTH = 0.01
BLOCKS = 60
"""In so many blocks, at most, a run is cut."""
REPEATS_2, REPEATS_3 = 2, 3
MOST_CODED = 10_000
"""Features: with more, centres are not coded."""
QUICK_ROWS, QUICK_ITERATIONS = 3000, 150


class Split(NamedTuple):
    train: Data
    test: Data


def split_of(name: str) -> Split:
    """The official test set, or, as in the paper, a tenth of the rows where there is none."""
    if name == USPS:
        return Split(_usps("usps"), _usps("usps.t"))
    source = name.removesuffix(" (8)")
    data, test = load(source), load_test(source)
    if test is not None:
        return Split(data, test)
    order = np.random.default_rng(0).permutation(len(data.y))
    held_out, kept = np.sort(order[: len(order) // 10]), np.sort(order[len(order) // 10 :])
    return Split(Data(data.X[kept], data.y[kept]), Data(data.X[held_out], data.y[held_out]))


def _usps(file: str) -> Data:
    with lzma.open(data_folder() / f"{file}.xz", "rb") as text:
        X, labels = load_svmlight_file(text, n_features=256, zero_based=False)
    return Data(np.ascontiguousarray(X.toarray()), np.where(labels == 8.0, 1.0, -1.0))


def shortened(split: Split, is_quick: bool) -> Split:
    return Split(Data(split.train.X[:QUICK_ROWS], split.train.y[:QUICK_ROWS]), split.test) if is_quick else split


def table_2_of(case: Case, split: Split, most: int, repeats: int) -> list[Descent]:
    """Both descents side by side, several times; as both are the same every time, so are the blocks."""
    X, y = split.train
    problem = LinearProblem.build(X, y, cost_from_lambda(case.lambda_2, len(y)), Huber(WIDTH), 1.0, False)
    _warm_up(problem, lambda overhead: _descent(problem, overhead), descend)
    runs = [_descend_once(case, split, problem, most) for _ in range(repeats)]
    fastest = np.min([run.seconds for run in runs], axis=0)
    lines = []
    for line, blocks in zip(runs[0].lines, runs[0].ends, strict=True):
        plain, pruned = (float(seconds) for seconds in fastest[:blocks].sum(axis=0))
        lines.append(line._replace(plain_seconds=plain, pruned_seconds=pruned))
        print(f"{case.name} {line.epsilon:g}: {line.iterations} iterations, {lines[-1].speed_up:.2f}x", flush=True)
    return lines


class DescentRun(NamedTuple):
    """``seconds`` of either contestant in every block; the lines, and how many blocks belong to each."""

    seconds: list[tuple[float, float]]
    lines: list[Descent]
    ends: list[int]


def _descend_once(case: Case, split: Split, problem: LinearProblem, most: int) -> DescentRun:
    """A block ends where the next epsilon is met, so that its line has the time to just there."""
    run = DescentRun([], [], [])
    plain, pruned = (_descent(problem, overhead) for overhead in (math.inf, 10.0))
    for epsilon in EPSILONS:
        plain.epsilon = epsilon
        while plain.iterations < most and not plain.change < epsilon:
            block = min(max(25, plain.iterations // 8), most - plain.iterations)
            seconds = _seconds(partial(_until_change, plain, block))
            run.seconds.append((seconds, _seconds(partial(descend, pruned, plain.iterations - pruned.iterations))))
        run.lines.append(_line_2(case, split, epsilon, pruned, plain))
        run.ends.append(len(run.seconds))
        if not run.lines[-1].reached:
            break
    return run


def _seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def _descent(problem: LinearProblem, overhead: float) -> DescentState:
    state = PrunedGradient(overhead=overhead).init(problem, None, 0)
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


def _warm_up(problem: LinearProblem, make: Callable[[float], Any], advance: Callable[[Any, int], None]) -> None:
    """Compile, and touch the memory; a w that stands still is the way to a sorted index."""
    for overhead in (0.01, math.inf):
        advance(make(overhead), 12)
    loss = PrunedLoss(problem, spheres=Spheres.default(problem))
    for _ in range(15):
        loss.evaluate(np.zeros(problem.rows.n_features + 1))


def _line_2(case: Case, split: Split, epsilon: float, pruned: DescentState, plain: DescentState) -> Descent:
    """Without the seconds."""
    tally = pruned.loss.tally
    return Descent(
        case.name,
        epsilon,
        bool(plain.change < epsilon),
        plain.iterations,
        math.nan,
        math.nan,
        1.0 - tally.examined / (pruned.problem.n_samples * tally.evaluations),
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
    pruned, plain, other = (_descent(problem, overhead) for overhead in (10.0, math.inf, math.inf))
    brute_force, farthest = PrunedLoss(problem, overhead=math.inf), 0.0
    for k in range(iterations):
        w = pruned.w.copy()
        for state in (pruned, plain, other):
            state.iterate()
        if k == 0:
            other.w = np.nextafter(other.w, np.inf)
            other.origin = other.w
        farthest = max(farthest, _evaluations_apart(pruned, w, brute_force))
    return Followed(case.name, iterations, farthest, difference(pruned.w, plain.w), difference(other.w, plain.w))


def _evaluations_apart(state: DescentState, w: Array, brute_force: PrunedLoss) -> float:
    """The objective that the descent has found at w, and the step that it has made from there, against brute force."""
    exact = brute_force.evaluate(w)
    problem, shrinking = state.problem, state.step / state.total_cost
    objective = (exact.loss + 0.5 * float(np.sum(problem.regulariser * w * w))) / state.total_cost
    after = w - shrinking * problem.regulariser * w + shrinking * exact.weights
    return max(abs(objective - state.objective) / objective, difference(state.w, after))


def table_3_of(case: Case, split: Split, k: int, T: int, repeats: int) -> Stochastic:
    X, y = split.train
    problem = LinearProblem.build(X, y, cost_from_lambda(case.lambda_3, len(y)), Hinge())
    _warm_up(problem, lambda overhead: _pegasos(problem, k, overhead), PegasosState.run)
    _touch_codes(problem)
    rounds: list[list[list[float]]] = []
    for _ in range(repeats):
        plain, pruned = (_pegasos(problem, k, overhead) for overhead in (math.inf, 10.0))
        rounds.append([])
        while plain.iterations < T:
            block = min(max(20, T // BLOCKS), T - plain.iterations)
            rounds[-1].append([_seconds(partial(state.run, block)) for state in (plain, pruned)])
    plain_seconds, pruned_seconds = (float(seconds) for seconds in np.min(rounds, axis=0).sum(axis=0))
    w = plain.w
    line = Stochastic(
        case.name,
        k,
        T,
        plain_seconds,
        pruned_seconds,
        1.0 - pruned.examined / (k * T),
        difference(pruned.w, w),
        case.lambda_3 * problem.primal(w[: problem.n_weights]),
        _error(split.test, np.append(w[: problem.rows.n_features], 0.0)),
    )
    print(f"{case.name} k = {k}: {line.speed_up:.2f}x", flush=True)
    return line


def _pegasos(problem: LinearProblem, k: int, overhead: float) -> PegasosState:
    state = Pegasos(k, overhead).init(problem, None, 0)
    state.averages = state.averages[:0]  # no dual point
    return state


def _touch_codes(problem: LinearProblem) -> None:
    """Compile what comes late in a run. No more is kept of it."""
    few = LinearProblem.build(problem.rows.matrix[:2], problem.y[:2], 1.0, Hinge())
    if few.rows.n_features <= MOST_CODED:
        CodedCentres.of(few)


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
        loss = PrunedLoss(LinearProblem.build(matrix, y, 1.0, Huber(WIDTH)), overhead=math.inf)
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
    return min(_seconds(run) for _ in range(repeats))


def kept(options: argparse.Namespace, name: str, line: Callable[..., Any], compute: Callable[[], list[Any]]) -> list[Any]:
    """What ``compute`` returns; from the file, if a run of the same sources has got that far before."""
    path: Path = options.run / f"{name}.json"
    if not path.exists():
        values = [value._asdict() for value in compute()]
        write_text(path, json.dumps(values))
    return [line(**value) for value in json.loads(path.read_text())]


def _digest() -> str:
    sources = [*sorted((ROOT / "src" / "maxmargin").rglob("*.py")), Path(__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", help="a name for this run: cases of other runs, of the same sources, are not used")


class Results(NamedTuple):
    descents: list[Descent]
    stochastic: list[Stochastic]
    followed: list[Followed]
    layouts: list[Layout]


def measure(options: argparse.Namespace, case: Case, quick: bool) -> Results:
    split = cache(partial(_split_for, case, quick))
    most, repeats_2, repeats_3 = (QUICK_ITERATIONS, 2, 2) if quick else (case.most, REPEATS_2, REPEATS_3)
    name = case.name.partition(" ")[0]
    descents = kept(options, f"{name}-descent", Descent, lambda: table_2_of(case, split(), most, repeats_2))
    stochastic = []
    for k, T in case.T.items():
        length = min(T, QUICK_ITERATIONS) if quick else T
        compute = partial(_line_3, case, split, k, length, repeats_3)
        stochastic += kept(options, f"{name}-pegasos-{k}", Stochastic, compute)
    followed = kept(options, f"{name}-followed", Followed, lambda: [follow(case, split(), min(most, case.followed))])
    is_shown = case.name in GOALS_2
    by_layout = kept(options, f"{name}-layouts", Layout, lambda: [layout_of(case.name, split())]) if is_shown else []
    return Results(descents, stochastic, followed, by_layout)


def _line_3(case: Case, split: Callable[[], Split], k: int, T: int, repeats: int) -> list[Stochastic]:
    return [table_3_of(case, split(), k, T, repeats)]


def main() -> None:
    options = arguments(__doc__, _own_options)
    quick = bool(options.quick)
    options.run = CACHE / STEM / "-".join(filter(None, (_digest(), options.run, "quick" if quick else "")))
    print(f"Cases: {options.run.relative_to(ROOT)}", flush=True)
    results = [measure(options, case, quick) for case in CASES]
    descents, stochastic, followed, by_layout = (list(chain.from_iterable(column)) for column in zip(*results, strict=True))
    synthetic = figure_3_data(5000 if quick else 100_000)
    judged = claims(descents, stochastic, followed, synthetic)
    write_figure(options.results / f"{STEM}.png", figure_3(synthetic))
    parts: list[object] = ["## The claims", judged, "## Table 2: gradient descent", table_2(descents)]
    parts += ["## Table 3: Pegasos", table_3(stochastic), "## Iterates with and without pruning", followed_table(followed)]
    parts += ["## A plain evaluation by layout", layouts(by_layout), NOTES]
    parts += [f"## Figure 3: points to examine for zero-one loss\n\n![Figure 3]({STEM}.png)"]
    write_report(options.results / f"{STEM}.md", "Guillory and Bilmes (2007), made again", parts, quick)


def _split_for(case: Case, quick: bool) -> Split:
    return shortened(split_of(case.name), quick)


if __name__ == "__main__":
    main()
