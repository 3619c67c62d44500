"""The proofs of LinearSVCCV and SVCCV over a range of C, against random values of C that are trained to a gap of 1e-10.

    python -m benchmarks.range_check a1a 250              # 250 values more than before
    python -m benchmarks.range_check a1a:hinge 100
    python -m benchmarks.range_check banana:rbf 100

Every value is trained on all five folds, and its cross-validated accuracy is compared with the ceiling of the interval
between two knots in which it lies. The values come from a generator whose seed is the number of the part, so that parts can be
run one after the other. Counts are kept in ``.cache``; a change of the proof asks for ``--again``. Sets of kernel machines are
those of ``kernel_selection``, with scikit-learn's gamma.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from benchmarks.datasets import CACHE, write_text
from benchmarks.kernel_selection import RANGES as KERNEL_RANGES
from benchmarks.kernel_selection import data_of
from benchmarks.model_selection import CS, RANGES, REGRET, range_sample
from maxmargin import SVCCV, LinearSVCCV
from maxmargin.data.rows import Array
from maxmargin.estimators import gamma_race, range_search
from maxmargin.model_selection import race

KEPT = CACHE / "range_check.json"
TOL = 1e-10


def races_kept() -> list[race.Race]:
    """A list to which every race is added that is run from now on."""
    races: list[race.Race] = []

    class Kept(race.Race):
        def run(self, low: float, high: float, regret: float) -> race.Race:
            races.append(self)
            return super().run(low, high, regret)

    gamma_race.Race = range_search.Race = Kept  # type: ignore[attr-defined]
    return races


def proved(name: str, way: str) -> race.Race:
    """The race of a search."""
    races = races_kept()
    if way == "rbf":
        SVCCV(C_range=(CS[0], CS[-1]), regret=REGRET).fit(*data_of(name, KERNEL_RANGES[name]))
    else:
        LinearSVCCV(C_range=(CS[0], CS[-1]), regret=REGRET, loss=way).fit(*range_sample(name))  # type: ignore[arg-type]
    return races[0]


def accuracies(found: race.Race, Cs: Array) -> Array:
    """Each fit starts from its neighbours in the search, and is certified as any other."""
    totals = np.zeros(len(Cs))
    for fold in found.folds:
        for k, C in enumerate(Cs.tolist()):
            fold.train(C, TOL, "auto")
            totals[k] += fold.at(C).value
            del fold.fits[C]
    return totals / len(found.folds)


def check(cell: str, n_values: int, row: dict[str, Any]) -> None:
    name, _, way = cell.partition(":")
    found = proved(name, way or "squared_hinge")
    random = np.random.default_rng(row["parts"])
    Cs = np.sort(10.0 ** random.uniform(np.log10(CS[0]), np.log10(CS[-1]), n_values))
    ceilings = np.array([stretch.ceiling for stretch in found.stretches.values()])
    places = np.clip(np.searchsorted(found.knots, Cs, side="right") - 1, 0, len(ceilings) - 1)
    excess = accuracies(found, Cs) - ceilings[places]
    row["parts"] += 1
    row["values"] += n_values
    row["violations"] += int(np.count_nonzero(excess > 1e-9))
    row["knots"], row["regret"], row["closest"] = len(found.knots), found.regret, max(row["closest"], float(excess.max()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kernels = ", ".join(f"{name}:rbf" for name in KERNEL_RANGES)
    parser.add_argument("cell", help=f"of {', '.join(RANGES)}, with :hinge for hinge loss; or of {kernels}")
    parser.add_argument("values", type=int)
    parser.add_argument("--again", action="store_true", help="forget what was counted for this cell")
    options = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if options.again or options.cell not in kept:
        kept[options.cell] = {"parts": 0, "values": 0, "violations": 0, "closest": -1.0}
    check(options.cell, options.values, kept[options.cell])
    write_text(KEPT, json.dumps(kept, indent=1))
    print(options.cell, kept[options.cell], flush=True)


if __name__ == "__main__":
    main()
