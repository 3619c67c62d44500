"""When ``auto`` switches from one method to another: its policy, what it asks of a problem, and the forecast of the work that
is left."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from maxmargin.data.kept import kept
from maxmargin.data.rows import OneValueRows
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import is_rounded_hinge
from maxmargin.solvers.linear.costs import LinearCosts, newton_weights
from maxmargin.solvers.linear.newton.direction_costs import begins_with_products
from maxmargin.solvers.linear.newton.frame import is_rotated
from maxmargin.solvers.linear.newton.passes import has_few_elements
from maxmargin.solvers.linear.newton.policy import HessianPolicy, default_policy
from maxmargin.solvers.presolve import PresolvePolicy


@dataclass(frozen=True)
class SwitchingPolicy:
    """The thresholds of ``auto``. ``benchmarks/linear_grid.py`` measures them together. No measurement of a single one is
    recorded, unless its line says so."""

    first_look_sweeps: int = 2
    """Sweeps of coordinate descent before a switch is considered: the first says little of how the gap will fall."""
    sure_sweeps: int = 5
    """Sweeps after which the forecast needs no safety factor."""
    sure_factor: float = 4.0
    """Before ``sure_sweeps``, the forecast must exceed this many times the cost of Newton's method."""
    long_factor: float = 4.0
    """AVSF is worth a switch when the remaining steps are at least this many times the steps done so far."""
    optimism: float = 2.0
    """Factor on the extrapolated work: the decay slows down, and the gap of a shrunk problem is not the whole gap."""
    least_look_share: float = 0.25
    """Steps between two checks of the gap where few samples are active, as a share of all samples. A check after each sweep
    over the active samples would cost more than the sweeps."""
    small_elements: int = HessianPolicy.small_elements
    """Elements n d up to which a problem may be small. Small problems are solved to rounding error, whatever ``tol`` is."""
    small_weights: int = 256
    """Rows of Newton's matrix up to which a problem may be small."""
    few_weights: int = 128
    """Weights up to which a small problem is solved by one compiled call. LAPACK is quicker at factoring a larger matrix."""
    interior_products: float = 1e9
    """Samples times the square of the features up to which the interior-point method is tried where others get no farther: a
    step makes so many products, and about 30 steps are made."""
    one_class_elements: int = 1_000_000
    """Stored elements of X up to which a one-class problem is tried without the driver's loop, which takes 0.1 ms. A try that
    fails takes as long as the steps."""
    one_class_calls: int = 8
    """Working sets of such a try before the driver begins again, with a forecast of what other methods would take. In 84 fits
    of ``benchmarks/one_class.py`` no small set needs more than five."""
    one_call_elements: int = 4_000_000
    """Elements n d up to which a regression with at most ``few_weights`` weights is solved by one compiled call: its dense copy
    of X takes 32 MB. The call ends after each 10,000,000 elements, so that Ctrl-C is heard. Twenty times as many as in the
    largest regression that was measured."""
    few_class_elements: int = 500_000
    """The same for two classes with a penalised intercept. Processor time of coordinate descent, followed by Newton's method in
    Python, in that of the call: in the mean of eight problems each 1.5 on 5,000 x 60 generated samples, 2.1 on 20,000 x 20,
    1.2 on 20,000 x 60, where two threads gain as much, and 1.4 on eighteen raw tables of 5,000 rows (0.35 to 89; below one
    where the certificate refuses the first answer)."""
    dense_share: float = PresolvePolicy.dense_share
    """Share of stored elements from which a sparse X is made dense for that call."""
    most_matrix_weights: int = HessianPolicy.most_matrix_weights
    """Rows of Newton's matrix up to which it is factored; beyond, directions come from conjugate gradients."""
    uses_products: bool = True
    """Whether Newton's method by conjugate gradients may be chosen."""
    most_product_steps: int = 40
    """Newton steps by conjugate gradients before AVSF takes over: the columns are then too much alike."""
    most_proximal_product_steps: int = 400
    """The same for a loss with kinks, whose steps are shared by several inner problems. Four
    variables of 2,000 values take 40 to 110 steps to a gap of 1e-3 at C = 10 to 1000, harder one-hot columns up to 380."""
    hard_curvature: float = 1.0
    """Mean of C |x|^2 from which coordinate descent is slow. Below it the penalty dominates, and a few sweeps are enough. With
    a smooth loss on one-hot columns Newton's method, in one to three steps, takes 0.92 of the time there in the mean of 20
    problems (0.65 to 1.2), C |x|^2 from 0.0002 to 0.8."""
    vanishing: float = 0.1
    """Share of its last |w|^2 below which w of one class goes to zero. A relative gap says nothing then, and pairs are kept: on
    w7a with nu = 0.01 they reach zero in 0.04 s, and Newton's method takes 2 to 11 s."""
    merge_saving: float = 0.3
    """Equal rows are merged when that removes at least this share of the samples."""
    single_target: float = 5e-7
    """Relative gap down to which AVSF keeps its data in float32: about eight units of its roundoff."""
    single_range: float = 1e12
    """Largest magnitude of a value of X that may be kept in float32; its reciprocal is the smallest."""
    most_refusals: int = 3
    """Refused certificates after which float64 takes over from float32."""
    look_epochs: int = 4
    """Epochs of AVSF between two searches for a better primal point; a search costs half an epoch."""
    look_growth: float = 0.2
    """The same as a share of the AVSF steps so far; the larger of the two counts."""
    block_elements: int = 1 << 20
    """Elements of X that are examined at a time when looking for values out of the range of float32."""


