"""Tables 2 and 3 and the claims of F. Perez-Cruz et al., "Fast training of support vector classifiers", made again:
k(x, z) = exp(-|x - z|^2 / (2 sigma^2)), eps = 1e-3 in the stopping conditions (9) to (11).

Table 2 compares the paper's engine (Table 1 as printed), ours (active-set Newton) and an interior-point method (PIQP, dense;
the paper had LOQO) on working sets that are chosen in the same way, SVMlight's. Part "weights" counts where Table 1 settles.
Part "q" has Table 3's support vectors and whole fits at the paper's q. Part "few" has the two sets
of at most 1,000 rows in turns with LIBSVM. Part "3" has whole fits with the default q against
LIBSVM. Part "selection" counts working sets and kernel evaluations of the three strategies of section 3.

Parts that are not asked for keep the tables and verdicts of the last report.

    python -m benchmarks.papers.irwls_svc [--quick] [--parts 2 weights q few 3 selection] [--sets a1a pima]
    python -m benchmarks.papers.irwls_svc --parts selection --sets "a1a, C = 1"
"""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.datasets import Data
from benchmarks.kernel_problems import Named
from benchmarks.measure import Table, arguments, seconds_text, write_report
from benchmarks.papers.irwls_svc_data import QUICK_TABLE_2, SELECTION, TABLE_2, TABLE_3
from benchmarks.papers.irwls_svc_engines import InteriorPoint, Recorder, Timed
from benchmarks.papers.irwls_svc_fits import at_the_papers_q, few_samples, table_3
from benchmarks.papers.irwls_svc_verdicts import Verdicts, judge_selections
from maxmargin import IRWLS, ActiveSetNewton, Largest, RandomViolators, Smallest, Table1, certify_kernel
from maxmargin.data.threads import single_threaded_blas
from maxmargin.solvers.kernel.irwls.engines import Engine, SetTask
from maxmargin.solvers.kernel.irwls.selection import Selection

EPSILON = 1e-3
STRATEGIES: dict[str, Selection] = {"largest": Largest(), "smallest": Smallest(), "random": RandomViolators()}
ENGINES: dict[str, Callable[[], Engine]] = {"PIQP": InteriorPoint, "Table 1": Table1, "Newton": ActiveSetNewton}
MOST_CHUNKS, MOST_SECONDS = 3000, 20.0
"""A count ends there, in seconds of processor time."""
SIZES_2 = (20, 40, 70, 200)
SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000)
TURNS = 3
"""Runs of each engine in Table 2."""
RECORDED = 100
"""Working sets of a problem in which Table 1 is tried."""
VARIANTS = {
    "2C": Table1(),
    "C": Table1(weight=1.0),
    "2C, no jitter": Table1(jitter=False),
    "2C, projection": Table1(projection=True),
    "2C, projection and line search": Table1(projection=True, line_search=True),
}


class Count(NamedTuple):
    seconds: float
    engine: Timed
    chunks: int
    evaluations: int
    violation: float
    relative_gap: float

    @property
    def has_ended(self) -> bool:
        """The conditions (9) to (11) hold."""
        return self.violation < 2.0 * EPSILON

    @property
    def chunks_text(self) -> str:
        return str(self.chunks) if self.has_ended else f"> {self.chunks}"

    @property
    def micros(self) -> float:
        """Of processor time that a working set took."""
        return 1e6 * float(np.mean(self.engine.seconds))

    @property
    def settled_micros(self) -> float:
        return 1e6 * float(np.mean(self.engine.settled_seconds)) if self.engine.settled_seconds else math.nan


def chunk(named: Named, data: Data, q: int, selection: Selection, engine: Engine) -> Count:
    """Working sets until (9) to (11) hold with eps = 1e-3."""
    problem = named.problem(data)
    timed = Timed(engine)
    solver = IRWLS(q, selection, engine=timed)
    start = time.process_time()
    state = solver.init(problem, None, 0)
    with single_threaded_blas():
        while state.violation >= 2.0 * EPSILON and state.chunks < MOST_CHUNKS and time.process_time() - start < MOST_SECONDS:
            solver.iterate(state)
    seconds = time.process_time() - start
    gap = certify_kernel(problem, np.abs(state.s)).certificate.relative_gap
    return Count(seconds, timed, state.chunks, state.kernel_evaluations, state.violation, gap)


def in_turns_of_engines(named: Named, data: Data, q: int) -> dict[str, Count]:
    """Of each engine the run whose working sets took the least time."""
    runs: dict[str, Count] = {}
    for _ in range(TURNS):
        for name, engine in ENGINES.items():
            here = chunk(named, data, q, Largest(), engine())
            if name not in runs or here.micros < runs[name].micros:
                runs[name] = here
    return runs


