r"""Newton's method on the proximal dual of Crammer and Singer's machine, for few weights.

The dual descent is slow where columns of X are alike. A proximal step on the dual from the centre c, with weight 1/sigma,

.. math:: \max_b D(b) - \tfrac{1}{2 \sigma} |b - c|^2 = \min_W \tfrac12 |W|^2 + \sum_i \max_{b_i} \left[ -b_i \cdot (e_i + z_i)
          - \tfrac{1}{2 \sigma} |b_i - c_i|^2 \right] ,

is smooth in W: its gradient is W - X'b(W), where b(W) projects c - sigma (e + z) on the feasible rows. Its generalised Hessian
is I + sigma X'MX, where M_i takes the mean off the free classes of sample i and leaves out the others. A sample with all of C_i
on one class, or none, costs nothing (R. T. Rockafellar, SIAM J. Control Optim. 14, 1976; X. Li, D. Sun, K.-C. Toh, SIAM J.
Optim. 28, 2018, for such a method on the Lasso). Any W and b(W) are a pair that a certificate can judge."""

from __future__ import annotations

import math
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

    sweeps: int = 25
    """Sweeps of the dual descent before. On usps 40 instead of 10 saved a quarter of the time, 150 nothing more; on letter 3,
    10 and 25 took the same."""
    most_weights: int = 10_000
    """Features times classes up to which it is tried: more were not measured."""
    dense_share: float = 0.3
    """Share of stored elements from which X is kept dense for it."""
    dense_share_at_work: float = 0.1
    """The same for the samples at work, which are fewer."""
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
    least_cg: int = 10
    """Iterations expected of the next system, at least, where its cost is compared with that of a factor."""
    most_cg: int = 100
    """Iterations of conjugate gradients for one Newton system."""
    most_block: int = 1000
    """Features up to which the preconditioner has a block for each class, and not the diagonal alone."""
    block_age: float = 2.0
    """New blocks are made where conjugate gradients take this many times the iterations that they took with new ones."""
    most_assembled: int = 1000
    """Features times classes up to which a Newton system may be solved by a Cholesky factor of the whole Hessian."""
    reach: float = 1.5
    """A sample with all of C_i on one class, or none, is left out while the change of outputs that would free another class is
    greater than this many times the root-mean-square change since the last pass over all samples."""
    most_at_work: float = 0.7
    """Share of the samples from which none is left out."""
    most_direct: int = 2500
    """Free coefficients up to which a Newton system may be solved by a Cholesky factor in them."""
    factor_speed: float = 4.0
    """How many operations of a factor take as long as one of conjugate gradients, which wait for memory: an estimate."""
    slope_share: float = 0.2
    """Share of the first slope at which a line search ends."""
    most_trials: int = 12
    """Trials of one line search."""


class Place(NamedTuple):
    """W with the outputs of the samples at work, their b(W), how many of each row of b are free, how far the others are from
    that, and the sums of ``project``."""

    W: Array
    outputs: Array
    b: Array
    counts: Array
    clear: Array
    sums: tuple[float, float, float, float, float]


class Work(NamedTuple):
    """Samples. ``rest`` is the part of W(b) that belongs to the others, whose b stays, ``moved`` their squared distance from
    the centre."""

    ids: Array
    X: Any
    y: Array
    C: Array
    centre: Array
    rest: Any
    moved: float

    def weights(self, b: Array) -> Array:
        return np.asarray(self.X.T @ b + self.rest)


