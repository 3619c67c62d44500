"""Whole fits of LinearSVC, from a CSR matrix in memory to a primal value within 1e-3 of the optimum.

Hinge loss, no intercept. maxmargin is asked for tol=1e-3, which it proves. LIBLINEAR and scikit-learn have no such option: each
gets the loosest tolerance that happens to bring its primal value that near, found beforehand and at no cost to it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning

from benchmarks.datasets import NAMES, QUICK_NAMES, Data, load
from benchmarks.measure import (
    Search,
    Table,
    arguments,
    geometric_mean,
    interleaved,
    loosest_tolerance,
    seconds_text,
    write_report,
)
from benchmarks.peers import DUAL_SOLVERS, Fit, LiblinearProblem, liblinear_fit, liblinear_problem, sklearn_fit
from benchmarks.references import reference
from maxmargin import LinearSVC
from maxmargin.certificate.linear import Judge
from maxmargin.data.rows import Array

COSTS = (0.01, 0.1, 1.0)
TARGET = 1e-3
MEAN_TO_REACH, LEAST_TO_REACH = 1.2, 0.6
CERTIFICATE_SHARE_ALLOWED = 0.1
SECONDS_A_RUN = 20.0
"""A peer that needs longer at one tolerance is not asked for a tighter one."""
SECONDS_A_CELL = 25.0
"""No further round of repeats after this."""
LONG_FIT_SECONDS = 1.0


class OurFit(NamedTuple):
    seconds: float
    w: Array
    relative_gap: float


class Ratio(NamedTuple):
    """A peer's seconds over ours. A peer that never gets there counts with the time of its best run: a lower bound."""

    value: float
    is_bound: bool

    def __str__(self) -> str:
        return f"> {self.value:.2f}" if self.is_bound else f"{self.value:.2f}"


def our_fit(data: Data, C: float) -> OurFit:
    model = LinearSVC(loss="hinge", fit_intercept=False, tol=TARGET, C=C)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        model.fit(data.X, data.y)
        seconds = time.perf_counter() - start
    return OurFit(seconds, model.coef_[0], model.relative_gap_)


def compare(
    table: Table, name: str, data: Data, prepared: LiblinearProblem, C: float, repeats: int
) -> tuple[OurFit, dict[str, Ratio]]:
    best = reference(name, data, C, "hinge")

    def liblinear(tolerance: float) -> Fit:
        return liblinear_fit(prepared, C, DUAL_SOLVERS["hinge"], tolerance)

    def sklearn(tolerance: float) -> Fit:
        return sklearn_fit(data, C, "hinge", tolerance)

    def excess(fit: Fit) -> float:
        return best.excess(fit.w)

    peers = {"LIBLINEAR": liblinear, "scikit-learn": sklearn}
    searches = {peer: loosest_tolerance(run, excess, TARGET, max_seconds=SECONDS_A_RUN) for peer, run in peers.items()}
    contestants: dict[str, Any] = {"ours": lambda: our_fit(data, C)}
    contestants |= {peer: _at(run, searches[peer].best.tolerance) for peer, run in peers.items()}
    runs = interleaved(contestants, repeats, SECONDS_A_CELL)
    ours = runs["ours"]
    ratios = {peer: Ratio(runs[peer].seconds / ours.seconds, search.found is None) for peer, search in searches.items()}
    cells = [cell for peer in peers for cell in _cells(runs[peer], searches[peer], ratios[peer])]
    table.add(name, f"{C:g}", seconds_text(ours.seconds), f"{ours.relative_gap:.1e}", seconds_text(prepared.seconds), *cells)
    return ours, ratios


def _at(run: Any, tolerance: float) -> Any:
    return lambda: run(tolerance)


def _cells(fit: Fit, search: Search, ratio: Ratio) -> tuple[object, ...]:
    return seconds_text(fit.seconds), search, f"{search.best.excess:.1e}", ratio


def certificate_share(data: Data, C: float) -> float:
    """The part of a fit's time that its certificates took, in the fastest of three runs apart from the timed ones."""
    runs = []
    for _ in range(3):
        with _timed_certificates() as spent:
            runs.append((our_fit(data, C).seconds, sum(spent)))
    seconds, certificates = min(runs)
    return certificates / seconds


