"""What SMO has cost so far, and what least squares would cost: estimated nanoseconds on one core, from counted work."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.problem.kernel import KernelProblem
from maxmargin.solvers.kernel.auto_policy import KernelAutoPolicy
from maxmargin.solvers.kernel.batched_smo_state import BatchedSMOState


@dataclass(frozen=True)
class Prices:
    """The prices of a problem at the present state of SMO. ``working_set`` is the usual size of a working set."""

    problem: KernelProblem
    state: BatchedSMOState
    working_set: int
    policy: KernelAutoPolicy

    @property
    def are_known(self) -> bool:
        """Whether the price of more steps can be told: in regression, and with classes while SMO reads a held matrix."""
        rows = self.state.rows
        return self.state.units.is_signed or (rows.dtype == np.float32 and rows.whole is not None)

    @property
    def smo(self) -> float:
        """All that SMO has done."""
        state = self.state
        a_step = self.policy.ns_a_step_and_sample * min(self.problem.n_samples, max(self.working_set, state.n_free))
        return a_step * state.steps + self.policy.ns_a_value * state.kernel_evaluations

    @property
    def pace(self) -> float:
        """What the pace of SMO is measured in. With classes that is what SMO has read: the held matrix is computed once."""
        return self.smo if self.state.units.is_signed else self.policy.ns_a_value_read * self.state.values_read

    @property
    def a_value(self) -> float:
        """A kernel value in float32. In float64 it takes twice as long."""
        return float(self.state.rows.matrix.tiles.ns_a_value)

    def least_squares(self, n_near: int) -> float:
        """Least squares for this number of samples near the margin, less what the pace of SMO may be wrong by."""
        if self.state.units.is_signed:
            return self.policy.ns_a_pair * n_near**2
        return self.policy.sure_of_pace * (self.policy.ns_a_pair_of_classes + self.a_value) * n_near**2

    def of_rounding(self, near: Array, target: float, a_decade: float) -> float:
        """What float32 values cost SMO beyond its steps: where they hide a gap above the target, a certificate is refused, and
        SMO has to make up for the gap that it shows. Nothing in regression, whose price was measured with it."""
        hidden = 0.0 if self.state.units.is_signed or self.state.is_exact else self.hidden_gap(near)
        if not hidden > target:
            return 0.0
        n, n_support = self.problem.n_samples, int(np.count_nonzero(self.state.s))
        return 2.0 * self.a_value * n_support * (n - 0.5 * n_support) + a_decade * math.log10(hidden / target)

    def hidden_gap(self, near: Array) -> float:
        """The relative gap that the errors of f make, from exact outputs of a few samples near the margin. An error d of a free
        variable's output makes alpha d or (C - alpha) d of the gap, C d / 2 in the mean."""
        state, few = self.state, near[:: max(1, len(near) // self.policy.exact_outputs)]
        here, support = state.measure(self.problem.has_offset), np.flatnonzero(state.s)
        exact = KernelMatrix(self.problem.kernel, self.problem.points, np.float64).sums_at(few, support, state.s[support])
        error = float(np.mean(np.abs(state.f[few] - exact)))
        return relative(0.5 * error * float((state.upper - state.lower)[near].sum()), here.dual + here.gap, here.dual)