@dataclass
class ClassNewton:
    """One solve: ``step`` makes one Newton step in the samples at work. Where the proximal step is done for them, all samples
    are looked at, and the centre moves where it is done for all. ``W`` and ``b`` are the pair of the least gap of such looks,
    which is ``least``; ``gap`` and ``dual`` are those of the last."""

    problem: CrammerSingerProblem
    policy: ClassNewtonPolicy
    W: Array
    b: Array
    least: float = np.inf
    gap: float = np.inf
    dual: float = 0.0
    scale: float = 0.0
    has_failed: bool = False
    inner: int = 0
    last_cg: int = 0
    blocks: Blocks | None = None
    place: Place = field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        X = _columns(problem, self.policy.dense_share)
        lengths = float(np.mean(problem.rows.squared_norms(problem.intercept_scaling)))
        self.sigma = min(float(np.mean(problem.C)), self.policy.first_sigma / max(lengths, 1e-300))
        self.all = Work(np.arange(problem.n_samples), X, problem.y, problem.C, self.b, 0.0, 0.0)
        self.work, self.reach = self.all, np.inf
        outputs = np.asarray(X @ self.W)
        self.place = self.whole = self._at(self.W, outputs, outputs, 0.0)

    def step(self, target: float) -> None:
        """One Newton step. ``gap`` is that of the last pass over all samples."""
        gradient = self.place.W - self.work.weights(self.place.b)
        direction = _System(self, gradient).direction()
        slope = float(np.sum(gradient * direction))
        if not slope < 0.0:
            self.has_failed = self.work is self.all
            self._look_at_all(target)
            self._take(self.all, self.whole)
            return
        self.place = self._searched(direction, np.asarray(self.work.X @ direction), slope)
        self.inner += 1
        rest, cost = self._state_of(self.place)
        if rest <= self.policy.inner_share * max(cost, target * self.scale) or self.inner >= self.policy.most_inner:
            self._look_at_all(target)

    def _state_of(self, place: Place) -> tuple[float, float]:
        """Half the squared gradient, and what the step from the centre costs."""
        apart = place.W - self.work.weights(place.b)
        return 0.5 * float(np.sum(np.square(apart))), 0.5 * (place.sums[4] + self.work.moved) / self.sigma

    def _look_at_all(self, target: float) -> None:
        """The gap; a new centre where the proximal step is done; and the samples at work from here."""
        W, before, ids = self.place.W, self.whole, self.work.ids
        outputs = np.asarray(self.all.X @ W)
        self.work = self.all
        whole = self._at(W, outputs, outputs, 0.0)
        kept = np.any(whole.b != before.b, axis=1)
        kept[ids] = True
        loss, total = whole.sums[2:4]
        W_of_b = self.all.weights(whole.b)
        self.dual = total - 0.5 * float(np.sum(np.square(W_of_b)))
        primal = 0.5 * float(np.sum(np.square(W))) + loss
        self.gap, self.scale = primal - self.dual, abs(primal)
        if self.gap < self.least:
            self.W, self.b, self.least = W, whole.b, self.gap
        rest, cost = 0.5 * float(np.sum(np.square(W - W_of_b))), 0.5 * whole.sums[4] / self.sigma
        is_done = rest <= self.policy.inner_share * max(cost, target * self.scale)
        self.reach = self.policy.reach * math.sqrt(float(np.mean(np.square(np.max(np.abs(outputs - before.outputs), axis=1)))))
        if is_done or (self.inner >= self.policy.most_inner and cost > rest):
            if is_done and self.gap > target * self.scale:
                self.sigma *= self.policy.growth
            self.work = self.all = self.all._replace(centre=whole.b)
            whole, kept = self._at(W, outputs, outputs, 0.0), np.zeros_like(kept)
        if is_done or self.inner >= self.policy.most_inner:
            self.inner, self.last_cg = 0, 0
        self._choose(whole, kept)

    def _choose(self, whole: Place, kept: Array) -> None:
        """Take the samples that may come to have two free classes, and those that were at work for this centre or should have
        been: a sample that leaves and returns could do so for ever."""
        at_work = (whole.clear <= self.reach) | kept
        ids = np.flatnonzero(at_work)
        if len(ids) > self.policy.most_at_work * len(at_work):
            self._take(self.all, whole)
            return
        others = np.flatnonzero(~at_work & whole.b.any(axis=1))
        rest = np.asarray(self.all.X[others].T @ whole.b[others])
        moved = float(np.sum(np.square(whole.b - self.all.centre)[~at_work]))
        X = _dense_where_full(self.all.X[ids], self.policy.dense_share_at_work)
        work = Work(ids, X, self.all.y[ids], self.all.C[ids], self.all.centre[ids], rest, moved)
        self.whole = whole
        part = Place(whole.W, *(values[ids] for values in whole[1:5]), whole.sums)
        self._take(work, part)

    def _take(self, work: Work, place: Place) -> None:
        self.work, self.place = work, place
        if work is self.all:
            self.whole = place

    def _at(self, W: Array, outputs: Array, along: Array, step: float) -> Place:
        from maxmargin.solvers.linear.class_newton_loop import project

        work = self.work
        b, counts, clear = np.empty_like(work.centre), np.empty(len(work.y), np.int64), np.empty(len(work.y))
        sums = project(outputs, along, step, (work.y, work.C, self.sigma), work.centre, b, (counts, clear))
        return Place(W, outputs, b, counts, clear, sums)

    def _searched(self, direction: Array, along: Array, slope: float) -> Place:
        """A zero of the slope along the direction, up to ``slope_share``: the function is convex."""
        W, outputs = self.place.W, self.place.outputs
        still = float(np.sum(self.work.rest * direction))
        low, low_slope, high, high_slope, step = 0.0, slope, np.inf, 0.0, 1.0
        for _ in range(self.policy.most_trials):
            check_point()
            there = W + step * direction
            place = self._at(there, outputs, along, step)
            here = float(np.sum(there * direction)) - still - place.sums[1]
            if abs(here) <= self.policy.slope_share * abs(slope):
                break
            if here < 0.0:
                low, low_slope = step, here
            else:
                high, high_slope = step, here
            share = low_slope / (low_slope - high_slope)
            step = 2.0 * step if np.isinf(high) else low + (high - low) * min(0.9, max(0.1, share))
        return place._replace(outputs=outputs + step * along)


class Blocks(NamedTuple):
    """The inverses of the Hessian's blocks of each class, at one sigma, and the iterations they took at first."""

    inverses: Array
    sigma: float
    iterations: int


