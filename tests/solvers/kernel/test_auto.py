"""The default solver of kernel problems: what it reduces, and that its answers are those of the original problem."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.certificate.kernel import certify_kernel
from maxmargin.problem import policy
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Custom, Linear
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.auto import KernelAuto
from maxmargin.solvers.kernel.batched_smo_state import Work
from maxmargin.solvers.presolve import MergedSamples
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import labelled


@pytest.fixture(autouse=True, params=["held", "streamed"], scope="module")
def _few_or_many(request):
    """Every test twice: with the kernel matrix of few samples held, and as if the samples were too many for that."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "streamed":
            patch.setattr(policy, "HELD", policy.HeldValuesPolicy(most_samples=0))
        yield


def repeated(n: int, seed: int) -> tuple[sparse.csr_array, np.ndarray]:
    X, y = labelled(n, 4, 1.0, seed)
    repeats = np.random.default_rng(seed).integers(1, 6, size=n)
    shuffled = np.random.default_rng(seed + 1).permutation(repeats.sum())
    return sparse.csr_array(np.repeat(X, repeats, 0)[shuffled]), np.repeat(y, repeats)[shuffled]


@pytest.mark.parametrize("has_offset", [False, True])
@pytest.mark.parametrize("kernel", [RBF(0.5), Linear(), Custom(lambda A, B: (A @ B.T).toarray())])
def test_equal_samples_are_merged_and_the_answer_is_certified_on_all_of_them(kernel, has_offset):
    X, y = repeated(60, 0)
    C = np.random.default_rng(1).integers(0, 3, size=len(y)).astype(float)
    problem = KernelProblem.build(X, y, C, kernel, has_offset)
    assert MergedSamples.of(problem, 0.1).problem.n_samples == 60
    merged, plain = solve(problem, "auto", tol=1e-8), solve(problem, "batched-smo", tol=1e-8)
    assert merged.status == plain.status == Status.CERTIFIED
    assert merged.certificate.primal == pytest.approx(plain.certificate.primal, rel=1e-7)


@pytest.mark.parametrize("has_offset", [False, True])
def test_the_gap_is_the_same_before_and_after_expansion(has_offset):
    X, y = repeated(50, 2)
    problem = KernelProblem.build(X, y, 0.7, RBF(0.5), has_offset)
    merged = MergedSamples.of(problem, 0.1)
    alpha = merged.problem.nearest_feasible(merged.problem.C * np.random.default_rng(3).random(50))
    there, here = certify_kernel(merged.problem, alpha), certify_kernel(problem, merged.expand(alpha))
    assert here.certificate.gap == pytest.approx(there.certificate.gap, rel=1e-9)
    assert np.allclose(merged.reduce_outputs(here.outputs), there.outputs)
    assert np.allclose(merged.reduce(merged.expand(alpha)), alpha)


def test_a_warm_start_goes_through_the_merging():
    X, y = repeated(60, 4)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5))
    cold = solve(problem, tol=1e-8)
    warm = solve(problem, tol=1e-8, warm_start=cold)
    assert warm.status is Status.CERTIFIED
    assert warm.steps < 0.2 * cold.steps


@pytest.mark.parametrize("has_offset", [False, True])
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 0.0])
@pytest.mark.parametrize("n", [15, 40, 400])
def test_it_ends_whatever_the_target_and_few_samples_are_finished_to_rounding(n, tol, has_offset):
    X, y = labelled(n, 4, 1.0, 5)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5), has_offset)
    solution = solve(problem, tol=tol)
    assert solution.status is (Status.CERTIFIED if tol > 0.0 else Status.PRECISION_LIMIT)
    if tol == 0.0 or n <= 256:
        assert solution.certificate.relative_gap < 1e-12


def test_newton_is_tried_before_rounding_ends_a_solve():
    """Where rounding stops SMO, the samples may still lie in few dimensions."""
    X, y = labelled(80, 3, 1.0, 5)
    problem, solver = KernelProblem.build(X, y, 1e3, Linear()), KernelAuto()
    many = solver._many(problem, None, 0, Work())
    many.smo.is_stuck = True
    assert not many.is_stuck
    budget, stages = Budget(1000, 0.0), []
    while not many.looks_done and len(stages) < 200:
        many.advance(budget)
        stages.append(many.stage.reason)
    assert any("rounding stops SMO" in stage for stage in stages)
    assert certify_kernel(problem, many.alpha, tol=1e-6).certificate.meets(1e-6)
    many.smo.is_stuck, many.is_finished = True, False
    assert many.is_stuck
