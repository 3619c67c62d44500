"""The Hessian of the semismooth Newton method: R + rate S, with S = sum over the free samples of C_i x_i x_i'.

Between two Newton steps few samples change from free to not free or back. Only these are added to S or subtracted: on
covtype.binary.scale assembling S costs less than computing the margins. Compiled code accumulates sparse rows. Dense rows are
gathered into blocks and multiplied by BLAS, in float32 while float32 is precise enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array, CsrRows, DenseRows
from maxmargin.data.threads import Crew
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.newton.policy import HessianPolicy


@cache
def _lapack() -> Any:
    """``scipy.linalg.lapack``, which takes 30 ms to import: a fit of a small problem does without it."""
    import scipy.linalg.lapack

    return scipy.linalg.lapack


class Regulariser(NamedTuple):
    """The R of the penalty w'Rw / 2: one for each weight that is penalised. If columns are centred by c and the intercept is
    penalised, the intercept's weight is w_last - w . shift with shift = c / intercept_scaling, and R couples it with the other
    weights."""

    ones: Array
    shift: Array | None = None

    def times(self, w: Array) -> Array:
        if self.shift is None:
            return self.ones * w
        last = w[-1] - float(w[:-1] @ self.shift)
        return np.append(w[:-1] - self.shift * last, last)

    def sqnorm(self, w: Array) -> float:
        """w'Rw"""
        if self.shift is None:
            return float(self.ones @ np.square(w))
        return float(w[:-1] @ w[:-1]) + (w[-1] - float(w[:-1] @ self.shift)) ** 2

    def conjugate(self, v: Array) -> float:
        """The greatest 2 v . w - w'Rw, over the weights that are penalised."""
        if self.shift is None:
            return float(self.ones @ np.square(v))
        return float(np.sum(np.square(v[:-1] + self.shift * v[-1]))) + v[-1] ** 2

    def minimiser(self, v: Array) -> Array:
        """The w with Rw = v."""
        if self.shift is None:
            return v
        w = v[:-1] + self.shift * v[-1]
        return np.append(w, v[-1] + float(w @ self.shift))

    def root(self) -> Array:
        """A matrix T with R = T'T."""
        root = np.diag(np.sqrt(self.ones))
        if self.shift is not None:
            root[-1, :-1] = -self.shift
        return root

    def add_to(self, matrix: Array) -> None:
        """R is added to the lower triangle."""
        matrix.reshape(-1)[:: len(matrix) + 1] += self.ones
        if self.shift is not None:
            matrix[:-1, :-1] += np.outer(self.shift, self.shift)
            matrix[-1, :-1] -= self.shift


