"""What the first fit on a machine costs, and the first of a later process: compiling, loading what was compiled, and the fit.

Every fit is made in a new process. Numba's cache is an empty folder for the first of a case and the folder that it left for
the second. The process has imported NumPy, SciPy and scikit-learn before the clock starts; the imports of maxmargin's own
modules inside ``fit`` count. Processor seconds stand beside those of the clock, because compilation uses one core and the
machine may have other work.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from typing import Any

from benchmarks.footprint import in_fresh_process
from benchmarks.measure import Table, arguments, write_report

FIRST_LIMIT, LATER_LIMIT = 3.0, 0.25
"""Seconds that a fit may take with an empty cache, and with a filled one."""

CASES = {
    "LinearSVC, dense 200 x 10": "LinearSVC(), dense(200, 10)",
    "LinearSVC, dense 5,000 x 60": "LinearSVC(), dense(5000, 60)",
    "LinearSVC hinge C=100, sparse 5,000 x 60": "LinearSVC(loss='hinge', C=100), thin(5000, 60, 0.2)",
    "LinearSVC C=100, sparse 2,000 x 20,000": "LinearSVC(C=100), thin(2000, 20000, 0.004)",
    "SVC, dense 300 x 10": "SVC(), dense(300, 10)",
    "SVC, sparse 3,000 x 100": "SVC(), thin(3000, 100, 0.1)",
    "SVC, three classes 1,000 x 10": "SVC(), dense(1000, 10, 3)",
    "SVC linear, dense 300 x 10": "SVC(kernel='linear'), dense(300, 10)",
    "SVC linear, raw 700 x 10, seven classes": "SVC(kernel='linear'), raw(*dense(700, 10, 7))",
    "SVC linear, raw 5,000 x 60": "SVC(kernel='linear'), raw(*dense(5000, 60))",
    "LinearOneClassSVM, dense 200 x 10": "LinearOneClassSVM(), away(*dense(200, 10))",
    "LinearOneClassSVM, dense 100,000 x 10": "LinearOneClassSVM(), away(*dense(100000, 10))",
    "LinearOneClassSVM, sparse 50,000 x 50": "LinearOneClassSVM(), thin(50000, 50, 0.1)",
    "NuSVC, dense 300 x 10": "NuSVC(), dense(300, 10)",
    "NuSVR, dense 300 x 10": "NuSVR(), dense(300, 10)",
    "OneClassSVM, dense 300 x 10": "OneClassSVM(), dense(300, 10)",
    "SVR, dense 300 x 10": "SVR(), dense(300, 10)",
    "SVR linear, dense 300 x 10": "SVR(kernel='linear'), dense(300, 10)",
    "LinearSVR, dense 5,000 x 60": "LinearSVR(), dense(5000, 60)",
    "LinearSVR, sparse 5,000 x 60": "LinearSVR(), thin(5000, 60, 0.2)",
}

FIT = """
import json, sys, time, warnings
import numpy as np, scipy.sparse, sklearn.svm, sklearn.utils.validation
from benchmarks.first_fit import away, compilations, dense, raw, thin
from maxmargin import SVC, SVR, LinearOneClassSVM, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM
warnings.simplefilter("ignore")
model, (X, y) = eval(sys.argv[1])
with compilations() as compiled:
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps({"wall": wall, "cpu": cpu, "compiled": compiled}))
"""


class compilations:
    """A context that lists what Numba compiles inside it: (function, its module, seconds without those of its callees)."""

    def __enter__(self) -> list[tuple[str, str, float]]:
        import time

        from numba.core import event

        found: list[tuple[str, str, float]] = []
        open_since: list[list[float]] = []

        class Listener(event.Listener):
            def on_start(self, event: Any) -> None:
                open_since.append([time.process_time(), 0.0])

            def on_end(self, event: Any) -> None:
                start, of_callees = open_since.pop()
                seconds = time.process_time() - start
                if open_since:
                    open_since[-1][1] += seconds
                function = event.data["dispatcher"].py_func
                found.append((function.__qualname__, function.__module__, seconds - of_callees))

        self._listener = Listener()
        event.register("numba:compile", self._listener)
        return found

    def __exit__(self, *error: object) -> None:
        from numba.core import event

        event.unregister("numba:compile", self._listener)


def dense(n_samples: int, n_features: int, n_classes: int = 2) -> tuple[Any, Any]:
    """Normal rows, labelled by the largest of random linear functions with noise."""
    import numpy as np

    generator = np.random.default_rng(0)
    X = generator.standard_normal((n_samples, n_features))
    scores = X @ generator.standard_normal((n_features, n_classes)) + generator.standard_normal((n_samples, n_classes))
    return X, scores.argmax(axis=1)


def away(X: Any, y: Any) -> tuple[Any, Any]:
    """The same rows away from zero: around zero, w = 0 is the answer of a one-class problem."""
    return X + 3.0, y


def raw(X: Any, y: Any) -> tuple[Any, Any]:
    """The same rows with columns of very different scales, some far from zero."""
    import numpy as np

    scales = 10.0 ** (np.arange(X.shape[1]) % 7 - 3.0)
    return (X + np.arange(X.shape[1]) % 3) * scales, y


def thin(n_samples: int, n_features: int, density: float) -> tuple[Any, Any]:
    """The same with a sparse X."""
    import numpy as np
    from scipy import sparse

    generator = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(n_samples, n_features, density=density, random_state=generator))
    scores = X @ generator.standard_normal((n_features, 2)) + 0.5 * generator.standard_normal((n_samples, 2))
    return X, scores.argmax(axis=1)


def fits(case: str, repeats: int) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of fits: with an empty cache, and with the cache that the first left."""
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            yield in_fresh_process(FIT, case, numba_cache=cache), in_fresh_process(FIT, case, numba_cache=cache)


