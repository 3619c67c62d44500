"""Fits that are a part of more work. Ctrl-C ends that work, where ``solve`` alone would return the best answer so far."""

from __future__ import annotations

import math
from typing import Any

from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.model_selection.transfer import Problem
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Solution


def solve_whole(problem: Problem, solver: Any, tol: float, warm_start: Array | None = None) -> Solution:
    """Solve, and raise KeyboardInterrupt after Ctrl-C."""
    stop = Stop.within(math.inf)
    with stop.heard():
        solution = solve(problem, solver, tol=tol, warm_start=warm_start)
    if stop.is_told:
        raise KeyboardInterrupt
    return solution
