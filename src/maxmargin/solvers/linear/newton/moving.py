r"""Newton's method for the same samples at one cost after another.

Let every C_i be multiplied by a factor. The rows, the memory and the sum of outer products of the free samples serve the new
problem as they are; that sum and, with a smooth loss, alpha and w(alpha) are multiplied by the factor. So the state of the
last solve is moved instead of a new one made, and w is where the new solve starts. A smooth loss takes 1 to 3 steps from there
to a relative gap of 1e-4 where C grows by the factor 3.16 (a9a, ijcnn1, w7a, mushrooms, covtype).

With a bounded dual, alpha_i stays at its bound if it was there; the others keep their value. Multiplied by the factor they
would be worse: on mushrooms such solves took twice as many steps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.newton.frame import reduced
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.pair import PrimalDualPair
from maxmargin.solvers.linear.newton.passes import curve_of
from maxmargin.solvers.linear.newton.state import NewtonState
from maxmargin.solvers.presolve import MergedRows
from maxmargin.solvers.scaled_targets import ScaledTargets


class MovableState(NewtonState):
    """A state that can continue at other costs. Its only reduction may be that of the targets to size one."""

    @staticmethod
    def suits(problem: LinearProblem) -> bool:
        """Whether the problem is solved as it is, up to the size of its targets, and its costs can be moved."""
        is_plain = problem.penalizes_intercept and problem.offset_prices is None and not problem.penalty.has_kink
        return is_plain and all(isinstance(reduction, ScaledTargets) for reduction in reduced(problem))

    def place(self, w: Array, alpha: Array) -> None:
        """Stand at this point of the problem as it is now."""
        for reduction in self.reductions:
            assert isinstance(reduction, ScaledTargets)
            w, alpha = w / reduction.size, reduction.reduce(alpha)
        self.w[: len(w)] = w
        self.alpha[:] = np.clip(alpha, self.problem.box.L, self.problem.box.U)
        self.passes.restart(self.alpha)
        self.passes.products(self.w, self.margin)

    def move_to(self, problem: LinearProblem, factor: float) -> None:
        """Continue with ``problem``, whose costs are those of before times ``factor``."""
        was_at = self.alpha <= self.problem.box.L, self.alpha >= self.problem.box.U
        self.original, self.reductions = problem, reduced(problem)
        self.problem = self.reductions[-1].problem if self.reductions else problem
        self.curve = curve_of(self.problem)
        self.passes.take_costs(self.curve, factor)
        self.anchor_dual = self._move_alpha(factor, *was_at)
        self._forget_costs()
        self._respond()
        self._start_at_zero_if_better(self.settings.cold_penalty)

    def _move_alpha(self, factor: float, was_low: Array, was_high: Array) -> float:
        """The dual value of the moved alpha. A smooth loss has no proximal term, and needs none."""
        box = self.problem.box
        if self.curve.is_smooth:
            self.alpha *= factor
            return -np.inf
        self.alpha[:] = np.where(was_low, box.L, np.where(was_high, box.U, np.clip(self.alpha, box.L, box.U)))
        w_alpha = self.passes.restart(self.alpha)
        return float(np.sum(box.terms(self.alpha))) - 0.5 * self.regulariser.conjugate(w_alpha)

    def _forget_costs(self) -> None:
        """What was found at the old costs."""
        self._forget()
        self.steps, self.kept = 0, None
        self.anchor[:] = self.alpha
        self.best_pair = PrimalDualPair(np.inf, self.w.copy(), self.alpha.copy())
        self._set_penalty(self.settings.penalty)


@dataclass
class Moved:
    """The state of ``MovedNewton``, which outlives a solve: that of Newton's method, on merged rows where many are equal."""

    newton: MovableState
    merged: MergedRows | None
    stage: Stage = field(default_factory=lambda: Stage("newton", "from the same samples at other costs"))
    has_best_w: bool = True

    @classmethod
    def begin(cls, problem: LinearProblem, settings: Newton, least_saving: float) -> Moved:
        """Begin at alpha = 0."""
        may_merge = problem.rows.is_sparse and not problem.loss.is_regression
        merged = MergedRows.of(problem, least_saving) if may_merge else None
        with single_threaded_blas(), np.errstate(all="ignore"):
            return cls(MovableState(merged.problem if merged else problem, None, settings), merged)

    def move_to(self, problem: LinearProblem, factor: float) -> None:
        if self.merged:
            self.merged = self.merged.with_costs(problem)
            problem = self.merged.problem
        self.newton.move_to(problem, factor)

    def place(self, w: Array, alpha: Array) -> None:
        self.newton.place(w, self.merged.reduce(alpha) if self.merged else alpha)

    @property
    def steps(self) -> int:
        return self.newton.steps

    @property
    def active(self) -> int:
        return self.newton.active

    @property
    def looks_done(self) -> bool:
        return self.newton.looks_done

    @property
    def is_stuck(self) -> bool:
        return self.newton.is_stuck


@dataclass(frozen=True)
class MovedNewton:
    """Newton's method from ``state``, at costs that are ``factor`` times those that the state was left with."""

    state: Moved
    factor: float
    newton: Newton = field(default_factory=Newton)

    @property
    def name(self) -> str:
        return "newton"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> Moved:
        with single_threaded_blas(), np.errstate(all="ignore"):
            self.state.move_to(problem, self.factor)
        return self.state

    def advance(self, problem: LinearProblem, state: Moved, budget: Budget) -> None:
        self.newton.advance(state.newton.original, state.newton, budget)

    def candidate(self, problem: LinearProblem, state: Moved) -> tuple[Array, Array]:
        """Copies: the state goes on to other costs while the answer is kept."""
        w, alpha = self.newton.candidate(state.newton.original, state.newton)
        return (w.copy(), state.merged.expand(w, alpha)[1]) if state.merged else (w.copy(), alpha.copy())