def report(repeats: int, chosen: str) -> tuple[Table, Table]:
    columns = ("empty cache s", "processor s", "filled cache s", "processor s", "functions", "within limits")
    table = Table("first fit", *columns)
    found = {name: list(fits(case, repeats)) for name, case in CASES.items() if chosen in name}
    for name, pairs in found.items():
        empty, filled = ([pair[k] for pair in pairs] for k in range(2))
        firsts, laters = ([min(run[clock] for run in runs) for clock in ("wall", "cpu")] for runs in (empty, filled))
        verdict = "yes" if firsts[1] <= FIRST_LIMIT and laters[1] <= LATER_LIMIT else "NO"
        seconds = [f"{value:.2f}" for value in (*firsts, *laters)]
        table.add(name, *seconds, len(empty[0]["compiled"]), verdict)
    return table, _functions({name: pairs[0][0]["compiled"] for name, pairs in found.items()})


def _functions(compiled: dict[str, list[tuple[str, str, float]]]) -> Table:
    table = Table("case", "function", "module", "processor s", numbers_from=3)
    for name, functions in compiled.items():
        for function, module, seconds in sorted(functions, key=lambda entry: -entry[2]):
            table.add(name, f"`{function}`", f"`{module.removeprefix('maxmargin.')}`", f"{seconds:.2f}")
    return table


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="", help="cases whose name has this")


def main() -> None:
    options = arguments(__doc__, _own_options)
    summary, functions = report(1 if options.quick else 2, options.only)
    limits = (
        f"Limits: {FIRST_LIMIT:g} s with an empty cache, {LATER_LIMIT:g} s with a filled one. The verdict is on processor "
        "seconds, which the clock shows where the machine has nothing else to do: compilation uses one core."
    )
    heading = "## What is compiled\n\nSeconds of a function are without those of the functions it calls."
    parts = [limits, summary, heading, functions]
    write_report(options.results / "first_fit.md", "The first fit", parts, options.quick)


if __name__ == "__main__":
    main()
