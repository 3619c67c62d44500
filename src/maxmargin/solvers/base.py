"""What the driver asks of a solver."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from maxmargin.data import Array
from maxmargin.kernel_problem import KernelProblem
from maxmargin.problem import LinearProblem


class Budget(NamedTuple):
    """A bounded chunk of work: at most so many steps, in search of a relative gap of ``target``."""

    steps: int
    target: float


class Stage(NamedTuple):
    """Which solver is at work, and why that one: what the trace says."""

    solver: str
    reason: str = "asked for"


class State(Protocol):
    """Everything that changes. The driver reads these counters and nothing else."""

    @property
    def steps(self) -> int:
        """Steps made since ``init``."""

    @property
    def stage(self) -> Stage: ...

    @property
    def active(self) -> int:
        """Samples that the solver is looking at."""

    @property
    def looks_done(self) -> bool:
        """The solver's own test is met, so a certificate is worth its cost. If it is refused, the driver calls
        ``advance`` again, and the solver looks closer than before."""

    @property
    def has_best_w(self) -> bool:
        """The w of ``candidate`` is not merely w(alpha): the solver has looked for the best one itself."""

    @property
    def is_stuck(self) -> bool:
        """No further step changes anything in floating point."""


def refuse_free_intercept(problem: LinearProblem, solver: str) -> None:
    """For solvers that change one alpha at a time, and so cannot keep sum_i alpha_i y_i = 0."""
    if not problem.penalizes_intercept:
        raise ValueError(f"The solver {solver!r} cannot fit an intercept without penalty: use 'newton' or 'auto'.")


def refuse_huber(problem: LinearProblem, solver: str) -> None:
    """For solvers whose steps take alpha_i to enter D(alpha) with the factor 1."""
    if problem.box.a != 1.0:
        raise ValueError(f"The solver {solver!r} cannot fit {problem.loss!r}: use 'newton' or 'auto'.")


class Solver(Protocol):
    """A frozen dataclass of settings. It never decides that it is done, never prints, never reads a clock."""

    @property
    def name(self) -> str: ...

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> Any: ...

    def advance(self, problem: LinearProblem, state: Any, budget: Budget) -> None: ...

    def candidate(self, problem: LinearProblem, state: Any) -> tuple[Array, Array]:
        """The present (w, alpha). They may be views that the next ``advance`` changes."""


class KernelSolver(Protocol):
    """The same for kernel problems, whose w is known only through alpha."""

    @property
    def name(self) -> str: ...

    def init(self, problem: KernelProblem, warm_start: Array | None, seed: int) -> Any: ...

    def advance(self, problem: KernelProblem, state: Any, budget: Budget) -> None: ...

    def candidate(self, problem: KernelProblem, state: Any) -> Array:
        """The present alpha."""

    def take_outputs(self, problem: KernelProblem, state: Any, outputs: Array) -> None:
        """f_i = sum_j alpha_j y_j k(x_j, x_i) of the present alpha in float64: a certificate that was refused has computed
        it anyway."""
