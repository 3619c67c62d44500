"""Peak memory of SVC fits against what is asked for: X, the cache, and a tenth more.

python -m benchmarks.kernel_memory
"""

from __future__ import annotations

import argparse

from benchmarks.footprint import GROWTH_OF_FIT, in_fresh_process
from benchmarks.kernel_problems import PROBLEMS, QUICK
from benchmarks.measure import Table, arguments, write_report

CACHES_MB = (100.0, 500.0)
TARGET = 1e-6
SLACK = 1.1
METHOD = f"""
Growth of the peak resident memory (VmHWM) during the second of two equal fits to {TARGET:g} in a fresh process, against the
bytes of X and of the cache that was asked for. X itself is there before the fit, and so is not in the growth.
""".strip()
CODE = f"""{GROWTH_OF_FIT}
import json, sys, warnings
from benchmarks.kernel_problems import PROBLEMS
from maxmargin import SVC

def size(X):
    return X.nbytes if hasattr(X, "nbytes") else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes

warnings.simplefilter("ignore")
named = next(named for named in PROBLEMS if str(named) == sys.argv[1])
data = named.make()
model = SVC(C=named.C, gamma=named.gamma, tol=float(sys.argv[3]), cache_size=float(sys.argv[2]))
growth = growth_of_fit(model, data, "support_vectors_")
print(json.dumps(dict(growth=growth, X=size(data.X), certified=bool(model.status_.is_certified))))
"""


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--problems", nargs="+", help="names, such as a9a")


def main() -> None:
    options = arguments(__doc__, _own_options)
    names = options.problems or (QUICK if options.quick else [named.name for named in PROBLEMS])
    table = Table("problem", "cache MB", "X MB", "growth MB", "growth / (X + cache)", "certified")
    worst = 0.0
    for named in PROBLEMS:
        for cache_mb in CACHES_MB if named.name in names else ():
            found = in_fresh_process(CODE, str(named), cache_mb, TARGET)
            share = found["growth"] / (found["X"] + 1e6 * cache_mb)
            worst = max(worst, share)
            table.add(
                named,
                f"{cache_mb:g}",
                f"{found['X'] / 1e6:.1f}",
                f"{found['growth'] / 1e6:.0f}",
                f"{share:.2f}",
                found["certified"],
            )
    outcome = "met" if worst <= SLACK else "not met"
    verdict = f"The greatest growth is {worst:.2f} times X and the cache; at most {SLACK:g} is asked ({outcome})."
    write_report(options.results / "kernel_memory.md", "SVC: peak memory", (verdict, table, METHOD), options.quick)


if __name__ == "__main__":
    main()
