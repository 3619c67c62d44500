r"""Sums of kernel values in more than the precision of float64, for the few samples that decide whether a certificate holds.

**The RBF kernel from dot products.** A dot product of m terms carries the sum of what its operations lose, itself right to
:math:`m u`, so that the exponent is wrong by at most :math:`8 (m + 2)^2 u^2 \gamma G`, with G the greatest :math:`|x|^2`.

**The RBF kernel from differences.** A difference is a pair of numbers and exact. Its square is right to :math:`5 u^2`, each of
the m additions of positive pairs adds :math:`3 u^2`, and the factor 12 more: :math:`(3 m + 17) u^2` of the exponent, which is
less than :math:`8 (m + 2)^2 u^2`. Exponents beyond 745 give the least value in any case.

**Both.** The exponential is right to :math:`2^{-70}`: at t <= 0.0014 the terms of its series that are one number are wrong by
less than 2e-25, and eight doublings of t make 256 times that of it. A sum of n terms adds :math:`4 n u^2`, and rounding it to
one number u of its own magnitude, not of the terms'.

**The linear and the polynomial kernel.** The sums are made in long double, where that has more digits than float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.certificate import policy
from maxmargin.certificate.kernel_sums import KernelSums, _arrays, _dense
from maxmargin.certificate.rounding import gamma as roundings
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import Crew
from maxmargin.problem import policy as problem_policy
from maxmargin.problem.kernels import SECOND_ORDER, Kernel, Points
from maxmargin.problem.losses import UNIT_ROUNDOFF

EXPONENTIAL_ERROR = 2.0**-70
"""Relative error of the precise exponential, as derived above."""
LONG_ROUNDOFF = 2.0**-63
"""The greatest roundoff of a long double that is used. A machine with a greater one gets no precise sums."""
SMALLEST_NORMAL = 2.0**-1021
"""The value that stands for every kernel value below it."""
LARGEST_EXPONENT = 745.0
"""exp(-t) is below the normal numbers for every t above this one."""


class Exponents(NamedTuple):
    """How exponents are made: the compiled sums, the rows as these take them, and the greatest number of which an exponent's
    error is a share."""

    sums: Any
    vectors: Any
    norms: tuple[Array, Array]
    samples: Any
    sample_norms: tuple[Array, Array]
    reach: float


def precise_sums(kernel: Kernel, points: Points, chosen: Array, signed: Array, samples: Array) -> KernelSums | None:
    """f at some of the points, with far smaller errors. None where that is not possible: for other kernels, and for the RBF
    kernel of too many features."""
    if kernel.is_polynomial:
        return _long_sums(kernel, points[chosen], signed, points[samples])
    return _precise_rbf_sums(kernel, points, chosen, signed, samples) if kernel.is_gaussian else None


def _long_sums(kernel: Kernel, vectors: Points, signed: Array, samples: Points) -> KernelSums | None:
    """The sums in the processor's long double, if it has one. Its roundoff is 2^-64 on x86, and the bounds are those of float64
    with that."""
    number, roundoff = np.longdouble, 0.5 * float(np.finfo(np.longdouble).eps)
    if roundoff > LONG_ROUNDOFF or vectors.matrix.shape[1] > problem_policy.KERNEL.dense_features:
        return None
    outputs, magnitudes = np.zeros(len(samples)), np.zeros(len(samples))
    others, scales = _dense(vectors).astype(number).T, signed.astype(number)
    for start in range(0, len(samples), policy.KERNEL.long_rows):
        check_point()
        rows = slice(start, start + policy.KERNEL.long_rows)
        block = kernel.polynomial(_dense(samples[rows]).astype(number) @ others)
        outputs[rows] = block @ scales
        magnitudes[rows] = np.abs(block) @ np.abs(scales)
    share = roundoff / UNIT_ROUNDOFF
    errors = kernel.sum_errors(vectors, np.abs(signed), samples) + roundings(len(signed) + 2.0) * magnitudes
    return KernelSums(outputs, SECOND_ORDER * share * errors + 2.0 * UNIT_ROUNDOFF * np.abs(outputs))


def _precise_rbf_sums(kernel: Any, points: Points, chosen: Array, signed: Array, samples: Array) -> KernelSums | None:
    """RBF sums that are right to nearly the last digit of float64."""
    from maxmargin.certificate.precise_kernel_loops import WIDTH, Gaussian, NormedRows

    if points.matrix.shape[1] > problem_policy.KERNEL.dense_features or not np.isfinite(points.sqnorms).all():
        return None
    made = (_of_dots if kernel.dot_function is not None else _of_differences)(kernel, points[chosen], points[samples])
    normed = NormedRows(_arrays(made.samples), *made.sample_norms)
    gaussian, halves = Gaussian(made.samples.shape[1], float(kernel.gamma)), np.zeros((2, 2, len(samples)))
    for half, is_here in zip(halves, (signed > 0.0, signed < 0.0), strict=True):  # by the sign of the coefficients, as pairs
        part, scales = made.vectors[is_here], np.abs(signed[is_here])
        here = NormedRows(_arrays(part), made.norms[0][is_here], made.norms[1][is_here]), scales, (half[0], half[1])

        def task(start: int, one: NormedRows, scales: Array, totals: tuple[Array, Array]) -> None:
            made.sums(one, scales, normed, gaussian, start, min(len(samples), start + WIDTH), totals)

        Crew(len(samples) * len(scales)).run([(start, *here) for start in range(0, len(samples), WIDTH)], task)
    return _rounded(made, halves, signed)


def _of_dots(kernel: Any, vectors: Points, samples: Points) -> Exponents:
    from maxmargin.certificate.precise_kernel_loops import precise_rbf_sums, precise_sqnorms

    one, other = (sparse.csr_array(points.matrix) for points in (vectors, samples))
    norms, other_norms = precise_sqnorms(_arrays(one)), precise_sqnorms(_arrays(other))
    greatest = max(norms[0].max(initial=0.0), other_norms[0].max(initial=0.0))
    return Exponents(precise_rbf_sums, one, norms, other, other_norms, kernel.gamma * float(greatest))


def _of_differences(kernel: Any, vectors: Points, samples: Points) -> Exponents:
    """No norm is used, so that all of them are zero."""
    from maxmargin.certificate.precise_kernel_loops import precise_difference_sums

    norms, other_norms = np.zeros((2, len(vectors))), np.zeros((2, len(samples)))
    other = sparse.csr_array(samples.matrix)
    sides = _whole_rows(vectors), (norms[0], norms[1]), other, (other_norms[0], other_norms[1])
    return Exponents(precise_difference_sums, *sides, LARGEST_EXPONENT)


def _whole_rows(points: Points) -> Any:
    """A CSR matrix with an element for every feature, zeros included."""
    dense = _dense(points)
    n, d = dense.shape
    return sparse.csr_array((dense.ravel(), np.tile(np.arange(d), n), np.arange(n + 1) * d), shape=(n, d))


def _rounded(made: Exponents, halves: Array, signed: Array) -> KernelSums:
    """The difference of the two halves, in which nothing may be lost before the last rounding."""
    (plus, plus_rest), (minus, minus_rest) = halves
    difference = plus - minus
    back = plus - difference
    lost = (plus - (difference + back)) + (back - minus)
    outputs = difference + (lost + (plus_rest - minus_rest))
    m, u = float(np.diff(made.vectors.indptr).max(initial=0)), UNIT_ROUNDOFF
    exponent = 8.0 * (m + 2.0) ** 2 * u**2 * made.reach
    share = SECOND_ORDER * (exponent + EXPONENTIAL_ERROR + 4.0 * len(signed) * u**2)
    tiny = SMALLEST_NORMAL * float(np.abs(signed).sum())
    return KernelSums(outputs, share * (plus + minus) + 2.0 * u * np.abs(outputs) + tiny)
