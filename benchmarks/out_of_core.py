"""Fits of data that are larger than their budget of memory, beside fits of the same data in memory.

covtype.binary.scale is repeated with noise, in dense float64, until it has ``--gigabytes``; it is written as blocks on a disk
by a generator, and fitted with a budget of a tenth of its size. Each fit runs in a process of its own, and ends after
``--seconds``, certified or not. Memory is the greatest
resident set above that of the process before the fit, with everything imported and compiled. A pass reads all blocks once. The
system may keep blocks in its own cache: what is measured is not the disk, but the work of a fit by passes. Seconds are those of
the processor, in all threads together; the ratio is that of both columns.

The wide set has at least ``--wide-gigabytes``: each of its rows has the stored elements of two rows of news20_bigram of one
class, each of them with probability one half, scaled to length one. The optimum is compared with that of the fit in memory.

Text to blocks is measured on a file of svmlight text of ``--text-megabytes``.

    python -m benchmarks.out_of_core --folder /some/disk --make       # writes both sets there, 6 GB: five minutes
    python -m benchmarks.out_of_core --folder /some/disk --cell covtype hinge 1e-6            # both fits of one row
    python -m benchmarks.out_of_core --folder /some/disk --cell covtype hinge 1e-6 --C 100
    python -m benchmarks.out_of_core --folder /some/disk --cell covtype hinge 1e-6 --only blocks
    python -m benchmarks.out_of_core --folder /some/disk --text-megabytes 500                 # text to blocks
    python -m benchmarks.out_of_core                                  # the table of what was measured so far

Each call adds what it measured to results/out_of_core.json, from which the table is made.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.datasets import load, write_text
from benchmarks.measure import Table, arguments, provenance, seconds_text, write_report
from maxmargin import LinearSVC
from maxmargin.io import Blocks, to_blocks, write_svmlight

HOW = "Seconds of the processor; each fit was made once."
EARLIER = "[out_of_core_earlier.md](out_of_core_earlier.md) has smaller sets, and what was tried with many features."
COLUMNS = (
    "loss", "C", "target", "proved gap", "difference", "passes", "by blocks [s]", "in memory [s]", "ratio", "MB of budget",
    "measured",
)  # fmt: skip
NOISE = 0.02
"""The standard deviation of what is added to every element: columns are scaled to [0, 1]."""


class Measured(NamedTuple):
    seconds: float
    processor_seconds: float
    gap: float
    primal: float
    n_passes: int
    megabytes: float


def copies(n_bytes: float) -> Iterator[tuple[Any, Any]]:
    """Pieces of the data, each with noise of its own."""
    data = load("covtype.binary.scale")
    X, random, done = data.X.toarray(), np.random.default_rng(0), 0
    order = random.permutation(len(X))
    X, y = X[order], data.y[order]
    while done < n_bytes:
        for start in range(0, len(X), 10_000):
            part = X[start : start + 10_000]
            yield part + NOISE * random.normal(size=part.shape), y[start : start + 10_000]
            done += part.nbytes
            if done >= n_bytes:
                return


def resampled(n_bytes: float) -> Iterator[tuple[Any, Any]]:
    """Pieces of a wide sparse set: half of the elements of two random rows of one class."""
    data = load("news20_bigram")
    random, done = np.random.default_rng(0), 0.0
    rows = {label: np.flatnonzero(data.y == label) for label in (-1.0, 1.0)}
    while done < n_bytes:
        y = random.choice((-1.0, 1.0), size=2000)
        pairs = np.array([random.choice(rows[label], 2, replace=False) for label in y])
        mixed = sparse.csr_matrix(data.X[pairs[:, 0]] + data.X[pairs[:, 1]])
        mixed.data *= random.random(mixed.nnz) < 0.5
        mixed.eliminate_zeros()
        X = sparse.csr_matrix(sparse.diags(1.0 / np.maximum(1e-12, sparse.linalg.norm(mixed, axis=1))) @ mixed)
        yield X, y
        done += 12.0 * X.nnz


def resident_megabytes() -> float:
    """The resident set now (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


class Watch(threading.Thread):
    """The greatest resident set while it runs, looked at every five milliseconds."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before = self.most = resident_megabytes()
        self.is_over = False

    def run(self) -> None:
        while not self.is_over:
            self.most = max(self.most, resident_megabytes())
            time.sleep(0.005)


def compile_loops(loss: Any, is_sparse: bool) -> None:
    """Small fits that compile the loops of the large one."""
    small: Any = np.random.default_rng(0).normal(size=(3000, 54))
    y = np.where(small[:, 0] > 0.5, 1, -1)
    if is_sparse:
        small = sparse.hstack([sparse.csr_matrix(small), sparse.csr_matrix((3000, 3000))], "csr")
    with tempfile.TemporaryDirectory() as folder:
        LinearSVC(loss=loss, tol=1e-5).fit(small, y)
        memory = 2_500_000 if is_sparse else 1_000_000
        LinearSVC(loss=loss, tol=1e-3).fit_blocks(to_blocks(small, f"{folder}/b", y=y, block_bytes=100_000), memory=memory)


class Asked(NamedTuple):
    """One fit: its loss, its target, C, the budget of memory (zero for a fit in memory), and the limit of time."""

    loss: Any
    tol: float
    C: float
    memory: float
    seconds: float

    @property
    def cell(self) -> str:
        return f"{self.loss} {self.C:g} {self.tol:.0e}"


def one_fit(folder: str, asked: Asked) -> Measured:
    """In a process of its own: by blocks with a budget, or in memory."""
    loss, memory = asked.loss, asked.memory
    blocks = Blocks(folder)
    compile_loops(loss, blocks.is_sparse)
    if not memory:
        y = np.concatenate([block.y for block in blocks])
        X = sparse.vstack([block.X for block in blocks], "csr") if blocks.is_sparse else np.empty((len(y), blocks.n_features))
        for block, start in zip(blocks, np.cumsum([0, *(entry.n_rows for entry in blocks.entries)]), strict=False):
            if not blocks.is_sparse:
                X[start : start + len(block.y)] = block.X
    watch, begun, worked = Watch(), time.perf_counter(), time.process_time()
    watch.start()
    model = LinearSVC(loss=loss, tol=asked.tol, C=asked.C, max_seconds=asked.seconds)
    model = model.fit_blocks(blocks, memory=int(memory)) if memory else model.fit(X, y)
    certificate: Any = model.certificate_
    seconds = time.perf_counter() - begun
    watch.is_over = True
    worked = time.process_time() - worked
    used = watch.most - watch.before
    return Measured(seconds, worked, certificate.relative_gap, certificate.primal, model.n_iter_, used)


def in_a_process(folder: Path, asked: Asked) -> Measured:
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--one", str(folder), *map(str, asked)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Measured(**json.loads(done.stdout.strip().splitlines()[-1]))


def text_speed(folder: Path, megabytes: float, how: str) -> str:
    """Megabytes of text a second, from svmlight to blocks. ``how`` says at which commit, and beside what."""
    data = load("covtype.binary.scale")
    write_svmlight(data.X[:20_000], data.y[:20_000], folder / "part.txt")
    part = (folder / "part.txt").read_bytes()
    with open(folder / "text", "wb") as file:
        for _ in range(max(1, int(megabytes * 1e6 / len(part)))):
            file.write(part)
    size = (folder / "text").stat().st_size
    to_blocks(folder / "part.txt", folder / "compiled")
    begun, worked = time.perf_counter(), time.process_time()
    to_blocks(folder / "text", folder / "blocks")
    speed = size / 1e6 / (time.perf_counter() - begun)
    per_core = size / 1e6 / (time.process_time() - worked)
    words = f"Text to blocks: {size / 1e6:.0f} MB of svmlight text at {speed:.0f} MB/s, checksums and fsync included"
    return f"{words}; {per_core:.0f} MB for a second of the processor. {how}"


class Record:
    """What was measured so far, in a file beside the table."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"sets": {}, "fits": {}}

    def note(self, name: str, asked: Asked, measured: Measured, how: str) -> None:
        """``how`` says at which commit, when, and beside what."""
        fits = self.content["fits"].setdefault(name, {}).setdefault(asked.cell, {})
        fits["blocks" if asked.memory else "memory"] = measured._asdict()
        fits["how"] = how
        self.save()

    def describe(self, name: str, blocks: Blocks) -> None:
        shape = [blocks.n_samples, blocks.n_features, blocks.n_bytes, len(blocks)]
        self.content["sets"][name] = dict(zip(("rows", "features", "bytes", "blocks"), shape, strict=True))

    def save(self) -> None:
        write_text(self.path, json.dumps(self.content, indent=1, sort_keys=True) + "\n")

    def parts(self) -> list[Any]:
        """A sentence and a table for each set, and the speed of text."""
        found = [part for name in self.content["fits"] for part in self._section(name)]
        return [*found, *([self.content["text"]] if "text" in self.content else [])]

    def _section(self, name: str) -> list[Any]:
        shape = self.content["sets"][name]
        table = Table(*COLUMNS)
        for cell, fits in sorted(self.content["fits"][name].items()):
            if "blocks" in fits:
                row = _row(Measured(**fits["blocks"]), fits.get("memory"), 0.1 * shape["bytes"])
                table.add(*cell.split(), *row, fits["how"])
        size = f"{shape['rows']:,} rows of {shape['features']:,} features, {shape['bytes'] / 1e9:.2f} GB"
        return [f"**{name}**: {size} in {shape['blocks']:,} blocks.", table]


def _row(ours: Measured, other: dict[str, Any] | None, budget: float) -> list[str]:
    used = f"{ours.megabytes:.0f} of {budget / 1e6:.0f}"
    seconds = seconds_text(ours.processor_seconds)
    if other is None:
        return [f"{ours.gap:.1e}", "-", str(ours.n_passes), seconds, "-", "-", used]
    plain = Measured(**other)
    difference = f"{abs(ours.primal - plain.primal) / plain.primal:.1e}"
    times = [seconds, seconds_text(plain.processor_seconds), f"{ours.processor_seconds / plain.processor_seconds:.2f}"]
    return [f"{ours.gap:.1e}", difference, str(ours.n_passes), *times, used]


def make(folder: Path, gigabytes: float, wide_gigabytes: float) -> None:
    """Write both sets. A call that was interrupted goes on where it stopped."""
    for name, pieces, size in (("covtype", copies, gigabytes), ("news20", resampled, wide_gigabytes)):
        to_blocks(pieces(size * 1e9), folder / name, block_bytes=2_000_000)


def measure_cell(record: Record, options: Any) -> None:
    name, loss, tol = options.cell[0], options.cell[1], float(options.cell[2])
    folder = options.folder / name
    blocks = Blocks(folder)
    record.describe(name, blocks)
    for kind, memory in (("blocks", 0.1 * blocks.n_bytes), ("memory", 0.0)):
        if options.only in (None, kind):
            asked = Asked(loss, tol, options.C, memory, options.seconds)
            record.note(name, asked, in_a_process(folder, asked), f"{date.today()}. {provenance(options.how)}")


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--one":
        folder, loss, *numbers = sys.argv[2:]
        print(json.dumps(one_fit(folder, Asked(loss, *map(float, numbers)))._asdict()))
        return

    def own(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--gigabytes", type=float, default=4.02)
        parser.add_argument("--wide-gigabytes", type=float, default=2.0)
        parser.add_argument("--text-megabytes", type=float, default=0.0)
        parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
        parser.add_argument("--make", action="store_true", help="write the sets into the folder")
        parser.add_argument("--cell", nargs=3, metavar=("SET", "LOSS", "TARGET"), help="measure one row")
        parser.add_argument("--C", type=float, default=1.0, help="the C of that row")
        parser.add_argument("--seconds", type=float, default=900.0, help="the limit of a fit")
        parser.add_argument("--how", default="Beside other work.", help="what ran beside, on which core")
        parser.add_argument("--only", choices=("blocks", "memory"), help="one of the two fits of a row")

    options = arguments(__doc__, own)
    record = Record(options.results / "out_of_core.json")
    if options.make:
        make(options.folder, options.gigabytes, options.wide_gigabytes)
    if options.cell:
        measure_cell(record, options)
    if options.text_megabytes > 0.0:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            how = f"{date.today()}. {provenance(options.how)}"
            record.content["text"] = text_speed(Path(folder), options.text_megabytes, how)
        record.save()
    parts = [__doc__.partition("\n\n    python")[0], *record.parts(), EARLIER]
    write_report(options.results / "out_of_core.md", "Larger than memory", parts, options.quick, HOW)


if __name__ == "__main__":
    main()
