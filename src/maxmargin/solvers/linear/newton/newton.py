r"""Semismooth Newton on the augmented Lagrangian, for problems with few features and any C.

**Outside**, the proximal-point method on the dual, which is the method of multipliers on the primal (R. T. Rockafellar,
"Augmented Lagrangians and applications of the proximal point algorithm in convex programming", Math. Oper. Res. 1, 1976):

    alpha+ = argmax over the box of D(a) - sum_i (a_i - alpha_i)^2 / (2 s C_i),

with a penalty s that grows while the inner problems are easy. **Inside**, its dual in w, which is smooth:

    min F(w) = 1/2 |w|^2 + sum_i phi_i(m_i),    a_i(m) = -phi_i'(m) = clip(alpha_i + s C_i (1 - m), 0, U_i).

F is piecewise quadratic, with gradient g = w - w(a) and, where a_i is not clipped (sample i is *free*), Hessian

    H = I + s sum over the free samples of C_i x_i x_i',

so a Newton step costs a pass over X and one Cholesky factorisation of the size of w (semismooth Newton: L. Qi and J. Sun,
"A nonsmooth version of Newton's method", Math. Programming 58, 1993; on augmented Lagrangians: X. Y. Zhao, D. Sun, K.-C.
Toh, SIAM J. Optim. 20, 2010; for support vector machines: Y. Yan and Q. Li, Optim. Methods Softw. 35, 2020). The step along
it is exact: F' is piecewise linear and rising along a line, and a safeguarded Newton iteration finds its root in a few
passes over the margins.

w and its response a(m) are a primal and a dual point, and their gap in the inner problem is exactly |g|^2 / 2. The inner
problem counts as solved when |g|^2 / 2 <= 0.3 (D(a) - D(alpha)); then the outer iteration takes its next step.

**Squared hinge, least squares and Huber loss** are smooth as they are. With D_ii = k / C_i the answer is a_i(m) =
clip((anchor_i + s C_i (1 - m)) / (1 + s k)). Without a proximal term (s = inf) the answer is clip(C_i (1 - m) / k), and Newton
runs on the primal directly. **An intercept without penalty** is a coordinate without its 1 in H: at the inner optimum its g is
-sum_i a_i y_i = 0, the equality constraint of the dual.

**Unscaled columns.** Cholesky's method does not depend on the scale of a column, but rounding does: the error of a margin is
about 1e-16 |w| |x|, and the error of a_i is s C_i times that. If this noise hides the rise of the dual value, a smaller s
reduces it. In regression s C_i is a change of a_i per unit of the output, so targets are scaled to size one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.column_mending import mended_in_levels
from maxmargin.solvers.linear.digit_mending import mended_in_digits
from maxmargin.solvers.linear.newton.direction_costs import begins_with_products
from maxmargin.solvers.linear.newton.frame import lengthened, straightened, with_best_offset
from maxmargin.solvers.linear.newton.iteration import finished
from maxmargin.solvers.linear.newton.policy import NewtonPolicy, default_policy
from maxmargin.solvers.linear.newton.state import NewtonState
from maxmargin.solvers.linear.newton.turned_columns import is_turned


@dataclass(frozen=True)
class Newton:
    """Semismooth Newton. ``penalty`` is the first s after a warm start, ``cold_penalty`` the first s without one: below 1 every
    sample is free at w = 0, and the first step solves a least-squares problem. ``acceptance`` is the 0.3 above. ``growth``
    lists pairs of a number of inner steps and the factor on s after an inner problem of at most that many steps; after a longer
    one the factor is ``fall``. With ``polishes`` the solver continues to the precision of float64, whatever the target is."""

    penalty: float = 2.0
    cold_penalty: float = 0.5
    acceptance: float = 0.3
    growth: tuple[tuple[int, float], ...] = ((3, 4.0), (8, 2.0), (20, 1.0))
    fall: float = 0.5
    polishes: bool = False
    policy: NewtonPolicy = field(default_factory=default_policy)

    def __post_init__(self) -> None:
        for name in ("penalty", "cold_penalty", "acceptance", "fall"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be positive and finite; got {getattr(self, name)!r}.")

    @property
    def name(self) -> str:
        return "newton"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> NewtonState:
        with single_threaded_blas(), np.errstate(all="ignore"):
            return self._kind_of_state(problem)(problem, warm_start, self)

    def _kind_of_state(self, problem: LinearProblem) -> type[NewtonState]:
        if not (problem.rows.is_sparse and begins_with_products(problem, self.policy)):
            return NewtonState
        from maxmargin.solvers.linear.newton.rare_columns import SettlingState

        return SettlingState

    def advance(self, problem: LinearProblem, state: NewtonState, budget: Budget) -> None:
        """Make whole Newton steps, each counted as an epoch: at least one, and few enough for Ctrl-C to be heard."""
        end = state.steps + min(budget.steps, self.policy.most_steps_a_call * problem.n_samples)
        with single_threaded_blas(), np.errstate(all="ignore"):
            if state.looks_done:
                finished(state.look_closer(budget.target))
            while not state.looks_done and state.steps < end:
                finished(state.turn(budget.target))

    def candidate(self, problem: LinearProblem, state: NewtonState) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            if is_turned(state.reductions):
                return self._turned_back(problem, state)
            w, alpha = state.expanded(*state.answer())
            if problem.offset_prices is not None:
                return with_best_offset(problem, w), alpha
            if state.ignores_noise:
                return self._mended(problem, state, w, alpha)
            return self._touched_up(problem, state, w, alpha), alpha

    def _turned_back(self, problem: LinearProblem, state: NewtonState) -> tuple[Array, Array]:
        """The pair for X as it is. In the turned columns rounding errors of w cost least, so that w is touched up there."""
        inner, (w, alpha) = state.problem, state.answer()
        w = w[: inner.n_weights]
        if state.ignores_noise and not problem.loss.is_regression:
            w, alpha = self._responding(inner, state, w, alpha)
            w = w if problem.loss.is_smooth else lengthened(inner, w)
        elif not state.ignores_noise:
            w = self._touched_up(inner, state, w, alpha)
        w, alpha = state.expanded(w, alpha)
        if not (state.ignores_noise and state.mends):
            return w, alpha
        return w, (mended_in_digits if problem.loss.is_regression else mended_in_levels)(problem, w, alpha)

    def _touched_up(self, problem: LinearProblem, state: NewtonState, w: Array, alpha: Array) -> Array:
        """w, where margins that are wrong by rounding cost much."""
        if not state.hangs_on_rounding:
            return w
        if state.refusals and not problem.loss.is_smooth:
            w = straightened(problem, w, alpha)
        return w if problem.loss.is_regression else lengthened(problem, w)

    def _mended(self, problem: LinearProblem, state: NewtonState, w: Array, alpha: Array) -> tuple[Array, Array]:
        """The pair with the rounding errors of alpha made good, which the iteration did not count. They are left to the
        certificate first, which bounds the weights of columns where they matter: to mend them takes far longer."""
        if problem.loss.is_regression:
            return w, mended_in_digits(problem, w, alpha) if state.mends else alpha
        w, alpha = self._responding(problem, state, w, alpha)
        mended = mended_in_levels(problem, w, alpha) if state.mends else alpha
        return w if problem.loss.is_smooth else lengthened(problem, w), mended

    def _responding(self, problem: LinearProblem, state: NewtonState, w: Array, alpha: Array) -> tuple[Array, Array]:
        """The best w and its alpha, where the loss is smooth; else w with the margins of the free samples at one."""
        if not problem.loss.is_smooth:
            return straightened(problem, w, alpha), alpha
        w = state.best_w[: problem.n_weights] if problem is state.problem else state.expanded(state.best_w, alpha)[0]
        return w, problem.C * problem.loss.slope(problem.margins(w), problem.targets)

    def factor(self, inner_steps: int) -> float:
        """The factor on the penalty after an inner problem of ``steps`` steps."""
        return next((factor for most, factor in self.growth if inner_steps <= most), self.fall)
