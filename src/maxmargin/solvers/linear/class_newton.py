r"""Newton's method on the proximal dual of Crammer and Singer's machine, for few weights.

The dual descent is slow where columns of X are alike. A proximal step on the dual from the centre c, with weight 1/sigma,

.. math:: \max_b D(b) - \tfrac{1}{2 \sigma} |b - c|^2 = \min_W \tfrac12 |W|^2 + \sum_i \max_{b_i} \left[ -b_i \cdot (e_i + z_i)
          - \tfrac{1}{2 \sigma} |b_i - c_i|^2 \right] ,

is smooth in W: its gradient is W - X'b(W), where b(W) projects c - sigma (e + z) on the feasible rows. Its generalised Hessian
is I + sigma X'MX, where M_i takes the mean off the free classes of sample i and leaves out the others. A sample with all of C_i
on one class, or none, costs nothing (R. T. Rockafellar, SIAM J. Control Optim. 14, 1976; X. Li, D. Sun, K.-C. Toh, SIAM J.
Optim. 28, 2018, for such a method on the Lasso). Any W and b(W) are a pair that a certificate can judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.crammer_singer import CrammerSingerProblem


@dataclass(frozen=True)
class ClassNewtonPolicy:
    """When Newton's method takes over, and how exactly it solves what."""

    sweeps: int = 10
    """Sweeps of the dual descent before."""
    most_weights: int = 5_000
    """Features times classes up to which it is tried: more were not measured."""
    dense_share: float = 0.3
    """Share of stored elements from which X is kept dense for it."""
    growth: float = 3.0
    """What multiplies sigma after a proximal step."""
    first_sigma: float = 30.0
    """The first sigma times the mean of |x_i|^2, at most. It is at most the mean of C too: slacks are near one, b at most C."""
    inner_share: float = 0.1
    """A proximal step is done where half the squared gradient is at most this share of what the step cost."""
    most_inner: int = 30
    """Newton steps after which a proximal step ends anyway, with the same sigma for the next."""
    cg_share: float = 0.1
    """Share of its first residual to which conjugate gradients solve a Newton system."""
    most_cg: int = 100
    """Iterations of conjugate gradients for one Newton system."""
    most_block: int = 512
    """Features up to which the preconditioner has a block for each class, and not the diagonal alone."""
    most_direct: int = 2500
    """Free coefficients up to which a Newton system may be solved by a Cholesky factor in them."""
    factor_speed: float = 4.0
    """How many operations of a factor take as long as one of conjugate gradients, which wait for memory: an estimate."""
    slope_share: float = 0.2
    """Share of the first slope at which a line search ends."""
    most_trials: int = 12
    """Trials of one line search."""


class Place(NamedTuple):
    """W with its outputs, b(W), how many of each row of b are free, and the sums of ``project``."""

    W: Array
    outputs: Array
    b: Array
    counts: Array
    sums: tuple[float, float, float, float, float]

    @property
    def value(self) -> float:
        return 0.5 * float(np.sum(np.square(self.W))) + self.sums[0]


