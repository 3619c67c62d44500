"""SVR, NuSVR, NuSVC and OneClassSVM with an RBF kernel: whole fits against scikit-learn (LIBSVM) and oneDAL.

python -m benchmarks.kernel_regression [--rows 4000] [--sets abalone pol] [--models SVR NuSVR] [--columns raw] [--again]

With 4,000 rows, standardised columns and one model a run takes about five minutes. ``--clock processor`` counts processor time,
for a run that is pinned to one core beside other work.

Cells are kept in ``--kept``, a file of ``.cache``, as they are measured, and a run goes on where the last one ended. With
C = 100 and 15,000 rows LIBSVM takes minutes: ``--tolerances`` names the one to try, where it is known.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import svm
from sklearn.preprocessing import StandardScaler

import maxmargin
from benchmarks.datasets import CACHE, load_raw, write_text
from maxmargin.certificate.kernel import certify_kernel
from maxmargin.certificate.nu import certify_nu
from maxmargin.data.rows import Array
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF
from maxmargin.problem.nu import nu_svc, nu_svr, one_class
from maxmargin.problem.regression_losses import EpsilonInsensitive

SETS = ("cal_housing", "abalone", "cpu_act", "pol")
COSTS, EPSILON = (1.0, 10.0, 100.0), 0.1
NU = {"NuSVR": 0.2, "OneClassSVM": 0.2, "NuSVC": 0.6}
"""With a smaller nu w = 0 is optimal for the classes of some sets."""
TARGET, SHARP_TARGET = 1e-3, 1e-6
TOLERANCES = (1e-2, 1e-3, 1e-4)
REPEATS, REPEATS_OF_MANY, MANY_ROWS = 3, 2, 5000
"""Runs of a fit; with more rows than MANY_ROWS a peer runs once, and ours REPEATS_OF_MANY times."""
RESULT = Path(__file__).parent / "results" / "kernel_regression.md"
METHOD = f"""
Columns and targets are standardised, or where it says so raw; gamma = 1 / (number of columns times the variance of X),
epsilon = {EPSILON:g} standard deviations of the targets, nu = {NU["NuSVR"]:g}, and for
NuSVC {NU["NuSVC"]:g}. Whole `fit` calls, compilation excluded, the fastest of {REPEATS} interleaved runs; with more than
{MANY_ROWS:,} rows the fastest of {REPEATS_OF_MANY} of ours, and one of a peer.
A peer's tolerance is the loosest of
{", ".join(f"{tol:g}" for tol in TOLERANCES)} with which it gets to a relative gap of {TARGET:g} by our certificate. With none
of them its time is that of the last, and the ratio is marked by >. maxmargin and oneDAL use all cores, LIBSVM one. The classes
of NuSVC are the targets above and below their median.
""".strip()


class Case(NamedTuple):
    set: str
    model: str
    C: float
    rows: int
    columns: str = "standardised"

    @property
    def key(self) -> str:
        return f"{self.set} {self.model} {self.C:g} {self.rows}{'' if self.columns == 'standardised' else ' raw'}"


def data(case: Case) -> tuple[Array, Array]:
    X, y = load_raw(case.set)
    chosen = np.random.default_rng(0).permutation(len(y))[: case.rows]
    X, y = np.asarray(X[chosen], dtype=np.float64), np.asarray(y[chosen], dtype=np.float64)
    if case.columns == "standardised":
        X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    return np.ascontiguousarray(X), np.where(y > np.median(y), 1.0, -1.0) if case.model == "NuSVC" else y


def settings(case: Case, X: Array, y: Array) -> dict[str, Any]:
    own: dict[str, Any] = {"epsilon": epsilon_of(y)} if case.model == "SVR" else {"nu": NU[case.model]}
    if case.model in ("SVR", "NuSVR"):
        own["C"] = case.C
    return {"gamma": gamma_of(X), **own}


def epsilon_of(y: Array) -> float:
    return float(EPSILON * y.std())


def gamma_of(X: Array) -> float:
    """scikit-learn's "scale": 1 / number of columns where they are standardised."""
    return float(1.0 / (X.shape[1] * X.var()))


def _peer_fit(peer: Callable[..., Any], tol: float, own: dict[str, Any], X: Array, y: Array) -> Any:
    return peer(tol=tol, cache_size=500, **own).fit(X, y)


def relative_gap(case: Case, model: Any, X: Array, y: Array) -> float:
    """Of a peer's answer, by our certificate."""
    kernel, signed = RBF(gamma_of(X)), np.zeros(len(y))
    signed[model.support_] = np.asarray(model.dual_coef_)[0]
    if case.model == "SVR":
        loss: Any = EpsilonInsensitive(epsilon_of(y))
        problem = KernelProblem.build(X, y, case.C, kernel, loss=loss)
        return certify_kernel(problem, problem.nearest_feasible(signed)).certificate.relative_gap
    if case.model == "OneClassSVM":
        found, alpha = one_class(X, kernel, NU[case.model]), signed
    elif case.model == "NuSVC":
        found = nu_svc(X, y, kernel, NU[case.model])
        alpha = np.abs(signed) * float(found.totals.sum()) / float(np.abs(signed).sum())
    else:
        found = nu_svr(X, y, kernel, NU[case.model], case.C)
        alpha = np.concatenate([np.maximum(signed, 0.0), np.maximum(-signed, 0.0)])
    return certify_nu(found, found.nearest_feasible(alpha)).certificate.relative_gap


