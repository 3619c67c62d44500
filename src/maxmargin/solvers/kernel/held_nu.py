r"""SMO for the problems with nu on a kernel matrix that is held whole in float64, and least squares for the free variables: for
few samples, as ``maxmargin.solvers.kernel.held_smo`` is for the other problems.

The variables have places: the first group comes first, then the second, each filled up to a multiple of RUN with variables that
cannot move. A round is SMO until the violation is a small share of :math:`|D| / \sum_g T_g`, which bounds the relative gap, and
then one linear system for the variables that SMO has left inside their box (papers/irwls_svc, Table 1, step 1), with a row for
the sum of each group:

.. math:: \begin{bmatrix} K_{FF} & G \\ G' & 0 \end{bmatrix} \begin{bmatrix} d \\ b \end{bmatrix} = \begin{bmatrix} v_F \\ 0
          \end{bmatrix}

If s + d is inside the box, it is the optimum of that face. If not, SMO goes on. If a few rounds are not enough, the solver
gives up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import ClassVar

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.matrix import padded
from maxmargin.problem.feature_maps import feature_map
from maxmargin.problem.held_values import MULTIPLE
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.problem.nu import NuProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.kernel.batched_smo_loops import LocalProblem, extremes, gap_and_dual, solve_with_offset
from maxmargin.solvers.kernel.nu_loops import solve_in_groups


@dataclass(frozen=True)
class HeldNuPolicy:
    """How far SMO and least squares go where the whole kernel matrix is held."""

    most_variables: int = 1024
    """Variables up to which the matrix of all of them is held: 8 MB, as ``HeldPolicy.most_samples`` says of samples."""
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
    """s_i = sigma_i alpha_i by places, in its box, and v = t - K s. ``order`` is the variable of each place, ``is_used`` says
    whether the place has one, and ``groups`` are the places of each group."""

    K: Array
    order: Array
    is_used: Array
    groups: list[slice]
    y: Array
    lower: Array
    upper: Array
    s: Array
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
        held = problem.samples.held if problem.n_samples <= policy.most_variables else None
        if held is None or not problem.kernel.is_positive_semidefinite:
            return None
        order, is_used, groups = _places(problem.members)
        K, signed = _matrix(held.padded, problem, order, is_used), problem.signed(None)
        y, lower, upper, s = (np.where(is_used, each[order], 0.0) for each in signed)
        state = cls(K, order, is_used, groups, y, lower, upper, s, float(problem.totals.sum()), policy, is_slow, _rank(problem))
        state.survey()
        return state

    def __post_init__(self) -> None:
        self.share, self.target_share = self.policy.first_share, self.policy.safety
        self.n = int(np.count_nonzero(self.is_used))
        self.diagonal = np.diagonal(self.K).copy()
        self.v = np.empty(0)

    @property
    def active(self) -> int:
        return self.n

    @property
    def has_given_up(self) -> bool:
        return not self.looks_done

    @property
    def alpha(self) -> Array:
        """alpha of all variables, in their own order."""
        found = np.empty(self.n)
        found[self.order[self.is_used]] = np.abs(self.s[self.is_used])
        return found

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
        """SMO, and the optimum of the face that it has found. |D| falls under way, and with it what SMO is asked for."""
        most = self.steps + self.policy.steps_a_variable * self.policy.more_steps**self.rounds * self.n
        violation = np.inf
        while self.steps < most and violation > 2.0 * self.violation_asked:
            violation = self.violation_asked
            self.steps += self.run_smo(violation, most - self.steps)
            self.survey()
        if self.steps < most:
            self.share *= self.policy.next_share
        self.rounds += 1
        self.leap()

    @property
    def violation_asked(self) -> float:
        return self.share * abs(self.dual) / self.total

    def run_smo(self, violation: float, max_steps: int) -> int:
        local = LocalProblem(self.K, self.diagonal, self.v, self.s, self.lower, self.upper, 0.0)
        if len(self.groups) == 1:
            return int(solve_with_offset(local, local.masks, violation, max_steps))
        return int(solve_in_groups(local, local.masks, self.groups[0].stop, violation, max_steps))

    def survey(self) -> None:
        """v anew, free of the rounding of the steps that led here, and the gap at the mean v of the free variables of each
        group. Near the optimum no other threshold is much better."""
        self.v = self.y - self.K @ self.s
        is_free = (self.s > self.lower) & (self.s < self.upper)
        self.gap = self.dual = 0.0
        greatest = 0.0
        for g in self.groups:
            own = [each[g] for each in (self.v, self.y, self.s, self.lower, self.upper)]
            b = float(own[0][is_free[g]].mean()) if is_free[g].any() else _between(*extremes(own[0], *own[2:], 0.0))
            gap, dual = gap_and_dual(*own, b, 0.0)
            self.gap, self.dual, greatest = self.gap + gap, self.dual + dual, max(greatest, abs(b))
        self.relative_gap = relative(self.gap, self.dual + self.gap, self.dual)
        largest = float(np.abs(self.s).sum()) * float(self.diagonal.max()) + greatest + float(np.abs(self.y).max())
        self.is_at_rounding = self.gap <= self.policy.noise * UNIT_ROUNDOFF * largest * float((self.upper - self.lower).sum())

    def leap(self) -> None:
        """Move to the optimum of the present face, if that is inside the box."""
        free = ((self.s > self.lower) & (self.s < self.upper)).nonzero()[0]
        m, k = len(free), len(self.groups)
        system, right = np.zeros((m + k, m + k)), np.zeros(m + k)
        system[:m, :m], right[:m] = self.K[np.ix_(free, free)], self.v[free]
        for column, g in enumerate(self.groups, m):
            system[:m, column] = system[column, :m] = (free >= g.start) & (free < g.stop)
        moved = self.s[free] + _solution(system, right, is_singular=m - k > self.rank)[:m]
        if m and np.all((moved > self.lower[free]) & (moved < self.upper[free])):
            self.s[free] = moved
            self.steps += 1
            self.survey()


def _places(members: list[Array]) -> tuple[Array, Array, list[slice]]:
    """The variable of each place, whether the place has one, and the places of each group."""
    sizes = [padded(len(own)) for own in members]
    order, is_used = np.zeros(sum(sizes), np.int64), np.zeros(sum(sizes), np.bool_)
    starts = np.cumsum([0, *sizes])
    for own, start in zip(members, starts, strict=False):
        order[start : start + len(own)], is_used[start : start + len(own)] = own, True
    return order, is_used, [slice(int(a), int(b)) for a, b in pairwise(starts)]


def _matrix(values: Array, problem: NuProblem, order: Array, is_used: Array) -> Array:
    """The kernel matrix of all places. It is that of the samples where each has one variable and all are in one group."""
    if len(problem.members) == 1 and problem.n_copies == 1:
        return values
    samples, unused = order % problem.samples.n_samples, np.flatnonzero(~is_used)
    K, runs = np.empty((len(order), len(order))), _runs(problem)
    if runs:
        for (rows, own_rows), (columns, own_columns) in product(runs, runs):
            K[rows, columns] = values[own_rows, own_columns]
    else:
        for start in range(0, len(order), MULTIPLE):  # a third of the time of np.ix_, and little memory besides
            strip = slice(start, start + MULTIPLE)
            np.take(values[samples[strip]], samples, axis=1, out=K[strip], mode="clip")
    K[unused] = 0.0
    K[:, unused] = 0.0
    return K


def _runs(problem: NuProblem) -> list[tuple[slice, slice]]:
    """The places of each group and its samples, where the samples of every group follow each other, as those of a pair of three
    classes do, and those of a regression. Blocks are copied then, in a third of the time. Empty elsewhere."""
    n, start, runs = problem.samples.n_samples, 0, []
    for own in problem.members:
        first, size = int(own[0]) % n if len(own) else 0, len(own)
        if size and int(own[-1]) - int(own[0]) + 1 != size:
            return []
        runs.append((slice(start, start + size), slice(first, first + size)))
        start += padded(size)
    return runs


def _between(top: float, bottom: float) -> float:
    """A threshold between what can rise and what can fall."""
    ends = [end for end in (top, bottom) if np.isfinite(end)]
    return sum(ends) / len(ends) if ends else 0.0


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
