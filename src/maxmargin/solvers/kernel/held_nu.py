r"""SMO for the problems with nu on a kernel matrix that is held whole in float64, and least squares for the free variables: for
few samples, as ``maxmargin.solvers.kernel.held_smo`` is for the other problems.

A round is SMO until the violation is a small share of :math:`|D| / \sum_g T_g`, which bounds the relative gap, or until SMO has
made its steps, and then a leap: one linear system for the variables that SMO has left inside their box (papers/irwls_svc,
Table 1, step 1), with a row for the sum of each group:

.. math:: \begin{bmatrix} K_{FF} & G \\ G' & 0 \end{bmatrix} \begin{bmatrix} d \\ b \end{bmatrix} = \begin{bmatrix} v_F \\ 0
          \end{bmatrix}

If s + d is inside the box, it is the optimum of that face. If not, s moves towards it to the first bound, and the leap goes on
with the variables that are left, while it has taken no longer than SMO. Then SMO goes on. The dual value never falls.

Where SMO has taken as long as active-set Newton would, that method takes over (``maxmargin.solvers.kernel.nu_climb``).

Points of the interior-point method (``maxmargin.solvers.kernel.nu_program``) are offered where rounding stops SMO, where SMO
has taken as long as that method would, and where SMO has taken an eighth of that and its point is no better than w = 0.
If these points are refused, the solver gives up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.held_values import MULTIPLE, padded_size
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.problem.nu import NuProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.kernel.face import change_in_groups
from maxmargin.solvers.kernel.held_nu_loops import Memory, leap, run_smo, survey
from maxmargin.solvers.kernel.held_smo_loops import MANY, MOVED
from maxmargin.solvers.kernel.nu_climb import NuClimb, NuClimbPolicy
from maxmargin.solvers.kernel.nu_program import Inside

FEW = Stage("nu-smo", "few samples: their kernel matrix is held")
CLIMBED = Stage("nu-smo", "active-set Newton: SMO is slow")
INSIDE = Stage("nu-smo", "the interior-point method: SMO is slow, or rounding stops it")


@dataclass(frozen=True)
class HeldNuPolicy:
    """How far SMO and least squares go where the whole kernel matrix is held."""

    most_samples: int = 1024
    """Samples up to which their matrix is held: 8 MB, as ``HeldPolicy.most_samples`` says."""
    few_variables: int = 256
    """Problems with at most this many variables are solved to rounding error, whatever ``tol`` is: that costs next to nothing,
    and equal problems get equal answers."""
    first_share: float = 1e-3
    """The violation at which SMO ends in the first round, as a share of |D| over the sums."""
    next_share: float = 1.0 / 30.0
    """Factor on that share in the round after one in which SMO got there."""
    first_steps: int = 4
    """SMO steps in the first round, per variable. Each round in which SMO does not end by itself has twice as many as the one
    before. With 1, 2, 4 and 8 a NuSVC of three classes and 400 rows takes 5.2, 3.9, 3.6 and 2.9 ms, and a OneClassSVM of 442
    rows 1.4, 1.3, 1.2 and 1.2 (nu = 0.2, RBF; always in this order, which favours the later ones). In turns, 83 fits of 400
    to 569 rows took 0.96 of the time with 4 that they took with 1."""
    first_steps_of_two: float = 1.0
    """The same in regression, where a sample has two variables. There the gap is small long before the violation is: a NuSVR
    of 400 rows takes 1.9, 2.2, 3.0 and 4.6 ms (nu = 0.2)."""
    first_steps_a_support: float = 8.0
    """The same in regression, for each variable that is at its bound if the others are zero. With nu = 0.05 this is a fifth of
    the limit above: a NuSVR of 400 rows takes 1.7 ms, not 2.2."""
    steps_a_round: int = 64
    """The most SMO steps in a round, per variable. With 2,048 variables they take 0.2 s, and then a limit is heard."""
    insisting_steps: int = 10
    """SMO steps, per variable, after which a problem with few variables need not be solved to rounding error, as
    ``HeldSMOPolicy.easy_steps`` says."""
    most_steps: int = 1280
    """SMO steps, per variable, before the solver for many samples takes over."""
    haste_above_zero: float = 8.0
    """Share of the time of the interior-point method, as its inverse, after which that method takes over if all targets are
    equal and P is still above zero, the value of w = 0. With 1 and 8 all fits of five raw tables of 800 rows took 7.9 and
    5.1 s; with 4 and 16 hardly more than with 8."""
    climb: NuClimbPolicy = field(default_factory=NuClimbPolicy)
    """When active-set Newton takes over."""
    goes_inside: bool = True
    """Whether that method takes over here. Not where another method is waiting."""
    most_idle: int = 4
    """Rounds without a step of SMO after which the solver gives up, as ``HeldSMOPolicy.most_idle`` says."""
    most_free: int = 128
    """Free variables up to which compiled code solves their system, as ``HeldSMOPolicy.most_free`` says."""
    noise: float = 4.0
    """Units in the last place by which an output may be wrong. A gap that such errors can explain counts as rounding error."""
    safety: float = 0.5
    """The solver's own gap must fall to this share of the target, because the certificate adds its rounding error."""


