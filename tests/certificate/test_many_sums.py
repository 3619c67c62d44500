"""The sums of many models are those of each of them, within the errors they state."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin import RBF, Linear, Polynomial
from maxmargin.certificate import many_sums, policy
from maxmargin.certificate.many_sums import multiple_of, sums_of_many
from maxmargin.problem.kernels import Points


@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Polynomial(0.5, 1.0, 3)])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_every_sum_is_within_its_error_of_the_exact_one(kernel, is_sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5)) * (rng.random((700, 5)) < 0.5)
    signed = rng.normal(size=(700, 3)) * np.array([1.0, 1e3, 1e-3])
    signed[:, 0] = 0.0
    sums = sums_of_many(kernel, Points.of(sparse.csr_matrix(X) if is_sparse else X), signed)
    exact = X.astype(np.longdouble)
    dots = exact @ exact.T
    if kernel.is_gaussian:
        squares = np.diagonal(dots)
        values = np.exp(-np.longdouble(kernel.gamma) * (squares[:, None] + squares[None, :] - 2 * dots))
    else:
        values = kernel.polynomial(dots)
    everyone = np.arange(700)
    for k in range(3):
        outputs, errors = sums.of(everyone, k)
        assert np.all(np.abs(outputs - values @ signed[:, k]) <= errors)
        assert np.all(errors <= 1e-9 * np.abs(signed[:, k]).sum() * float(np.abs(values).max()))


def test_vectors_that_no_model_has_are_left_out_and_change_no_sum(monkeypatch):
    rng = np.random.default_rng(0)
    X, signed = rng.normal(size=(900, 3)), rng.normal(size=(900, 4))
    signed[:300, 0] = signed[300:600, 1] = signed[600:, 2] = 0.0
    signed[rng.random(900) < 0.4] = 0.0
    sizes, tile = [], many_sums._tile
    monkeypatch.setattr(many_sums, "_tile", lambda kernel, one, other: sizes.append(len(other)) or tile(kernel, one, other))
    sums = sums_of_many(RBF(0.5), Points.of(X), signed)
    values = RBF(0.5).block(Points.of(X), Points.of(X))
    assert np.all(np.abs(sums.outputs - values @ signed) <= 2.0 * sums.errors + 1e-12)
    n_tiles = -(-900 // policy.KERNEL.samples_of_many)
    assert sum(sizes) == n_tiles * np.count_nonzero(signed.any(axis=1))
    assert not sums_of_many(RBF(0.5), Points.of(X), np.zeros((900, 2))).outputs.any()


@pytest.mark.parametrize("away", [0.0, 1e-9])
def test_the_sums_of_a_multiple_are_within_their_errors_of_the_exact_ones(away):
    rng = np.random.default_rng(1)
    X, signed = rng.normal(size=(400, 4)), rng.normal(size=(400, 2))
    sums = sums_of_many(RBF(0.3), Points.of(X), signed)
    exact = X.astype(np.longdouble)
    values = np.exp(-np.longdouble(0.3) * ((exact[:, None] - exact[None]) ** 2).sum(axis=2))
    for factor in (np.sqrt(10.0), 1e6, 1e-6):
        own = factor * signed[:, 1] + away * factor * rng.normal(size=400)
        multiple = multiple_of(1, signed[:, 1], own)
        outputs, errors = sums.of_multiple(np.arange(400), multiple)
        assert multiple.k == 1
        assert np.all(np.abs(outputs - values @ own.astype(np.longdouble)) <= errors)
        assert np.all(errors <= (1e-11 + 2.0 * away) * np.abs(own).sum())
        assert multiple.away >= float(np.abs(own.astype(np.longdouble) - np.longdouble(multiple.factor) * signed[:, 1]).sum())