@dataclass(frozen=True, eq=False)
class AutoPlan:
    """What ``auto`` knows about a problem."""

    problem: LinearProblem
    policy: SwitchingPolicy
    costs: LinearCosts

    @kept
    def descent_step_ns(self) -> float:
        return self.costs.descent_step(self.problem)

    @kept
    def newton_ns(self) -> float:
        return self.costs.newton(self.problem)

    @property
    def reason_for_newton(self) -> str | None:
        """The reason to begin with Newton; None if there is none."""
        if self.is_small:
            return "a small problem is finished to rounding error"
        if not self.problem.penalizes_intercept:
            return "the intercept is not penalised"
        if self.suits_one_call:
            return "the features are few"
        if self.suits_products and self._is_wide_or_even and (self.is_one_hot or self._is_hard_for_coordinates):
            return "the loss is smooth, and there are more samples than features"
        if self.is_narrow and self._is_smooth and self._has_even_rows and self._is_hard_for_coordinates:
            return "the loss is smooth, and the features are few"
        if self.problem.loss.is_regression and self._is_smooth and self.is_narrow and self._is_hard_for_coordinates:
            return "the loss is smooth on both sides, and the features are few"
        return None if self.has_coordinates else "the loss has no coordinate descent"

    @property
    def has_coordinates(self) -> bool:
        """Whether the methods that change one alpha_i at a time can be used."""
        return self.problem.penalizes_intercept and not is_rounded_hinge(self.problem)

    @kept
    def _newton_weights(self) -> int:
        return newton_weights(self.problem)

    @kept
    def is_small(self) -> bool:
        is_few = self.problem.n_samples * self.problem.n_weights <= self.policy.small_elements
        return (
            is_few
            and has_few_elements(self.problem, default_policy().matrix)
            and self._newton_weights <= self.policy.small_weights
        )

    @kept
    def suits_one_call(self) -> bool:
        """Whether one compiled call makes all steps of Newton's method: in a small problem, and where the features are few.
        With classes and a penalised intercept coordinate descent is another choice, and the better one for many samples."""
        problem = self.problem
        if not self.is_short or problem.offset_prices is not None:
            return False
        has_choice = not problem.loss.is_regression and problem.penalizes_intercept
        if has_choice and problem.n_samples * problem.n_weights > self.policy.few_class_elements:
            return False
        return self.is_small or self._is_nearly_dense

    @property
    def suits_interior(self) -> bool:
        """Whether the offset has a price, and an interior-point step takes at most some tenths of a second."""
        problem, policy = self.problem, self.policy
        n_elements = problem.n_samples * problem.rows.n_features
        return problem.offset_prices is not None and n_elements * problem.rows.n_features <= policy.interior_products

    @property
    def _is_nearly_dense(self) -> bool:
        """Whether a dense copy of X is not much larger than X, and not large."""
        n_elements = self.problem.n_samples * self.problem.n_weights
        is_dense = self.problem.rows.n_stored >= self.policy.dense_share * n_elements
        return n_elements <= (self.policy.one_call_elements if is_dense else self.policy.small_elements)

    @property
    def is_short(self) -> bool:
        """Whether w is so short that one compiled call does all of Newton's method. Few long rows are rotated for hinge loss
        only: other losses take few steps, which the method in Python makes with more care for rounding."""
        can_be_rotated = not (self.problem.loss.is_smooth or self.problem.loss.is_regression)
        return self._newton_weights <= self.policy.few_weights and (can_be_rotated or not is_rotated(self.problem))

    @kept
    def is_narrow(self) -> bool:
        """Whether a Hessian fits beside X, and its factorisation costs less than it saves."""
        d = self._newton_weights
        is_useful = d <= self.problem.n_samples + 1 or d <= self.policy.small_weights
        is_matrix = d < self.problem.n_weights or not begins_with_products(self.problem)
        return d <= self.policy.most_matrix_weights and is_useful and is_matrix

    @kept
    def suits_products(self) -> bool:
        """Whether Newton with conjugate gradients suits a problem with many features. It is quick where the loss is smooth and
        there are more samples than features: on one-hot columns at large C a hundred times as quick as coordinate descent. On
        text with more features than samples coordinate descent is quicker."""
        return self.allows_products and self._is_smooth

    @kept
    def allows_products(self) -> bool:
        """Whether Newton with conjugate gradients may take over from coordinate descent that would take longer."""
        has_more_samples = self.problem.n_weights <= self.problem.n_samples
        return self.policy.uses_products and not self.is_narrow and has_more_samples

    @property
    def is_one_hot(self) -> bool:
        """Whether Newton with conjugate gradients may take over, and all stored elements of X are equal."""
        return self.allows_products and isinstance(self.problem.rows.compact(self.problem.intercept_scaling), OneValueRows)

    @property
    def _is_wide_or_even(self) -> bool:
        return self._newton_weights > self.policy.most_matrix_weights or self._has_even_rows

    @kept
    def _has_even_rows(self) -> bool:
        """Whether X is sparse, and all rows have the same number of elements, as in one-hot columns, alone or beside numbers.
        Newton's method takes 3 to 6 steps there. On w7a, whose rows are uneven, it takes 25 at C = 100, and half as many after
        some sweeps of coordinate descent."""
        rows = self.problem.rows
        if not rows.is_sparse or self.problem.loss.is_regression:
            return False
        indptr = rows.matrix.indptr
        return bool((indptr[1:] - indptr[:-1] == indptr[1]).all())

    @property
    def most_product_steps(self) -> int:
        """Newton steps by conjugate gradients after which AVSF takes over."""
        return self.policy.most_product_steps if self._is_smooth else self.policy.most_proximal_product_steps

    @property
    def _is_hard_for_coordinates(self) -> bool:
        curvature = float(self.problem.C.max() * np.mean(self.problem.rows.squared_norms()))
        return curvature >= self.policy.hard_curvature

    @property
    def _is_smooth(self) -> bool:
        D, C = self.problem.box.D, self.problem.C
        if D.strides == C.strides == (0,) and len(C):  # one value for all
            return bool(D[0] > 0.0 or not C[0] > 0.0)
        return bool(np.all(D[C > 0.0] > 0.0))

    def allows_single(self, target: float) -> bool:
        """Whether float32 is enough for the target, and holds every value of X to its full precision."""
        return target >= self.policy.single_target and self._is_in_range

    @property
    def _is_in_range(self) -> bool:
        values, size = self.problem.compiled_rows.values.reshape(-1), self.policy.block_elements
        blocks = (np.abs(values[start : start + size]) for start in range(0, len(values), size))
        low, high = 1.0 / self.policy.single_range, self.policy.single_range
        return all(np.all((block <= high) & ((block >= low) | (block == 0.0))) for block in blocks)


class GapSeen(NamedTuple):
    """The relative gap after a number of sweeps."""

    sweeps: int
    relative_gap: float


@dataclass
class Forecast:
    """Records how the relative gap fell, and forecasts the remaining sweeps at the same rate."""

    seen: list[GapSeen] = field(default_factory=list)

    def note(self, sweeps: int, relative_gap: float) -> None:
        """Add an observation. Earlier gaps that are no larger were too low (the gap of a few samples is not the whole gap):
        drop them."""
        while self.seen and self.seen[-1].relative_gap <= relative_gap:
            self.seen.pop()
        self.seen.append(GapSeen(sweeps, relative_gap))

    def sweeps_left(self, target: float) -> float:
        """The remaining sweeps if the gap keeps falling as it did over the latter half of the observations."""
        last = self.seen[-1]
        if last.relative_gap == 0.0:
            return 0.0
        if len(self.seen) < 2 or target <= 0.0:
            return math.inf
        first = self.seen[(len(self.seen) - 1) // 2]
        sweeps_a_factor = (last.sweeps - first.sweeps) / math.log(first.relative_gap / last.relative_gap)
        return max(0.0, math.log(last.relative_gap / target)) * sweeps_a_factor
