"""What the driver asks of a solver."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, get_args

from maxmargin.data.rows import Array
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem

StoppingRule = Literal["gap", "paper"]
"""What ends a solve. "gap": a certificate that shows a relative gap within ``tol``. "paper": the stopping rule of the solver's
own paper; ``tol`` does not count then, and the answer gets one certificate at the end."""


class Budget(NamedTuple):
    """A bounded chunk of work: at most ``steps`` steps, in search of a relative gap of ``target``."""

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
        ``advance`` again, and the solver looks closer than before.

        A solver with ``stop="paper"`` says so when the rule of its paper holds, and only then. The driver ends there."""

    @property
    def has_best_w(self) -> bool:
        """The w of ``candidate`` is not merely w(alpha): the solver has looked for the best one itself."""

    @property
    def is_stuck(self) -> bool:
        """No further step changes anything in floating point."""


def check_stop(stop: object) -> None:
    """Refuse a ``stop`` that is no stopping rule."""
    if stop not in get_args(StoppingRule):
        raise ValueError(f"stop must be 'gap' or 'paper'; got {stop!r}.")


def ends_by_own_rule(solver: object) -> bool:
    """Whether a solve with this solver ends by the rule of its paper. Solvers without a ``stop`` end by the gap."""
    return getattr(solver, "stop", "gap") == "paper"


def refuse_free_intercept(problem: LinearProblem, solver: str) -> None:
    """Refuse a free intercept: a solver that changes one alpha at a time cannot keep sum_i alpha_i y_i = 0."""
    if not problem.penalizes_intercept:
        raise ValueError(f"The solver {solver!r} cannot fit an intercept without penalty: use 'newton' or 'auto'.")


def is_rounded_hinge(problem: LinearProblem) -> bool:
    """Whether the loss is Huber's: smooth, with a slope that is bounded."""
    loss = problem.loss
    return loss.is_smooth and not loss.is_regression and loss.margin_pieces().has_bounded_slope


def refuse_huber(problem: LinearProblem, solver: str) -> None:
    """Refuse Huber loss: the steps of the solver take a loss to be linear or quadratic, and not both."""
    if is_rounded_hinge(problem):
        raise ValueError(f"The solver {solver!r} cannot fit {problem.loss!r}: use 'newton' or 'auto'.")


def refuse_regression(problem: KernelProblem, solver: str) -> None:
    """Refuse regression: the paper of the solver is about classification, and its variables have one sign each."""
    if problem.loss.is_regression:
        raise ValueError(f"The solver {solver!r} is for classification: use 'batched-smo' or 'auto'.")


class Solver(Protocol):
    """A frozen dataclass of settings. It never decides that it is done, never prints, never reads a clock."""

    @property
    def name(self) -> str: ...

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> Any: ...

    def advance(self, problem: LinearProblem, state: Any, budget: Budget) -> None: ...

    def candidate(self, problem: LinearProblem, state: Any) -> tuple[Array, Array]:
        """The present (w, alpha). They may be views that the next ``advance`` changes."""


class KernelSolver(Protocol):
    """The same for kernel problems, whose w is known only through alpha. A solver inherits from this class: what it does not
    answer itself has a default."""

    @property
    def name(self) -> str: ...

    @property
    def budget_mb(self) -> float | None:
        """Megabytes for kernel values; None if the solver keeps none."""
        return None

    def within(self, budget_mb: float) -> KernelSolver:
        """The same solver with another budget for kernel values."""
        return self

    @property
    def holds_values(self) -> bool:
        """It reads the float64 matrix of few samples, where the problem has one."""
        return False

    @property
    def shares_values(self) -> bool:
        """It reads the ``fast_values`` of a problem in float32, where there are some."""
        return False

    def for_features(self) -> Solver | None:
        """What solves the problem where it is a linear one, on the features of its kernel; None if this solver must."""
        return None

    def init(self, problem: KernelProblem, warm_start: Array | None, seed: int) -> Any: ...

    def advance(self, problem: KernelProblem, state: Any, budget: Budget) -> None: ...

    def candidate(self, problem: KernelProblem, state: Any) -> Array:
        """The present alpha."""

    def take_outputs(self, problem: KernelProblem, state: Any, outputs: Array) -> None:
        """f_i = sum_j alpha_j y_j k(x_j, x_i) of the present alpha in float64: a certificate that was refused has computed
        it anyway."""
