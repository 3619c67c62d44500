"""The solvers by name."""

from __future__ import annotations

from maxmargin.solvers.base import Solver
from maxmargin.solvers.dcd import DCD

SOLVERS: dict[str, type] = {"auto": DCD, "dcd": DCD}


def solver_named(solver: str | Solver) -> Solver:
    """A solver from its name, or the solver itself."""
    if not isinstance(solver, str):
        if isinstance(solver, type) or not hasattr(solver, "advance"):
            raise TypeError(f"solver must be a name or a solver object such as DCD(); got {solver!r}.")
        return solver
    if solver not in SOLVERS:
        raise ValueError(f"There is no solver named {solver!r}; there are {', '.join(map(repr, sorted(SOLVERS)))}.")
    made: Solver = SOLVERS[solver]()
    return made
