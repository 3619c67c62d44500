r"""An ellipsoid around an answer that holds the exact optimum: far smaller than the ball of the certificate.

The ball uses only the strong convexity of the norms in P and D. The ellipsoid also uses what the samples say. For the exact
optimum w*, with any w and feasible alpha and :math:`\delta = w - w(\alpha)`, :math:`u = w^* - w`,

.. math:: \text{gap} = P(w) - D(\alpha) \ge P(w) - P(w^*) + P(w^*) - D(\alpha)
          \ge \tfrac12 |u|^2 + \tfrac12 |u + \delta|^2 + \sum_i t_i(m_i^*, \alpha_i),

where :math:`t_i \ge 0` are the gap terms of :mod:`maxmargin.problem.losses`, now at the margins of w*. A term is zero only at
the margin that belongs to alpha: for hinge loss and :math:`0 < \alpha_i < C_i`, at 1. So every *free* sample holds the optimum
in its own direction. Let :math:`r_i = m_i^* - \text{target}_i`, known to be at most :math:`\rho_i` in magnitude; then
:math:`t_i \ge q_i r_i^2` with

==============  =====================================  ==========================  =====================================
loss            :math:`t_i`                            target                      :math:`q_i`
==============  =====================================  ==========================  =====================================
hinge           >= s |r|, s = min(alpha, C - alpha)    1                           :math:`s / \rho`
squared hinge   C r^2 up to r = alpha / 2C,            1 - alpha / 2C              C, or :math:`\alpha / \rho - \alpha^2
                then alpha r - alpha^2 / 4C                                        / 4 C \rho^2` if rho > alpha / 2C
least squares   C r^2                                  1 - alpha / 2C              C
==============  =====================================  ==========================  =====================================

As no term is above the gap, :math:`\rho = \text{gap} / s` and :math:`2\, \text{gap} / \alpha` will do to begin with. Now the
right hand side is a quadratic :math:`F(u) \le \text{gap}`, with :math:`A = I + \sum_i q_i x_i x_i'` (without the 1 of a free
intercept) and :math:`g = \nabla F(0) = \delta + 2 \sum_i q_i (m_i - \text{target}_i) y_i x_i`. Its minimum is
:math:`F(0) - h^2` with :math:`h = \tfrac12 |g|_{A^{-1}}`, so that

.. math:: |u \cdot x| \le \left( \sqrt{\text{gap} - F(0) + h^2} + h \right) |x|_{A^{-1}} \quad \text{for every x.}

That bounds the r_i in turn, so the q_i grow, and a few rounds are enough. With hinge loss the bound falls like the gap and not
like its root, because the first q_i are :math:`s^2 / \text{gap}`. With squared hinge :math:`A` is about the Hessian. A free
intercept is one of the coordinates and needs no bound of its own.

**Bounded weights.** Where the certificate makes use of intervals of single weights (``weight_bounds.py``), the gap is not that
of :math:`w(\alpha)`, and the second of the three terms is left out. What remains, times two, is a quadratic of the same form,
with :math:`\delta = 0`, :math:`2 q_i` and 2 gap.

**Rounding.** Every q_i may be made smaller, and a matrix below A may take its place: both only widen the ellipsoid. So the q
are capped until the rounding of A and of its factorisation, in norm below
:math:`e = (\gamma_{n+6} + 2 \gamma_{d+2}) (\operatorname{tr} A + d)` (Higham, Accuracy and Stability of Numerical Algorithms,
sections 3.5 and 10.1), is below a hundredth; and A - 4eI is factorised in place of A: then LL' <= A for the computed L, and
:math:`|x|_{A^{-1}} \le |L^{-1} x|`, the solution of a triangular system, whose error Higham's section 8.1 bounds.

**Raw columns.** That cap leaves nothing of the curvature of columns such as seconds since 1970. But neither Cholesky's method
nor its error depends on the scale of a column: with D the diagonal of A, each element jk of A is wrong by at most
:math:`\gamma_{n+6} \sqrt{D_j D_k}`, and that of LL' by :math:`2 \gamma_{d+2} \sqrt{D_j D_k}`. A matrix with such elements is
at most :math:`e' D`, with :math:`e' = d (\gamma_{n+6} + 2 \gamma_{d+2})`. So where the cap would change a q, A - 4e'D is
factorised without it; the q are capped only where that matrix is not positive definite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.certificate import policy
from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.predictions import Decisions, linear_values, norms
from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, gamma
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem

GREATEST_SHIFT = 0.01
"""The greatest 4 e, the part of A that the proof above gives up for rounding."""
GREATEST_CURVATURE = 1e200
"""The greatest q, so that sums of squares stay finite. A smaller q only widens the ellipsoid."""
WELL_CONDITIONED = 0.01
"""The greatest relative error of a triangular solution for which the ellipsoid is used."""


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """|u . x| <= radius |L^-1 x| for u = w* - w, with L the lower triangular ``factor``; x ends with the ``constant`` feature
    if that is not zero."""

    factor: Array
    radius: float
    constant: float
    inverse_norm: float = math.inf
    """At least |L^-1|, where that is known."""

    def reach(self, X: Any) -> Array:
        """How far the exact decision values can be from those of w, for each row; not counting the rounding of the latter."""
        reach = np.empty(X.shape[0])
        for block, rows in _dense_blocks(X, np.arange(X.shape[0]), self.constant):
            reach[block] = _lengths(self.factor, rows)
        return np.where(np.isnan(reach), np.inf, reach * (self.radius * OUTWARDS))

    def solve(self, vectors: Array) -> Solved:
        """(LL')^-1 v for each row v, for any ellipsoid whose factor is well conditioned."""
        lengths = _lengths(self.factor, vectors)
        solutions = _solved(self.factor, _solved(self.factor, vectors.T), is_transposed=True).T
        return Solved(solutions, np.where(np.isnan(lengths), np.inf, lengths), 3.0 * WELL_CONDITIONED)


class Solved(NamedTuple):
    """Solutions s of LL's = v, the lengths |L^-1 v| rounded upwards, and an ``error``: the exact solution is within ``error``
    |L^-1 v| of s, measured by |L's|. Either triangular solution is wrong by at most ``WELL_CONDITIONED`` of its length."""

    solutions: Array
    lengths: Array
    error: float


def enclose(problem: LinearProblem, w: Array, alpha: Array, certificate: Certificate) -> Ellipsoid | None:
    """The ellipsoid of an answer and its certificate; None where there is none, or it would be too large a matrix."""
    if (
        problem.n_weights > policy.ELLIPSOID.most_weights
        or not problem.loss.has_ellipsoid
        or not math.isfinite(certificate.distance_bound)
    ):
        return None
    with np.errstate(all="ignore"), single_threaded_blas():
        free = _Free.of(problem, w, alpha, certificate)
        found = None
        for _ in range(policy.ELLIPSOID.smooth_rounds if problem.loss.is_smooth else policy.ELLIPSOID.kink_rounds):
            better = free.ellipsoid()
            if better is None:
                break
            found = better
            free.learn(found)
        return found


@dataclass(eq=False)
class _Free:
    """The samples that hold the optimum, and what is known of their margins there."""

    problem: LinearProblem
    chosen: Array
    alpha: Array  # that a feasible point has at least, and at most
    most: Array
    offsets: Array  # m_i - target_i
    errors: Array  # of the offsets
    rho: Array
    gap: float
    delta: Array
    delta_errors: Array
    times: float  # what F and the gap are multiplied by

    @classmethod
    def of(cls, problem: LinearProblem, w: Array, alpha: Array, certificate: Certificate) -> _Free:
        gap = (certificate.gap + certificate.rounding_error) * OUTWARDS
        excess, delta_errors = _imbalance(problem, w, alpha)
        if certificate.has_bounded_weights:
            excess, delta_errors = 0.0, np.zeros(problem.n_penalised)
        loss: Any = problem.loss
        chosen = np.flatnonzero(loss.held_slack(alpha, alpha, problem.C) > 0.0)
        C, own = problem.C[chosen], alpha[chosen]
        outputs = linear_values(problem.rows.matrix[chosen], w[None, : problem.rows.n_features], _intercept(problem, w))
        target = problem.targets[chosen] - loss.held_residual(own, C)
        margins = problem.signs[chosen] * outputs.values[:, 0]
        errors = outputs.errors[:, 0] + 8.0 * UNIT_ROUNDOFF * (np.abs(margins) + np.abs(target))
        if loss.is_smooth:
            errors = errors + excess * np.abs(own) / C
        least = own * (1.0 - excess)
        rho = loss.held_reach(gap, loss.held_slack(least, own, C))
        delta, times = (w - problem.weights(alpha))[: problem.n_penalised], 1.0
        if certificate.has_bounded_weights:
            delta, times = np.zeros(problem.n_penalised), 2.0
        return cls(
            problem, chosen, least, own, margins - target, errors, rho * OUTWARDS, times * gap, delta, delta_errors, times
        )

    def curvatures(self) -> Array:
        """q_i, rounded downwards."""
        loss: Any = self.problem.loss
        q = self.times * loss.held_curvature(self.alpha, self.most, self.rho, self.problem.C[self.chosen])
        result: Array = np.clip(np.where(np.isnan(q), 0.0, q), 0.0, GREATEST_CURVATURE) * (1.0 - 16.0 * UNIT_ROUNDOFF)
        return result

    def ellipsoid(self) -> Ellipsoid | None:
        """The ellipsoid for the present rho."""
        lengths = norms(self.problem.rows.matrix[self.chosen]) + self.problem.intercept_scaling
        found = _factor_of(self.problem, self.chosen, self.curvatures(), lengths)
        return None if found is None else self._around(found)

    def _around(self, found: _Factor) -> Ellipsoid | None:
        problem, q = self.problem, found.q
        gradient = np.zeros(problem.n_weights)
        gradient[: problem.n_penalised] = self.delta
        sizes = np.zeros(problem.n_weights)
        sizes[: problem.n_penalised] = 0.5 * self.delta_errors
        pulls = 2.0 * q * self.offsets * problem.signs[self.chosen]
        for block, rows in _dense_blocks(problem.rows.matrix, self.chosen, problem.intercept_scaling):
            gradient += pulls[block] @ rows
            sizes += 0.5 * gamma(len(q) + 8.0) * (np.abs(pulls[block]) @ np.abs(rows))
        shift = 0.5 * float(_lengths(found.L, gradient[None, :])[0])
        shift_error = math.sqrt(float(q @ np.square(self.errors)))  # |A^-1/2 X' Q e| <= |Q^1/2 e|
        shift_error += found.scaled_inverse_norm * float(np.linalg.norm(sizes / found.scales)) * OUTWARDS
        shift = min(shift + shift_error, math.sqrt(self.gap))  # F(0) - h^2 >= 0, and F(0) <= gap
        radius = (math.sqrt(max(0.0, min(self.gap, self.gap - self._least_value(q) + shift**2))) + shift) * OUTWARDS
        return Ellipsoid(found.L, radius, problem.intercept_scaling) if math.isfinite(radius) else None

    def _least_value(self, q: Array) -> float:
        """F(0), rounded downwards."""
        error = float(np.linalg.norm(self.delta_errors)) * OUTWARDS
        length = max(0.0, float(np.linalg.norm(self.delta)) * (1.0 - gamma(len(self.delta) + 4.0)) - error)
        offsets = np.maximum(0.0, np.abs(self.offsets) - self.errors)
        return (0.5 * length**2 + float(q @ np.square(offsets))) * (1.0 - gamma(len(q) + 8.0))

    def learn(self, ellipsoid: Ellipsoid) -> None:
        """Bound the margins at the optimum by the ellipsoid."""
        reach = ellipsoid.reach(self.problem.rows.matrix[self.chosen])
        self.rho = np.minimum(self.rho, (np.abs(self.offsets) + self.errors + reach) * OUTWARDS)


class _Capped(NamedTuple):
    """Curvatures that rounding allows, and what the diagonal of A gives up for it."""

    q: Array
    shift: float


def _capped(q: Array, lengths: Array, size: int) -> _Capped | None:
    """The curvatures that rounding allows; None where A is too large for any proof."""
    trace = float(q @ np.square(lengths))
    share = (gamma(len(q) + 6.0) + 2.0 * gamma(size + 2.0)) * OUTWARDS
    room = GREATEST_SHIFT / (4.0 * share) - size
    if room <= 0.0:
        return None
    if not trace <= room:
        q = np.minimum(q, room / (len(q) * np.square(lengths)))
        trace = room
    return _Capped(q, 4.0 * share * (trace + size))


class _Factor(NamedTuple):
    """L with LL' <= A for curvatures q; |L^-1 v| is at most ``scaled_inverse_norm`` times the length of v with its elements
    divided by ``scales``."""

    L: Array
    q: Array
    scales: Array
    scaled_inverse_norm: float

    @property
    def is_well_conditioned(self) -> bool:
        size = float(np.linalg.norm(self.L / self.scales[:, None]))
        return bool(gamma(len(self.L) + 2.0) * size * self.scaled_inverse_norm <= 0.5 * WELL_CONDITIONED)


def _factor_of(problem: LinearProblem, chosen: Array, q: Array, lengths: Array) -> _Factor | None:
    """The factor for these curvatures, or for those that rounding allows; None where rounding allows no proof."""
    capped = _capped(q, lengths, problem.n_weights)
    found = None
    if capped is None or capped.q is not q:
        found = _scaled_factor(problem, chosen, q)
    if found is None and capped is not None:
        L = _factored(_matrix_of(problem, chosen, capped.q), capped.shift)
        found = None if L is None else _Factor(L, capped.q, np.ones(len(L)), _inverse_norm(problem, L))
    return found if found is not None and found.is_well_conditioned else None


def _scaled_factor(problem: LinearProblem, chosen: Array, q: Array) -> _Factor | None:
    """The factor of A - 4 e' D; None where that is not positive definite, or hardly so."""
    size = problem.n_weights
    share = 4.0 * size * (gamma(len(q) + 6.0) + 2.0 * gamma(size + 2.0)) * OUTWARDS
    matrix = _matrix_of(problem, chosen, q)
    L = _factored(matrix, share * matrix.diagonal())
    if L is None or not np.isfinite(L).all():
        return None
    scales = np.linalg.norm(L, axis=1)
    found = _Factor(L, q, scales, _norm_of_inverse(L / scales[:, None]))
    return found if found.is_well_conditioned else None


def _matrix_of(problem: LinearProblem, chosen: Array, q: Array) -> Array:
    """The lower half of A."""
    from scipy.linalg.blas import dsyrk

    size = problem.n_weights
    matrix = np.zeros((size, size), order="F")
    matrix[np.diag_indices(problem.n_penalised)] = 1.0
    for block, rows in _dense_blocks(problem.rows.matrix, chosen, problem.intercept_scaling):
        scaled = rows * np.sqrt(q[block, None])
        matrix = dsyrk(1.0, scaled.T, beta=1.0, c=matrix, lower=1, overwrite_c=1)
    return matrix


def _factored(matrix: Array, shift: Array | float) -> Array | None:
    """L with LL' = A less ``shift`` on its diagonal; None where A is not positive enough."""
    from scipy import linalg

    matrix[np.diag_indices(len(matrix))] -= shift
    try:
        return np.asarray(linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False))
    except linalg.LinAlgError:
        return None


