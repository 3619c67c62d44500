r"""Gradient descent with pruned evaluations: A. Guillory, J. Bilmes, "Practical Methods for Exploiting Bounds on Change in
the Margin", 2007, section 4.2.

The paper minimises :math:`f(w) = \tfrac{\lambda}{2} |w|^2 + \tfrac1N \sum_i \ell(m_i)`. This is the primal of
``maxmargin.problem.linear`` divided by :math:`\sum_i C_i`, with :math:`\lambda = 1 / \sum_i C_i` (1 / (C N) if C is one number)
and each sample weighted in proportion to its C_i. So both have the same minimiser, and :math:`P = f / \lambda`. The step begins
at ``step``, or at 1 / lambda if that is less, and is halved whenever f rises; loss and gradient come from
``maxmargin.margin_bounds.pruned_loss`` or, as they are printed, from ``maxmargin.margin_bounds.sorted_sums``. Both are exact.

**Hinge loss** has no gradient at its kink, so, as in the paper, Huber loss of half-width h = ``width`` is minimised in its
place, which is at most h / 4 above it. When the certificate, which knows nothing of h, refuses an answer that is good for
this h, h becomes a quarter. **Huber loss** as the problem's own loss keeps its h, and **squared hinge** is smooth as it is
(only its zero piece can be pruned).

**The dual point.** For alpha_i = C_i s_i, with s_i = -l'(m_i), the gap terms of a smooth loss are all zero, by Fenchel and
Young, and

.. math:: P(w) - D(\alpha) = \tfrac12 |w - w(\alpha)|^2 = \tfrac12 |\nabla P(w)|^2 .

The slopes of samples at the margin oscillate from one w to the next, and the mean of the s_i over many iterations is a better
point. w itself is such a mean: w_t+1 = (1 - step lambda) w_t + step lambda w(alpha_t). So alpha_i is C_i times the mean of s_i
over the latter part of the run, times the one factor at which D is greatest. For an intercept without penalty alpha is then
balanced.

Precision: first-order methods make fast progress at first and slow progress later. On the problems of the tests a relative gap
of 1e-3 takes hundreds to thousands of iterations, and 1e-6 is out of reach if C is large. Use this solver for few digits, or to
study its paper; ``auto`` never chooses it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.bound import huber, pieces_of
from maxmargin.margin_bounds.pruned_loss import PrunedLoss
from maxmargin.margin_bounds.sorted_sums import PrintedEvaluation, SortedSums
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Pieces
from maxmargin.solvers.base import Budget, Stage, StoppingRule, check_stop
from maxmargin.solvers.linear.dual_point import dual_point, slopes_from
from maxmargin.solvers.linear.pruned_gradient_loop import step_down
from maxmargin.solvers.patience import IdleRounds


@dataclass(frozen=True)
class DescentPolicy:
    """What the paper leaves open: how the solver continues after a refused certificate, and when it gives up. The values were
    set by judgement, not measured one by one."""

    closer: float = 0.1
    """Factor on epsilon when a certificate is refused."""
    narrower: float = 0.25
    """Factor on the width of the rounded hinge when a certificate is refused because of the rounding."""
    narrowest: float = 1e-9
    """Smallest width of the rounded hinge, in units of the margin."""
    longer: float = 1.2
    """Factor on the step after a step that lowered the objective."""
    still: float = 1e-15
    """Relative change of the objective that counts as none."""
    still_iterations: int = 100
    """Iterations in a row without a change after which the solver is stuck."""


def cost_from_lambda(penalty: float, n_samples: int) -> float:
    """The C that corresponds to the paper's lambda = ``penalty``: 1 / (lambda N)."""
    if not 0.0 < penalty < math.inf:
        raise ValueError(f"lambda must be positive and finite; got {penalty!r}.")
    return 1.0 / (penalty * n_samples)