class _System:
    """H d = -gradient at one place, in the samples with two or more free classes."""

    def __init__(self, newton: ClassNewton, gradient: Array) -> None:
        self.newton, self.gradient, self.policy = newton, gradient, newton.policy
        place, work = newton.place, newton.work
        self.act = np.flatnonzero(place.counts >= 2)
        self.X, self.sigma = _dense_where_full(work.X[self.act], newton.policy.dense_share_at_work), newton.sigma
        self.counts = place.counts[self.act]
        bounds = np.zeros((len(self.act), place.b.shape[1]))
        bounds[np.arange(len(self.act)), work.y[self.act]] = work.C[self.act]
        self.free = (place.b[self.act] < bounds).astype(np.float64)
        self.shares = self.free / self.counts[:, None]
        self.n_free = int(np.sum(self.counts - 1))
        self.iterations = 0

    def direction(self) -> Array:
        """By a Cholesky factor of the Hessian or in the free coefficients, or by conjugate gradients: what takes least."""
        if self.n_free == 0:  # H is the identity
            return -self.gradient
        costs = self._costs()
        cheapest = min(costs, key=lambda way: costs[way])
        try:
            return cheapest()
        except LinAlgError:
            return self._by_conjugate_gradients()

    def _costs(self) -> dict[Any, float]:
        """Operations of each way that is open."""
        policy, stored, (d, k) = self.policy, _stored(self.X), self.gradient.shape
        m, size = float(self.n_free), float(d * k)
        iterations = max(self.newton.last_cg, policy.least_cg)
        costs = {self._by_conjugate_gradients: iterations * 4.0 * k * (stored + 0.5 * d * d)}
        if self.n_free <= policy.most_direct:
            costs[self._by_factor] = (m**3 / 3.0 + 2.0 * m * m * (d + k)) / policy.factor_speed
        if d * k <= policy.most_assembled and not sparse.issparse(self.X):
            pairs = 0.5 * float(np.sum(self.counts * (self.counts + 1)))
            costs[self._by_hessian] = 2.0 * pairs * d * d + size**3 / 3.0 / policy.factor_speed
        return costs

    def times(self, V: Array) -> Array:
        z = np.asarray(self.X @ V) * self.free
        z -= self.shares * z.sum(axis=1)[:, None]
        return np.asarray(V + self.sigma * (self.X.T @ z))

    def _by_hessian(self) -> Array:
        from maxmargin.solvers.linear.class_newton_loop import add_hessian

        d, k = self.gradient.shape
        H = np.zeros((k, d, k, d))
        add_hessian(self.X, self.free, self.counts, H)
        square = H.reshape(k * d, k * d)
        square *= self.sigma
        square[np.diag_indices(k * d)] += 1.0
        factor = cho_factor(square, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(cho_solve(factor, -self.gradient.T.reshape(-1), check_finite=False).reshape(k, d).T)

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
        self._note_age()
        return x

    def _preconditioner(self) -> Any:
        """The blocks of H for each class, of this place or an earlier one, or its diagonal."""
        d = len(self.gradient)
        own = self.free * (1.0 - 1.0 / self.counts[:, None])
        if d > self.policy.most_block or sparse.issparse(self.X):
            squares = self.X.multiply(self.X) if sparse.issparse(self.X) else np.square(self.X)
            diagonal = 1.0 + self.sigma * np.asarray(squares.T @ own)
            return lambda r: r / diagonal
        blocks = self.newton.blocks
        if blocks is None or blocks.sigma != self.sigma:
            blocks = self.newton.blocks = Blocks(self._inverses(own), self.sigma, 0)
        return lambda r: np.matmul(blocks.inverses, r.T[:, :, None])[:, :, 0].T

    def _inverses(self, own: Array) -> Array:
        d, k = self.gradient.shape
        inverses = np.empty((k, d, d))
        for m in range(k):
            check_point()
            ids = np.flatnonzero(own[:, m])
            rows = np.sqrt(self.sigma * own[ids, m])[:, None] * self.X[ids]
            block = rows.T @ rows
            block[np.diag_indices(d)] += 1.0
            inverses[m] = np.linalg.inv(block)
        return inverses

    def _note_age(self) -> None:
        blocks = self.newton.blocks
        if blocks is None:
            return
        if blocks.iterations == 0:
            self.newton.blocks = blocks._replace(iterations=max(1, self.iterations))
        elif self.iterations > self.policy.block_age * blocks.iterations:
            self.newton.blocks = None

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
    X, n = _dense_where_full(problem.rows.matrix, dense_share), problem.n_samples
    X = X.astype(np.float64, copy=False)
    if problem.intercept_scaling == 0.0:
        return X
    constant = np.full((n, 1), problem.intercept_scaling)
    return sparse.hstack([X, constant], format="csr") if sparse.issparse(X) else np.hstack([X, constant])


def _dense_where_full(X: Any, share: float) -> Any:
    return X.toarray() if sparse.issparse(X) and X.nnz > share * X.shape[0] * X.shape[1] else X


def _stored(X: Any) -> float:
    return float(X.nnz if sparse.issparse(X) else X.size)
