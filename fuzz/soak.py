"""Random problems against exact rationals, proved labels against a tighter optimum, threads, kills (``make soak``).

In slices of a given time. What is done is kept. The counts are dropped when the code that they are about changes, unless
``fuzz.pieces`` has kept them with the name of their commit.
"""

from __future__ import annotations

import argparse
import random
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz import kills, problems
from fuzz.pieces import added, pieces
from fuzz.state import FOLDER, ROOT, Progress, State, check_home, digest_of
from maxmargin.data.threads import single_threaded_blas

RECORD = Path(__file__).with_name("SOAK.md")
STATE_OF_KILLS = "kills.json"
LANE_CASES = 10**9
"""The first case of lane k has the number k times this. Each lane keeps a file of its own, so that all can run at a time."""
MOST_LANES = 8
SAVE_SECONDS = 10.0
RECORD_TEXT = """# Soak record

`make soak`, in slices, on two cores, AMD EPYC.

- **{n_problems} small problems** ({n_linear} linear and {n_kernel} with kernels of two classes, {n_regression} of regression),
  all losses. Their certificates were compared with rational arithmetic: {wrong_problems} wrong. For a third of the problems of
  two classes the certificate of another answer was compared, too.
- **{n_labels} proved labels** compared with a tighter optimum: {wrong_labels} wrong; {open_labels} more are open, because
  the tighter optimum is too close to zero there to say.
- {n_threads} times some eight problems solved again, and in four threads at a time: {wrong_threads} other answers.
- **{n_kills} kills** (`kill -9`) of `maxmargin train --checkpoint` at random moments, {n_left} of which left a checkpoint, with
  {n_ends} fits that came to their end between them: {wrong_kills} times something was lost.

The counts are the sums of pieces, each run on one commit. Code that has changed since was tested as it was on that commit.

Cases by commit (of labels: proved ones):

{pieces}
## Findings

{found}"""


@dataclass(frozen=True)
class Task:
    """``goal`` is the number of ``unit`` after which it is done, ``batch`` the number of cases in a row."""

    name: str
    batch: int
    goal: int
    unit: str
    case: Callable[[random.Random], Any]


TASKS = [
    Task("linear problems", 100, 400_000, "cases", problems.linear_case),
    Task("kernel problems", 100, 400_000, "cases", problems.kernel_case),
    Task("regression problems", 100, 200_000, "cases", problems.regression_case),
    Task("labels of linear models", 1, 500_000, "proved", problems.linear_labels_case),
    Task("labels of kernel models", 1, 500_000, "proved", problems.kernel_labels_case),
    Task("threads", 1, 500, "cases", problems.threads_case),
]
KILLS, MOST_KILLS = "kills", 200


def code() -> tuple[str, ...]:
    """Everything between a problem and its answer; files, commands and streams are not."""
    skipped = ("io/", "models/", "cli/", "displays/", "streams", "estimators/streams", "data/caching")
    source = ROOT / "src" / "maxmargin"
    names = (path.relative_to(source).as_posix() for path in source.rglob("*.py"))
    return tuple(f"src/maxmargin/{name}" for name in names if not name.startswith(skipped))


def code_of_kills() -> tuple[str, ...]:
    names = (
        "models/checkpoint",
        "io/outputs",
        "models/model_file",
        "models/tensors",
        "cli/commands",
        "cli/training",
        "cli/outcome",
    )
    return tuple(f"src/maxmargin/{name}.py" for name in names)


def state_of(lane: int) -> State:
    return State.open(f"soak-{lane}.json")


def slice_of(seconds: float, lane: int, n_lanes: int) -> None:
    """Each task in turn, the one that is farthest from its goal first. The goal is shared among the lanes."""
    state, digest = state_of(lane), digest_of(code())
    progress = {task.name: state.of(task.name, digest) for task in TASKS}
    for own in progress.values():
        own.next_case = max(own.next_case, lane * LANE_CASES)
    saved_at = began = time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        task = min(TASKS, key=lambda task: done(progress[task.name], task.unit) / task.goal)
        own = progress[task.name]
        if n_lanes * done(own, task.unit) >= task.goal:
            break
        with single_threaded_blas():  # solves enter it anyway, and to enter it inside it is cheap
            for _ in range(task.batch):
                run_case(task, own)
        if now - saved_at > SAVE_SECONDS:
            state.save()
            saved_at = now
    state.save()