@dataclass(frozen=True)
class PrunedGradient:
    """Gradient descent on the primal. ``step`` is the first step for the mean loss. ``width`` is the first h of the Huber loss
    that replaces hinge loss. ``overhead`` is the paper's c: pruning may cost at most 1 / c of the time. An infinite c never
    prunes.

    ``epsilon`` belongs to the paper's stopping rule: an iteration changes the objective by less than epsilon, relatively. With
    ``stop="paper"`` a solve ends when the rule holds. With ``stop="gap"`` the solver then asks for a certificate; if the gap is
    still too large, epsilon and h are tightened.

    ``evaluation`` says how loss and gradient are computed; both ways are exact. "pruned" is our variant (``PrunedLoss``),
    and "paper" is Algorithms 1 and 2 as printed (``SortedSums``) with the settings of the paper's experiments; a
    ``PrintedEvaluation`` has others."""

    step: float = 100.0
    width: float = 0.01
    epsilon: float = 1e-4
    overhead: float = 10.0
    evaluation: str | PrintedEvaluation = "pruned"
    stop: StoppingRule = "gap"
    policy: DescentPolicy = field(default=DescentPolicy(), repr=False)

    def __post_init__(self) -> None:
        check_stop(self.stop)
        for name in ("step", "width", "epsilon"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive and finite; got {getattr(self, name)!r}.")
        if not self.overhead > 0.0:
            raise ValueError(f"overhead must be positive; got {self.overhead!r}.")
        if not (self.evaluation in ("pruned", "paper") or isinstance(self.evaluation, PrintedEvaluation)):
            raise ValueError(f"evaluation must be 'pruned', 'paper' or a PrintedEvaluation; got {self.evaluation!r}.")

    @property
    def name(self) -> str:
        return "pruned-gradient"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> DescentState:
        shape = pieces_of(problem.loss)
        shape = huber(self.width) if shape.has_kink else shape
        return DescentState(problem, self._losses(problem, shape), self, warm_start)

    def _losses(self, problem: LinearProblem, shape: Pieces) -> PrunedLoss | SortedSums:
        if self.evaluation == "pruned":
            return PrunedLoss(problem, shape, overhead=self.overhead)
        settings = self.evaluation if isinstance(self.evaluation, PrintedEvaluation) else PrintedEvaluation()
        return SortedSums(problem, shape, settings, c=self.overhead)

    def advance(self, problem: LinearProblem, state: DescentState, budget: Budget) -> None:
        """Whole iterations, each counted as an epoch, and at least one."""
        if state.looks_done:
            state.look_closer(budget.target)
        end = state.steps + budget.steps
        with np.errstate(all="ignore"):
            while not state.looks_done and state.steps < end:
                check_point()
                state.iterate()

    def candidate(self, problem: LinearProblem, state: DescentState) -> tuple[Array, Array]:
        return state.origin[: problem.n_weights], dual_point(problem, state.averages.slopes())


class DescentState:
    """w, where the next evaluation is made, and the length of the step after it."""

    stage = Stage("pruned-gradient")
    has_best_w = False

    def __init__(
        self, problem: LinearProblem, loss: PrunedLoss | SortedSums, settings: PrunedGradient, warm_start: Array | None
    ) -> None:
        self.problem, self.loss = problem, loss
        self.total_cost = float(problem.C.sum())
        self.step = min(settings.step, self.total_cost)
        self.epsilon, self.width, self.policy = settings.epsilon, settings.width, settings.policy
        self.ends_by_rule = settings.stop == "paper"
        self.own_pieces = pieces_of(problem.loss)
        self.w = np.zeros(problem.rows.n_features + 1)
        self.sqnorm = 0.0
        self.objective = self.change = self.own_gap = math.inf
        self.iterations = 0
        self.idle = IdleRounds(share=1.0 - self.policy.still)
        self.active = problem.n_samples
        self.averages = _Averages(problem, loss)
        self.takes_back = warm_start is not None or not self.own_pieces.has_bounded_slope
        if warm_start is not None:
            self._begin_at(np.clip(warm_start, problem.box.L, problem.box.U))
        self.origin, self.origin_weights = self.w, self.w
        if self.takes_back:
            self._keep_origin()

    def _keep_origin(self) -> None:
        self.origin, self.origin_weights = self.w.copy(), np.zeros_like(self.w)

    def _begin_at(self, alpha: Array) -> None:
        alpha = alpha if self.problem.penalizes_intercept else self.problem.balanced(alpha)
        self.averages.last = slopes_from(self.problem, alpha)
        self.w[: self.problem.n_weights] = self.problem.weights(alpha)
        self.sqnorm = self.problem.sqnorm(self.w[: self.problem.n_weights])

    @property
    def steps(self) -> int:
        return self.iterations * self.problem.n_samples

    @property
    def looks_done(self) -> bool:
        return self.change < self.epsilon or self.is_stuck

    @property
    def is_stuck(self) -> bool:
        return self.idle.count >= self.policy.still_iterations and not self._may_narrow

    @property
    def _may_narrow(self) -> bool:
        return self.own_pieces.has_kink and self.width > self.policy.narrowest

    def look_closer(self, target: float) -> None:
        """React to a refused certificate: tighten epsilon and take back steps that raise the objective. If the rounded hinge is
        already minimised to the target, its width was the cause, and the width shrinks."""
        is_rounding = self.own_gap <= 0.5 * target * self.objective * self.total_cost or self.change <= self.policy.still
        self.epsilon = max(self.policy.closer * self.epsilon, self.policy.still)
        self.change = self.objective = math.inf
        if not self.takes_back:
            self.takes_back = True
            self._keep_origin()
        if self._may_narrow and is_rounding:
            self.width = max(self.policy.narrower * self.width, self.policy.narrowest)
            self.idle = IdleRounds(share=self.idle.share)
            self.averages.begin(self.iterations)
            self.loss.reshape(huber(self.width))

    def iterate(self) -> None:
        """One evaluation and one step. A step that raised the objective is kept, as in the paper, except in three cases: after
        a warm start, for squared hinge (its gradient has no bound), and after a refused certificate. In these cases the step is
        taken back, and a good step makes the next one a little longer."""
        here = self.loss.evaluate(self.w, self.averages.weight)
        self.iterations += 1
        self.active = here.examined
        objective = (here.loss + 0.5 * self.sqnorm) / self.total_cost
        rises = not objective <= self.objective
        if rises:
            self.step *= 0.5
        if self.takes_back and rises:
            self.change = math.inf
        else:
            self._accept(objective, here.weights)
        weights = self.origin_weights if self.takes_back else here.weights
        if self.change < self.epsilon:
            self.own_gap = 0.5 * float(np.sum(np.square(self.problem.regulariser * self.origin - weights)))
        if not (self.ends_by_rule and self.looks_done):  # else the answer is where the rule held, and not one step further
            shrinking = self.step / self.total_cost  # step times lambda
            self.sqnorm = step_down(self.origin, self.problem.regulariser, weights, shrinking, shrinking, self.w)
        self.averages.count(self.iterations)

    def _accept(self, objective: float, weights: Array) -> None:
        before, self.objective = self.objective, objective
        if self.takes_back:
            self.step = min(self.policy.longer * self.step, self.total_cost)
            np.copyto(self.origin, self.w)
            np.copyto(self.origin_weights, weights)
        if math.isfinite(before):
            self.change = abs(before - objective) / before if before > 0.0 else 0.0
            self.idle.note(objective)


class _Averages:
    """The mean slopes over the latter part of the iterations so far: at least the last third."""

    def __init__(self, problem: LinearProblem, loss: PrunedLoss | SortedSums) -> None:
        self.problem, self.loss = problem, loss
        self.weight = 1.0
        self.counted = self.begun_at = 0
        self.last = np.zeros(problem.n_samples)

    def count(self, iterations: int) -> None:
        self.counted += 1
        if iterations >= 2 * self.begun_at + 2:
            self.begin(iterations)

    def begin(self, iterations: int) -> None:
        """Start a new average and keep the mean of the old one."""
        if self.weight == 0.0:
            return
        self.last = self._means()
        self.loss.forget_averages()
        self.counted, self.begun_at = 0, iterations

    def slopes(self) -> Array:
        return self._means() if 2 * self.counted > self.begun_at else self.last

    def _means(self) -> Array:
        return self.loss.averages() / (self.weight * self.counted) if self.counted else self.last
