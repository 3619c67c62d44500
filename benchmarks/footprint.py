"""What maxmargin costs besides the fit: the import, the first fit of a process, and memory. Each is measured in a
fresh process of its own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.datasets import ROOT
from benchmarks.measure import Table, arguments, write_report

IMPORT_LIMIT, FIRST_FIT_LIMIT, LATER_FIT_LIMIT = 0.05, 3.0, 0.8
MEMORY_LIMIT = 0.10
MEMORY_SHAPE, QUICK_MEMORY_SHAPE = (60_000, 400), (10_000, 400)

IMPORT = """
import json, time
start = time.perf_counter()
import maxmargin
print(json.dumps({"seconds": time.perf_counter() - start}))
"""

FIRST_FIT = """
import json, time
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
start = time.perf_counter()
from maxmargin import LinearSVC
imported = time.perf_counter()
LinearSVC().fit(X, y)
print(json.dumps({"import": imported - start, "fit": time.perf_counter() - imported}))
"""

MEMORY = """
import json, sys, threading, warnings
import numpy as np, psutil
library, dtype, n_samples, n_features = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if library == "maxmargin":
    from maxmargin import LinearSVC
else:
    from sklearn.svm import LinearSVC
generator = np.random.default_rng(0)
X = generator.standard_normal((n_samples, n_features), dtype=dtype)
y = np.sign(X @ generator.standard_normal(n_features, dtype=dtype) + 8.0 * generator.standard_normal(n_samples))
warnings.simplefilter("ignore")
model = LinearSVC(loss="hinge", dual=True, C=1e-3, tol=1e-2, max_iter=200)
model.fit(X[:500], y[:500])
process, done = psutil.Process(), threading.Event()
before = peak = process.memory_info().rss
def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, process.memory_info().rss)
watcher = threading.Thread(target=watch)
watcher.start()
model.fit(X, y)
done.set()
watcher.join()
print(json.dumps({"growth": peak - before, "X": X.nbytes, "accuracy": float(np.mean(model.predict(X) == y))}))
"""


GROWTH_OF_FIT = """
import ctypes, gc

def status(key):
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith(key))

def growth_of_fit(model, data, attribute):
    model.fit(data.X, data.y)  # loads all code
    delattr(model, attribute)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before = status("VmRSS")
    model.fit(data.X, data.y)
    return status("VmHWM") - before
"""
"""How much the second of two fits adds to the memory; the large attribute of the first is given back before."""


def in_fresh_process(code: str, *args: object, numba_cache: str | None = None) -> dict[str, Any]:
    """Run the code in a new interpreter and read the JSON on its last line."""
    environment = dict(os.environ) | ({"NUMBA_CACHE_DIR": numba_cache} if numba_cache else {})
    command = [sys.executable, "-c", code, *map(str, args)]
    output = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def import_seconds(repeats: int) -> list[float]:
    return [in_fresh_process(IMPORT)["seconds"] for _ in range(repeats)]


def first_fits(repeats: int) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """With an empty cache of compiled code each time, and then with the cache that such a fit left."""
    empty, filled = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            empty.append(in_fresh_process(FIRST_FIT, numba_cache=cache))
            filled.append(in_fresh_process(FIRST_FIT, numba_cache=cache))
    return empty, filled


def time_table(quick: bool) -> Table:
    table = Table("what", "minimum s", "median s", "limit s", "verdict")
    imports = import_seconds(3 if quick else 10)
    _add_times(table, "`import maxmargin`", imports, IMPORT_LIMIT)
    empty, filled = first_fits(1 if quick else 5)
    _add_times(table, "first fit, nothing compiled", [run["fit"] for run in empty], FIRST_FIT_LIMIT)
    _add_times(table, "first fit of a later process", [run["fit"] for run in filled], LATER_FIT_LIMIT)
    _add_times(table, "`from maxmargin import LinearSVC`, nothing compiled", [run["import"] for run in empty], None)
    _add_times(table, "`from maxmargin import LinearSVC`, later process", [run["import"] for run in filled], None)
    return table


def _add_times(table: Table, what: str, seconds: list[float], limit: float | None) -> None:
    median = statistics.median(seconds)
    verdict = "" if limit is None else _within(median <= limit)
    table.add(what, f"{min(seconds):.3f}", f"{median:.3f}", "" if limit is None else f"{limit:g}", verdict)


def memory_table(quick: bool) -> Table:
    table = Table("X", "library", "X MB", "growth MB", "share of X", "limit", "verdict", numbers_from=2)
    shape = QUICK_MEMORY_SHAPE if quick else MEMORY_SHAPE
    for dtype in ("float64", "float32"):
        for library in ("maxmargin", "scikit-learn"):
            result = in_fresh_process(MEMORY, library, dtype, *shape)
            share = result["growth"] / result["X"]
            limit = (f"{100 * MEMORY_LIMIT:.0f}%", _within(share <= MEMORY_LIMIT)) if library == "maxmargin" else ("", "")
            megabytes = (f"{result['X'] / 1e6:.0f}", f"{result['growth'] / 1e6:.1f}")
            table.add(f"{shape[0]} x {shape[1]} {dtype}", library, *megabytes, f"{100 * share:.1f}%", *limit)
    return table


def _within(is_within: bool) -> str:
    return "within" if is_within else "ABOVE"


def main() -> None:
    options = arguments(__doc__)
    times, memory = time_table(options.quick), memory_table(options.quick)
    time_notes = (
        "First fits are of the scaled breast cancer data (569 x 30, dense) with the default settings; the fit alone is timed, "
        "with scikit-learn's own import before it. Nothing compiled means an empty NUMBA_CACHE_DIR. Limits are for medians."
    )
    memory_notes = (
        "Growth of the resident memory during a fit (hinge, C = 1e-3), sampled every 2 ms, after a small fit to load "
        "everything, as a share of the dense, C-ordered X. float32 stays float32 in maxmargin."
    )
    parts = (times, time_notes, memory, memory_notes)
    write_report(options.results / "footprint.md", "Import, first fit and memory", parts, options.quick)


if __name__ == "__main__":
    main()
