"""The proof of LinearSVCCV over a range of C, against random values of C that are trained to a relative gap of 1e-10.

    python -m benchmarks.range_check a1a 250              # 250 values more than before
    python -m benchmarks.range_check a1a:hinge 100

Every value is trained on all five folds, and its cross-validated accuracy is compared with the ceiling of the interval
between two knots in which it lies. The values come from a generator whose seed is the number of the part, so that parts can be
run one after the other. Counts are kept in ``.cache``; a change of the proof asks for ``--again``.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from benchmarks.datasets import CACHE, write_text
from benchmarks.model_selection import CS, RANGES, REGRET, range_sample
from maxmargin import LinearSVCCV
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.model_selection import race
from maxmargin.model_selection.linear_fold import LinearFold
from maxmargin.solving.driver import Limits

KEPT = CACHE / "range_check.json"
TOL = 1e-10


def proved(name: str, loss: Any) -> race.Race:
    """The race of a search."""
    races: list[race.Race] = []

    class Kept(LinearSVCCV):
        def _keep_race(self, found: race.Race) -> None:
            races.append(found)
            super()._keep_race(found)

    X, y = range_sample(name)
    Kept(C_range=(CS[0], CS[-1]), regret=REGRET, loss=loss).fit(X, y)
    return races[0]


def accuracies(found: race.Race, Cs: Array) -> Array:
    """Each fit starts from its neighbours in the search, and is certified as any other."""
    totals = np.zeros(len(Cs))
    for fold in found.folds:
        assert isinstance(fold, LinearFold)
        for k, C in enumerate(Cs):
            fold.track.place = fold.start(float(C))
            solution = fold.track.solve(float(C), Limits(TOL), stop=Stop())
            is_right = fold.counts.y * outputs(fold, solution.w) > 0.0
            is_right |= (fold.lengths == 0.0) & (fold.counts.y < 0)
            totals[k] += fold.counts.value(is_right)
    return totals / len(found.folds)


def outputs(fold: Any, w: Array) -> Array:
    d = fold.X.shape[1]
    values = np.asarray(fold.X @ w[:d]) + fold.problem.intercept_scaling * w[d:].sum()
    return np.where(fold.lengths == 0.0, 0.0, values)


def check(cell: str, n_values: int, row: dict[str, Any]) -> None:
    name, _, loss = cell.partition(":")
    found = proved(name, loss or "squared_hinge")
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
    parser.add_argument("cell", help=f"of {', '.join(RANGES)}, with :hinge for hinge loss")
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
