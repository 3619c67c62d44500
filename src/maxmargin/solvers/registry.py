"""The solvers by name."""

from __future__ import annotations

from importlib import import_module

from maxmargin.solvers.base import Solver

SOLVERS: dict[str, tuple[str, str]] = {
    "auto": ("auto", "Auto"),
    "dcd": ("dcd", "DCD"),
    "avsf": ("avsf", "AVSF"),
    "newton": ("newton", "Newton"),
}
"""Names, and the module and class that each is: loaded when it is asked for."""


def solver_named(solver: str | Solver) -> Solver:
    """A solver from its name, or the solver itself."""
    if not isinstance(solver, str):
        if isinstance(solver, type) or not hasattr(solver, "advance"):
            raise TypeError(f"solver must be a name or a solver object such as DCD(); got {solver!r}.")
        return solver
    if solver not in SOLVERS:
        raise ValueError(f"There is no solver named {solver!r}; there are {', '.join(map(repr, sorted(SOLVERS)))}.")
    module, name = SOLVERS[solver]
    made: Solver = getattr(import_module(f"maxmargin.solvers.{module}"), name)()
    return made
