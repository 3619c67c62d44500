r"""Whole multiples of given vectors whose sum is near a wanted one.

The last digits of numbers can only be changed by whole multiples of their units. To reach a sum that is finer than all units,
many of them are changed at a time: with steps of 3 and 5 units, two steps forward and one back move by one unit. The sums of
whole multiples of vectors are a lattice. A basis of short vectors is found by reduction (A. K. Lenstra, H. W. Lenstra,
L. Lovász, "Factoring polynomials with rational coefficients", 1982), and in that basis the wanted vector is rounded, one
element after another (L. Babai, "On Lovász' lattice reduction and the nearest lattice point problem", 1986)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.certificate.rounding import exact_sums
from maxmargin.data.rows import Array


@dataclass(frozen=True)
class LatticePolicy:
    """How far a basis is reduced."""

    most_passes: int = 150
    """Passes over the basis. Each exchanges every pair of neighbours that asks for it."""
    roundings: int = 3
    """Times that what is missing is rounded: the first leaves rounding errors of its own where the wanted vector is long."""
    lovasz: float = 0.9
    """Share of its square by which a vector must be longer than its follower would be for an exchange: 3/4 in the paper, and
    the nearer to one the shorter the vectors."""


DEFAULT = LatticePolicy()


def nearest_multiples(steps: Array, wanted: Array, prices: Array, policy: LatticePolicy = DEFAULT) -> Array:
    """Whole numbers k, for which |wanted - sum_j k_j steps_j|^2 + sum_j (prices_j k_j)^2 is small."""
    multiples = np.eye(len(steps))
    basis = _basis(steps, prices, multiples)
    for _ in range(policy.most_passes):
        R = np.asarray(np.linalg.qr(basis.T, mode="r"))
        _shorten(R, multiples)
        is_exchanged = _exchange(R, multiples, policy.lovasz)
        basis = _basis(steps, prices, multiples)
        if not is_exchanged:
            break
    found = np.zeros(len(steps))
    for _ in range(policy.roundings):
        missing = exact_sums(np.ascontiguousarray(steps.T), -found, terms=[wanted])
        found += _rounded(basis, np.concatenate([missing, -found * prices]), multiples)
    return found


def _rounded(basis: Array, wanted: Array, multiples: Array) -> Array:
    """The multiples of a vector of the lattice near the wanted one. They are the difference of numbers that may have more
    digits than float64."""
    Q, R = np.linalg.qr(basis.T)
    left, found = Q.T @ wanted, [0] * len(basis)
    for j in range(len(basis) - 1, -1, -1):
        count = np.round(left[j] / R[j, j])
        left -= count * R[:, j]
        found = [total + int(count) * int(multiple) for total, multiple in zip(found, multiples[j], strict=True)]
    return np.array(found, dtype=np.float64)


def _basis(steps: Array, prices: Array, multiples: Array) -> Array:
    """The vectors that these multiples lead to, without the rounding errors of sums that cancel."""
    columns = [exact_sums(multiples, column) for column in steps.T]
    return np.column_stack([*columns, multiples * prices])


def _shorten(R: Array, multiples: Array) -> None:
    """Take whole multiples of earlier vectors from each vector, in place. R is the triangle of the basis."""
    for k in range(1, len(R)):
        for j in range(k - 1, -1, -1):
            count = np.round(R[j, k] / R[j, j])
            if count:
                R[:, k] -= count * R[:, j]
                multiples[k] -= count * multiples[j]


def _exchange(R: Array, multiples: Array, share: float) -> bool:
    """Exchange neighbours, in place, where that makes the first of them shorter. Returned is whether there were any."""
    k, is_exchanged = 1, False
    while k < len(R):
        if R[k, k] ** 2 + R[k - 1, k] ** 2 < share * R[k - 1, k - 1] ** 2:
            multiples[[k - 1, k]] = multiples[[k, k - 1]]
            is_exchanged = True
            k += 1
        k += 1
    return is_exchanged
