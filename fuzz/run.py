"""Mutated files for every reader and every command (``make fuzz``), in slices of a given time.

A worker runs the cases under limits of memory and processor time. It writes the number of a case down before it begins, so that
the parent knows which one has ended the worker.
"""

from __future__ import annotations

import argparse
import gc
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fuzz import commands, folders, targets
from fuzz.limits import (
    CASE_SECONDS,
    GROWTH_BYTES,
    Hang,
    address_space,
    clock,
    limit_memory,
    limited_time,
    peak_address_space,
)
from fuzz.pieces import Piece, added, pieces
from fuzz.state import FOLDER, Progress, State, check_home, digest_of
from fuzz.targets import Target

RECORD = Path(__file__).with_name("RECORD.md")
STATE = "fuzz.json"
DIARY = struct.Struct("<qq")
"""The target and the number of the case under way, for whoever finds the worker dead."""
BATCH = 200
"""Cases of all targets together between two times that the worker looks at the clock."""
WARM_UP = 60
"""Cases of each target before the baseline of memory is measured."""
SILENCE_SECONDS = 120.0
"""Wall time after which a worker that reports nothing is ended, and its case is a hang."""
START_SECONDS = 1200.0
"""Wall time in which a worker must report its first cases. It compiles before them, which takes minutes on a busy machine."""
LARGEST_INPUT = 1 << 20
"""Bytes; no mutation makes a larger file."""
RETIREMENT = 40_000
"""Cases after which a worker is replaced: its address space is measured anew."""
RECORD_TEXT = """# Fuzzing record

`make fuzz`, in slices, on two cores, AMD EPYC. Every case ran under a limit of {growth_limit} MB of address space above
the baseline and of {seconds_limit:g} s of processor time.

**{total} cases, {n_findings} findings.** The slowest case took {slowest:.2f} s of processor time.
The address space of a worker grew by {growth:.0f} MB at most.

The counts are the sums of pieces, each run on one commit: {pieces}.
Code that has changed since was tested as it was on that commit.

| what | cases | accepted | refused | findings | slowest (s) |
|---|---:|---:|---:|---:|---:|
{rows}
## Findings

{found}"""


@dataclass
class Report:
    """What a worker says of some cases of one target."""

    target: int
    next_case: int
    outcomes: dict[str, int] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    slowest_seconds: float = 0.0
    greatest_growth: int = 0

    def add(self, outcome: str | dict[str, str], case: int, seconds: float) -> None:
        if isinstance(outcome, str):
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        else:
            self.findings.append({"case": case, **outcome})
        self.slowest_seconds = max(self.slowest_seconds, seconds)

    def add_to(self, progress: Progress) -> None:
        for outcome, count in self.outcomes.items():
            progress.outcomes[outcome] = progress.outcomes.get(outcome, 0) + count
        progress.findings += self.findings
        progress.next_case = self.next_case
        progress.slowest_seconds = max(progress.slowest_seconds, self.slowest_seconds)
        progress.greatest_growth = max(progress.greatest_growth, self.greatest_growth)


def all_targets() -> list[Target]:
    return [*targets.TARGETS, *folders.TARGETS, *commands.TARGETS]