def table_2(problems: tuple[Named, ...], sizes: tuple[int, ...], verdicts: Verdicts) -> Table:
    columns = [f"total s: {name}" for name in ENGINES] + [f"us a set: {name}" for name in ENGINES] + ["settled sets alone"]
    table = Table("problem", "q", *columns, "settled", *(f"chunks: {name}" for name in ENGINES))
    rows: list[tuple[int, dict[str, Count]]] = []
    for named in problems:
        data = named.make()
        _compile(named, data, sizes)
        for q in sizes:
            runs = in_turns_of_engines(named, data, q)
            rows.append((q, runs))
            paper = runs["Table 1"]
            share = len(paper.engine.settled_seconds) / len(paper.engine.seconds)
            totals = [seconds_text(run.seconds) for run in runs.values()]
            micros = [f"{run.micros:.0f}" for run in runs.values()]
            settled = f"{paper.settled_micros:.0f}" if share else "-"
            table.add(named, q, *totals, *micros, settled, f"{share:.0%}", *(run.chunks_text for run in runs.values()))
    small = [runs for q, runs in rows if q <= 70]
    for what, time_of in (
        ("Optimise time a working set, Table 1 where it settles", lambda runs: runs["Table 1"].settled_micros),
        ("Optimise time a working set, Table 1 and what it hands over", lambda runs: runs["Table 1"].micros),
        ("Optimise time a working set, active-set Newton", lambda runs: runs["Newton"].micros),
    ):
        ratios = [time_of(runs) / runs["PIQP"].micros for runs in small if not math.isnan(time_of(runs))]
        _judge_ratios(verdicts, f"{what}: at most that of an interior-point QP for q = 20, 40, 70", ratios)
    for name in ("Table 1", "Newton"):
        ratios = [runs[name].seconds / runs["PIQP"].seconds for runs in small]
        _judge_ratios(verdicts, f"CPU time of the whole chunking, {name}: at most that of the QP for q = 20, 40, 70", ratios)
    return table


def _compile(named: Named, data: Data, sizes: tuple[int, ...]) -> None:
    """Every loop that may run, those that take over included."""
    for q in (sizes[0], sizes[-1]):
        problem = named.problem(data)
        for engine in (InteriorPoint(), Table1(), ActiveSetNewton()):
            for most in (0, 60):
                solver = IRWLS(q, Largest(), engine=engine, max_inner_iterations=most)
                state = solver.init(problem, None, 0)
                for _ in range(3):
                    solver.iterate(state)


def _judge_ratios(verdicts: Verdicts, claim: str, ratios: list[float]) -> None:
    wins = sum(ratio <= 1.0 for ratio in ratios)
    text = f"{wins} of {len(ratios)}; {min(ratios):.2f} to {max(ratios):.2f} of PIQP's" if ratios else "no cell"
    verdicts.judge(claim, "Table 2", text, wins, len(ratios))


def recorded(named: Named, q: int, selection: Selection) -> list[SetTask]:
    problem, recorder = named.problem(named.make()), Recorder()
    solver = IRWLS(q, selection, engine=recorder, local_tolerance=0.0)
    state = solver.init(problem, None, 0)
    while state.violation >= 2.0 * EPSILON and state.chunks < RECORDED:
        solver.iterate(state)
    return recorder.tasks


def _violation(task: SetTask, s: np.ndarray) -> float:
    work = task.work
    v = work.v - work.K @ (s - work.s)
    return float(v[s < work.upper].max(initial=-np.inf) - v[s > work.lower].min(initial=np.inf))


def weights(sizes: tuple[int, ...], verdicts: Verdicts) -> Table:
    """Where Table 1 settles: the share of working sets, the iterations it took them, and how far from optimal they are."""
    names = ("a9a, first 11,221", "splice EI/IE", "banana, 400", "pima")
    chosen = [TABLE_2[0]] + [entry.named for entry in TABLE_3 if entry.named.name in names[1:]]
    table = Table("problem", "q", "working sets", *(f"{name}: settled (iterations)" for name in VARIANTS), "worst violation")
    shares: list[dict[str, float]] = []
    for named in chosen:
        for q in sizes:
            tasks = [t for kind in (RandomViolators(), Largest()) for t in recorded(named, q, kind)]
            cells, worst = [], -math.inf
            shares.append({})
            for name, engine in VARIANTS.items():
                solved = [(task, engine.solve(task)) for task in tasks]
                settled = [(task, answer) for task, answer in solved if not answer.is_unsettled]
                shares[-1][name] = len(settled) / len(tasks)
                iterations = f" ({np.mean([answer.iterations for _, answer in settled]):.0f})" if settled else ""
                cells.append(f"{shares[-1][name]:.0%}{iterations}")
                worst = max([worst, *(_violation(task, answer.s) for task, answer in settled)])
            table.add(named, q, len(tasks), *cells, f"{worst:.0e}")
    more = sum(share["2C"] > share["C"] for share in shares)
    verdicts.judge(
        "a = 2C / (e y) settles more often than a = C / (e y)", "weights", f"{more} of {len(shares)} cells", more, len(shares)
    )
    return table