@dataclass
class ClassNewton:
    """One solve: ``step`` makes one Newton step, and moves the centre where the proximal step is done."""

    problem: CrammerSingerProblem
    policy: ClassNewtonPolicy
    W: Array
    b: Array
    gap: float = np.inf
    dual: float = 0.0
    has_failed: bool = False
    inner: int = 0
    last_cg: int = 0
    place: Place = field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        self.X = _columns(problem, self.policy.dense_share)
        lengths = float(np.mean(problem.rows.squared_norms(problem.intercept_scaling)))
        self.sigma = min(float(np.mean(problem.C)), self.policy.first_sigma / max(lengths, 1e-300))
        self.bounds = np.zeros_like(self.b)
        self.bounds[problem.own] = problem.C
        outputs = np.asarray(self.X @ self.W)
        self._move_centre(self.W, outputs, self.b)

    def step(self, target: float) -> None:
        """One Newton step. ``gap`` is that of where it ends."""
        gradient = self.place.W - self._weights(self.place.b)
        system = _System(self, gradient)
        direction = system.direction()
        slope = float(np.sum(gradient * direction))
        if not slope < 0.0:
            self.has_failed = True
            return
        self.place = self._searched(direction, np.asarray(self.X @ direction), slope)
        self.inner += 1
        self._note(target)

    def _note(self, target: float) -> None:
        """The gap; and a new centre where the proximal step is done."""
        place, (_, _, loss, total, moved) = self.place, self.place.sums
        W_of_b = self._weights(place.b)
        self.dual = total - 0.5 * float(np.sum(np.square(W_of_b)))
        primal = 0.5 * float(np.sum(np.square(place.W))) + loss
        self.gap = primal - self.dual
        rest, cost = 0.5 * float(np.sum(np.square(place.W - W_of_b))), 0.5 * moved / self.sigma
        is_done = rest <= self.policy.inner_share * max(cost, target * abs(primal))
        if is_done or self.inner >= self.policy.most_inner:
            if is_done and self.gap > target * abs(primal):
                self.sigma *= self.policy.growth
            if is_done or cost > rest:
                self._move_centre(place.W, place.outputs, place.b)
            self.inner, self.last_cg = 0, 0

    def _move_centre(self, W: Array, outputs: Array, b: Array) -> None:
        self.centre = b
        self.place = self._at(W, outputs, outputs, 0.0)

    def _at(self, W: Array, outputs: Array, along: Array, step: float) -> Place:
        from maxmargin.solvers.linear.class_newton_loop import project

        b, counts = np.empty_like(self.centre), np.empty(len(self.centre), np.int64)
        samples = self.problem.y, self.problem.C, self.sigma
        sums = project(outputs, along, step, samples, self.centre, b, counts)
        return Place(W, outputs, b, counts, sums)

    def _searched(self, direction: Array, along: Array, slope: float) -> Place:
        """A zero of the slope along the direction, up to ``slope_share``: the function is convex."""
        W, outputs = self.place.W, self.place.outputs
        low, low_slope, high, high_slope, step = 0.0, slope, np.inf, 0.0, 1.0
        for _ in range(self.policy.most_trials):
            check_point()
            there = W + step * direction
            place = self._at(there, outputs, along, step)
            here = float(np.sum(there * direction)) - place.sums[1]
            if abs(here) <= self.policy.slope_share * abs(slope):
                break
            if here < 0.0:
                low, low_slope = step, here
            else:
                high, high_slope = step, here
            share = low_slope / (low_slope - high_slope)
            step = 2.0 * step if np.isinf(high) else low + (high - low) * min(0.9, max(0.1, share))
        return place._replace(outputs=np.asarray(self.X @ there))

    def _weights(self, b: Array) -> Array:
        return np.asarray(self.X.T @ b)


