r"""An interior-point method for Crammer and Singer's machine, for columns as they come.

Beside a time of 1e12 the steps of dual descent and of Newton's method drown in rounding. So all columns, the constant one too,
are multiplied by an orthonormal Q that makes them orthogonal (``turned_columns.py``), and by their lengths. With W = Q V the
penalty is that of V, and a stays. With a_i^m for every class, that of the sample included, the optimum is where

.. math:: V = X'(C Y - a), \qquad s_i^m = \xi_i - e_i^m - z_i^m \ge 0, \qquad \sum_m a_i^m = C_i, \qquad a_i^m s_i^m = \mu

for mu = 0. Here xi_i is the loss plus the output of the sample's own class. A step solves the linearised equations: with
D = a / s and M_i = diag(D_i) - D_i D_i' / sum D_i it is

.. math:: (I + X'MX) \, \Delta V = X'b - V - X'\tilde r, \qquad \tilde r = r - D \frac{\sum r}{\sum D}, \qquad r = \mu / s - a,

first for mu = 0, then for a mu by what that first step would gain, with its second-order terms (S. Mehrotra, SIAM J. Optim. 2,
1992). M takes no notice of a number added to all classes: the last class of a step is zero until the mean is taken off, and
(I - 1/k) stands for I among the others.

Where labels can be separated and C is far greater than any A, the method begins again with a smaller C. The margins are then
brought to a little more than one, so that C times a rounding error costs nothing.

At the beginning, a is moved until X'b is nearly V: from class shares that costs little, and with numbers of 1e12 the steps
themselves would need as many as that number has digits. ``class_mending.py`` does the rest at the end."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError

from maxmargin.data.rows import Array, Rows
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.solvers.linear.class_frame import ClassFrame, Normal, coefficients, longest
from maxmargin.solvers.linear.class_mending import ClassMending
from maxmargin.solvers.linear.class_policy import ClassInteriorPolicy


class ClassInterior:
    """One solve: ``step`` makes one step, and ``point`` is W and b in the columns of X. ``gap`` is what the loss has more than
    a and s say, ``primal`` the value of W: both are those of the point before the last step."""

    def __init__(self, problem: CrammerSingerProblem, policy: ClassInteriorPolicy) -> None:
        self.all, self.present = problem, np.flatnonzero(problem.C > 0.0)
        self.problem = problem = _without_costless(problem, self.present)
        self.policy, self.has_failed, self.steps, self.share, self.offers = policy, False, 0, policy.share, 0
        self.W, self.b = np.zeros((problem.n_weights, problem.n_classes)), np.zeros((self.all.n_samples, problem.n_classes))
        self.frame = ClassFrame.of(problem, policy)
        self.X, self.ridge = self.frame.X, self.frame.ridge
        n, k, own = problem.n_samples, problem.n_classes, problem.own
        self.missing = np.ones((n, k))
        self.missing[own] = 0.0
        self.V, self.xi = np.zeros((len(self.ridge), k)), np.full(n, policy.first_loss)
        shares = np.bincount(problem.y, minlength=k) / n + policy.least_share
        self.a = problem.C[:, None] * (shares / shares.sum())
        self.cost = self.last_cost = math.inf
        self.is_at_end = False
        self._look()

    def _look(self) -> None:
        problem, C = self.problem, self.problem.C
        z = self.X @ self.V + self.missing
        greatest = z.max(axis=1)
        self.s = self.xi[:, None] - z
        self.primal = 0.5 * float(np.sum(self.ridge[:, None] * np.square(self.V))) + float(C @ (greatest - z[problem.own]))
        self.gap = float(np.sum(self.a * (greatest[:, None] - z)))
        self.last_cost, self.cost = self.cost, self._cost_of_distance()
        self.is_inside = math.isfinite(self.primal) and bool(self.s.min() > 0.0 and self.a.min() > 0.0)

    def is_within(self, target: float) -> bool:
        """Whether the gap is at most this share of the primal value, and so is what the distance of W(a) from W costs beyond
        rounding, or the last step did not make that much smaller."""
        most = target * self.primal
        is_near = self.cost <= most or self.cost > self.policy.fall_of_cost * self.last_cost or self.is_at_end
        return self.gap <= most and is_near

    def _cost_of_distance(self) -> float:
        b = coefficients(self.problem, self.a)
        noise = self.policy.roundings * UNIT_ROUNDOFF * np.sqrt(np.square(self.X).T @ np.square(b))
        beyond = np.maximum(np.abs(self.frame.lacking(self.V, self.a)) - noise, 0.0)
        return 0.5 * float(np.sum(np.square(self.frame.lengths[:, None] * beyond)))

    def go_on(self) -> None:
        """After a refused certificate: to a smaller gap."""
        self.share *= self.policy.next_share
        self.has_failed |= self.is_at_end or self.offers >= self.policy.most_offers

    def step(self, target: float) -> bool:
        """One step, unless the gap is small enough. Whether it is, and ``W`` and ``b`` are to be judged."""
        with np.errstate(all="ignore"):
            if not self.is_within(self.share * target):
                self._step()
            if self.is_within(self.share * target):
                return self._find_point(target)
        self.has_failed |= self.is_at_end
        return False

    def _step(self) -> None:
        """One step. Where rounding takes it outside, it is taken back, and there are no others."""
        before, self.steps = (self.V, self.xi, self.a), self.steps + 1
        self.is_at_end = self.steps >= self.policy.most_steps
        try:
            if self.steps == 1:
                self.a = self.frame.moved(self.V, self.a, self.policy.first_moves, 0.0, self.policy)
            self._predict_and_correct()
            self._look()
        except (LinAlgError, ValueError):
            self.is_inside = False
        if not self.is_inside:
            self.V, self.xi, self.a = before
            self._look()
            self.is_at_end = True

    def _find_point(self, target: float) -> bool:
        """W and b in the columns of X, if there are any. What rounding would cost in long columns is mended."""
        self.offers += 1
        W, enough = self.frame.weights(self.V), self.policy.negligible * target * self.primal
        try:
            self.b[self.present] = ClassMending(self.frame, W, self.V, self.a, enough, self.policy).best()
        except (LinAlgError, ValueError, OverflowError):
            self.has_failed = True
        self.W = self._stretch(target) * W
        return not self.has_failed

    def _stretch(self, target: float) -> float:
        """The number that brings all margins to a little more than one, where that costs next to nothing: losses and rounding
        errors below one cost C times as much."""
        z = self.X @ self.V
        own = z[self.problem.own]
        z[self.problem.own] = -np.inf
        negligible = self.policy.negligible * target
        found = (1.0 + self.policy.beyond_one * target) / float((own - z.max(axis=1)).min())
        return found if 1.0 <= found <= 1.0 + negligible else 1.0

    def with_less_cost(self) -> ClassInterior | None:
        """The same with a smaller C, where no sample needs a thousandth of it: the optimum is the same while no A is at C. With
        an a of C for the own class, s is too small for the digits of xi."""
        needed = float((self.problem.C - self.a[self.problem.own]).max())
        C = np.minimum(self.all.C, self.policy.room_for_a * needed)
        if not 0.0 < 10.0 * float(C.max()) <= float(self.all.C.max()):
            return None
        return ClassInterior(replace(self.all, C=C), self.policy)

    def _predict_and_correct(self) -> None:
        a, s = self.a, self.s
        normal, mu = Normal(self.X, a / s, self.ridge, self.policy), float(np.mean(a * s))
        lacking = self.frame.lacking(self.V, a)
        _, _, ds, da = self._direction(normal, lacking, 0.0)
        left = float(np.mean((a + longest(a, da) * da) * (s + longest(s, ds) * ds)))
        aim = mu * (left / mu) ** 3
        dV, dxi, ds, da = self._direction(normal, lacking, aim - da * ds)
        t = min(1.0, self.policy.to_border * min(longest(a, da), longest(s, ds)))
        mean = dV.mean(axis=1)
        self.V = self.V + t * (dV - mean[:, None])
        self.xi = self.xi + t * (dxi - self.X @ mean)
        self.a = a + t * da
        self._add_up()

    def _add_up(self) -> None:
        """The greatest a of each sample is what the others leave of C_i."""
        greatest = np.arange(len(self.a)), self.a.argmax(axis=1)
        self.a[greatest] = 0.0
        self.a[greatest] = self.problem.C - self.a.sum(axis=1)

    def _direction(self, normal: Normal, lacking: Array, aim: Array | float) -> tuple[Array, Array, Array, Array]:
        """The steps of V, xi, s and a to a s = ``aim``."""
        r = aim / self.s - self.a
        short = (self.problem.C - self.a.sum(axis=1)) - r.sum(axis=1)
        rest = r + normal.D * (short / normal.sums)[:, None]
        dV = normal.solved(-lacking - self.X.T @ rest)
        dz = self.X @ dV
        da = rest + normal.times_M(dz)
        dxi = (np.einsum("ij,ij->i", normal.D, dz) - short) / normal.sums
        return dV, dxi, dxi[:, None] - dz, da


def _without_costless(problem: CrammerSingerProblem, present: Array) -> CrammerSingerProblem:
    """The problem without the samples whose C is zero."""
    if len(present) == problem.n_samples:
        return problem
    rows = Rows.from_matrix(problem.rows.matrix[present], check=False)
    return replace(problem, rows=rows, y=problem.y[present], C=problem.C[present])
