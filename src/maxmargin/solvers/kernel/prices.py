"""What SMO has cost so far, and what least squares would cost: estimated nanoseconds on one core, from counted work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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

    def least_squares(self, n_near: int) -> float:
        """Least squares for this number of samples near the margin, less what the pace of SMO may be wrong by."""
        if self.state.units.is_signed:
            return self.policy.ns_a_pair * n_near**2
        a_value = self.state.rows.matrix.tiles.ns_a_value
        return self.policy.sure_of_pace * (self.policy.ns_a_pair_of_classes + a_value) * n_near**2