@dataclass
class FreeHessian:
    """``update`` follows the free samples; ``solve`` gives the Newton direction."""

    is_rough: ClassVar[bool] = False
    problem: LinearProblem
    weight: Array
    crew: Crew
    in_float32: bool = True
    is_careful: bool = False  # factors by reflections instead of Cholesky's method
    pending: list[Array] = field(default_factory=list)
    policy: HessianPolicy = field(default_factory=HessianPolicy)

    def __post_init__(self) -> None:
        rows = self.problem.rows
        density = rows.n_stored / (self.problem.n_samples * max(1, rows.n_features))
        self.uses_blas = density >= self.policy.blas_density and rows.n_features >= self.policy.blas_columns
        self._allocate(rows.n_features + 1, 1 if self.uses_blas else self.crew.size)

    @property
    def rows(self) -> DenseRows | CsrRows:
        """What the passes over X read."""
        return self.problem.compiled_rows

    def aim(self, gap: float) -> None:
        """Do nothing: a direction is always Newton's own, whatever gap is good enough."""

    def _allocate(self, size: int, n_sums: int) -> None:
        self.size = size
        self.sums = np.zeros((n_sums, size, size))
        self.matrix = np.empty((size, size))

    def take_costs(self, weight: Array, factor: float) -> None:
        """Continue with other costs: those of before times ``factor``."""
        self.weight = weight
        self.sums *= factor

    def note(self, changed: Array) -> None:
        """Remember samples that became free (i) or ceased to be (~i), for the next ``update``."""
        if len(changed):
            self.pending.append(changed.copy())

    def update(self, free: Array, n_free: int) -> None:
        """Bring S up to date with ``free``: by the changes, or from scratch if there are more changes than samples."""
        if sum(map(len, self.pending)) > n_free:
            self.rebuild(free)
        elif self.pending:
            self._add(np.concatenate(self.pending))
        self.pending.clear()

    def change(self) -> Array:
        """The change of S due to samples that became free or ceased to be. The matrix of a partitioned problem is a sum of such
        changes."""
        self.sums[:] = 0.0
        if self.pending:
            self._add(np.concatenate(self.pending))
        self.pending.clear()
        return np.asarray(self.sums[0] if len(self.sums) == 1 else self.sums.sum(axis=0))

    def rebuild(self, free: Array) -> None:
        self.pending.clear()
        self.sums[:] = 0.0
        self._add(np.flatnonzero(free))

    def solve(self, rate: float, regulariser: Regulariser, gradient: Array, free: Array) -> Array | None:
        """The direction -(R + rate S)^-1 g by Cholesky. If rounding made the matrix indefinite, it is computed anew in float64,
        and then a small multiple of its diagonal is added. None if it overflows."""
        if self.is_careful and self._can_reflect(free):
            factor = self._reflected(rate, regulariser, np.flatnonzero(free))
        else:
            factor = self._factored(rate, regulariser, free)
        if factor is None:
            return None
        direction = self._substituted(factor, -gradient)
        return np.ascontiguousarray(direction) if np.isfinite(direction).all() else None

    def _can_reflect(self, free: Array) -> bool:
        return bool(np.count_nonzero(free) * self.size <= self.policy.most_reflected)

    def _substituted(self, factor: Array, right: Array) -> Array:
        """The solution of the system whose matrix was factored."""
        solution, _ = _lapack().dpotrs(factor, right, lower=0)
        return np.asarray(solution)

    def _reflected(self, rate: float, regulariser: Regulariser, chosen: Array) -> Array | None:
        """The triangle of the rows sqrt(rate C_i) x_i and of R's root, by Householder's reflections. The matrix is never
        formed: where columns are alike to eight digits, its least eigenvalues would drown in the rounding of its greatest."""
        rows = np.vstack([np.sqrt(rate * self.weight[chosen])[:, None] * self._dense_rows(chosen), regulariser.root()])
        if not np.isfinite(rows).all():
            return None
        factor = np.asfortranarray(np.linalg.qr(rows, mode="r"))
        return factor if np.all(np.diagonal(factor) != 0.0) else None

    def _dense_rows(self, chosen: Array) -> Array:
        from maxmargin.solvers.linear.newton.pass_loops import gather

        block = np.empty((len(chosen), self.size))
        gather(self.problem.compiled_rows, np.ones(self.problem.n_samples), chosen, block, 0, len(chosen))
        return block

    def _factored(self, rate: float, regulariser: Regulariser, free: Array) -> Array | None:
        factor = self._factor(rate, regulariser, 0.0)
        if factor is None:
            self.in_float32 = False
            self.rebuild(free)
            jitters = (0.0, *(self.policy.jitter * self.size * 16.0**k for k in range(self.policy.jitters)))
            factors = (self._factor(rate, regulariser, jitter) for jitter in jitters)
            factor = next((found for found in factors if found is not None), None)
        return factor

    def _factor(self, rate: float, regulariser: Regulariser, jitter: float) -> Array | None:
        """S holds its lower triangle row by row, which is the upper one for LAPACK."""
        with np.errstate(all="ignore"):
            np.multiply(self.sums[0], rate, out=self.matrix)
            for sums in self.sums[1:]:
                self.matrix += rate * sums
            regulariser.add_to(self.matrix)
            diagonal = self.matrix.reshape(-1)[:: self.size + 1]
            diagonal *= 1.0 + jitter
        if not np.isfinite(diagonal).all():
            return None
        factor, info = _lapack().dpotrf(self.matrix.T, lower=0, clean=0, overwrite_a=1)
        return factor if info == 0 else None

    def _add(self, changed: Array) -> None:
        if self.uses_blas:
            self._add_blocks(changed[changed >= 0], 1.0)
            self._add_blocks(~changed[changed < 0], -1.0)
        else:
            for start in range(0, len(changed), self._rows_a_slice):
                check_point()
                part = changed[start : start + self._rows_a_slice]
                self.crew.share(len(part), lambda k, *of, part=part: self._accumulate(part, self.sums[k], *of))

    @property
    def _rows_a_slice(self) -> int:
        """Rows whose outer products take about a tenth of a second."""
        row_length = self.problem.rows.n_stored / self.problem.n_samples + 4.0
        return max(1, int(self.policy.elements_a_slice / row_length**2))

    def _accumulate(self, changed: Array, sums: Array, start: int, stop: int) -> None:
        from maxmargin.solvers.linear.newton.pass_loops import add_outer_products

        add_outer_products(self.problem.compiled_rows, self.weight, changed, sums, start, stop)

    def _add_blocks(self, chosen: Array, sign: float) -> None:
        from maxmargin.solvers.linear.newton.pass_loops import gather

        dtype: Any = np.float32 if self.in_float32 else np.float64
        block = np.empty((min(self.policy.rows_a_block, len(chosen)), self.size), dtype)
        for start in range(0, len(chosen), self.policy.rows_a_block):
            check_point()
            stop = min(start + self.policy.rows_a_block, len(chosen))
            gather(self.problem.compiled_rows, self.weight, chosen, block, start, stop)
            part = block[: stop - start]
            self.sums[0] += sign * (part.T @ part)


