"""Newton's method in one compiled call, and the method in Python where that call has not been enough.

The compiled call (``small_newton_loop``) serves small problems, which it solves to the precision of float64, and regressions
and problems with a free offset that have few features, which it solves to the target. It lacks the safeguards for columns of
very different scales. If its gap or its certificate is not good enough, ``maxmargin.solvers.linear.newton.newton`` starts
again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.kept import kept
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.newton.frame import framed
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.passes import has_few_elements, plain_curve_of
from maxmargin.solvers.linear.newton.small_newton_loop import Samples, Settings, Weights, solve_small
from maxmargin.solvers.linear.newton.state import NewtonState
from maxmargin.solvers.linear.newton.wide_columns import expected_reaches
from maxmargin.solvers.samples import one_of_each
from maxmargin.solvers.scaled_targets import power_of_two

LINE = 8
"""Numbers in a line of the cache: a fact of the machine, not a setting."""
STRIP = 128
"""Samples that are added to the matrix at a time: 9 kB for each 9 features, so that they stay in the near cache."""
LIGHT = 2.0**-40
"""What is added to the curvature along a free offset, as a share of that with all samples free: a thousand times its rounding
error, so that the matrix is positive definite while no sample is free. Part of the layout of the loop."""
POLISHING = Newton(polishes=True)


@dataclass(frozen=True)
class SmallNewton:
    """``careful`` is the method that takes over if the compiled call was not enough. The call uses the same settings."""

    careful: Newton = POLISHING

    @property
    def name(self) -> str:
        return "newton"

    @kept
    def settings(self) -> Settings:
        """The settings from w = 0 for the hinge loss, without those of the weights."""
        careful = self.careful
        policy, search = careful.policy, careful.policy.line_search
        return Settings(
            hardness=policy.small_hardness,
            epsilon=0.0,
            lower=0.0,
            upper=1.0,
            n_penalised=0,
            imbalance_cost=0.0,
            imbalance_curvature=0.0,
            light=0.0,
            penalty=careful.cold_penalty,
            anchor_dual=0.0,
            acceptance=careful.acceptance,
            factors=(careful.factor(3), careful.factor(8), careful.factor(20), careful.factor(21)),
            converged=policy.converged,
            better_pair=policy.better_pair,
            most_idle=policy.small_idle,
            retreat=policy.small_retreat,
            most_retreats=policy.small_retreats,
            search_accuracy=search.accuracy,
            most_looks=search.most_looks,
            most_steps=policy.small_steps,
        )

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> SmallState:
        return SmallState(problem, warm_start)

    def advance(self, problem: LinearProblem, state: SmallState, budget: Budget) -> None:
        if state.is_in_call:
            state.run(self, budget)
        else:
            state.go_on(self.careful, budget)

    def settings_for(self, problem: LinearProblem, target: float) -> Settings:
        """The gap at which the call ends: rounding error for the smallest problems, otherwise a share of the target."""
        policy = self.careful.policy
        if has_few_elements(problem, policy.matrix):
            return self.settings
        return self.settings._replace(converged=max(policy.converged, policy.small_aim * target))

    def candidate(self, problem: LinearProblem, state: SmallState) -> tuple[Array, Array]:
        if state.careful is not None:
            return self.careful.candidate(problem, state.careful)
        return state.w, state.alpha


class SmallState:
    """The pair of the compiled call, until the careful method has taken over."""

    has_best_w = True

    def __init__(self, problem: LinearProblem, warm_start: Array | None) -> None:
        self.problem, self.warm_start = problem, warm_start
        self.reductions = framed(problem)
        self.stage = Stage("newton")
        self.careful: NewtonState | None = None
        self.memory: Memory | None = None
        self.calls_steps = 0
        self.looks_done = self.is_stuck = False
        self.gap, self.best_dual, self.active, self.own_steps = np.inf, 0.0, problem.n_samples, 0
        self.w, self.alpha = np.zeros(problem.n_weights), np.zeros(problem.n_samples)
        if warm_start is not None:  # the warm start may be optimal already
            self.alpha = np.clip(warm_start, problem.box.L, problem.box.U)
            self.w = problem.weights(self.alpha)

    @property
    def is_in_call(self) -> bool:
        """Whether the compiled call has not begun, or was cut short by the budget."""
        return self.careful is None and (self.calls_steps == 0 or self.memory is not None)

    @property
    def steps(self) -> int:
        return self.own_steps + (self.careful.steps if self.careful else 0)

    def meets(self, target: float) -> bool:
        """Whether the gap is within the target, as far as the solver can tell."""
        return bool(np.isfinite(self.gap) and self.gap <= target * abs(self.best_dual))

    def run(self, solver: SmallNewton, budget: Budget) -> None:
        """The compiled call, or the next part of it where the budget cut it short."""
        policy, n, end = solver.careful.policy, self.problem.n_samples, self.own_steps + budget.steps
        if self.memory is None:
            self.memory = self._begun(solver, budget)
        most_steps = max(1, min(policy.small_steps - self.calls_steps, (end - self.own_steps) // n))
        found = self.memory.solve(most_steps)
        self.calls_steps += found.steps
        self.own_steps += max(1, found.steps) * n
        self.gap, self.best_dual, self.active = found.gap, found.dual, found.n_free
        self.w, self.alpha = self._pair(self.memory)
        self.looks_done = self.meets(budget.target)
        if found.steps < most_steps or self.calls_steps >= policy.small_steps:
            self.memory = (
                None  # else the budget has cut the call short. It goes on, even if a certificate is refused in between
            )

    def _pair(self, memory: Memory) -> tuple[Array, Array]:
        """The best pair of the call, for X as it is and, with a free offset, with a balanced alpha."""
        w, alpha = memory.weights.best_w, memory.alpha
        if not self.problem.penalizes_intercept:
            alpha = self.problem.balanced(alpha)
        for reduction in reversed(self.reductions):
            w, alpha = reduction.expand(w, alpha)
        return w, alpha

    def _begun(self, solver: SmallNewton, budget: Budget) -> Memory:
        """The memory of the call: from the warm start, from the answer to some of the samples, or from zero. One epoch of the
        budget is left for all samples."""
        problem, policy = self.reductions[-1].problem if self.reductions else self.problem, solver.careful.policy
        memory = Memory.of(problem, solver.settings_for(problem, budget.target))
        if self.warm_start is not None:
            memory.begin(problem, self.warm_start, solver.careful.penalty)
        elif not has_few_elements(problem, policy.matrix) and memory.settings.penalty < np.inf:
            n_some = problem.n_samples // policy.some_every
            most_steps = min(policy.small_steps, policy.some_every * (budget.steps // problem.n_samples - 1))
            if most_steps > 0 and n_some >= policy.some_samples * problem.n_weights:
                some = memory.some(policy.some_every, policy.some_gap)
                found = some.solve(most_steps)
                self.own_steps += n_some * found.steps
                if found.gap <= policy.near_gap * abs(found.dual):
                    memory.begin_near(some.weights.best_w, n_some)
        return memory

    def go_on(self, solver: Newton, budget: Budget) -> None:
        if self.careful is None:
            self.careful = solver.init(self.problem, self.warm_start, 0)
        solver.advance(self.problem, self.careful, budget)
        self.looks_done, self.is_stuck = self.careful.looks_done, self.careful.is_stuck
        self.gap, self.best_dual, self.active = self.careful.gap, self.careful.best_dual, self.careful.active


class Memory:
    """What the compiled call reads and writes. It begins at w = 0 and alpha = 0."""

    def __init__(self, Z: Array, C: Array, target: Array | float, settings: Settings, unit: float = 1.0) -> None:
        n, d = len(C), len(Z)
        self.Z, self.settings, self.unit = Z, settings, unit
        of_samples = np.empty((9, n))
        of_samples[0], of_samples[1], of_samples[2:6], of_samples[6] = C, target, 0.0, target
        self.samples = Samples._make([*of_samples, np.empty(n, np.uint64)])
        of_weights = np.zeros((7, d))
        of_weights[6] = np.inf
        self.weights = Weights._make([*of_weights, *np.zeros((2, d, d)), np.empty((d + 1, STRIP))])

    @classmethod
    def of(cls, problem: LinearProblem, settings: Settings) -> Memory:
        """A penalty is a change of alpha_i / C_i for each unit of the output, which in regression is the size of the
        targets."""
        terms, unit, hardness, penalty = unit_terms(problem), 1.0, settings.hardness, settings.penalty
        if terms.softness > 0.0:
            hardness, penalty = 1.0 / terms.softness, np.inf
        elif problem.loss.is_regression:
            unit = power_of_two(problem.targets)
            penalty /= unit
        epsilon, lower, upper = terms.epsilon, terms.lower, terms.upper
        settings = settings._replace(hardness=hardness, epsilon=epsilon, lower=lower, upper=upper, penalty=penalty)
        settings, Z = settings._replace(n_penalised=problem.n_penalised), signed_columns(problem)
        columns = Z[: problem.rows.n_features, : problem.n_samples]
        reaches = expected_reaches(problem, columns, unit)
        if not problem.penalizes_intercept:
            settings = with_free_offset(problem, settings, columns if reaches is None else columns[reaches == np.inf], unit)
        if reaches is None:
            settings = settings._replace(most_retreats=0)
        memory = cls(Z, problem.C, terms.target, settings, unit)
        if reaches is not None:
            memory.weights.reach[: len(reaches)] = reaches
        return memory

    @property
    def alpha(self) -> Array:
        """The alpha of the best pair. A product rounds in the same direction for all factors, so that alpha stays in its
        box."""
        return self.samples.best * self.samples.C

    def some(self, every: int, gap: float) -> Memory:
        """The problem of one sample out of ``every``, whose C stands in for theirs, to this relative gap."""
        n = len(self.samples.C) // every
        chosen = one_of_each(every, len(self.samples.C))
        Z = padded(len(self.Z), n)
        self.Z.take(chosen, axis=1, out=Z[:, :n], mode="clip")  # "raise" would make a copy first
        C, target = every * self.samples.C[chosen], self.samples.target[chosen]
        some = Memory(Z, C, target, self.settings._replace(converged=gap), self.unit)
        some.weights.reach[:] = self.weights.reach
        return some

    def begin(self, problem: LinearProblem, alpha: Array, penalty: float) -> None:
        """Where an alpha is given: w = w(alpha), unless w = 0 has the lesser primal value. w(alpha) of a poor alpha can be
        far off."""
        samples, settings = self.samples, self.settings
        alpha = np.clip(alpha, problem.box.L, problem.box.U)
        w = problem.weights(alpha)
        np.divide(alpha, samples.C, out=samples.share, where=samples.C > 0.0)
        samples.anchor[:] = np.clip(samples.share, settings.lower, settings.upper, out=samples.share)
        self.weights.w_alpha[:] = w
        self.settings = settings._replace(anchor_dual=problem.dual(alpha))
        if w.any() and problem.primal(w) < problem.primal_at_zero:
            self.weights.w[:], samples.slack[:] = w, samples.target - problem.margins(w)
            if settings.penalty < np.inf:
                self.settings = self.settings._replace(penalty=penalty / self.unit)

    def begin_near(self, w: Array, n_known: int) -> None:
        """Begin at the answer w to ``n_known`` of the samples. The residuals near the kinks of the loss are then uncertain by
        about their size times sqrt(d / n_known): samples so near to a kink are free at first. None of them is worth an alpha to
        improve on, so that the anchor is halfway between the alphas on both sides of the kink."""
        slack, epsilon = self.samples.slack, self.settings.epsilon
        self.weights.w[:] = w
        np.subtract(self.samples.target, w @ self.Z[:, : len(slack)], out=slack)
        size = float(np.add.reduce(np.abs(slack))) / len(slack)
        penalty = math.sqrt(n_known / len(w)) / (size or 1.0)
        if epsilon > 0.0:
            np.copysign(0.5 * min(1.0, epsilon * penalty), slack, out=self.samples.anchor)
        self.settings = self.settings._replace(penalty=penalty, anchor_dual=-np.inf)

    def solve(self, most_steps: int) -> Found:
        """Make at most this many Newton steps. Another call goes on where this one ended."""
        settings = self.settings._replace(most_steps=most_steps)
        gap, dual, steps, n_free, penalty, anchor_dual = solve_small(self.Z, self.samples, self.weights, settings)
        self.settings = settings._replace(penalty=penalty, anchor_dual=anchor_dual)
        return Found(gap, dual, steps, int(n_free))


class Found(NamedTuple):
    """The gap and the dual value of the best pair, Newton steps, and samples free."""

    gap: float
    dual: float
    steps: int
    n_free: int


def with_free_offset(problem: LinearProblem, settings: Settings, columns: Array, unit: float) -> Settings:
    """The settings with what an imbalance e = sum_i alpha_i sigma_i costs. To balance alpha, some alpha_i change by e together.
    That changes the linear terms of the dual by about e times the size of a slack, and w(alpha) by e times a row x_i, of which
    there is one in each of the columns. Those of bounded weights do not count."""
    scaling = problem.intercept_scaling
    light = LIGHT * float(problem.C.sum()) * scaling * scaling
    curvature = 0.5 * float(np.einsum("ij,ij->", columns, columns)) / (problem.n_samples * scaling * scaling)
    return settings._replace(imbalance_cost=unit / scaling, imbalance_curvature=curvature, light=light)


class UnitTerms(NamedTuple):
    """The dual's terms p_i a - epsilon |a| - softness a^2 / 2 of a = alpha_i / C_i, and the bounds of a. Bounds times C_i are
    the bounds of alpha_i, exactly."""

    target: Array | float
    epsilon: float
    softness: float
    lower: float
    upper: float


def unit_terms(problem: LinearProblem) -> UnitTerms:
    """The terms of the loss of a problem; in regression without its box, which counts in small fits."""
    if problem.loss.is_regression:
        epsilon, up, down, is_squared = problem.loss.residual_pieces()  # type: ignore[attr-defined]
        bounds = (0.5, -math.inf, math.inf) if is_squared else (0.0, -down, up)
        return UnitTerms(problem.targets, epsilon, *bounds)
    curve: Any = plain_curve_of(problem)
    is_bounded = bool(np.isfinite(problem.box.U).all())
    return UnitTerms(curve.target, 0.0, curve.softness, curve.lower, 1.0 if is_bounded else math.inf)


def signed_columns(problem: LinearProblem) -> Array:
    """sigma_i x_i as the columns of a dense float64 array, with the constant feature, whatever X is. The loop is compiled for
    one type only."""
    d, n = problem.rows.n_features, problem.n_samples
    Z = padded(problem.n_weights, n)
    if problem.loss.is_regression:  # all signs are one
        Z[:d, :n], Z[d:, :n] = problem.rows.dense().T, problem.intercept_scaling
        return Z
    np.multiply(problem.rows.dense().T, problem.signs, out=Z[:d, :n])
    if problem.n_weights > d:
        np.multiply(problem.signs, problem.intercept_scaling, out=Z[d, :n])
    return Z


def padded(d: int, n: int) -> Array:
    """Memory for n columns of d elements. Unused columns at the end make the rows an odd number of cache lines long: otherwise,
    with 8,192 samples, all elements of a sample would compete for the same few places in the cache."""
    lines = -(-n // LINE)
    return np.empty((d, LINE * (lines + 1 - lines % 2)))
