r"""Pegasos: S. Shalev-Shwartz, Y. Singer, N. Srebro, "Pegasos: Primal Estimated sub-GrAdient SOlver for SVM", ICML 2007, with
Algorithm 3 of A. Guillory, J. Bilmes, "Practical Methods for Exploiting Bounds on Change in the Margin", 2007.

Iteration t draws a batch of k samples. w moves against the subgradient of :math:`f(w) = \tfrac\lambda2 |w|^2 + \tfrac1N \sum_i
\ell(m_i)` as the batch estimates it, with the learning rate 1 / (lambda t), and is projected into a ball that holds the
optimum:

.. math:: w_{t+1} = \Pi\Big[ (1 - \tfrac1t) w_t + \tfrac{1}{\lambda t k} \sum_{i \in A_t} s_i y_i x_i \Big],
          \qquad s_i = -\ell'(m_i).

With lambda = 1 / sum_i C_i, f is the primal of ``maxmargin.problem.linear`` divided by sum_i C_i. If C is one number, lambda =
1 / (C N); otherwise a draw counts in proportion to its C_i. The radius of the ball is 1 / sqrt(lambda) for hinge loss (Pegasos,
Theorem 1), and sqrt(2 / lambda) for the others, as f(0) = 1 and lambda |w*|^2 / 2 <= f(w*).

**Algorithm 3**: from time to time the margins of all samples are stored. A draw whose slope follows from the bound (2), with
its own radius, needs no product. Any multiple c w' has c times the margins of w', so the bound uses the nearest multiple, which
needs |w - c w'|. With few features this distance is computed, and each sample is bounded around a centre
(``maxmargin.margin_bounds.coded_centres``; around the means of the classes until coded centres have become cheap beside the
work done). With many features, as in text, the paper's version was slower than no pruning. There the distance is updated
instead of computed: adding a row changes w . w' by a multiple of w' . x_i, which is y_i times the stored margin, and |w|^2 by
two products with a row that is in the cache.

The rule of the paper's section 3 decides when margins are stored, with one change: its case b) need not wait for the period. In
case b) the stored margins have paid for themselves, and if the share of pruned draws falls steadily this is the best time. The
period doubles each time that storing did not pay. ``maxmargin.solvers.linear.pegasos_as_printed`` is Algorithm 3 as the paper
has it.

**The dual point**: alpha_i is C_i times the mean slope of sample i over its draws in the latter part of the run, times the one
factor at which D is greatest. By the recursion above w is a sum of such slopes, so w(alpha) approaches w as the number of draws
grows; with a draws for each sample the noise in alpha is C / sqrt(a). The noise and the rate 1 / (lambda t) both limit Pegasos
to a relative gap of 1e-2 to 1e-3 in reasonable time: it is a solver for a quick first answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.margin_bounds.coded_centres import CodedCentres
from maxmargin.margin_bounds.coded_centres_loop import DIRECTIONS
from maxmargin.margin_bounds.spheres import Spheres
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget, StoppingRule, check_stop, ends_by_own_rule, refuse_free_intercept
from maxmargin.solvers.linear.dual_point import dual_point
from maxmargin.solvers.linear.pegasos_as_printed import PrintedBounds, PrintedState
from maxmargin.solvers.linear.pegasos_loop import STORED, Centres, CodedBounds, Pruning, descend_on_draws
from maxmargin.solvers.linear.pegasos_state import PegasosPolicy, PegasosState, Setting


@dataclass(frozen=True)
class Pegasos:
    """Stochastic subgradient descent with batches of ``k`` samples, by default 1000 or all samples if they are fewer.
    ``overhead`` is the paper's c: pruning may cost at most 1 / c of the time. An infinite c never prunes.

    ``bounds`` says how a draw is decided without its margin; the iterates are the same. "coded" is our variant, with a
    centre for every sample, and "paper" is Algorithm 3 as printed with the settings of the paper's experiments; a
    ``PrintedBounds`` has others.

    With ``stop="paper"`` a solve ends after ``T`` iterations, the only rule that the Pegasos paper has. With ``stop="gap"`` the
    certificate ends it."""

    k: int | None = None
    overhead: float = 10.0
    bounds: str | PrintedBounds = "coded"
    T: int | None = None
    stop: StoppingRule = "gap"
    policy: PegasosPolicy = field(default=PegasosPolicy(), repr=False)

    def __post_init__(self) -> None:
        check_stop(self.stop)
        if ends_by_own_rule(self) != (self.T is not None):
            raise ValueError(
                f"T, the number of iterations, and stop='paper' need each other; got T={self.T!r} and stop={self.stop!r}."
            )
        if self.T is not None and not (isinstance(self.T, int) and self.T >= 1):
            raise ValueError(f"T, the number of iterations, must be a whole number of at least 1; got {self.T!r}.")
        if self.k is not None and not (isinstance(self.k, int) and self.k >= 1):
            raise ValueError(f"k, the samples of a batch, must be a whole number of at least 1; got {self.k!r}.")
        if not self.overhead > 0.0:
            raise ValueError(f"overhead must be positive; got {self.overhead!r}.")
        if not (self.bounds in ("coded", "paper") or isinstance(self.bounds, PrintedBounds)):
            raise ValueError(f"bounds must be 'coded', 'paper' or a PrintedBounds; got {self.bounds!r}.")

    @property
    def name(self) -> str:
        return "pegasos"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> PegasosState:
        refuse_free_intercept(problem, self.name)
        if self.k is not None and self.k > problem.n_samples:
            raise ValueError(f"k, the samples of a batch, is {self.k}, but there are only {problem.n_samples} samples.")
        k = self.k or min(self.policy.usual_k, problem.n_samples)
        state = self._state(problem, Setting(k, self.overhead, seed, self.policy))
        state.most_iterations = math.inf if self.T is None else self.T
        if warm_start is not None:
            state.begin_at(np.clip(warm_start, problem.box.L, problem.box.U))
        return state

    def _state(self, problem: LinearProblem, setting: Setting) -> PegasosState:
        if self.bounds == "coded":
            return CodedState(problem, setting)
        bounds = self.bounds if isinstance(self.bounds, PrintedBounds) else PrintedBounds()
        return PrintedState(problem, setting, bounds)

    def advance(self, problem: LinearProblem, state: PegasosState, budget: Budget) -> None:
        """Whole iterations, at least one, and no more than T in all; a step is a draw."""
        state.run(int(min(max(1, budget.steps // len(state.drawn)), state.most_iterations - state.iterations)))

    def candidate(self, problem: LinearProblem, state: PegasosState) -> tuple[Array, Array]:
        return state.w[: problem.n_weights], dual_point(problem, state.slopes())


class CodedState(PegasosState):
    """Bounds around the means of the classes, and later around coded centres: our variant of Algorithm 3."""

    def __init__(self, problem: LinearProblem, setting: Setting) -> None:
        super().__init__(problem, setting)
        policy = setting.policy
        self.is_coded = False
        is_far = problem.rows.nbytes > policy.far_bytes and not self.is_wide
        draw_elements = policy.miss_factor * self.row_elements + policy.miss_elements if is_far else self.row_elements
        self.store_cost = problem.n_samples * self.row_elements / draw_elements  # in draws
        self.store_worth = self.store_cost / policy.skipped_worth  # in margins not computed
        self.period = setting.overhead * self.store_cost * (1.0 + policy.class_passes) / setting.k
        self.stored = np.zeros(problem.n_samples, STORED)
        self.centres, self.shifts, self.move = _NO_CENTRES, np.zeros(DIRECTIONS + 2), np.zeros_like(self.v)

    def _descend(self, iterations: int) -> None:
        if self.is_wide:  # free of the rounding of earlier steps
            self.record["sqnorm"], self.record["product"] = self.v @ self.v, self.v @ self.base
        self.iterations += descend_on_draws(
            self.samples, self.point, self.batch, self.descent, self._bounds, self.averages, iterations
        )

    @property
    def _bounds(self) -> CodedBounds:
        policy = self.setting.policy
        mean = policy.recent_weight, policy.least_share, policy.fewest_iterations
        pruning = Pruning(float(self.period), float(self.store_worth), *mean)
        return CodedBounds(self.stored, self.centres, self.move, self.shifts, pruning)

    def _store(self) -> None:
        coding_cost = self.overhead * self.store_cost * (1.0 + self.setting.policy.coding_passes)
        may_code = self.steps >= coding_cost and not self.is_wide
        if self.times_stored == 0 or (may_code and not self.is_coded):
            self._prepare(may_code)
        paid = self.record["skipped"][0] >= self.store_worth
        usual = self.overhead * self.store_cost / len(self.drawn)
        self.period = usual if paid or self.times_stored == 0 else self.setting.policy.not_paid * self.period
        self.stored["margin"] = self._margins_stored()

    def _prepare(self, may_code: bool) -> None:
        """Spheres around the origin if w is long; otherwise around the means of the classes, and later around coded centres."""
        self.is_coded = may_code
        if self.is_wide:
            radii = Spheres.around_origin(self.problem).radii
        else:
            coded = CodedCentres.of(self.problem) if may_code else CodedCentres.of_classes(self.problem)
            self.centres = Centres(coded.vectors, coded.steps, 0.5 * float(np.linalg.norm(coded.steps)))
            self.stored["code"], radii = coded.codes, coded.radii
        above = np.nextafter(radii.astype(np.float32), np.float32(np.inf))
        self.stored["radius"] = np.maximum(above, TINY) * self.problem.y


_NO_CENTRES = Centres(np.empty((0, 0)), np.empty(0), 0.0)
TINY = np.float32(1e-30)
"""Replace a radius of zero, which has no sign."""
