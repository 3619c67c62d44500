"""Problems with a smaller C, each from the w of the last, where a working set has more features than there are samples, or
Newton's method is slow.

Labels are separable then, and with a large C the problem is nearly that of the least |w|_1 with all margins at least one.
Working sets that are chosen by the loss grow to all features, and Newton's model is singular on them. On the way up in C the
working sets stay small."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.sparse_newton.features import Features
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy
from maxmargin.solvers.linear.sparse_newton.state import SparseNewtonState, state_at


@dataclass
class Ramp:
    """``share`` is that of C, and ``state`` that of the problem with this C."""

    problem: LinearProblem
    policy: SparseNewtonPolicy
    features: Features
    share: float
    state: SparseNewtonState
    steps_left: int

    @classmethod
    def of(cls, problem: LinearProblem, policy: SparseNewtonPolicy, features: Features) -> Ramp | None:
        """The ramp; None where C is not far above the least one whose answer is not zero."""
        steepest = float(np.max(np.abs(problem.weights(2.0 * problem.C)), initial=0.0))
        if not steepest > policy.ramp_from * problem.penalty.l1 > 0.0:
            return None
        share, w = policy.first_ramp * problem.penalty.l1 / steepest, np.zeros(problem.n_weights)
        return cls(problem, policy, features, share, _eased(problem, policy, features, share, w), policy.ramp_steps)

    def is_up(self) -> bool:
        """One advance; then the next C where this one is done. True where that is the problem's own."""
        self.state.advance(self.policy.ramp_gap)
        self.steps_left -= 1
        if not (self.state.looks_done or self.state.is_stuck or self.steps_left <= 0):
            return False
        self.share, self.steps_left = self.share * self.policy.ramp_growth, self.policy.ramp_steps
        if self.share >= 1.0:
            return True
        self.state = _eased(self.problem, self.policy, self.features, self.share, self.state.w)
        return False


def _eased(problem: LinearProblem, policy: SparseNewtonPolicy, features: Features, share: float, w: Array) -> SparseNewtonState:
    return state_at(replace(problem, C=share * problem.C), policy, features, w.copy(), is_warm=True)