def selections(problems: tuple[Named, ...], sizes: tuple[int, ...], sets: list[str], known: list[list[str]]) -> Table:
    """The rows of the ``sets``, or of all, counted; the others as the last report has them."""
    table = Table("problem", "q", *(f"{name}: chunks (evaluations)" for name in STRATEGIES))
    for named in problems:
        if sets and str(named) not in sets:
            for row in known:
                if row[0] == str(named):
                    table.add(*row)
            continue
        data = named.make()
        for q in (size for size in sizes if size <= len(data.y)):
            here = [chunk(named, data, q, selection, ActiveSetNewton()) for selection in STRATEGIES.values()]
            table.add(named, q, *(f"{run.chunks_text} ({run.evaluations:.1e})" for run in here))
    return table


PARTS = {
    "2": "Table 2: the paper's engine, ours and an interior-point method",
    "weights": "Where Table 1 settles",
    "q": "Table 3: support vectors, and fits at the paper's q",
    "few": "Few samples: pima and banana with 400 rows",
    "3": "Table 3: whole fits",
    "selection": "Section 3: the three strategies",
}
WHERE = {
    "2": "Table 2",
    "weights": "weights",
    "q": "Table 3 at q",
    "few": "few samples",
    "3": "Table 3",
    "selection": "section 3",
}
"""Of a part, what the table of claims calls it."""


def measure(part: str, options: argparse.Namespace, before: dict[str, str], verdicts: Verdicts) -> Table:
    quick = options.quick
    if part == "2":
        return table_2(QUICK_TABLE_2 if quick else TABLE_2, (20, 200) if quick else SIZES_2, verdicts)
    if part == "weights":
        return weights((20,) if quick else (20, 70), verdicts)
    entries = [entry for entry in TABLE_3 if entry.is_quick or not quick]
    if part == "q":
        return at_the_papers_q(entries, verdicts, 2 if quick else 9)
    if part == "few":
        return few_samples(entries, verdicts, 1 if quick else 20)
    if part == "3":
        known = {(row[0], row[1]): row for row in rows_of(before.get(PARTS["3"], ""))}
        return table_3(entries, options.sets, known, verdicts)
    known_rows = rows_of(before.get(PARTS["selection"], ""))
    return selections(SELECTION[1:2] if quick else SELECTION, (50, 200) if quick else SIZES, options.sets, known_rows)


def rows_of(text: str) -> list[list[str]]:
    """The rows of the first Markdown table of a text, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def sections(report: Path) -> dict[str, str]:
    """The sections of a report that was written before, by their headings."""
    text = report.read_text() if report.exists() else ""
    return {
        heading: body.strip() for heading, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    }


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--sets", nargs="*", default=[], help="parts 3 and selection: the sets to measure")


def main() -> None:
    options = arguments(__doc__, _own_options)
    report = options.results / "irwls_svc.md"
    before, verdicts = sections(report), Verdicts()
    old_claims = rows_of(before.get("The claims", ""))
    bodies = {}
    for part, heading in PARTS.items():
        if part in options.parts:
            bodies[part] = str(measure(part, options, before, verdicts))
        elif heading in before:
            bodies[part] = before[heading]
            if part != "selection":
                verdicts.keep([row for row in old_claims if row[1] == WHERE[part]])
    if "selection" in bodies:
        judge_selections(rows_of(bodies["selection"]), verdicts)
    tables = [text for part, body in bodies.items() for text in (f"## {PARTS[part]}", body)]
    notes = Path(__file__).with_name("irwls_svc_notes.md").read_text().strip()
    body = ["## The claims", verdicts.table, *tables, "## Notes", notes]
    measured = "Processor seconds, the minimum of interleaved repeats."
    write_report(report, "Perez-Cruz et al., IRWLS-SVC, made again", body, options.quick, measured)


if __name__ == "__main__":
    main()
