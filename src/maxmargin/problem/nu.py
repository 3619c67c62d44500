r"""The problems with nu: a share of the samples in the place of C, or of the width of a tube, and no algorithm.

Every dual variable i has a sample, a sign :math:`\sigma_i`, a target :math:`t_i`, a bound :math:`c_i` and a group g. Every
group has a free **threshold** :math:`\theta_g` with a price, so that the dual fixes one sum for each group. With
:math:`m_i = \sigma_i f_i` and :math:`a_i = \sigma_i t_i`,

.. math:: P(w, \theta) = \tfrac12 |w|^2 + \sum_i c_i \max(0, \theta_{g(i)} + a_i - m_i) - \sum_g T_g \theta_g, \qquad
          D(\alpha) = \sum_i a_i \alpha_i - \tfrac12 |w(\alpha)|^2,
          \quad 0 \le \alpha_i \le c_i, \quad \sum_{i \in g} \alpha_i = T_g .

=============  ==============================  =======================================  =====================================
problem        variables                       sums                                     thresholds
=============  ==============================  =======================================  =====================================
one-class      one a sample, t = 0             nu S                                     rho
nu-SVC         one a sample, t = 0, s = label  nu S / 2 for each class                  u = rho - b, v = rho + b
nu-SVR         two a sample, t = y, s = +-1    nu sum C_i / 2 for each sign             -(b + epsilon), b - epsilon
=============  ==============================  =======================================  =====================================

S is the sum of the weights. They are LIBSVM's -s 2, -s 1 and -s 4: B. Schoelkopf, A. Smola, R. Williamson, P. Bartlett, "New
support vector algorithms", Neural Computation 12, 2000. The minimum over the thresholds separates: each is a weighted quantile.
In nu-SVR both variables of a sample may be positive; only their difference counts for w."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from maxmargin.data.rows import Array, Rows
from maxmargin.problem import policy
from maxmargin.problem.dual_box import repeated
from maxmargin.problem.held_values import HeldValues
from maxmargin.problem.kernel import KernelProblem, SignedVariables
from maxmargin.problem.kernels import Kernel, Points
from maxmargin.problem.linear import costs_of
from maxmargin.problem.offset import Interval, best_offsets, filled
from maxmargin.problem.regression_losses import EpsilonInsensitive


@dataclass(frozen=True, eq=False)
class NuProblem:
    """max D(alpha) over the box and the sums. The variables of a copy of the samples come one after the other: variable k
    belongs to sample k modulo their number."""

    samples: KernelProblem
    signs: Array
    targets: Array
    C: Array
    group: Array
    totals: Array

    @property
    def n_samples(self) -> int:
        """The number of dual variables, which the driver counts steps by."""
        return len(self.signs)

    @property
    def n_copies(self) -> int:
        return self.n_samples // self.samples.n_samples

    @property
    def rows(self) -> Rows:
        return self.samples.rows

    @property
    def kernel(self) -> Kernel:
        return self.samples.kernel

    @property
    def points(self) -> Points:
        return self.samples.points

    @property
    def held_evaluations(self) -> int:
        return self.samples.held_evaluations

    @cached_property
    def members(self) -> list[Array]:
        """The variables of each group."""
        return [np.flatnonzero(self.group == g) for g in range(len(self.totals))]

    @cached_property
    def even_cost(self) -> float | None:
        """The bound of every variable, where it is the same for all and positive."""
        C = self.C
        is_even = len(C) > 0 and C[0] > 0.0 and (C.strides == (0,) or bool((C == C[0]).all()))
        return float(C[0]) if is_even else None

    @property
    def has_offset(self) -> bool:
        return True

    def coefficients(self, alpha: Array) -> Array:
        """The coefficients of phi(x) in w, one for each sample."""
        signed = self.signs * alpha
        return np.asarray(signed if self.n_copies == 1 else signed.reshape(self.n_copies, -1).sum(axis=0))

    def of_variables(self, outputs: Array) -> Array:
        """Repeat numbers of samples for each variable."""
        return np.tile(outputs, self.n_copies) if self.n_copies > 1 else outputs

    def is_feasible(self, alpha: Array) -> bool:
        """Whether alpha is in the box. The certificate deals with what the sums lack."""
        return bool(np.all((alpha >= 0.0) & (alpha <= self.C)))

    @cached_property
    def bounds_of_groups(self) -> list[float]:
        """The sum of the bounds of each group."""
        cost = self.even_cost
        return [float(self.C[own].sum()) if cost is None else cost * len(own) for own in self.members]

    def is_full(self, g: int) -> bool:
        """Whether every variable of the group is at its bound, whatever the kernel is."""
        return bool(self.totals[g] >= policy.NU.full_share * self.bounds_of_groups[g])

    def nearest_feasible(self, alpha: Array) -> Array:
        """alpha clipped to its box, and each group scaled down or raised to its sum."""
        alpha = np.clip(np.asarray(alpha, dtype=np.float64), 0.0, self.C)
        for g, members in enumerate(self.members):
            upper = np.ascontiguousarray(self.C[members])
            share = self.totals[g] / float(upper.sum())
            alpha[members] = upper if self.is_full(g) else filled(alpha[members], upper, share * upper)
        return alpha

    @cached_property
    def first_point(self) -> Array:
        """A feasible alpha with as few support vectors as can be: the first samples of each group are at their bounds."""
        alpha, cost = np.zeros(self.n_samples), self.even_cost
        if cost is not None:
            for g, (members, total) in enumerate(zip(self.members, self.totals.tolist(), strict=True)):
                n_full = min(len(members), int(total / cost)) if not self.is_full(g) else len(members)
                alpha[members[:n_full]] = cost
                if n_full < len(members):
                    alpha[members[n_full]] = min(max(total - cost * n_full, 0.0), cost)
            return alpha
        for g, members in enumerate(self.members):
            upper = self.C[members]
            alpha[members] = np.clip(self.totals[g] - (np.cumsum(upper) - upper), 0.0, upper)
        return self.nearest_feasible(alpha)

    def signed(self, alpha: Array | None) -> SignedVariables:
        """Where a solver in signed variables starts."""
        alpha = self.first_point if alpha is None else self.nearest_feasible(alpha)
        bound = self.signs * self.C
        return SignedVariables(self.targets, np.minimum(bound, 0.0), np.maximum(bound, 0.0), self.signs * alpha)

    def kinks(self, outputs: Array) -> Array:
        """m_i - a_i: the threshold from which on a sample costs. ``outputs`` are those of the variables."""
        return np.asarray(self.signs * (outputs - self.targets))

    def best_thresholds(self, outputs: Array) -> list[Interval]:
        """All thresholds of each group that minimise P for these outputs."""
        kinks = self.kinks(outputs)
        pairs = zip(self.members, self.totals, strict=True)
        return [best_offsets(kinks[members], self.C[members], float(total)) for members, total in pairs]


def _samples(X: Any, kernel: Kernel, matrix: Callable[[], HeldValues] | None = None) -> KernelProblem:
    """The samples with their kernel. Where X is ``Rows``, its numbers were checked before, and the kernel is in the form that
    suits them; kernel values that are given are checked here."""
    loss: Any = EpsilonInsensitive()
    if not isinstance(X, Rows) or (kernel.is_given and matrix is None):
        rows = X if isinstance(X, Rows) else Rows.from_matrix(X)
        return KernelProblem.build(rows, np.zeros(rows.n_samples), 1.0, kernel, loss=loss, reads_all=True)
    zeros, ones = repeated(0.0, X.n_samples), repeated(1.0, X.n_samples)
    return KernelProblem(X, zeros, ones, kernel, loss=loss, matrix=matrix, reads_all=True)


def _total(costs: Array) -> float:
    """The sum of the costs."""
    return len(costs) * float(costs[0]) if costs.strides == (0,) else float(costs.sum())


def check_nu(nu: Any) -> None:
    if not (isinstance(nu, Real) and not isinstance(nu, bool) and 0.0 < float(nu) <= 1.0):
        raise ValueError(f"nu must be greater than 0 and at most 1; got {nu!r}.")


def one_class(X: Any, kernel: Kernel, nu: float, weights: Any = 1.0) -> NuProblem:
    """The one-class problem of the rows of X, with one weight for all of them or one for each."""
    check_nu(nu)
    samples = _samples(X, kernel)
    C, n = costs_of(weights, samples.rows), samples.n_samples
    return NuProblem(samples, np.ones(n), np.zeros(n), C, np.zeros(n, np.int8), np.array([nu * _total(C)]))


def class_weights(is_positive: Array, weights: Array) -> tuple[float, float]:
    """The sums of the weights of both classes, S+ and S-."""
    if weights.strides == (0,):
        n_positive = int(np.count_nonzero(is_positive))
        return n_positive * float(weights[0]), (len(is_positive) - n_positive) * float(weights[0])
    return float(weights[is_positive].sum()), float(weights[~is_positive].sum())


def largest_nu(y: Array, weights: Array) -> float:
    """The largest nu for which nu-SVC has a feasible point: 2 min(S+, S-) / S."""
    sizes = class_weights(y > 0, weights)
    return 2.0 * min(sizes) / sum(sizes)


def nu_svc(
    X: Any, y: Any, kernel: Kernel, nu: float, weights: Any = 1.0, matrix: Callable[[], HeldValues] | None = None
) -> NuProblem:
    """nu-SVC for labels -1 and 1. An infeasible nu is refused before any kernel value is computed. ``matrix`` gives the kernel
    values where they are known."""
    check_nu(nu)
    samples, is_positive = _samples(X, kernel, matrix), np.asarray(y) > 0
    C = costs_of(weights, samples.rows)
    group, sizes = (~is_positive).view(np.int8), class_weights(is_positive, C)
    largest = 2.0 * min(sizes) / sum(sizes)
    if nu > largest * (1.0 + 1e-12):
        raise ValueError(f"nu={nu:g} is infeasible for these classes and weights; the largest nu that works is {largest:.9g}.")
    totals = np.minimum(0.5 * nu * sum(sizes), sizes)
    return NuProblem(samples, 1.0 - 2.0 * group, np.zeros(samples.n_samples), C, group, totals)


def nu_svr(X: Any, y: Any, kernel: Kernel, nu: float, C: Any = 1.0) -> NuProblem:
    """nu-SVR: the tube is as wide as the share nu of the costs asks for."""
    check_nu(nu)
    samples, y = _samples(X, kernel), np.asarray(y, dtype=np.float64)
    costs, n = costs_of(C, samples.rows), samples.n_samples
    group, signs, targets = np.zeros(2 * n, np.int8), np.ones(2 * n), np.empty(2 * n)
    group[n:], signs[n:], targets[:n], targets[n:] = 1, -1.0, y, y
    total = 0.5 * nu * _total(costs)
    both = repeated(float(costs[0]), 2 * n) if costs.strides == (0,) else np.tile(costs, 2)
    return NuProblem(samples, signs, targets, both, group, np.array([total, total]))