def curved_norm(problem: LinearProblem, chosen: Array, q: Array, lengths: Array) -> Ellipsoid | None:
    r"""The norm of the inverse of :math:`A = I + \sum_i q_i x_i x_i'` over the chosen samples, as an ellipsoid of radius one.
    ``lengths`` are those of the samples, from above. The intercept is penalised. None where rounding allows no proof, or the
    matrix would be too large."""
    if problem.n_weights > policy.ELLIPSOID.most_weights or not problem.penalizes_intercept:
        return None
    with np.errstate(all="ignore"), single_threaded_blas():
        q = np.clip(np.nan_to_num(q), 0.0, GREATEST_CURVATURE) * (1.0 - 16.0 * UNIT_ROUNDOFF)
        found = _factor_of(problem, chosen, q, lengths)
        if found is None:
            return None
        inverse_norm = found.scaled_inverse_norm
        if not np.all(found.scales == 1.0):
            inverse_norm = _norm_of_inverse(found.L, found.scales)
        return Ellipsoid(found.L, 1.0, problem.intercept_scaling, inverse_norm)


def _intercept(problem: LinearProblem, w: Array) -> Array:
    return np.array([w[-1] * problem.intercept_scaling if problem.intercept_scaling != 0.0 else 0.0])


def _imbalance(problem: LinearProblem, w: Array, alpha: Array) -> tuple[float, Array]:
    """The share by which a feasible point's alpha can be smaller, as in the certificate; and how wrong delta can be, element by
    element."""
    size, d = np.abs(alpha), problem.n_penalised
    sums = np.append(abs(problem.rows.matrix).T @ size, problem.intercept_scaling * size.sum())[:d]
    errors = gamma(problem.n_samples + 8.0) * sums * OUTWARDS + 4.0 * UNIT_ROUNDOFF * np.abs(w[:d])
    total = float(size.sum())
    if problem.penalizes_intercept or total == 0.0:
        return 0.0, errors
    excess = 2.0 * (abs(float(np.sum(alpha * problem.signs))) + gamma(PAIRWISE_ROUNDINGS) * total) / total
    return excess, errors + excess * sums * OUTWARDS


