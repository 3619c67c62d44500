r"""Pegasos with Algorithm 3 as it is printed: A. Guillory, J. Bilmes, "Practical Methods for Exploiting Bounds on Change in
the Margin", 2007, sections 3 and 4.3.

From time to time the margins :math:`m'_i` of all samples at the current w' are stored, beside the norms :math:`|x_i|`. For
every iteration :math:`w_\delta = |w - w'|` is computed (line 5), and a drawn sample with :math:`m'_i - w_\delta |x_i| > 1` has
no loss (line 8), one with :math:`m'_i + w_\delta |x_i| < 1` has the slope one (line 10): for neither is the margin computed.
Line 12 computes the margin for the value of the loss. Pegasos does not use that value, so this step is skipped.

**When margins are stored.** SortPeriod is (3). As nothing is sorted, SortTime is s d N + d, and EvalTime is that of k
draws:

.. math:: \text{SortPeriod} = c \, \frac{s d N + d}{s d k + d}, \qquad \text{SortCost} = \frac{s d N + d}{s d} .

(With (4) itself, which is for evaluations of all N samples, storing would cost N / (c k) times as much as the iterations.)

An intercept is the weight of one more feature: the norms and the distance include it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.margin_bounds.bound import ROUNDED_UP
from maxmargin.margin_bounds.sorted_sums import Resort, SortCosts
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.linear.pegasos_as_printed_loop import PRINTED, NormBounds, Rule, descend_as_printed
from maxmargin.solvers.linear.pegasos_state import PegasosState, Setting


@dataclass(frozen=True)
class PrintedBounds:
    """How Algorithm 3 is run: the default is what the paper's experiments use."""

    resort: Resort = Resort.ADAPTIVE

    def __post_init__(self) -> None:
        if not isinstance(self.resort, Resort):
            raise ValueError(f"resort must be Resort.ADAPTIVE or Resort.PERIODIC; got {self.resort!r}.")


class PrintedState(PegasosState):
    """Bounds by the norm of each sample and the distance from one w'."""

    def __init__(self, problem: LinearProblem, setting: Setting, bounds: PrintedBounds) -> None:
        super().__init__(problem, setting)
        k, overhead = setting.k, setting.overhead
        costs = SortCosts.of_samples(problem, k)
        rounding = 4.0 * (problem.rows.n_features + 8.0) * UNIT_ROUNDOFF
        self.rule = Rule(costs.period(overhead), costs.sort_in_margins, bounds.resort is Resort.ADAPTIVE, rounding)
        self.stored = np.zeros(problem.n_samples, PRINTED)
        self.stored["norm"] = np.sqrt(problem.rows.squared_norms(problem.intercept_scaling)) * ROUNDED_UP

    def _descend(self, iterations: int) -> None:
        if self.times_stored == 0 and self.rule.period < np.inf:  # Iteration = 0 in line 1
            self._store()
        if self.is_wide:  # free of the rounding of earlier steps
            self.record["sqnorm"] = self.v @ self.v
        bounds = NormBounds(self.stored, self.rule)
        self.iterations += descend_as_printed(
            self.samples, self.point, self.batch, self.descent, bounds, self.averages, iterations
        )

    def _store(self) -> None:
        self.stored["margin"] = self._margins_stored()