class _System:
    """H d = -gradient at one place, in the samples with two or more free classes."""

    def __init__(self, newton: ClassNewton, gradient: Array) -> None:
        self.newton, self.gradient, self.policy = newton, gradient, newton.policy
        place = newton.place
        self.act = np.flatnonzero(place.counts >= 2)
        self.X, self.sigma = newton.X[self.act], newton.sigma
        self.counts = place.counts[self.act]
        self.free = (place.b[self.act] < newton.bounds[self.act]).astype(np.float64)
        self.shares = self.free / self.counts[:, None]
        self.n_free = int(np.sum(self.counts - 1))
        self.iterations = 0

    def direction(self) -> Array:
        """By conjugate gradients, or by a factor where the last ones took longer than that."""
        stored, (d, k) = _stored(self.X), self.gradient.shape
        m = float(self.n_free)
        direct = (m**3 / 3.0 + 2.0 * m * m * (d + k)) / self.policy.factor_speed
        if self.n_free <= self.policy.most_direct and direct < self.newton.last_cg * 4.0 * k * (stored + 0.5 * d * d):
            try:
                return self._by_factor()
            except LinAlgError:
                self.newton.last_cg = 0
        return self._by_conjugate_gradients()

    def times(self, V: Array) -> Array:
        z = np.asarray(self.X @ V) * self.free
        z -= self.shares * z.sum(axis=1)[:, None]
        return np.asarray(V + self.sigma * (self.X.T @ z))

    def _by_conjugate_gradients(self) -> Array:
        solve = self._preconditioner()
        x, r = np.zeros_like(self.gradient), -self.gradient
        s = solve(r)
        q, now = s, float(np.sum(r * s))
        goal = self.policy.cg_share**2 * now
        while now > goal and self.iterations < self.policy.most_cg:
            check_point()
            Hq = self.times(q)
            length = now / float(np.sum(q * Hq))
            x, r = x + length * q, r - length * Hq
            s, before = solve(r), now
            now = float(np.sum(r * s))
            q = s + (now / before) * q
            self.iterations += 1
        self.newton.last_cg = self.iterations
        return x

    def _preconditioner(self) -> Any:
        """The blocks of H for each class, or its diagonal."""
        d, k = self.gradient.shape
        own = self.free * (1.0 - 1.0 / self.counts[:, None])
        if d > self.policy.most_block or sparse.issparse(self.X):
            squares = self.X.multiply(self.X) if sparse.issparse(self.X) else np.square(self.X)
            diagonal = 1.0 + self.sigma * np.asarray(squares.T @ own)
            return lambda r: r / diagonal
        blocks = np.empty((k, d, d))
        for m in range(k):
            ids = np.flatnonzero(own[:, m])
            rows = np.sqrt(self.sigma * own[ids, m])[:, None] * self.X[ids]
            blocks[m] = rows.T @ rows
        inverses = np.linalg.inv(blocks + np.eye(d))
        return lambda r: np.matmul(inverses, r.T[:, :, None])[:, :, 0].T

    def _by_factor(self) -> Array:
        """By the formula of Sherman, Morrison and Woodbury in the free coefficients, with one refinement."""
        from maxmargin.solvers.linear.class_newton_loop import bases

        basis, owner = bases(self.free, self.n_free)
        gram = self.X @ self.X.T
        gram = gram.toarray() if sparse.issparse(gram) else gram
        S = gram[owner][:, owner] * (basis @ basis.T)
        S[np.diag_indices(self.n_free)] += 1.0 / self.sigma
        factor = cho_factor(S, lower=True, overwrite_a=True, check_finite=False)
        starts = np.concatenate([[0], np.cumsum(self.counts - 1)[:-1]])

        def solved(g: Array) -> Array:
            r = cho_solve(factor, np.sum(np.asarray(self.X @ g)[owner] * basis, axis=1), check_finite=False)
            return np.asarray(g - self.X.T @ np.add.reduceat(r[:, None] * basis, starts, axis=0))

        x = solved(-self.gradient)
        return np.asarray(x + solved(-self.gradient - self.times(x)))


def suits(problem: CrammerSingerProblem, policy: ClassNewtonPolicy) -> bool:
    """Whether W is small enough, beside the samples."""
    return problem.n_weights * problem.n_classes <= policy.most_weights and problem.n_weights <= problem.n_samples


def _columns(problem: CrammerSingerProblem, dense_share: float) -> Any:
    """X with a column for the intercept, dense where most elements are stored."""
    X, n = problem.rows.matrix, problem.n_samples
    if sparse.issparse(X) and X.nnz > dense_share * n * X.shape[1]:
        X = X.toarray()
    X = X.astype(np.float64, copy=False)
    if problem.intercept_scaling == 0.0:
        return X
    constant = np.full((n, 1), problem.intercept_scaling)
    return sparse.hstack([X, constant], format="csr") if sparse.issparse(X) else np.hstack([X, constant])


def _stored(X: Any) -> float:
    return float(X.nnz if sparse.issparse(X) else X.size)