def _inverse_norm(problem: LinearProblem, factor: Array) -> float:
    """An upper bound on |L^-1| of the factor of A - 4 e I."""
    if problem.penalizes_intercept:
        return 1.0 / math.sqrt(1.0 - 2.0 * GREATEST_SHIFT)  # LL' >= A - 4 e I - e I
    return _norm_of_inverse(factor)


def _norm_of_inverse(factor: Array, scales: Array | None = None) -> float:
    """An upper bound on |L^-1|; infinite where rounding hides it. ``scales`` are those of the rows, whose scale does not add to
    the relative error of the inverse."""
    rows = factor if scales is None else factor / scales[:, None]
    inverse = _solved(rows, np.eye(len(factor)))
    norm = float(np.linalg.norm(inverse)) * OUTWARDS
    error = gamma(len(factor) + 4.0) * float(np.linalg.norm(rows)) * norm
    if not error < 0.25:
        return math.inf
    own = norm if scales is None else float(np.linalg.norm(inverse / scales)) * OUTWARDS
    return own / (1.0 - 2.0 * error)


def _lengths(factor: Array, rows: Array) -> Array:
    """|L^-1 x| for each row, rounded upwards."""
    solved = _solved(factor, rows.T)
    lengths: Array = np.sqrt(np.einsum("ij,ij->j", solved, solved)) * (1.0 + WELL_CONDITIONED)
    return lengths