@contextmanager
def _timed_certificates() -> Iterator[list[float]]:
    certify = Judge.certify
    spent: list[float] = []

    def timed(*args: Any) -> Any:
        start = time.perf_counter()
        try:
            return certify(*args)
        finally:
            spent.append(time.perf_counter() - start)

    Judge.certify = timed  # type: ignore[method-assign, assignment]
    try:
        yield spent
    finally:
        Judge.certify = certify  # type: ignore[method-assign]


def verdict(peer: str, ratios: list[Ratio]) -> str:
    mean, least = geometric_mean(ratio.value for ratio in ratios), min(ratio.value for ratio in ratios)
    never = sum(ratio.is_bound for ratio in ratios)
    tail = f"; in {never} of {len(ratios)} cells it never got there, and counts with the time of its best run" if never else ""
    return (
        f"- against {peer}: geometric mean {mean:.2f} (to reach {MEAN_TO_REACH}: {_met(mean >= MEAN_TO_REACH)}), "
        f"least {least:.2f} (to reach {LEAST_TO_REACH}: {_met(least >= LEAST_TO_REACH)}){tail}."
    )


def share_verdict(shares: list[float]) -> str:
    if not shares:
        return f"No fit took longer than {LONG_FIT_SECONDS:g} s, so the share of the certificates says nothing."
    worst = max(shares)
    return (
        f"Certificates took at most {100 * worst:.1f}% of a fit longer than {LONG_FIT_SECONDS:g} s "
        f"(allowed {100 * CERTIFICATE_SHARE_ALLOWED:.0f}%: {_met(worst < CERTIFICATE_SHARE_ALLOWED)})."
    )


def _met(is_met: bool) -> str:
    return "met" if is_met else "NOT met"


def main() -> None:
    options = arguments(__doc__)
    peer_columns = ("s", "tolerance", "excess", "ratio")
    table = Table(
        *("set", "C", "maxmargin s", "certified gap", "LIBLINEAR build s"),
        *(f"{peer} {column}" for peer in ("LIBLINEAR", "scikit-learn") for column in peer_columns),
    )
    ratios: dict[str, list[Ratio]] = {"LIBLINEAR": [], "scikit-learn": []}
    shares = []
    share_lines = []
    our_fit(Data(load("a9a").X[:100], load("a9a").y[:100]), 1.0)  # compiles
    for name in QUICK_NAMES if options.quick else NAMES:
        data = load(name)
        prepared = liblinear_problem(data)
        for C in COSTS:
            ours, cell = compare(table, name, data, prepared, C, repeats=2 if options.quick else 5)
            for peer, ratio in cell.items():
                ratios[peer].append(ratio)
            share = certificate_share(data, C)
            share_lines.append(f"{name} C = {C:g}: {100 * share:.1f}% of {seconds_text(ours.seconds)} s")
            if ours.seconds > LONG_FIT_SECONDS:
                shares.append(share)
    verdicts = "\n".join(verdict(peer, values) for peer, values in ratios.items())
    share_text = f"{share_verdict(shares)} Every fit: {'; '.join(share_lines)}."
    print(f"\n{verdicts}\n\n{share_text}")
    notes = (
        "Excess: how far the primal value can be above the optimum at most, relative to it, by the certificate of the answer "
        "with a reference alpha. Ratio: the peer's seconds over ours; LIBLINEAR's copy of the data (build) is not counted in "
        "it, while ours and scikit-learn's are whole fits with their checks and copies. LIBLINEAR stops at 300 iterations; "
        "scikit-learn, whose default is 1,000, was given 10,000. A peer is not asked for a tighter tolerance after a run of "
        f"more than {SECONDS_A_RUN:g} s."
    )
    title = "LinearSVC to a relative gap of 1e-3: whole fits"
    write_report(options.results / "linear_fit.md", title, (verdicts, table, notes, share_text), options.quick)


if __name__ == "__main__":
    main()
