"""A kernel matrix outlives a fit: another C, and a fold, find its values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from maxmargin.certificate.kernel import certify_kernel
from maxmargin.data.rows import Rows
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.kernel_matrix.tiles import TilePolicy, mirrored
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.batched_smo import BatchedSMO
from tests.catalogue import labelled

TOL = 1e-3
"""What float32 kernel values reach: nothing is computed in float64."""


def problem_and_matrix(C: float = 1.0) -> tuple[KernelProblem, KernelMatrix]:
    X, y = labelled(300, 4, 1.0, 3)
    problem = KernelProblem.build(X, y, C, RBF(0.4))
    matrix = KernelMatrix(problem.kernel, problem.points, np.float32, cache_mb=10.0)
    matrix.hold()
    return problem, matrix


def evaluations(problem: KernelProblem) -> int:
    """The kernel values that a certified solve has computed."""
    solver = BatchedSMO(64)
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(10**6, TOL))
    assert certify_kernel(problem, solver.candidate(problem, state)).certificate.relative_gap <= TOL
    return state.kernel_evaluations


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_a_solve_with_another_C_computes_no_value_again(C):
    problem, matrix = problem_and_matrix(C)
    assert evaluations(problem) > 0
    assert evaluations(replace(problem, fast_values=matrix)) == 0


def test_a_fold_computes_no_value_again():
    problem, matrix = problem_and_matrix()
    fold = np.random.default_rng(0).permutation(300)[:200]
    rows = Rows.from_matrix(problem.rows.matrix[fold])
    part = KernelProblem(rows, problem.y[fold], problem.C[fold], problem.kernel, fast_values=matrix.part(fold))
    assert evaluations(part) == 0


def test_rows_that_one_solve_has_kept_serve_the_next():
    problem, _ = problem_and_matrix()
    matrix = KernelMatrix(problem.kernel, problem.points, np.float32, cache_mb=0.3)
    assert matrix.megabytes_to_hold > matrix.cache_mb
    first, second = (evaluations(replace(problem, fast_values=matrix)) for _ in range(2))
    assert second < first


@pytest.mark.parametrize("values_to_transpose", [1, 10**9], ids=["compiled", "NumPy"])
def test_a_tile_is_written_to_both_halves_of_the_matrix(values_to_transpose):
    tile = np.random.default_rng(0).random((13, 22)).astype(np.float32)
    values = np.zeros((50, 50), np.float32)
    mirrored(values, TilePolicy(values_to_transpose=values_to_transpose))(tile, 3, 20)
    expected = np.zeros_like(values)
    expected[3:16, 20:42], expected[20:42, 3:16] = tile, tile.T
    assert np.array_equal(values, expected)
