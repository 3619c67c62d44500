"""SMO on a working set, whatever its problem: with an offset or without, with a tube or without."""

from __future__ import annotations

from typing import Any

from maxmargin.problem.held_values import HeldValues
from maxmargin.solvers.kernel.batched_smo_loops import (
    BentProblem,
    LocalProblem,
    OnDemandProblem,
    solve_with_offset,
    solve_without_offset,
)
from maxmargin.solvers.kernel.units import cells_of


def solve_local(local: LocalProblem, tolerance: Any, max_steps: int, has_offset: bool) -> int:
    """Move ``local.s``, and ``local.v`` with it. The steps made.

    Without an offset the loop knows no kink: it is given the cells in which the variables are, and a variable that wants to
    cross zero does so in the next working set."""
    if has_offset:
        return int(solve_with_offset(local, local.masks, tolerance, max_steps))
    cells = cells_of(local.s, local.v, local.lower, local.upper, local.epsilon)
    local.v[:] -= cells.shift
    inside = local._replace(lower=cells.lower, upper=cells.upper, epsilon=0.0)
    steps = int(solve_without_offset(inside, inside.masks, tolerance, max_steps))
    local.v[:] += cells.shift
    return steps


def solve_held(held: HeldValues, local: OnDemandProblem | BentProblem, tolerance: Any, max_steps: int, has_offset: bool) -> int:
    """The same with all samples of a problem, whose kernel rows are made when they are first read."""
    if not has_offset:
        return solve_local(LocalProblem(held.padded, *local[1:]), tolerance, max_steps, has_offset)
    steps = int(solve_with_offset(local, local.masks, tolerance, max_steps))
    if held.wants_all:
        _ = held.padded
        steps += int(solve_with_offset(local, local.masks, tolerance, max_steps - steps))
    return steps
