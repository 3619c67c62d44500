"""Fits by passes over 1, 2, 4 and 8 partitions on this machine: rounds, bytes of a round, and seconds of the processor.

Partitions are in memory and visited by threads. The seconds of the processor are those of all threads together: with perfect
scaling they stay the same, and what they grow by is what the partitions cost. Beside them stands the model of
docs/guide/large_data.md: 6 ns for each stored element and round. Each fit was made once, after a short one.

    python -m benchmarks.partitions    # one minute
"""

from __future__ import annotations

import math
import time
from itertools import pairwise

import numpy as np
from scipy import sparse

from benchmarks.datasets import load
from benchmarks.measure import Table, arguments, seconds_text, write_report
from maxmargin import Hinge, SquaredHinge
from maxmargin.data.limits import Stop
from maxmargin.data.threads import single_threaded_blas
from maxmargin.scale_out.blocks import Block
from maxmargin.scale_out.executors import InMemory
from maxmargin.scale_out.fitting import PassesRun, Plan
from maxmargin.scale_out.passes import Framing, run_together
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution

PROBLEMS = (("a9a", Hinge()), ("a9a", SquaredHinge()), ("covtype.binary.scale", SquaredHinge()))
PARTITIONS = (1, 2, 4, 8)
NANOSECONDS = 6.0
"""The model's time for a stored element in a round."""


def fitted(executor: InMemory, tol: float) -> Solution:
    stop = Stop.after(math.inf)
    with single_threaded_blas():
        return run_together(executor, [PassesRun(executor, 0, Plan(Limits(tol), stop)).solve()], stop)[0]


def main() -> None:
    options = arguments(__doc__)
    table = Table(
        "set", "loss", "partitions", "proved gap", "rounds", "kB a round", "processor [s]", "model [s]", numbers_from=2
    )
    for name, loss in PROBLEMS[:1] if options.quick else PROBLEMS:
        data = load(name)
        X, framing = sparse.csr_matrix(data.X), Framing(loss, 1.0, 1.0, data.X.shape[1], positive=1.0)
        for n_partitions in PARTITIONS:
            edges = np.linspace(0, len(data.y), n_partitions + 1).astype(int).tolist()
            blocks = [Block(X[a:b], data.y[a:b]) for a, b in pairwise(edges)]
            fitted(InMemory(blocks, [framing]), 0.1)
            executor = InMemory(blocks, [framing])
            begun = time.process_time()
            solution = fitted(executor, 1e-6)
            seconds = time.process_time() - begun
            model = NANOSECONDS * 1e-9 * X.nnz * executor.n_passes
            kilobytes = n_partitions * 8 * (X.shape[1] + 1) ** 2 / 1e3
            words = type(loss).__name__, n_partitions, f"{solution.certificate.relative_gap:.1e}", executor.n_passes
            table.add(name, *words, f"{kilobytes:.0f}", seconds_text(seconds), seconds_text(model))
    parts = [__doc__.partition("\n\n    python")[0], table]
    write_report(options.results / "partitions.md", "Fits over partitions", parts, options.quick, "Seconds of the processor.")


if __name__ == "__main__":
    main()
