"""Dual coordinate descent itself, with the paper's own stopping rule (17), against LIBLINEAR's at the same epsilon.

C = 1, hinge loss, no intercept. Both start from the data in their own form: building it is timed by neither.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from benchmarks.datasets import NAMES, QUICK_NAMES, Data, load
from benchmarks.measure import Table, arguments, geometric_mean, interleaved, seconds_text, write_report
from benchmarks.peers import DUAL_SOLVERS, liblinear_fit, liblinear_problem
from benchmarks.references import reference
from maxmargin import DCD, LinearProblem
from maxmargin.data.rows import Array
from maxmargin.solvers.base import Budget

EPSILONS = (0.1, 0.01)
MAX_SWEEPS = 300
"""LIBLINEAR's own cap."""
MEAN_TO_REACH, LEAST_TO_REACH = 1.5, 1.0
SECONDS_A_CELL = 25.0


class Run(NamedTuple):
    seconds: float
    w: Array
    iterations: int
    hit_cap: bool


def dcd_fit(problem: LinearProblem, epsilon: float) -> Run:
    """Sweeps until (17) holds, with no certificate and no other test."""
    solver = DCD(epsilon=epsilon, stop="paper")
    start = time.perf_counter()
    state = solver.init(problem, None, 0)
    while not state.looks_done and state.sweeps < MAX_SWEEPS:
        sweeps = min(10, MAX_SWEEPS - state.sweeps)
        solver.advance(problem, state, Budget(sweeps * max(state.active, 1000), 0.0))
    w, _ = solver.candidate(problem, state)
    return Run(time.perf_counter() - start, w.copy(), state.sweeps, not state.looks_done)


def compare(table: Table, name: str, data: Data, repeats: int) -> list[float]:
    """A row for each epsilon; how many times faster we are."""
    best = reference(name, data, 1.0, "hinge")
    prepared = liblinear_problem(data)
    ratios = []
    for epsilon in EPSILONS:

        def ours(epsilon: float = epsilon) -> Run:
            return dcd_fit(best.problem, epsilon)

        def theirs(epsilon: float = epsilon) -> Run:
            return Run(*liblinear_fit(prepared, 1.0, DUAL_SOLVERS["hinge"], epsilon))

        runs = interleaved({"ours": ours, "theirs": theirs}, repeats, SECONDS_A_CELL)
        a, b = runs["ours"], runs["theirs"]
        ratios.append(b.seconds / a.seconds)
        times = (seconds_text(a.seconds), seconds_text(b.seconds), f"{ratios[-1]:.2f}")
        table.add(name, epsilon, *times, sweeps(a), sweeps(b), f"{best.excess(a.w):.1e}", f"{best.excess(b.w):.1e}")
    return ratios


def sweeps(run: Run) -> str:
    return f"{run.iterations} (cap)" if run.hit_cap else str(run.iterations)


def verdict(ratios: list[float]) -> str:
    mean, least = geometric_mean(ratios), min(ratios)
    return (
        f"**Geometric mean of the ratios {mean:.2f}** (to reach: {MEAN_TO_REACH}, "
        f"{'met' if mean >= MEAN_TO_REACH else 'NOT met'}); **least {least:.2f}** "
        f"(nowhere slower: {'met' if least >= LEAST_TO_REACH else 'NOT met'})."
    )


def warm_up(data: Data) -> None:
    dcd_fit(LinearProblem.build(data.X[:100], data.y[:100]), 0.1)


def main() -> None:
    options = arguments(__doc__)
    columns = ("set", "epsilon", "maxmargin s", "LIBLINEAR s", "ratio", "sweeps", "sweeps (L)", "excess", "excess (L)")
    table = Table(*columns)
    ratios: list[float] = []
    warm_up(load("a9a"))
    for name in QUICK_NAMES if options.quick else NAMES:
        ratios += compare(table, name, load(name), repeats=2 if options.quick else 7)
    notes = (
        "Excess: how far the primal value can be above the optimum at most, relative to it, by the certificate of the answer "
        f"with a reference alpha. Both have a cap of {MAX_SWEEPS} sweeps; (cap) marks a run that ended there. "
        "A sweep of either goes over the samples that are not shrunk. Ratio: LIBLINEAR's seconds over ours."
    )
    print("\n" + verdict(ratios))
    title = "Dual coordinate descent against LIBLINEAR -s 3, the same rule (17), C = 1"
    write_report(options.results / "dcd_algorithm.md", title, (verdict(ratios), table, notes), options.quick)


if __name__ == "__main__":
    main()
