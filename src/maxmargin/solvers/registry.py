"""The solvers by name."""

from __future__ import annotations

from maxmargin.solvers.base import Solver
from maxmargin.solvers.dcd import DCD

SOLVERS: dict[str, type] = {"auto": DCD, "dcd": DCD}


def solver_named(solver: str | Solver) -> Solver:
    """A solver from its name, or the solver itself."""
    if not isinstance(solver, str):
        return solver
    if solver not in SOLVERS:
        raise ValueError(f"There is no solver named {solver!r}; there are {', '.join(map(repr, sorted(SOLVERS)))}.")
    made: Solver = SOLVERS[solver]()
    return made
