"""The solvers by name."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

from maxmargin.solvers.base import KernelSolver, Solver

SOLVERS: dict[str, tuple[str, str]] = {
    "auto": ("linear.auto", "Auto"),
    "dcd": ("linear.dcd", "DCD"),
    "avsf": ("linear.avsf", "AVSF"),
    "newton": ("linear.newton.newton", "Newton"),
    "pair-descent": ("linear.pair_descent", "PairDescent"),
    "pegasos": ("linear.pegasos", "Pegasos"),
    "pruned-gradient": ("linear.pruned_gradient", "PrunedGradient"),
    "sequential-dual": ("linear.crammer_singer", "SequentialDual"),
    "sparse-newton": ("linear.sparse_newton.sparse_newton", "SparseNewton"),
}
"""Names, and the module and class that each is: loaded when it is asked for."""


KERNEL_SOLVERS: dict[str, tuple[str, str]] = {
    "auto": ("kernel.auto", "KernelAuto"),
    "batched-smo": ("kernel.batched_smo", "BatchedSMO"),
    "smo": ("kernel.smo", "SMO"),
    "irwls": ("kernel.irwls.irwls", "IRWLS"),
}


def solver_named(solver: str | Solver) -> Solver:
    """A solver for linear problems from its name, or the solver itself."""
    made: Solver = _named(solver, SOLVERS, "DCD()")
    return made


def kernel_solver_named(solver: str | KernelSolver) -> KernelSolver:
    """A solver for kernel problems from its name, or the solver itself."""
    made: KernelSolver = _named(solver, KERNEL_SOLVERS, "SMO()")
    return made


def suited(solver: Any, problem: Any) -> Any:
    """The solver itself, or what "auto" is for the penalty of this problem; an error where it cannot fit that penalty."""
    if hasattr(problem, "n_classes"):
        return _suited_to_all_classes(solver)
    penalty = getattr(problem, "penalty", None)
    has_kink, fits_kinks = penalty is not None and penalty.has_kink, getattr(solver, "fits_kinks", False)
    if has_kink == fits_kinks:
        return solver
    if has_kink and solver.name == "auto":
        return _named("sparse-newton", SOLVERS, "SparseNewton()")
    other = "'sparse-newton' or 'auto'" if has_kink else "'auto'"
    raise ValueError(f"The solver {solver.name!r} cannot fit the penalty {penalty!r}: use {other}.")


def _suited_to_all_classes(solver: Any) -> Any:
    """The solver for the machine of Crammer and Singer."""
    if solver.name not in ("auto", "sequential-dual"):
        raise ValueError(f"The solver {solver.name!r} cannot fit all classes together: use 'sequential-dual' or 'auto'.")
    return _named("sequential-dual", SOLVERS, "SequentialDual()") if solver.name == "auto" else solver


def _named(solver: Any, solvers: dict[str, tuple[str, str]], example: str) -> Any:
    if not isinstance(solver, str):
        if isinstance(solver, type) or not hasattr(solver, "advance"):
            raise TypeError(f"solver must be a name or a solver object such as {example}; got {solver!r}.")
        return solver
    if solver not in solvers:
        raise ValueError(f"There is no solver named {solver!r}; there are {', '.join(map(repr, sorted(solvers)))}.")
    return _default(*solvers[solver])


@cache
def _default(module: str, name: str) -> Any:
    """A solver with the settings that it has by default. Solvers are frozen: one serves every solve."""
    return getattr(import_module(f"maxmargin.solvers.{module}"), name)()


def ending_by_own_rule(solver: Any, epsilon: float | None = None) -> Any:
    """The same solver with ``stop="paper"``, and with this epsilon of its rule if one is given."""
    if not hasattr(solver, "stop"):
        raise ValueError(f"The solver {solver.name!r} has no stopping rule of a paper: it ends by the gap.")
    settings = {"stop": "paper"} if epsilon is None else {"stop": "paper", "epsilon": epsilon}
    if epsilon is not None and not hasattr(solver, "epsilon"):
        raise ValueError(f"The stopping rule of the solver {solver.name!r} has no epsilon.")
    return replace(solver, **settings)