def peers(model: str) -> dict[str, Any]:
    found = {"LIBSVM": getattr(svm, model)}
    try:
        one_dal = import_module("sklearnex.svm")
    except ImportError:
        return found
    return {**found, "oneDAL": getattr(one_dal, model)} if hasattr(one_dal, model) else found


CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def timed(fit: Callable[[], Any], clock: str) -> tuple[float, Any]:
    begun = CLOCKS[clock]()
    model = fit()
    return CLOCKS[clock]() - begun, model


def measure(case: Case, clock: str, tolerances: Sequence[float]) -> dict[str, Any]:
    X, y = data(case)
    own, ours = settings(case, X, y), getattr(maxmargin, case.model)
    ours(tol=SHARP_TARGET, **own).fit(X[:600], y[:600])  # compiles
    fits: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(tol=TARGET, **own).fit(X, y),
        "ours sharp": lambda: ours(tol=SHARP_TARGET, **own).fit(X, y),
    }
    cell: dict[str, Any] = {}
    for name, peer in peers(case.model).items():
        for tol in tolerances:
            peer_fit = partial(_peer_fit, peer, tol, own, X, y)
            cell[name], model = timed(peer_fit, clock)
            gap = relative_gap(case, model, X, y)
            cell[f"{name} tol"], cell[f"{name} gap"] = tol, gap
            if gap <= TARGET:
                break
        if len(y) <= MANY_ROWS:
            fits[name] = peer_fit
    for _ in range(REPEATS if len(y) <= MANY_ROWS else REPEATS_OF_MANY):
        for name, fit in fits.items():
            seconds, model = timed(fit, clock)
            cell[name] = min(seconds, cell.get(name, math.inf))
            if name.startswith("ours"):
                cell[f"{name} gap"], cell[f"{name} status"] = model.relative_gap_, model.status_.name
    return cell


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for name in options.sets:
        for model in options.models:
            for C in options.costs if model in ("SVR", "NuSVR") else options.costs[:1]:
                for columns in options.columns:
                    yield Case(name, model, C, min(options.rows, len(load_raw(name)[1])), columns)


def report(measured: dict[str, dict[str, Any]], note: str) -> str:
    lines = ["# Kernel regression, nu and one class: whole fits", ""]
    lines += ["| set, model, C, rows | ours, 1e-3 | ours, 1e-6 | gap | LIBSVM | oneDAL |", "|---|---|---|---|---|---|"]
    for key, cell in measured.items():
        theirs = [_against(cell, name) for name in ("LIBSVM", "oneDAL")]
        sharp = f"{cell['ours sharp']:.2f} s | {cell['ours sharp gap']:.0e} {cell['ours sharp status']}"
        lines.append(f"| {key} | {cell['ours']:.2f} s | {sharp} | {' | '.join(theirs)} |")
    lines += ["", *_means(measured), "", METHOD, "", *([note, ""] if note else [])]
    return "\n".join(lines)


def _against(cell: dict[str, Any], name: str) -> str:
    if name not in cell:
        return ""
    mark = "" if cell[f"{name} gap"] <= TARGET else ">"
    return f"{cell[name]:.2f} s, {mark}{cell[name] / cell['ours']:.1f}x"


def _means(measured: dict[str, dict[str, Any]]) -> Iterator[str]:
    for model in ("SVR", "NuSVR", "NuSVC", "OneClassSVM"):
        for name in ("LIBSVM", "oneDAL"):
            ratios = [cell[name] / cell["ours"] for key, cell in measured.items() if f" {model} " in key and name in cell]
            if ratios:
                mean = math.exp(np.mean(np.log(ratios)))
                spread = f"geometric mean of {len(ratios)}; {min(ratios):.1f}x to {max(ratios):.1f}x"
                yield f"- {model} against {name}: {mean:.1f}x ({spread})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    parser.add_argument("--models", nargs="*", default=["SVR", "NuSVR", "NuSVC", "OneClassSVM"])
    parser.add_argument("--columns", nargs="*", default=["standardised"], choices=["standardised", "raw"])
    parser.add_argument("--costs", nargs="*", type=float, default=COSTS)
    parser.add_argument("--clock", default="wall", choices=sorted(CLOCKS))
    parser.add_argument("--note", default="", help="a sentence on the machine and the clock, for the end of the report")
    parser.add_argument("--tolerances", nargs="*", type=float, default=TOLERANCES, help="of the peers, the loosest first")
    parser.add_argument("--kept", default="kernel_regression.json", help="the file of cells in the cache")
    parser.add_argument("--again", action="store_true", help="measure cells that were measured before")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = CACHE / options.kept
    measured: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
    for case in cases(options):
        if options.again or case.key not in measured:
            measured[case.key] = measure(case, options.clock, options.tolerances)
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_text(kept, json.dumps(measured, indent=1))
            print(case.key, {name: f"{value:.3g}" for name, value in measured[case.key].items() if isinstance(value, float)})
    write_text(RESULT, report(measured, options.note))


if __name__ == "__main__":
    main()
