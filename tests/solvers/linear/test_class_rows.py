"""What a row of X does to the weights of several classes, and the projection on a simplex."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.data.caching import njit
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.solvers.linear.class_row_loops import add_row, outputs_of
from maxmargin.solvers.linear.crammer_singer import _loop_rows
from maxmargin.solvers.linear.threshold_loop import threshold


@njit()
def all_outputs(rows, V, z, found):
    for i in range(len(found)):
        outputs_of(rows, i, V, z)
        found[i] = z


@njit()
def add_one(rows, i, V, change):
    add_row(rows, i, V, change)


@njit()
def threshold_of(D, size, total):
    return threshold(D, size, total)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("scaling", [0.0, 2.0])
@pytest.mark.parametrize("n_registers", [1, 3, 7, 8, 9, 20])
def test_rows_give_the_outputs_and_changes_of_matrix_products(dtype, layout, scaling, n_registers):
    rng = np.random.default_rng(n_registers)
    X = rng.normal(size=(9, 5)) * (rng.random((9, 5)) < 0.6)
    problem = CrammerSingerProblem.build(layout(X), np.arange(9) % 3, 1.0, scaling)
    stride = n_registers * 64 // np.dtype(dtype).itemsize
    rows, W = _loop_rows(problem, dtype), rng.normal(size=(6, stride)).astype(dtype)
    constant = np.column_stack([X, np.full(9, scaling)])
    found = np.empty((9, stride), dtype)
    all_outputs(rows, W.reshape(-1), np.empty(stride, dtype), found)
    assert np.allclose(found, constant @ W, atol=1e-4 if dtype == np.float32 else 1e-12)
    change, V = rng.normal(size=stride).astype(dtype), W.reshape(-1).copy()
    add_one(rows, 4, V, change)
    assert np.allclose(V.reshape(6, stride), W + np.outer(constant[4], change), atol=1e-5 if dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_above_the_threshold_adds_up_to_the_total(seed):
    rng = np.random.default_rng(seed)
    D, total = rng.normal(size=12), rng.exponential()
    t, count = threshold_of(D, 8, total)
    assert np.sum(np.maximum(0.0, D[:8] - t)) == pytest.approx(total)
    assert count == np.count_nonzero(D[:8] > t)
