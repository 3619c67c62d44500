r"""The sums of many models over the same samples: :math:`f_{ik} = \sum_j s_{jk} k(x_j, x_i)` in float64, with their errors.

Cross-validation judges all folds and all values of C of one kernel together. A tile of kernel values is made once, and one
matrix product serves all models. The rounding is that of :mod:`maxmargin.certificate.kernel_sums`: a dense tile, and a sum of
n products in whatever order BLAS adds them. Nothing here is shared with a solver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.kernel_sums import KernelSums, _dense, _rbf_error
from maxmargin.certificate.rounding import OUTWARDS
from maxmargin.certificate.rounding import gamma as roundings
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import Crew, single_threaded_blas
from maxmargin.problem import policy as problem_policy
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.kernels import Kernel, Points


class ManySums(NamedTuple):
    """One column for each model. ``errors`` has one row for all samples where one bound serves them all."""

    outputs: Array
    errors: Array

    def of(self, samples: Array, k: int) -> KernelSums:
        """The sums of model k at these samples."""
        errors = self.errors[:, k]
        own = np.broadcast_to(errors[0], len(samples)) if len(errors) == 1 else errors[samples]
        return KernelSums(np.ascontiguousarray(self.outputs[samples, k]), own)

    def of_multiple(self, samples: Array, multiple: Multiple) -> KernelSums:
        r"""The sums of a model with the coefficients :math:`c`, if model k has :math:`s` and :math:`|c - t s|_1 \le a`. No
        value of the RBF kernel is above one, so that :math:`|f(c) - t f(s)| \le a`. With f(s) known up to e, t f(s) is known
        up to t e and the rounding of one product."""
        base, t = self.of(samples, multiple.k), multiple.factor
        outputs = t * base.outputs
        rounding = UNIT_ROUNDOFF * np.abs(outputs)
        return KernelSums(outputs, (t * base.errors + rounding + multiple.away) * OUTWARDS)


class Multiple(NamedTuple):
    """A model that is ``factor`` times model k, but for coefficients whose absolute values add up to at most ``away``."""

    k: int
    factor: float
    away: float


def multiple_of(k: int, base: Array, signed: Array) -> Multiple:
    """The multiple of model k, which has the coefficients ``base``, that is nearest to ``signed`` in size. A difference is
    computed with at most two roundings of its greater term, and the sum of n terms with n more."""
    size, own = float(np.sum(np.abs(base))), float(np.sum(np.abs(signed)))
    factor = own / size if size > 0.0 else 0.0
    away = float(np.sum(np.abs(signed - factor * base)))
    return Multiple(k, factor, (away + 4.0 * UNIT_ROUNDOFF * own) * (1.0 + roundings(len(base) + 8.0)))


class Part(NamedTuple):
    """Some vectors with like coefficients: the models that they belong to, and a row of coefficients for each of these."""

    points: Points
    models: Array
    signed: Array


def sums_of_many(kernel: Kernel, points: Points, signed: Array) -> ManySums:
    """The sums at all points, of models with the coefficients ``signed``, a column each. A model is left out of a tile in which
    all its coefficients are zero: the bound on the rounding of n terms holds for fewer."""
    points, sizes, n = _in_double(points), np.abs(signed), len(points)
    outputs = np.zeros(signed.shape[::-1])
    magnitudes = None if kernel.is_gaussian else np.zeros(signed.shape[::-1])
    parts = list(_parts(points, signed))

    def task(start: int) -> None:
        here = slice(start, min(n, start + policy.KERNEL.samples_of_many))
        for part in parts:
            check_point()
            tile = _tile(kernel, points[here], part.points)
            outputs[:, here][part.models] += part.signed @ tile.T
            if magnitudes is not None:
                magnitudes[:, here][part.models] += np.abs(part.signed) @ np.abs(tile, out=tile).T

    with single_threaded_blas():
        Crew(n * n).run([(start,) for start in range(0, n, policy.KERNEL.samples_of_many)], task)
    if magnitudes is None:  # no value of the RBF kernel is greater than one
        is_of_dots = kernel.dot_function is not None
        error = _rbf_error(kernel, points, points, n + 2.0) if is_of_dots else _difference_error(kernel, points)
        return ManySums(outputs.T, error * sizes.sum(axis=0)[None, :])
    own = np.stack([np.broadcast_to(kernel.sum_errors(points, size, points), n) for size in sizes.T], axis=1)
    return ManySums(outputs.T, own + roundings(n + 2.0) * magnitudes.T)


def _parts(points: Points, signed: Array) -> Iterator[Part]:
    """The vectors in the order of the models that they belong to, the models with most vectors first. The folds of a
    cross-validation come apart by themselves."""
    is_there = signed != 0.0
    bits = np.packbits(is_there[:, np.argsort(-is_there.sum(axis=0), kind="stable")], axis=1)
    order = np.lexsort(bits.T[::-1])
    order = order[is_there.any(axis=1)[order]]
    for first in range(0, len(order), policy.KERNEL.vectors_a_part):
        vectors = order[first : first + policy.KERNEL.vectors_a_part]
        models = np.flatnonzero(is_there[vectors].any(axis=0))
        yield Part(points[vectors], models, np.ascontiguousarray(signed[np.ix_(vectors, models)].T))


def _tile(kernel: Any, one: Points, other: Points) -> Array:
    return np.asarray(kernel.quick_block(one, other) if kernel.is_gaussian else kernel.block(one, other))


def _difference_error(kernel: Kernel, points: Points) -> float:
    """The error of a sum by differences, relative to the sum of |s_j|: of a value, and of adding up one for each point."""
    return kernel.rounding_error(points, points) + roundings(len(points) + 2.0)


def _in_double(points: Points) -> Points:
    """Dense where the features are few, with norms that are right to the last digit."""
    from maxmargin.problem.kernel_loops import dense_sqnorms

    if points.matrix.shape[1] > problem_policy.KERNEL.dense_features:
        return points.in_double()
    matrix = np.ascontiguousarray(_dense(points), np.float64)
    sqnorms = np.empty(len(matrix))
    dense_sqnorms(matrix, sqnorms)
    return Points(matrix, sqnorms)
