"""The order of Newton's method, wherever its samples are: steps, moves of the anchor, penalties, care, and the end.

``newton.py`` has the mathematics. The samples are in this process (``state.py``), in blocks on a disk, or on the workers of a
cluster (``maxmargin.scale_out.newton``). What they are asked is the same: to answer w, to tell the slope along a line, to move
the anchor, to add up w(alpha) anew or in higher precision. How they are asked differs. So the methods here are generators. They
yield what partitions are to be asked, and get the sum of their replies. In memory nobody is asked, nothing is yielded, and
:func:`finished` runs them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from typing import Any, TypeVar

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.solvers.linear.newton.conjugate_gradients import ProductHessian
from maxmargin.solvers.linear.newton.hessian import FreeHessian, Regulariser
from maxmargin.solvers.linear.newton.policy import NewtonPolicy
from maxmargin.solvers.linear.newton.standing import ROUNDING, Standing
from maxmargin.solvers.patience import IdleRounds

T = TypeVar("T")
Asking = Generator[Any, Any, T]
"""A part of the iteration that ends with a T. What it yields is for the partitions."""


def finished(asking: Asking[T]) -> T:
    """Run a part of the iteration whose samples are in memory."""
    try:
        next(asking)
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError("A pass was asked for, and there is nobody to run it.")


class Iteration(Standing):
    """Where the iteration is: in an inner problem, at its end, or after refused certificates."""

    policy: NewtonPolicy
    free: Array
    retreats: int
    refusals: int
    caution: float
    is_stuck: bool
    ignores_noise: bool = False
    """Whether rounding errors of alpha do not count: they are mended at the end."""

    def _forget(self) -> None:
        """Begin at the beginning."""
        self.inner_steps = self.retreats = self.refusals = 0
        self.idle = IdleRounds(self.policy.idle_share)
        self.looks_done = self.is_stuck = self.is_at_rounding = self.is_at_end = self.is_washed = self.is_refined = False
        self.caution, self.least_primal, self.is_stiff, self.noted_dual = 1.0, np.inf, False, 0.0

    # -- what the samples are asked ----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def hessian(self) -> FreeHessian | ProductHessian: ...

    @property
    @abstractmethod
    def rate(self) -> float:
        """The rate of the proximal term: see ``Prox``."""

    @property
    @abstractmethod
    def is_smooth(self) -> bool:
        """Whether the loss has a derivative everywhere."""

    @property
    @abstractmethod
    def gap(self) -> float:
        """The gap of the points that the solver would answer with."""

    @property
    @abstractmethod
    def best_dual(self) -> float:
        """The dual value that belongs to ``gap``."""

    @abstractmethod
    def _answer(self) -> Asking[None]:
        """Let the samples answer w, with the present proximal term."""

    @abstractmethod
    def _answer_anew(self) -> Asking[None]:
        """The same, without the rounding error of earlier steps in w(alpha) and in the margins."""

    @abstractmethod
    def _complete_matrix(self) -> Asking[None]:
        """Bring the matrix up to date with the free samples."""

    @abstractmethod
    def _move_along(self, direction: Array) -> Asking[None]:
        """Move to about where F is least along a line, and let the samples answer."""

    @abstractmethod
    def _move_anchor(self) -> float:
        """Make alpha the anchor if that raises the dual value. Returns by how much."""

    @abstractmethod
    def _begin_refinement(self) -> Asking[Array]:
        """Let the samples set alpha aside for a refinement. Returns w(alpha) in higher precision."""

    @abstractmethod
    def _refine_along(self, direction: Array) -> Asking[Array]:
        """Let the free samples of that alpha follow a step. Returns its w(alpha) in higher precision."""

    @abstractmethod
    def _move_anchor_to_refined(self, w: Array) -> float:
        """Make that alpha the anchor if it raises the dual value. Returns by how much. ``w`` belongs to it."""

    @abstractmethod
    def _stiffness(self) -> Asking[float]:
        """The greatest C_i times the mean of |x_i|^2."""

    @abstractmethod
    def _stand_at_anchor(self) -> Asking[None]:
        """Go back to the anchor, and to the w that belongs to it."""

    @abstractmethod
    def _go_to_best(self) -> None:
        """Go back to the best w so far. The certificate found a larger gap than the solver."""

    @property
    def _is_polishing(self) -> bool:
        """Whether the target is met, and no certificate was refused."""
        return False

    def _centres(self) -> bool:
        """Begin anew with centred columns where that helps, and say whether it was done. Partitions keep their columns."""
        return False

    def _offers_mended(self) -> bool:
        """Offer the same point with a mended alpha, where it was not mended yet, and say whether it was done."""
        return False

    def _ends_trial(self) -> bool:
        """Begin anew with the rounding errors of alpha where they were left out from the start, and say whether it was done."""
        return False

    def _tries_without_noise(self) -> bool:
        """Begin anew without the rounding errors of alpha, and come back if that is refused, where these errors may be what
        the gap consists of. Says whether it was done."""
        return False

    def _begins_without_noise(self) -> bool:
        """Begin anew without the rounding errors of alpha where they can be mended at the end, and say whether it was done."""
        return False

    # -- one turn ----------------------------------------------------------------------------------------------------------

    def turn(self, target: float) -> Asking[None]:
        """One Newton step, and what follows from it."""
        yield from self.step(target)
        yield from self.follow(target)

    def follow(self, target: float) -> Asking[None]:
        """What follows from a step, unless the target is met: a move of the anchor, or more care."""
        factor = self.settings.factor(self.inner_steps)
        if self.looks_done:
            return
        if self.solves_inner_problem(self.settings.acceptance):
            yield from self.go_outside(factor)
        elif self.is_at_rounding:
            yield from self.retreat(factor)
        self._note_target(target)

    def _note_target(self, target: float) -> None:
        if self.gap <= target * self.caution * abs(self.best_dual):
            self.meet_target(self.settings.polishes)

    def meet_target(self, polishes: bool) -> None:
        """End the iteration, unless the answer is to be polished."""
        if not polishes or self.refusals > 0:
            self.looks_done = True

    def step(self, target: float = 0.0) -> Asking[None]:
        """One Newton step on the inner problem, for a relative gap of ``target``."""
        self.inner_steps += 1
        yield from self._complete_matrix()
        self._aim(target)
        direction = self.hessian.solve(self.rate, self._damped_regulariser, self.gradient, self.free)
        if direction is None:
            self.is_stuck = self.looks_done = not (self._ends_trial() or self._centres())
            return
        decrement = -float(self.gradient @ direction)
        self.is_at_rounding = self._gains_nothing(decrement)
        if decrement > 0.0:
            before = self.inner_gap, self.pair_gap
            yield from self._move_along(direction)
            self.is_at_rounding |= before == (self.inner_gap, self.pair_gap)
        self._note_progress()
        if self._may_be_stiff and (yield from self._looks_stiff()):
            yield from self._begin_with_proximal_term()
        self._note_target(target)

    def _aim(self, target: float) -> None:
        """Say which inner gap is good enough for a rough direction. With a proximal term the inner gap is not the gap: none is
        named there, and only the residual relative to the gradient counts."""
        is_whole = np.isinf(self.penalty)
        self.hessian.aim(self.policy.aim * target * self.caution * self.least_primal if is_whole else 0.0)

    @property
    def _damped_regulariser(self) -> Regulariser:
        return self.regulariser

    def _note_progress(self) -> None:
        """A fall of the gap is progress. In a stiff problem the primal value stays far above the dual one for long, and a rise
        of the dual value is progress, too."""
        idle_steps = self.idle.note(self.gap)
        if self.is_stiff and self.anchor_dual * self.policy.idle_share > self.noted_dual:
            self.noted_dual, self.idle.count = self.anchor_dual, 0
        self.hessian.is_careful |= idle_steps >= self.policy.careful_steps
        if idle_steps >= self.policy.idle_steps:
            self._end()

    def _end(self) -> None:
        self.looks_done = self.is_at_end = True

    # -- inner problems ----------------------------------------------------------------------------------------------------

    def _set_penalty(self, penalty: float) -> None:
        """A smooth loss needs no proximal term until rounding asks for one."""
        is_without = self.is_smooth and self.refusals == 0 and not self.is_stiff
        self.penalty = np.inf if is_without else self._limited(penalty)

    def _begin_inner_problem(self, penalty: float) -> Asking[None]:
        self._set_penalty(penalty)
        self.inner_steps = 0
        self.is_washed = self.is_refined = False
        yield from self._answer()

    def go_outside(self, factor: float) -> Asking[None]:
        """The proximal-point step: alpha becomes the anchor of the next inner problem."""
        rise = self._move_anchor()
        self.retreats = 0 if rise > ROUNDING * abs(self.anchor_dual) else self.retreats + 1
        if self.retreats >= self.policy.most_retreats or (self.retreats > 0 and self._has_converged):
            self._end()
            return
        yield from self._begin_inner_problem(self.penalty * factor)

    def retreat(self, factor: float) -> Asking[None]:
        """Handle an inner problem in which no step lowers F, and alpha is still not good enough for an outer step: rounding
        hides the gain. First w is computed anew, then columns far from zero are centred. If the dual value rises, or does so
        after a refinement in higher precision, the outer step is taken, and the penalty may grow: a refined pair has solved its
        inner problem. Otherwise a smaller penalty makes the inner problem easier. Where the target is met already, the answer
        is as precise as float64 lets it be."""
        if self._has_converged:
            self._end()
        elif not self.is_washed:
            self.hessian.is_careful = True
            yield from self._wash()
        elif np.isinf(self.penalty) or self._is_polishing:
            self._end()
        elif not self._centres():
            yield from self._retreat_in_these_columns(factor)

    def _retreat_in_these_columns(self, factor: float) -> Asking[None]:
        if self._rise > -self.policy.converged * abs(self.dual):
            yield from self.go_outside(factor if self.inner_gap <= self.policy.converged * abs(self.dual) else 1.0)
        elif (yield from self._has_risen_by_refinement()):
            self.retreats = 0
            yield from self._begin_inner_problem(self.penalty * factor)
        else:
            self.retreats += 1
            if self.retreats >= self.policy.most_retreats:
                self._end()
            else:
                yield from self._begin_inner_problem(self.penalty * self.policy.retreat)

    @property
    def _has_converged(self) -> bool:
        """Whether the rest of the gap is rounding."""
        return self.pair_gap <= self.policy.converged * abs(self.dual)

    def _wash(self) -> Asking[None]:
        """Compute w(alpha) and the margins anew, without the rounding error of earlier steps."""
        self.is_washed = True
        yield from self._answer_anew()

    def _has_risen_by_refinement(self) -> Asking[bool]:
        """Whether the present pair, refined, raises the dual value, once for each inner problem. If so it is the new anchor."""
        if self.is_refined:
            return False
        self.is_refined = True
        w = yield from self._refined()
        return self._move_anchor_to_refined(w) > ROUNDING * abs(self.anchor_dual)

    def _refined(self) -> Asking[Array]:
        """The current pair after Newton steps with the gradient w - w(alpha) in more than float64 precision. The change is
        added to alpha: computed from a rounded margin, alpha_i would be wrong by rate C_i times the rounding error. Returns w;
        the samples have the alpha."""
        yield from self._complete_matrix()
        w, w_alpha = self.w.copy(), (yield from self._begin_refinement())
        for _ in range(self.policy.refinements):
            gradient = self._gradient(w, w_alpha)
            direction = self.hessian.solve(self.rate, self._damped_regulariser, gradient, self.free)
            if direction is None:
                break
            w += direction
            w_alpha = yield from self._refine_along(direction)
        return w

    # -- stiff problems ----------------------------------------------------------------------------------------------------

    @property
    def _may_be_stiff(self) -> bool:
        """Whether it is time to ask that."""
        return self.inner_steps == self.policy.stiff_steps

    def _looks_stiff(self) -> Asking[bool]:
        """Whether C |x|^2 is so large that only the kinks decide, but not beyond float64, and the answer is still far away."""
        is_far = self.dual < 0.0 and self.anchor_dual < self.policy.stiff_dual * self.least_primal
        if self.is_stiff or self.hessian.is_rough or not is_far:
            return False
        stiffness = yield from self._stiffness()
        return bool(stiffness < 1.0 / ROUNDING and self.penalty * stiffness >= self.policy.stiff)

    def _begin_with_proximal_term(self) -> Asking[None]:
        """Begin again at the anchor, with a proximal term of the size of K: on separable data at large C the loss is as good
        as a constraint, and without such a term Newton's method finds the samples of the margin one by one."""
        self.is_stiff = True
        yield from self._stand_at_anchor()
        yield from self._begin_inner_problem(self.policy.stiff_start / (yield from self._stiffness()))

    # -- refused certificates ----------------------------------------------------------------------------------------------

    def look_closer(self, target: float) -> Asking[None]:
        """React to a refused certificate: tighten the inner test. If the penalty allows no more progress, take a far smaller
        one and continue from the best two points. (With a target of zero every certificate is refused, and the solve ends.)"""
        if target == 0.0 and self.is_at_end:
            self.is_stuck = not self._ends_trial()
            return
        self.caution *= 0.5
        self.looks_done = False
        if not (self.is_at_end or self.ignores_noise):
            yield from self._wash()
            return
        self.refusals += 1
        if self._offers_mended() or self._ends_trial() or self._centres() or self._tries_without_noise():
            return
        if self.refusals >= self.policy.most_refusals:
            self.is_stuck = self.looks_done = not self._begins_without_noise()
            return
        self.is_at_end, self.retreats = False, 0
        self.idle = IdleRounds(self.policy.idle_share)
        self._move_anchor()
        self._go_to_best()
        yield from self._wash()
        smaller = min(1.0, self.penalty * self.policy.refused_retreat)
        if self.refusals > 1:
            smaller = min(smaller, (yield from self._resolved_penalty()))
        yield from self._begin_inner_problem(smaller)

    def _resolved_penalty(self) -> Asking[float]:
        """The s at which the rounding error of a margin of one moves alpha_i by 1e-10 / |x|^2. On separable data alpha_i is
        about 1 / |x|^2, however large C is."""
        stiffness = yield from self._stiffness()
        return max(self.policy.least_penalty, float(np.divide(self.policy.resolved, stiffness)))
