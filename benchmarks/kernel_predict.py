"""Prediction with RBF models: maxmargin against scikit-learn's SVC (LIBSVM) and oneDAL, each with the model of its own fit.

python -m benchmarks.kernel_predict
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import Data, load_test
from benchmarks.kernel_fit import CACHE_MB, peers
from benchmarks.kernel_problems import PROBLEMS
from benchmarks.measure import Table, arguments, interleaved, seconds_text, write_report
from maxmargin import SVC

TESTS = {"a9a, C = 1": "a9a", "mnist 8/rest, C = 1": "mnist"}
"""Problems, and the sets whose test samples are predicted."""
REPEATS, SECONDS_A_CELL = 3, 60.0
ASKED = 5.0
METHOD = """
Seconds of `decision_function` for all test samples, in float64, models fitted at each library's default tolerance; the
fastest of interleaved runs, everything compiled. maxmargin and oneDAL use both cores, LIBSVM has one.
""".strip()


class Prediction(NamedTuple):
    seconds: float
    values: Any


def timed(model: Any, X: Any) -> Prediction:
    start = time.perf_counter()
    values = model.decision_function(X)
    return Prediction(time.perf_counter() - start, values)


def fitted(make: Callable[..., Any], C: float, gamma: float, data: Data) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(C=C, gamma=gamma, cache_size=CACHE_MB).fit(data.X, data.y)


def main() -> None:
    options = arguments(__doc__, lambda parser: None)
    makers: dict[str, Callable[..., Any]] = {"maxmargin": SVC}
    makers |= {name: peer.make for name, peer in peers().items() if name != "oneDAL f32"}
    table = Table(
        "problem",
        "samples",
        "support vectors",
        "maxmargin s",
        *(name for name in makers if name != "maxmargin"),
        "signs that differ",
    )
    lines = []
    for named in PROBLEMS:
        if str(named) not in TESTS:
            continue
        data, test = named.make(), load_test(TESTS[str(named)])
        assert test is not None
        models = {name: fitted(make, named.C, named.gamma, data) for name, make in makers.items()}
        runs = interleaved({name: partial(timed, model, test.X) for name, model in models.items()}, REPEATS, SECONDS_A_CELL)
        ours, theirs = runs["maxmargin"], runs["LIBSVM"]
        differ = int(np.count_nonzero((ours.values > 0.0) != (theirs.values > 0.0)))
        ratios = {name: run.seconds / ours.seconds for name, run in runs.items() if name != "maxmargin"}
        cells = [f"{seconds_text(runs[name].seconds)} {ratio:.1f}x" for name, ratio in ratios.items()]
        table.add(named, len(test.y), len(models["maxmargin"].support_), seconds_text(ours.seconds), *cells, differ)
        verdict = "met" if ratios["LIBSVM"] >= ASKED else "not met"
        lines.append(
            f"- {TESTS[str(named)]}.t: {ratios['LIBSVM']:.1f}x scikit-learn's SVC; at least {ASKED:g}x is asked ({verdict})."
        )
    write_report(options.results / "kernel_predict.md", "SVC: prediction", ("\n".join(lines), table, METHOD), options.quick)


if __name__ == "__main__":
    main()