def _solved(factor: Array, right: Array, is_transposed: bool = False) -> Array:
    from scipy.linalg import solve_triangular  # it takes a while to load, and few fits need it

    return np.asarray(solve_triangular(factor, right, trans=int(is_transposed), lower=True, check_finite=False))


def _dense_blocks(X: Any, chosen: Array, constant: float) -> Iterator[tuple[slice, Array]]:
    """The chosen rows as dense float64 with the constant feature, some at a time."""
    size = max(1, policy.ELLIPSOID.elements_a_block // (X.shape[1] + 1))
    X = sparse.csr_array(X) if sparse.issparse(X) else X
    for start in range(0, len(chosen), size):
        block = slice(start, min(start + size, len(chosen)))
        rows = X[chosen[block]]
        rows = (rows.toarray() if sparse.issparse(rows) else rows).astype(np.float64, copy=False)
        yield block, np.column_stack([rows, np.full(len(rows), constant)]) if constant != 0.0 else rows


def sharpened(decisions: Decisions, ellipsoids: Sequence[Ellipsoid | None], X: Any, chosen: Array) -> Decisions:
    """The decisions of the chosen rows of X with the lesser of two reaches: the one they have, and that of the ellipsoid of
    each binary problem plus the rounding error in ``decisions.errors``."""
    rows, reach = X[chosen], decisions.reach[chosen]
    for k, ellipsoid in enumerate(ellipsoids):
        if ellipsoid is not None:
            reach[:, k] = np.minimum(reach[:, k], (ellipsoid.reach(rows) + decisions.errors[chosen, k]) * OUTWARDS)
    return Decisions(decisions.values[chosen], reach, decisions.errors[chosen])