def run_case(task: Task, own: Progress) -> None:
    number = own.next_case
    own.next_case += 1
    began = time.process_time()
    try:
        counts = task.case(random.Random(f"{task.name} {number}")) or {}
    except Exception as error:
        lines = traceback.format_exc().strip().split("\n")
        own.findings.append({"case": number, "kind": type(error).__name__, "text": "\n".join(lines[-12:])[:3000]})
        return
    add(own, {"cases": 1, **counts})
    own.slowest_seconds = max(own.slowest_seconds, time.process_time() - began)


def add(own: Progress, counts: dict[str, int]) -> None:
    for unit, count in counts.items():
        own.outcomes[unit] = done(own, unit) + count


def together(lanes: list[Progress]) -> Progress:
    """What all lanes have done."""
    total = Progress()
    for lane in lanes:
        add(total, lane.outcomes)
        total.findings += lane.findings
    return total


def done(own: Progress, unit: str) -> int:
    return own.outcomes.get(unit, 0)


def soak_kills(seconds: float) -> None:
    state = State.open(STATE_OF_KILLS)
    own = state.of(KILLS, digest_of(code_of_kills()))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and done(own, "cases") < MOST_KILLS:
        most = min(20, MOST_KILLS - done(own, "cases"))
        number = own.next_case
        own.next_case += 1
        try:
            add(own, kills.campaign(random.Random(f"kills {number}"), most, deadline))
        except AssertionError as error:
            own.findings.append({"case": number, "kind": "lost", "text": str(error)[:3000]})
        state.save()


def record() -> str:
    """What the code as it is now has done, and the pieces that were kept of other commits."""
    kills_state, digest = State.open(STATE_OF_KILLS), digest_of(code())
    lanes = [state_of(lane) for lane in range(MOST_LANES)]
    now = {task.name: together([lane.of(task.name, digest) for lane in lanes]) for task in TASKS}
    now[KILLS] = kills_state.of(KILLS, digest_of(code_of_kills()))
    earlier = [*pieces("soak").values(), *pieces("kills").values()]
    own = {name: added([progress, *(piece[name] for piece in earlier if name in piece)]) for name, progress in now.items()}
    linear, kernel, regression, labels, kernel_labels, threads, killed = own.values()
    found = [f"- {name}, case {each['case']}: {each['kind']}\n" for name, mine in own.items() for each in mine.findings]
    return RECORD_TEXT.format(
        n_problems=done(linear, "cases") + done(kernel, "cases") + done(regression, "cases"),
        n_regression=done(regression, "cases"),
        n_linear=done(linear, "cases"),
        n_kernel=done(kernel, "cases"),
        wrong_problems=len(linear.findings) + len(kernel.findings) + len(regression.findings),
        n_labels=done(labels, "proved") + done(kernel_labels, "proved"),
        wrong_labels=len(labels.findings) + len(kernel_labels.findings),
        open_labels=done(labels, "open") + done(kernel_labels, "open"),
        n_threads=done(threads, "cases"),
        wrong_threads=len(threads.findings),
        n_kills=done(killed, "cases"),
        n_left=done(killed, "left a checkpoint"),
        n_ends=done(killed, "ends"),
        wrong_kills=len(killed.findings),
        found="".join(found) or "None.\n",
        pieces=table(now),
    )


def table(now: dict[str, Progress]) -> str:
    """A row for each commit, a column for each task."""
    units = {task.name: task.unit for task in TASKS} | {KILLS: "cases"}
    commits = {**pieces("soak")}
    for commit, piece in pieces("kills").items():
        commits[commit] = {**commits.get(commit, {}), **piece}
    lines = [f"| commit | {' | '.join(units)} |", f"|---|{'---:|' * len(units)}"]
    for commit, piece in {**commits, "the present code": now}.items():
        counts = [str(done(piece.get(name, Progress()), unit)) for name, unit in units.items()]
        lines.append(f"| {commit} | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="The time of this slice.")
    parser.add_argument("--kills", action="store_true", help="Only the kills, which need a quiet disk and no processor.")
    parser.add_argument("--lane", type=int, default=0, choices=range(MOST_LANES), help="Which of several processes this is.")
    parser.add_argument("--lanes", type=int, default=1, choices=range(1, MOST_LANES + 1), help="How many there are.")
    options = parser.parse_args()
    check_home()
    warnings.simplefilter("ignore")  # of fits that are not certified: the certificate is what is judged
    if options.kills:
        soak_kills(options.seconds)
    else:
        slice_of(options.seconds, options.lane, options.lanes)
    RECORD.write_text(record())
    print(record())
    print(f"What was found in full: {FOLDER}")


if __name__ == "__main__":
    main()
