"""Reading svmlight text, and training from it on the command line.

Reading: the uncompressed text of covtype.binary.scale and news20_bigram against scikit-learn's ``load_svmlight_file``; the
arrays must be equal. Training: whole processes on news20_bigram, C = 1, to a relative gap of 1e-3, against ``liblinear-train``
(Debian's package liblinear-tools) with the loosest -e whose model is within 1e-3 of the optimum by our certificate.
"""

from __future__ import annotations

import lzma
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.datasets import data_folder, load
from benchmarks.measure import TOLERANCES, Table, arguments, write_report
from benchmarks.references import reference
from maxmargin.io import read_liblinear, read_svmlight

SETS = ("covtype.binary.scale", "news20_bigram")
OPTIONS = ("-s", "3", "-c", "1", "-e", "1e-3", "-B", "-1", "-q")
PEAK = """
import sys
from maxmargin.io import read_svmlight
def peak():
    return 1024 * next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
read_svmlight(sys.argv[2])
before = peak()
X, y = read_svmlight(sys.argv[1])
grown = peak() - before
print(grown / (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes))
"""


def unpacked(name: str, folder: Path) -> Path:
    with lzma.open(data_folder() / f"{name}.xz") as packed, open(folder / name, "wb") as plain:
        shutil.copyfileobj(packed, plain)
    return folder / name


def fastest(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        answer = run()
        best = min(best, time.perf_counter() - start)
    return best, answer


def seconds_of(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def reading(folder: Path, repeats: int) -> Table:
    table = Table("set", "MB of text", "maxmargin s", "scikit-learn s", "ratio", "equal arrays", "peak memory / arrays")
    (folder / "tiny").write_text("1 1:1\n")
    read_svmlight(folder / "tiny")
    for name in SETS:
        path = folder / name
        ours, (X, y) = fastest(lambda path=path: read_svmlight(path), repeats)  # type: ignore[misc]
        theirs, (A, b) = fastest(lambda path=path: load_svmlight_file(str(path)), 2)  # type: ignore[misc]
        equal = all(np.array_equal(*pair) for pair in ((X.data, A.data), (X.indices, A.indices), (X.indptr, A.indptr), (y, b)))
        peak = subprocess.run(
            [sys.executable, "-c", PEAK, str(path), str(folder / "tiny")], check=True, capture_output=True, text=True
        ).stdout
        megabytes = path.stat().st_size / 1e6
        table.add(name, f"{megabytes:.0f}", f"{ours:.3f}", f"{theirs:.2f}", f"{theirs / ours:.1f}", equal, f"{float(peak):.2f}")
    return table


def liblinear_command(path: Path, tolerance: float, model: Path) -> list[str]:
    return ["liblinear-train", "-s", "3", "-c", "1", "-e", f"{tolerance:g}", "-q", str(path), str(model)]


def loosest_tolerance(path: Path, model: Path) -> tuple[float, float]:
    """The -e with which LIBLINEAR's model is within 1e-3 of the optimum, and how far it is."""
    best = reference("news20_bigram", load("news20_bigram"), 1.0, "hinge")
    for tolerance in TOLERANCES:
        subprocess.run(liblinear_command(path, tolerance, model), check=True)
        excess = best.excess(read_liblinear(model).coef_[0])
        if excess <= 1e-3:
            break
    return tolerance, excess


def training(folder: Path, repeats: int) -> Table:
    path, model = folder / "news20_bigram", folder / "model"
    tolerance, excess = loosest_tolerance(path, model)
    ours = [sys.executable, "-m", "maxmargin", "train", str(path), str(model), *OPTIONS]
    theirs = liblinear_command(path, tolerance, model)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(repeats):
        seconds["ours"].append(seconds_of(ours))
        seconds["theirs"].append(seconds_of(theirs))
    table = Table("command", "least s", "median s", "excess")
    for words, name, proof in (
        ("maxmargin train -s 3 -c 1 -e 1e-3 -B -1", "ours", "certified within 1e-3"),
        (f"liblinear-train -s 3 -c 1 -e {tolerance:g}", "theirs", f"{excess:.1e}"),
    ):
        table.add(words, f"{min(seconds[name]):.2f}", f"{np.median(seconds[name]):.2f}", proof)
    return table


def main() -> None:
    options = arguments(__doc__)
    repeats = 1 if options.quick else 4
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for data in SETS:
            unpacked(data, folder)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "maxmargin", "--help"], check=True, capture_output=True)
        help_text = f"`maxmargin --help`: {time.perf_counter() - start:.2f} s."
        tables = (reading(folder, repeats), training(folder, 2 * repeats - 1))
    notes = "Files are in the page cache. Peak memory: growth of the resident memory, the mapped text included."
    write_report(
        options.results / "files.md", "Reading files, and training from them", (*tables, notes, help_text), options.quick
    )


if __name__ == "__main__":
    main()
