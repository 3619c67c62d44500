"""Machines with nu on tables as they come: which fits end certified, and the processor time of all of them together.

The tables of ``tests/raw_catalogue.py`` with at most 300 rows, nothing scaled, nu = 0.05, 0.3, 0.7 and 1, all else at its
default. A fit counts as certified when all of its pairs of classes are. An infeasible nu is refused, and does not count.
``NuSVR`` predicts the first column from the others. The tables are in two halves: every other one, beginning with the first
(``chosen on``: the interior-point method was written while looking at these) or the second (``shown only``).

    python -m benchmarks.raw_nu [--seconds 30] [--sets unix-times iris]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.measure import Table, arguments, write_report
from maxmargin import LinearOneClassSVM, NuSVC, NuSVR, OneClassSVM
from tests import raw_catalogue

ROWS, SHARES, KERNELS = 300, (0.05, 0.3, 0.7, 1.0), ("linear", "poly", "rbf")
NAMES = [*raw_catalogue.GENERATED, *raw_catalogue.BUILT_IN]
HALVES = {"chosen on": NAMES[0::2], "shown only": NAMES[1::2]}


def fits(name: str, seconds: float) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """A label, a model and what it is fitted to."""
    table = raw_catalogue.table(name, ROWS).thinned(ROWS)
    inputs = table.X[:, 1:] if table.X.shape[1] > 1 else table.X
    for nu in SHARES:
        yield "LinearOneClassSVM", LinearOneClassSVM(nu=nu, max_seconds=seconds), (table.X,)
        for kernel in KERNELS:
            shared: dict[str, Any] = {"nu": nu, "kernel": kernel, "max_seconds": seconds}
            yield f"NuSVC {kernel}", NuSVC(**shared), (table.X, table.y)
            yield f"OneClassSVM {kernel}", OneClassSVM(**shared), (table.X,)
            yield f"NuSVR {kernel}", NuSVR(**shared), (inputs, np.array(table.X[:, 0]))


def is_certified(model: Any, data: tuple[Any, ...]) -> bool | None:
    """None where nu is infeasible."""
    try:
        model.fit(*data)
    except ValueError as error:
        if "is infeasible" in str(error):
            return None
        raise
    found = model.status_ if isinstance(model.status_, list) else [model.status_]
    return all(status.is_as_asked for status in found)


def main() -> None:
    def own(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sets", nargs="+", default=NAMES, choices=NAMES, metavar="NAME")
        parser.add_argument("--seconds", type=float, default=30.0, help="the limit of one fit")

    options = arguments(__doc__, own)
    warnings.simplefilter("ignore")
    counts, failures, missed = Counter[Any](), Counter[Any](), []
    seconds: defaultdict[Any, float] = defaultdict(float)
    for half, names in HALVES.items():
        for name in [name for name in names if name in options.sets][: 1 if options.quick else None]:
            for label, model, data in fits(name, options.seconds):
                begun = time.process_time()
                outcome = is_certified(model, data)
                seconds[label, half] += time.process_time() - begun
                counts[label, half] += outcome is not None
                failures[label, half] += outcome is False
                if outcome is False:
                    missed.append(f"{label} on {name}, nu = {model.nu}")
    table = Table("machine", *(f"{half}: {what}" for half in HALVES for what in ("not certified", "fits", "processor [s]")))
    for label in dict.fromkeys(label for label, _ in counts):
        cells = [(failures[label, half], counts[label, half], f"{seconds[label, half]:.1f}") for half in HALVES]
        table.add(label, *(cell for three in cells for cell in three))
    total = f"{sum(failures.values())} of {sum(counts.values())} fits are not certified: {'; '.join(missed) or 'none'}."
    parts = [(__doc__ or "").partition("\n\n    python")[0], table, total]
    write_report(options.results / "raw_nu.md", "Machines with nu on raw tables", parts, options.quick)


if __name__ == "__main__":
    main()
