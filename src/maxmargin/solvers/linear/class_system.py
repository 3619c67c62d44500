"""The Newton systems of the proximal dual of Crammer and Singer's machine: see ``class_newton``."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsyrk, ssyrk
from scipy.linalg.lapack import dpotrf, dpotri, spotrf, spotri

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.solvers.linear.class_policy import ClassNewtonPolicy


class Place(NamedTuple):
    """W with the outputs of the samples at work, their b(W), how many of each row of b are free, how far the others are from
    that, and the sums of ``project``. ``apart`` is the gradient W - W(b), or None where it is not known yet."""

    W: Array
    outputs: Array
    b: Array
    counts: Array
    clear: Array
    sums: tuple[float, float, float, float]
    apart: Array | None = None


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


class Blocks(NamedTuple):
    """The inverses of the Hessian's blocks of each class, at one sigma; the iterations they took at first; and the operations
    of further iterations since, as a share of what new blocks cost."""

    inverses: Array
    sigma: float
    iterations: int
    lost: float


class Known(NamedTuple):
    """What earlier systems leave: their blocks, and the iterations of the last one."""

    blocks: Blocks | None = None
    last_cg: int = 0


class System:
    """H d = -gradient at one place, in the samples with two or more free classes. ``single`` is all of X in float32, for
    conjugate gradients, or None. ``struggles`` says that float32 was not precise enough for them."""

    def __init__(self, work: Work, place: Place, policy: ClassNewtonPolicy, sigma: float, known: Known, single: Any) -> None:
        self.work, self.policy, self.sigma, (self.blocks, self.last_cg) = work, policy, sigma, known
        self.place = place
        self.act = np.flatnonzero(place.counts >= 2)
        self.counts = place.counts[self.act]
        self.n_free = int(np.sum(self.counts - 1))
        self.struggles, self.has_blocks = False, True
        self.single = single[work.ids[self.act]] if single is not None else None

    @cached_property
    def free(self) -> Array:
        """One where a class of a sample is free, else zero."""
        bounds = np.zeros((len(self.act), self.place.b.shape[1]))
        bounds[np.arange(len(self.act)), self.work.y[self.act]] = self.work.C[self.act]
        return np.asarray(self.place.b[self.act] < bounds, dtype=np.float64)

    @cached_property
    def X(self) -> Any:
        return dense_where_full(self.work.X[self.act], self.policy.dense_share_at_work)

    def direction(self, gradient: Array) -> Array:
        """Solve by a Cholesky factor of the Hessian or in the free coefficients, or by conjugate gradients: what takes
        least."""
        self.gradient = gradient
        if self.n_free == 0:  # H is the identity
            return -gradient
        costs = self._costs()
        cheapest = min(costs, key=lambda way: costs[way])
        try:
            return cheapest()
        except LinAlgError:  # no factor: with the precision of float64, and without blocks
            self.struggles, self.single, self.has_blocks = self.single is not None, None, False
            return self._by_conjugate_gradients()

    def _costs(self) -> dict[Any, float]:
        """Operations of each way that is open."""
        policy, stored, (d, k) = self.policy, self._stored, self.gradient.shape
        m, size = float(self.n_free), float(d * k)
        iterations = max(self.last_cg, policy.least_cg)
        costs = {self._by_conjugate_gradients: iterations * 4.0 * k * (stored + 0.5 * d * d)}
        if self.n_free <= policy.most_direct:
            costs[self._by_factor] = (m**3 / 3.0 + 2.0 * m * m * (d + k)) / policy.factor_speed
        if d * k <= policy.most_assembled and not sparse.issparse(self.work.X):
            pairs = 0.5 * float(np.sum(self.counts * (self.counts + 1)))
            costs[self._by_hessian] = 2.0 * pairs * d * d + size**3 / 3.0 / policy.factor_speed
        return costs

    @property
    def _stored(self) -> float:
        if self.single is not None:
            return float(self.single.size)
        if not sparse.issparse(self.work.X):
            return float(len(self.act) * self.work.X.shape[1])
        return float(self.X.nnz if sparse.issparse(self.X) else self.X.size)

    def times(self, V: Array) -> Array:
        return _times(self.X, self.free, self.counts, self.sigma, V)

    def _by_hessian(self) -> Array:
        from maxmargin.solvers.linear.class_newton_loop import add_hessian

        (d, k), work, place = self.gradient.shape, self.work, self.place
        length = d * (d + 1) // 2
        H, whole, buffers = np.zeros((k, k, length)), np.empty((k * d, k * d)), (np.empty(length), np.empty(k, np.int64))
        add_hessian(work.X, (work.y, work.C, self.sigma), (place.b, place.counts), H, whole, buffers)
        factor = cho_factor(whole.T, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(cho_solve(factor, -self.gradient.T.reshape(-1), check_finite=False).reshape(k, d).T)

    def _by_conjugate_gradients(self) -> Array:
        X = self.X if self.single is None else self.single
        dtype = X.dtype
        free, counts, sigma = self.free.astype(dtype), self.counts.astype(dtype), dtype.type(self.sigma)
        solve = self._preconditioner(X, free)
        r = -self.gradient.astype(dtype)
        x, s, iterations = np.zeros_like(r), solve(r), 0
        q, now = s, np.vdot(r, s)
        goal = self.policy.cg_share**2 * now
        while now > goal and iterations < self.policy.most_cg:
            check_point()
            Hq = _times(X, free, counts, sigma, q)
            length = now / np.vdot(q, Hq)
            x, r = x + length * q, r - length * Hq
            s, before = solve(r), now
            now = np.vdot(r, s)
            q = s + (now / before) * q
            iterations += 1
        self.struggles = self.single is not None and iterations >= self.policy.most_cg
        self._note_age(iterations)
        return x.astype(np.float64)

    def _preconditioner(self, X: Any, free: Array) -> Any:
        """The blocks of H for each class, of this place or an earlier one, or its diagonal."""
        own = free * (1.0 - 1.0 / self.counts[:, None]).astype(free.dtype)
        if not self.has_blocks or X.shape[1] > self.policy.most_block or sparse.issparse(X):
            squares = X.multiply(X) if sparse.issparse(X) else np.square(X)
            diagonal = 1.0 + self.sigma * np.asarray(squares.T @ own)
            return lambda r: r / diagonal
        blocks = self.blocks
        if blocks is None or blocks.sigma != self.sigma:
            blocks = self.blocks = Blocks(self._inverses(X, own), self.sigma, 0, 0.0)
        return lambda r: np.matmul(blocks.inverses, r.T[:, :, None])[:, :, 0].T

    def _inverses(self, X: Array, own: Array) -> Array:
        """One block a class. Where the whole Hessian may be factored, this way is taken while nearly all classes are free, and
        their blocks are nearly equal: one does for all."""
        d, k = self.gradient.shape
        if d * k <= self.policy.most_assembled:
            own, k = own.mean(axis=1, keepdims=True), 1
        inverses = np.empty((k, d, d), X.dtype)
        for m in range(k):
            check_point()
            ids = np.flatnonzero(own[:, m])
            inverses[m] = _inverse_of_block(np.sqrt(own.dtype.type(self.sigma) * own[ids, m])[:, None] * X[ids])
        return inverses

    def _note_age(self, iterations: int) -> None:
        """Blocks are dropped where they have cost more iterations than it takes to make new ones."""
        self.last_cg, blocks, (d, k) = iterations, self.blocks, self.gradient.shape
        if blocks is None:
            return
        if blocks.iterations == 0:
            self.blocks = blocks._replace(iterations=max(1, iterations))
            return
        making = d * d * (float(np.sum(self.free)) + 2.0 * k * d) / self.policy.factor_speed
        lost = blocks.lost + (iterations - blocks.iterations) * 4.0 * k * (self._stored + 0.5 * d * d) / making
        self.blocks = blocks._replace(lost=lost) if lost <= self.policy.block_work else None

    def _by_factor(self) -> Array:
        """Solve by the formula of Sherman, Morrison and Woodbury in the free coefficients, with one refinement."""
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


def dense_where_full(X: Any, share: float) -> Any:
    return X.toarray() if sparse.issparse(X) and X.nnz > share * X.shape[0] * X.shape[1] else X


def _times(X: Any, free: Array, counts: Array, sigma: Any, V: Array) -> Array:
    """(I + sigma X'MX) V, where M takes the mean off the free classes of each sample."""
    z = np.asarray(X @ V) * free
    z -= free * (z.sum(axis=1) / counts)[:, None]
    return np.asarray(V + sigma * (X.T @ z))


def _inverse_of_block(rows: Array) -> Array:
    """(I + rows'rows)^-1 by a Cholesky factor."""
    is_single = rows.dtype == np.float32
    syrk, factor, invert = (ssyrk, spotrf, spotri) if is_single else (dsyrk, dpotrf, dpotri)
    block = syrk(1.0, rows.T) if len(rows) else np.zeros((rows.shape[1],) * 2, rows.dtype, order="F")
    block[np.diag_indices(len(block))] += 1.0
    upper, failure = factor(block, overwrite_a=True)
    inverse, failed = invert(upper, overwrite_c=True)
    if failure or failed:
        raise LinAlgError("A block has no Cholesky factor.")
    return np.asarray(np.triu(inverse) + np.triu(inverse, 1).T)
