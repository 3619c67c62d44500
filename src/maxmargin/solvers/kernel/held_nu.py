r"""SMO for the problems with nu on a kernel matrix that is held whole in float64, and least squares for the free variables: for
few samples, as ``maxmargin.solvers.kernel.held_smo`` is for the other problems.

A round is SMO until the violation is a small share of :math:`|D| / \sum_g T_g`, which bounds the relative gap, and
then one linear system for the variables that SMO has left inside their box (papers/irwls_svc, Table 1, step 1), with a row for
the sum of each group:

.. math:: \begin{bmatrix} K_{FF} & G \\ G' & 0 \end{bmatrix} \begin{bmatrix} d \\ b \end{bmatrix} = \begin{bmatrix} v_F \\ 0
          \end{bmatrix}

If s + d is inside the box, it is the optimum of that face. If not, SMO goes on. If a few rounds are not enough, the solver
gives up. ``maxmargin.solvers.kernel.held_nu_loops`` makes the steps of a round in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.rows import Array
from maxmargin.problem.feature_maps import feature_map
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.problem.nu import NuProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.kernel.held_nu_loops import N_MASKS, GroupedProblem, RoundPlan, run_round


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
    """Factor on that share in every round after the first."""
    steps_a_variable: int = 4
    """SMO steps in the first round, per variable. Least squares after it cost about as much as this many."""
    more_steps: int = 4
    """Factor on those steps in every round after the first."""
    most_rounds: int = 5
    """Rounds before the solver for many samples takes over."""
    noise: float = 4.0
    """Units in the last place by which an output may be wrong. A gap that such errors can explain counts as rounding error."""
    safety: float = 0.5
    """The solver's own gap must fall to this share of the target, because the certificate adds its rounding error."""


@dataclass
class HeldNuState:
    """s_i = sigma_i alpha_i in its box, and v = t - K s: ``local`` has them by samples and groups. ``places`` are the group and
    the sample of each variable."""

    local: GroupedProblem
    masks: Array
    places: tuple[Array, Array]
    total: float
    policy: HeldNuPolicy
    is_slow: Callable[[int], bool] = field(default=lambda steps: False)  # whether another method is worth it by now
    rank: float = np.inf  # the most that the rank of K can be
    stage: ClassVar[Stage] = Stage("nu-smo", "few samples: their kernel matrix is held")
    steps: int = 0
    rounds: int = 0
    gap: float = np.inf
    dual: float = 0.0
    relative_gap: float = np.inf
    is_at_rounding: bool = False
    looks_done: bool = False

    @classmethod
    def of(
        cls, problem: NuProblem, policy: HeldNuPolicy, is_slow: Callable[[int], bool] = lambda steps: False
    ) -> HeldNuState | None:
        """The state at the problem's first point. It gives up when ``is_slow`` says so of its steps. None where
        the matrix is not held or not positive semidefinite."""
        n = problem.samples.n_samples
        held = problem.samples.held if n <= policy.most_samples else None
        if held is None or not problem.kernel.is_positive_semidefinite:
            return None
        K = held.padded
        vectors = np.zeros((9 + N_MASKS, len(K)))
        diagonal, t, s, lower, upper = vectors[0], vectors[2], vectors[3:5], vectors[5:7], vectors[7:9]
        places = problem.group.astype(np.int64), np.arange(problem.n_samples) % n
        diagonal[:n], t[:n] = problem.samples.diagonal, problem.targets[:n]
        bounds, s[places] = problem.signs * problem.C, problem.signs * problem.first_point
        lower[places], upper[places] = np.minimum(bounds, 0.0), np.maximum(bounds, 0.0)
        local = GroupedProblem(K, diagonal, vectors[1], t, s, lower, upper)
        return cls(local, vectors[9:], places, float(problem.totals.sum()), policy, is_slow, _rank(problem))

    def __post_init__(self) -> None:
        self.share, self.target_share = self.policy.first_share, self.policy.safety
        self.n = len(self.places[0])

    @property
    def active(self) -> int:
        return self.n

    @property
    def has_given_up(self) -> bool:
        return not self.looks_done

    @property
    def alpha(self) -> Array:
        """alpha of all variables, in their own order."""
        return np.abs(self.local.s[self.places])

    def advance(self, budget: Budget) -> None:
        """Rounds until the gap is small enough, or the solver gives up, and does not look done. When the certificate was
        refused, the target is smaller."""
        if self.looks_done:
            self.looks_done, self.target_share = False, 0.1 * self.target_share
        goal, is_few = self.target_share * budget.target, self.n <= self.policy.few_variables
        while self.rounds < self.policy.most_rounds and not self.is_slow(self.steps):
            self.run_round()
            self.looks_done = self.relative_gap <= goal or self.is_at_rounding
            if self.is_at_rounding or (self.looks_done and not is_few):
                return

    def run_round(self) -> None:
        """SMO, and the optimum of the face that it has found."""
        most = self.policy.steps_a_variable * self.policy.more_steps**self.rounds * self.n
        steps = self._run(most)
        if steps < most:
            self.share *= self.policy.next_share
        self.rounds += 1
        if self.leap():
            self._run(0)

    def _run(self, most_steps: int) -> int:
        """The steps of SMO. Without steps v is made anew, and the gap."""
        plan = RoundPlan(self.share, self.total, most_steps)
        steps, self.gap, self.dual, scale = run_round(self.local, self.masks, plan)
        self.steps += steps
        self.relative_gap = relative(self.gap, self.dual + self.gap, self.dual)
        self.is_at_rounding = self.gap <= self.policy.noise * UNIT_ROUNDOFF * scale
        return int(steps)

    def leap(self) -> bool:
        """Move to the optimum of the present face, if that is inside the box. False where it is not."""
        s, lower, upper = self.local.s, self.local.lower, self.local.upper
        groups, samples = free = ((s > lower) & (s < upper)).nonzero()
        m = len(samples)
        if not m:
            return False
        system, right = np.zeros((m + 2, m + 2)), np.zeros(m + 2)
        system[:m, :m], right[:m] = self.local.K[samples[:, None], samples], self.local.v[samples]
        n_first = m - int(np.count_nonzero(groups))
        for column, own in ((m, slice(0, n_first)), (m + 1, slice(n_first, m))):
            system[own, column] = system[column, own] = 1.0
            system[column, column] = float(own.start == own.stop)  # a group without free variables
        moved = s[free] + _solution(system, right, is_singular=m - 2 > self.rank)[:m]
        is_inside = bool(((moved > lower[free]) & (moved < upper[free])).all())
        if is_inside:
            s[free] = moved
            self.steps += 1
        return is_inside


def _rank(problem: NuProblem) -> float:
    """The most that the rank of the kernel matrix can be: the number of features, where there are finitely many."""
    found = feature_map(problem.kernel, problem.rows.n_features, False)
    return np.inf if found is None else found.n_features


def _solution(system: Array, right: Array, is_singular: bool) -> Array:
    """The solution, or the shortest one where equal samples or few features make the system singular. A matrix that is singular
    but for rounding has a solution far outside of the box."""
    try:
        found = np.full(len(right), np.nan) if is_singular else np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        found = np.full(len(right), np.nan)
    return found if np.isfinite(found).all() else np.linalg.lstsq(system, right, rcond=1e-14)[0]