def worker(seconds: float, folder: Path) -> None:
    """Run cases until the time is over; a line of JSON on standard output for every batch of a target."""
    warnings.simplefilter("error")
    for module in (targets, folders, commands):
        module.prepare(folder)
    everyone, state = all_targets(), State.open(STATE)
    starts = [state.of(target.name, digest_of(target.modules)).next_case for target in everyone]
    for target in everyone:  # imports and compilation are no fault of a file
        for number in range(WARM_UP):
            outcome_of(target, -1 - number, folder)
    gc.collect()
    with open(folder / "diary", "r+b") as diary, mmap.mmap(diary.fileno(), DIARY.size) as place:
        baseline, earlier_peak = limit_memory(LARGEST_INPUT), peak_address_space()
        deadline, done = time.monotonic() + seconds, 0
        while time.monotonic() < deadline and done < RETIREMENT:
            for index, target in enumerate(everyone):
                report = Report(index, starts[index] + max(1, BATCH * target.share // 100))
                for number in range(starts[index], report.next_case):
                    place[:] = DIARY.pack(index, number)
                    began = clock()
                    report.add(outcome_of(target, number, folder), number, clock() - began)
                starts[index], done = report.next_case, done + report.next_case - starts[index]
                peak = peak_address_space()  # that of the compilation before may be far above the baseline
                report.greatest_growth = (peak if peak > earlier_peak else address_space()) - baseline
                print(json.dumps(asdict(report)), flush=True)


def outcome_of(target: Target, number: int, folder: Path) -> str | dict[str, str]:
    """How a case ends, or what was found."""
    try:
        with limited_time():
            return target.case(random.Random(f"{target.name} {number}"), folder)
    except Hang:
        return {"kind": "hang", "text": f"more than {CASE_SECONDS} s of processor time"}
    except Exception as error:
        lines = traceback.format_exc().strip().split("\n")
        return {"kind": type(error).__name__, "text": "\n".join(lines[-12:])[:3000]}


def slice_of(seconds: float, most_cases: int) -> State:
    """Workers one after the other until the time is over, or so many cases are done."""
    everyone, state = all_targets(), State.open(STATE)
    progress = [state.of(target.name, digest_of(target.modules)) for target in everyone]
    state.targets = {target.name: own for target, own in zip(everyone, progress, strict=True)}
    state.save()
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and sum(own.n_cases for own in progress) < most_cases:
        memory = Path("/dev/shm")
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
            folder = Path(name)
            (folder / "diary").write_bytes(DIARY.pack(-1, -1))
            code = _watch(["--worker", name, "--seconds", str(left)], state, progress)
            index, number = DIARY.unpack((folder / "diary").read_bytes())
        if code != 0:
            if number < 0:
                raise RuntimeError(f"The worker ended with {code} before its first case.")
            kind = "hang" if code == -signal.SIGKILL else "crash"
            progress[index].findings.append({"case": number, "kind": kind, "text": f"the worker ended with {code}"})
            progress[index].next_case = number + 1
        state.save()
    return state


def _watch(words: list[str], state: State, progress: list[Progress]) -> int:
    """Run a worker to its end, and end it where it reports nothing for too long. Returns its exit code."""
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "fuzz.run", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        timer = threading.Timer(START_SECONDS, process.kill)
        timer.start()
        for line in process.stdout:
            timer.cancel()
            report = Report(**json.loads(line))
            report.add_to(progress[report.target])
            if report.target == len(progress) - 1:
                state.save()
            timer = threading.Timer(SILENCE_SECONDS, process.kill)
            timer.start()
        code = process.wait()
        timer.cancel()
    return code


def record_of(state: State) -> str:
    earlier = pieces("fuzz")
    together = {
        name: added([progress, *(piece[name] for piece in earlier.values() if name in piece)])
        for name, progress in state.targets.items()
    }
    own = together.values()
    total, n_findings = sum(each.n_cases for each in own), sum(len(each.findings) for each in own)
    slowest, growth = max(each.slowest_seconds for each in own), max(each.greatest_growth for each in own)
    rows = "".join(
        f"| {name} | {each.n_cases} | {each.outcomes.get('accepted', 0)} | {each.outcomes.get('refused', 0)} | "
        f"{len(each.findings)} | {each.slowest_seconds:.2f} |\n"
        for name, each in together.items()
    )
    found = [f"- {name}, case {each['case']}: {each['kind']}\n" for name, own in together.items() for each in own.findings]
    return RECORD_TEXT.format(
        total=total,
        n_findings=n_findings,
        slowest=slowest,
        growth=growth / 1e6,
        growth_limit=GROWTH_BYTES >> 20,
        seconds_limit=CASE_SECONDS,
        rows=rows,
        found="".join(found) or "None.\n",
        pieces=_named(earlier, sum(each.n_cases for each in state.targets.values())),
    )


def _named(earlier: dict[str, Piece], n_now: int) -> str:
    """How many cases each commit has seen."""
    counts = {commit: sum(each.n_cases for each in piece.values()) for commit, piece in earlier.items()}
    return ", ".join(f"{count} on {commit}" for commit, count in [*counts.items(), ("the present code", n_now)] if count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="The time of this slice.")
    parser.add_argument("--cases", type=int, default=1_000_000, help="No more than about this many in all slices together.")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    check_home()
    if options.worker:
        worker(options.seconds, options.worker)
        return
    record = record_of(slice_of(options.seconds, options.cases))
    RECORD.write_text(record)
    print(record)
    print(f"What was found in full: {FOLDER / STATE}")


if __name__ == "__main__":
    main()