def packed(matrix: Array) -> Array:
    """The lower triangle as LAPACK's rectangular full packed vector: half of what a message would have, and as fast to factor
    as the square matrix (F. G. Gustavson et al., "Rectangular full packed format for Cholesky's algorithm", ACM TOMS 37,
    2010)."""
    values, _ = _lapack().dtrttf(matrix.T, transr="N", uplo="U")
    return np.asarray(values)


@cache
def _diagonal(size: int) -> Array:
    """The places of the diagonal in a packed matrix."""
    values = packed(np.diag(np.arange(1.0, size + 1.0)))
    places = np.flatnonzero(values)
    return np.asarray(places[np.argsort(values[places])])


class SummedHessian(FreeHessian):
    """The Hessian of a problem whose samples are in partitions: S is the sum of what the partitions report
    (``FreeHessian.change``), and stays packed."""

    def __init__(self, size: int, policy: HessianPolicy) -> None:
        self.pending, self.policy, self.size = [], policy, size
        self.in_float32 = self.is_careful = False
        self.sum = np.zeros(size * (size + 1) // 2)

    def add(self, change: Array) -> None:
        """A change, packed."""
        self.sum += change

    def forget(self) -> None:
        """All parts report from the beginning."""
        self.sum[:] = 0.0

    def rebuild(self, free: Array) -> None:
        """The rows are not here, so S cannot be computed anew. Only a small multiple of the diagonal can help."""

    def _can_reflect(self, free: Array) -> bool:
        """The rows are not here."""
        return False

    def _factor(self, rate: float, regulariser: Regulariser, jitter: float) -> Array | None:
        places = _diagonal(self.size)
        with np.errstate(all="ignore"):
            values = rate * self.sum
            diagonal = (values[places] + regulariser.ones) * (1.0 + jitter)
        values[places] = diagonal
        if not np.isfinite(diagonal).all():
            return None
        factor, info = _lapack().dpftrf(self.size, values, transr="N", uplo="U", overwrite_a=1)
        return np.asarray(factor) if info == 0 else None

    def _substituted(self, factor: Array, right: Array) -> Array:
        solution, _ = _lapack().dpftrs(self.size, factor, right, transr="N", uplo="U")
        return np.asarray(solution).reshape(-1)


class HessianOfFew(FreeHessian):
    """The same for the rows of a small dense matrix, in NumPy."""

    def __init__(self, Z: Array, weight: Array, policy: HessianPolicy) -> None:
        self.Z, self.weight, self.pending, self.policy = Z, weight, [], policy
        self.in_float32 = self.is_careful = False
        self._allocate(Z.shape[1], 1)

    def _dense_rows(self, chosen: Array) -> Array:
        rows: Array = self.Z[chosen]
        return rows

    def _add(self, changed: Array) -> None:
        signs, chosen = np.where(changed >= 0, 1.0, -1.0), np.where(changed >= 0, changed, ~changed)
        part = self.Z[chosen]
        self.sums[0] += (part.T * (signs * self.weight[chosen])) @ part
