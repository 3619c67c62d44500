"""Whether the claims of the paper hold in our tables: by all cells that decide, never by one of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from benchmarks.measure import Table

MOST = 0.75
"""The share of cells in which a claim must hold to be said to hold in most."""


class Verdicts:
    def __init__(self) -> None:
        self.table = Table("claim", "where", "ours", "verdict", numbers_from=4)

    def judge(self, claim: str, where: str, ours: str, wins: int, cells: int) -> None:
        """Of so many cells that decide, a claim wins some."""
        self.table.add(claim, where, ours, verdict_of(wins, cells))

    def keep(self, rows: list[list[str]]) -> None:
        """Claims of an earlier report, judged anew by their counts."""
        for claim, where, ours, verdict in rows:
            counts = re.match(r"(\d+) of (\d+)", ours)
            self.table.add(claim, where, ours, verdict_of(int(counts[1]), int(counts[2])) if counts else verdict)


def verdict_of(wins: int, cells: int) -> str:
    if cells < 2:
        return "not decided: fewer than two cells"
    if wins == cells:
        return "holds"
    return "holds in most cells" if wins >= MOST * cells else "does not hold here"


def chunks_in(cell: str) -> float:
    """Of a cell such as "53 (8.7e+06)"; infinite for "> 3000 (...)", which did not end."""
    found = re.match(r"(> )?(\d+) \(", cell)
    if found is None:
        raise ValueError(f"{cell!r} is no cell of the table of strategies.")
    return math.inf if found[1] else float(found[2])


def judge_selections(rows: list[list[str]], verdicts: Verdicts) -> None:
    """Cells in which neither strategy ended decide nothing, and are left out."""

    def judge(claim: str, fewer: str, more: str, where: Callable[[float, int], bool], may_tie: bool) -> None:
        pairs = []
        for problem, q, *cells in rows:
            counts = dict(zip(("largest", "smallest", "random"), map(chunks_in, cells), strict=True))
            if where(float(problem.rpartition("C = ")[2]), int(q)) and min(counts[fewer], counts[more]) < math.inf:
                pairs.append((counts[fewer], counts[more]))
        strict, ties = sum(a < b for a, b in pairs), sum(a == b for a, b in pairs)
        text = f"fewer in {strict}, as many in {ties} of {len(pairs)} cells that decide"
        verdicts.judge(claim, "section 3", text, strict + ties * may_tie, len(pairs))

    large = "random needs no more chunks than the largest errors for q >= 100 and C >= 100"
    judge(large, "random", "largest", lambda C, q: C >= 100.0 and q >= 100, True)
    judge(
        "for C < 10 and q < 20 the largest errors needs no more than random",
        "largest",
        "random",
        lambda C, q: C < 10.0 and q < 20,
        True,
    )
    judge("the smallest errors needs more chunks than random", "random", "smallest", lambda C, q: True, False)