@dataclass
class HeldNuState:
    """``vectors`` and ``boxes`` are as in ``maxmargin.solvers.kernel.held_nu_loops``: s_i = sigma_i alpha_i, so that no
    variable of the first group is negative, and none of the second is positive."""

    K: Array
    vectors: Array
    boxes: Array
    memory: Memory
    n: int  # variables
    n_samples: int
    total: float  # of all alpha
    room: float  # of all bounds
    policy: HeldNuPolicy
    inside: Inside | None = None  # where the interior-point method may take over
    climb: NuClimb | None = None
    stage: Stage = FEW
    steps: int = 0
    chunk: int = 0
    dual: float = 0.0
    relative_gap: float = np.inf
    is_at_rounding: bool = False
    looks_done: bool = False
    points: Iterator[tuple[Array, int]] | None = None  # of the interior-point method, that no certificate has seen yet
    offered: Array | None = None  # the latest of them

    @classmethod
    def of(cls, problem: NuProblem, policy: HeldNuPolicy, inside: Inside | None = None) -> HeldNuState | None:
        """The state at the problem's first point. None where the matrix is not held or not positive semidefinite."""
        n = problem.samples.n_samples
        held = problem.samples.held if n <= policy.most_samples else None
        if held is None or not problem.kernel.is_positive_semidefinite:
            return None
        K, n_groups = held.padded, len(problem.totals)
        vectors, boxes = np.zeros((3, len(K))), np.zeros((3, n_groups * len(K)))
        vectors[0, :n], vectors[2, :n] = problem.samples.diagonal, problem.targets[:n]
        start, bounds = problem.signs * problem.first_point, problem.signs * problem.C
        np.maximum(start[:n], 0.0, out=boxes[0, :n])
        np.maximum(bounds[:n], 0.0, out=boxes[2, :n])
        if n_groups > 1:
            second = slice(len(K), len(K) + n)
            np.minimum(start[-n:], 0.0, out=boxes[0, second])
            np.minimum(bounds[-n:], 0.0, out=boxes[1, second])
        memory = Memory.of(_spans(problem), len(K), min(policy.most_free, problem.n_samples))
        total, room = float(problem.totals.sum()), sum(problem.bounds_of_groups)
        climb = NuClimb.of(problem, policy.climb) if inside is not None else None
        return cls(K, vectors, boxes, memory, problem.n_samples, n, total, room, policy, inside, climb)

    def __post_init__(self) -> None:
        self.share, self.target_share = self.policy.first_share, self.policy.safety
        of_two = min(self.policy.first_steps_of_two, self.policy.first_steps_a_support * self.total / self.room)
        self.chunk = math.ceil((self.policy.first_steps if self.n == self.n_samples else of_two) * self.n)
        diagonal, _, targets = self.vectors
        self.size = self.total * float(diagonal.max()) + max(float(targets.max()), -float(targets.min()))

    @property
    def active(self) -> int:
        return self.n

    @property
    def has_given_up(self) -> bool:
        return not self.looks_done

    @property
    def alpha(self) -> Array:
        """alpha of all variables, in their own order."""
        if self.offered is not None:
            return self.offered
        s = self.boxes[0].reshape(-1, len(self.K))[:, : self.n_samples]
        if len(s) == 1:
            return s[0].copy()
        return s[0] - s[1] if self.n == self.n_samples else np.abs(s).reshape(-1)

    def advance(self, budget: Budget) -> None:
        """Rounds until the gap is small enough, or the solver gives up, and does not look done. When the certificate was
        refused, the target is smaller. Of the interior-point method, the next point."""
        if self.points is None:
            self.run_rounds(budget)
        if self.points is None and not self.looks_done:
            self.points = self.inside_points(budget.target)
        if self.points is not None:
            self.take_next_point()

    def run_rounds(self, budget: Budget) -> None:
        """Rounds until the gap is small enough, or SMO is slow, or ends."""
        if self.looks_done:
            self.looks_done, self.target_share = False, 0.1 * self.target_share
            if self.is_at_rounding:
                return
        goal, begun, idle = self.target_share * budget.target, self.steps, 0
        insists = self.n <= self.policy.few_variables
        self.survey()
        while not self.looks_done and self.steps < self.policy.most_steps * self.n and not self.is_slow:
            made = self.run_round(goal if self.n_samples > self.policy.few_variables else 0.0)
            if self.may_climb(goal):
                self.run_climb()
            idle = 0 if made else idle + 1
            is_over = idle >= self.policy.most_idle or self.steps - begun >= self.policy.insisting_steps * self.n
            self.looks_done = self.is_at_rounding or (self.relative_gap <= goal and (is_over or not insists))
            if idle >= self.policy.most_idle:
                return

    def may_climb(self, goal: float) -> bool:
        """Whether SMO has taken as long as active-set Newton would, and has come near enough to the optimum for that."""
        done = self.inside.costs.ns_a_step_and_sample * self.steps * self.n if self.inside is not None else 0.0
        return self.climb is not None and goal < self.relative_gap < 1.0 and done >= self.climb.pays_at

    def run_climb(self) -> None:
        """Active-set Newton from the point of SMO, and a leap, which makes the sums right to rounding, if that raises the dual
        value."""
        assert self.climb is not None
        alpha, before, dual = self.climb.climbed(self.alpha), self.boxes[0].copy(), self.dual
        if alpha is None:
            return
        signed, s = self.climb.problem.signs * alpha, self.boxes[0].reshape(2, -1)[:, : self.n]
        s[0], s[1] = np.maximum(signed, 0.0), np.minimum(signed, 0.0)
        self.steps, self.stage = self.steps + 1, CLIMBED
        self.survey()
        if self.leap():
            self.survey()
        if not self.dual > dual:
            self.boxes[0], self.stage = before, FEW
            self.survey()

    @property
    def is_slow(self) -> bool:
        """Whether the interior-point method is worth it by now."""
        if self.inside is None:
            return False
        is_of_no_use = self.relative_gap >= 1.0 and not self.vectors[2].any()
        return self.inside.pays(int((self.policy.haste_above_zero if is_of_no_use else 1.0) * self.steps))

    def inside_points(self, target: float) -> Iterator[tuple[Array, int]]:
        """The first points of the interior-point method. Where they are refused, the solver for many samples makes more."""
        if self.inside is None or not self.policy.goes_inside:
            return iter(())
        return islice(self.inside.points(target), self.inside.costs.points_at_once)

    def take_next_point(self) -> None:
        """Offer the next point. After the last one the solver has given up."""
        assert self.points is not None
        self.stage, (self.offered, steps) = INSIDE, next(self.points, (None, 0))
        self.looks_done = self.offered is not None
        self.steps += 1 + steps

    def run_round(self, enough: float = 0.0) -> int:
        """SMO, and a leap that may take as long, unless the gap is ``enough`` before. Returns the steps of SMO."""
        check_point()
        made = self.run_smo()
        self.steps += made
        if made < self.chunk:
            self.share *= self.policy.next_share
        else:
            self.chunk = min(2 * self.chunk, self.policy.steps_a_round * self.n)
        if self.relative_gap <= enough:
            return made
        outcome = leap(self.K, self.vectors, self.boxes, self.memory.system, self.memory.free, 4.0 * made * len(self.K))
        self.steps += outcome == MOVED
        if outcome != MANY or self.leap():
            self.survey()
        return made

    def run_smo(self) -> int:
        """SMO until its violation is ``share`` times |D| over the sums, or for a chunk of steps. |D| falls under way, and with
        it that violation: SMO begins again until both agree. Returns the steps."""
        made, violation, asked = 0, np.inf, self.share * abs(self.dual) / self.total
        while made < self.chunk and violation > 2.0 * asked:
            violation, (masks, spans, *_) = asked, self.memory
            made += run_smo(self.K, self.vectors, self.boxes, masks, spans, violation, self.chunk - made)
            self.survey()
            asked = self.share * abs(self.dual) / self.total
        return made

    def survey(self) -> None:
        """Make v anew, and the gap."""
        gap, self.dual, farthest = survey(self.K, self.vectors, self.boxes)
        self.relative_gap = relative(gap, self.dual + gap, self.dual)
        self.is_at_rounding = gap <= self.policy.noise * UNIT_ROUNDOFF * self.room * (self.size + farthest)

    def leap(self) -> bool:
        """Move to the optimum of the present face by LAPACK, if that is inside the box. False where it is not."""
        s, lower, upper = self.boxes
        free = ((s > lower) & (s < upper)).nonzero()[0]
        moved = s[free] + change_in_groups(self.K, self.vectors[1], free % len(self.K), free // len(self.K))
        is_inside = bool(((moved > lower[free]) & (moved < upper[free])).all())
        if is_inside:
            s[free] = moved
            self.steps += 1
        return is_inside


def _spans(problem: NuProblem) -> Array:
    """The runs of samples between the first and the last member of each group."""
    n, ends = problem.samples.n_samples, []
    for own in problem.members:
        first, last = (int(own[0]) % n, int(own[-1]) % n + 1) if len(own) else (0, 0)
        ends.append((first - first % MULTIPLE, padded_size(last)))
    return np.array(ends, np.uint64)
