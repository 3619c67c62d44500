"""SMO on working sets of a thousand: certified on every kernel, with and without offset, and equal to LIBSVM."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.kernel import certify_kernel
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Custom, Kernel, Linear, Polynomial, Precomputed, Sigmoid
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.batched_smo import BatchedSMO
from maxmargin.solvers.kernel.batched_smo_state import BatchedPolicy, BatchedSMOState
from tests.catalogue import labelled

KERNELS: dict[str, Kernel] = {
    "linear": Linear(),
    "rbf": RBF(0.4),
    "polynomial": Polynomial(0.3, 1.0, 3),
    "sigmoid": Sigmoid(0.05, -0.1),
    "custom": Custom(lambda A, B: np.asarray((A @ B.T + 1.0) ** 2)),
}
offsets = pytest.mark.parametrize("has_offset", [False, True])
MAX_CALLS = 200


def solve(
    problem: KernelProblem, tol: float, solver: BatchedSMO | None = None, warm_start: np.ndarray | None = None, seed: int = 0
) -> tuple[np.ndarray, Certificate, BatchedSMOState]:
    """What the driver does: advance, and certify when it looks done, until certified or stuck."""
    solver = solver or BatchedSMO(working_set=64)
    state = solver.init(problem, warm_start, seed)
    for _ in range(MAX_CALLS):
        solver.advance(problem, state, Budget(20_000, tol))
        alpha = solver.candidate(problem, state)
        certificate = certify_kernel(problem, alpha).certificate
        if certificate.relative_gap <= tol or state.is_stuck:
            break
    return alpha, certificate, state


def build(kernel: Kernel, has_offset: bool = True, C: object = 2.0, n: int = 250, noise: float = 1.0) -> KernelProblem:
    X, y = labelled(n, 4, noise, 3)
    return KernelProblem.build(X, y, C, kernel, has_offset)


@offsets
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("name", KERNELS)
def test_every_positive_semidefinite_kernel_is_certified_and_any_other_ends(name, tol, has_offset):
    kernel = KERNELS[name]
    _, certificate, state = solve(build(kernel, has_offset), tol)
    assert certificate.relative_gap <= tol or not kernel.is_positive_semidefinite
    assert state.steps > 0
    assert state.kernel_evaluations > 0


@offsets
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_either_type_reach_a_tight_target(dtype, has_offset):
    certificate = solve(build(RBF(0.4), has_offset), 1e-8, BatchedSMO(64, dtype=dtype))[1]
    assert certificate.relative_gap <= 1e-8


@pytest.mark.parametrize("name", ["linear", "rbf", "polynomial"])
def test_the_dual_value_is_that_of_libsvm(name):
    problem = build(KERNELS[name])
    gram = problem.gram(np.arange(250), np.arange(250))
    model = SVC(C=2.0, kernel="precomputed", tol=1e-9).fit(gram, problem.y)
    signed = np.zeros(250)
    signed[model.support_] = model.dual_coef_[0]
    dual = np.abs(signed).sum() - 0.5 * signed @ gram @ signed
    assert solve(problem, 1e-9)[1].dual == pytest.approx(dual, rel=1e-8)


@offsets
def test_a_precomputed_kernel_and_a_sparse_matrix_give_the_same_optimum(has_offset):
    problem = build(RBF(0.4), has_offset)
    everyone = np.arange(250)
    gram = KernelProblem.build(problem.gram(everyone, everyone), problem.y, 2.0, Precomputed(), has_offset)
    scattered = KernelProblem.build(sparse.csr_array(problem.rows.matrix), problem.y, 2.0, RBF(0.4), has_offset)
    expected = solve(problem, 1e-9)[1].dual
    for same in (gram, scattered):
        assert solve(same, 1e-9)[1].dual == pytest.approx(expected, rel=1e-8)


@offsets
@pytest.mark.parametrize("cache_mb", [0.0, 0.003, 500.0])
def test_the_cache_does_not_change_the_optimum(cache_mb, has_offset):
    certificate = solve(build(RBF(0.4), has_offset), 1e-8, BatchedSMO(32, cache_mb))[1]
    assert certificate.relative_gap <= 1e-8


@offsets
@pytest.mark.parametrize("working_set", [2, 5, 64, 5000])
def test_a_working_set_of_any_size_is_certified(working_set, has_offset):
    assert solve(build(RBF(0.4), has_offset, n=90), 1e-6, BatchedSMO(working_set))[1].relative_gap <= 1e-6


@offsets
@pytest.mark.parametrize("C", [1e-12, 1e-4, 1e4, 1e8])
def test_a_tiny_and_a_huge_C_are_certified(C, has_offset):
    assert solve(build(RBF(0.4), has_offset, C, n=120), 1e-6)[1].relative_gap <= 1e-6


@offsets
def test_separable_samples_with_a_huge_C_are_certified(has_offset):
    assert solve(build(RBF(0.4), has_offset, 1e6, n=120, noise=0.0), 1e-6)[1].relative_gap <= 1e-6


@offsets
def test_samples_without_weight_stay_out_and_change_nothing(has_offset):
    problem = build(RBF(0.4), has_offset)
    C = np.random.default_rng(0).exponential(size=250)
    C[::3] = 0.0
    weighted = KernelProblem.build(problem.rows, problem.y, C, RBF(0.4), has_offset)
    alpha, certificate, _ = solve(weighted, 1e-9)
    assert certificate.relative_gap <= 1e-9
    assert not alpha[::3].any()
    present = np.flatnonzero(C)
    fewer = KernelProblem.build(problem.rows.matrix[present], problem.y[present], C[present], RBF(0.4), has_offset)
    assert solve(fewer, 1e-9)[1].dual == pytest.approx(certificate.dual, rel=1e-8)


@offsets
def test_a_sample_twice_equals_its_weight_doubled(has_offset):
    problem = build(RBF(0.4), has_offset, n=100)
    twice = KernelProblem.build(np.vstack([problem.rows.matrix] * 2), np.tile(problem.y, 2), 2.0, RBF(0.4), has_offset)
    doubled = KernelProblem.build(problem.rows, problem.y, 4.0, RBF(0.4), has_offset)
    assert solve(twice, 1e-9)[1].dual == pytest.approx(solve(doubled, 1e-9)[1].dual, rel=1e-8)


@offsets
def test_contradicting_samples_are_certified(has_offset):
    X, y = labelled(60, 3, 0.5, 8)
    problem = KernelProblem.build(np.vstack([X, X, X]), np.concatenate([y, -y, y]), 3.0, RBF(0.7), has_offset)
    assert solve(problem, 1e-9)[1].relative_gap <= 1e-9


@offsets
@pytest.mark.parametrize("sign", [-1, 1])
def test_one_class_alone_is_certified(sign, has_offset):
    X, _ = labelled(50, 3, 1.0, 9)
    alpha, certificate, _ = solve(KernelProblem.build(X, np.full(50, sign), 1.0, RBF(0.3), has_offset), 1e-9)
    assert certificate.relative_gap <= 1e-9
    if has_offset:
        assert not alpha.any()


@offsets
def test_a_kernel_that_is_not_positive_semidefinite_never_hangs(has_offset):
    X, y = labelled(120, 4, 1.0, 5)
    for kernel in (Sigmoid(2.0, 1.0), Custom(lambda A, B: -np.asarray(A @ B.T))):
        alpha, _, state = solve(KernelProblem.build(X, y, 1.0, kernel, has_offset), 1e-9)
        assert np.isfinite(alpha).all()
        assert ((alpha >= 0.0) & (alpha <= 1.0)).all()
        assert state.looks_done or state.is_stuck


def test_an_unreachable_target_ends_stuck():
    certificate, state = solve(build(RBF(0.4)), 1e-30)[1:]
    assert state.is_stuck
    assert certificate.relative_gap <= 1e-12


@offsets
def test_values_beyond_float32_are_solved_in_float64(has_offset):
    X, y = labelled(80, 3, 1.0, 4)
    problem = KernelProblem.build(1e20 * X, y, 1e-40, Linear(), has_offset)
    assert solve(problem, 1e-6)[1].relative_gap <= 1e-6


@offsets
def test_a_warm_start_at_the_optimum_takes_hardly_a_step(has_offset):
    problem = build(RBF(0.4), has_offset)
    alpha, _, cold = solve(problem, 1e-6)
    state = solve(problem, 1e-6, warm_start=alpha)[2]
    assert state.steps <= 0.05 * cold.steps


@offsets
def test_any_warm_start_is_made_feasible(has_offset):
    problem = build(RBF(0.4), has_offset)
    for start in (np.full(250, 1e9), np.full(250, -3.0), np.random.default_rng(0).normal(size=250)):
        state = BatchedSMO().init(problem, start, 0)
        alpha = np.abs(state.s)
        assert problem.is_feasible(alpha)
        if has_offset:
            assert abs(alpha @ problem.y) <= 1e-12 * max(1.0, alpha.sum())
        assert solve(problem, 1e-6, warm_start=start)[1].relative_gap <= 1e-6


def test_the_same_seed_gives_the_same_answer_to_the_last_bit():
    problem = build(RBF(0.4))
    first, again = (solve(problem, 1e-6, BatchedSMO(16), seed=7)[0] for _ in range(2))
    assert np.array_equal(first, again)


@offsets
def test_the_answer_is_feasible_after_every_chunk_and_a_chunk_is_bounded(has_offset):
    problem = build(RBF(0.4), has_offset)
    solver = BatchedSMO(16)
    state = solver.init(problem, None, 0)
    for k in range(1, 30):
        solver.advance(problem, state, Budget(10, 1e-9))
        alpha = solver.candidate(problem, state)
        assert state.steps <= 10 * k
        assert problem.is_feasible(alpha)
        if has_offset:
            assert abs(alpha @ problem.y) <= 1e-12 * alpha.sum()


def test_the_gap_that_it_sees_is_the_one_that_is_certified():
    for has_offset in (False, True):
        problem = build(RBF(0.4), has_offset)
        certificate, state = solve(problem, 1e-4, BatchedSMO(64, dtype="float64"))[1:]
        assert state.relative_gap == pytest.approx(certificate.relative_gap, rel=1e-6)


def test_a_refused_certificate_makes_it_look_closer():
    problem = build(RBF(0.4))
    solver = BatchedSMO(64)
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(10**6, 1e-3))
    assert state.looks_done
    before = state.relative_gap
    for _ in range(3):
        solver.advance(problem, state, Budget(10**6, 1e-3))
    assert state.relative_gap < before


def test_rows_become_float64_when_float32_does_not_reach_the_target():
    problem = build(RBF(0.4))
    solver = BatchedSMO(64)
    state = solver.init(problem, None, 0)
    for _ in range(4):
        state.looks_done = True
        solver.advance(problem, state, Budget(1, 0.0))
    assert state.rows.dtype == np.float64


@pytest.mark.parametrize(("field", "value"), [("working_set", 1), ("cache_mb", -1.0), ("dtype", "float16")])
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(ValueError, match=field):
        BatchedSMO(**{field: value})


def test_the_widest_working_set_serves_problems_with_many_free_variables():
    problem = build(RBF(5.0), C=1e4, n=400, noise=0.0)
    state = solve(problem, 1e-6, BatchedSMO(64))[2]
    assert state.n_free > 64
    assert BatchedPolicy().widest >= 2


SHRINKING = {"C": 5.0, "n": 600, "noise": 0.5}
NOT_HELD = 1.0
"""Megabytes that do not hold the kernel matrix of 600 samples: rows get shorter only where it is not held."""


SHRINKS_EARLY = BatchedPolicy(many_samples=0)
"""Also with few samples."""


@offsets
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9])
def test_shrinking_leaves_samples_out_and_changes_no_answer(tol, has_offset):
    problem = build(RBF(0.4), has_offset, **SHRINKING)
    alphas = []
    for shrinks in (False, True):
        alpha, certificate, state = solve(problem, tol, BatchedSMO(32, NOT_HELD, shrinks=shrinks, policy=SHRINKS_EARLY))
        assert certificate.relative_gap <= tol
        assert (state.active < problem.n_samples) == shrinks
        alphas.append((alpha, certificate))
    (one, first), (other, second) = alphas
    difference = (one - other) * problem.y
    gram = problem.gram(np.arange(600), np.arange(600))
    assert np.sqrt(difference @ gram @ difference) <= first.distance_bound + second.distance_bound + 1e-9


def test_shrinking_saves_kernel_values():
    problem = build(RBF(0.4), C=5.0, n=1500, noise=0.3)
    solvers = [BatchedSMO(32, 0.0, shrinks=shrinks, policy=SHRINKS_EARLY) for shrinks in (False, True)]
    without, with_it = (solve(problem, 1e-6, solver)[2] for solver in solvers)
    assert with_it.kernel_evaluations < 0.8 * without.kernel_evaluations


@offsets
def test_samples_that_were_left_out_by_mistake_come_back(has_offset):
    """Everyone who is at a bound is left out, also those who have to leave it: the next certificate shows them."""
    problem = build(RBF(0.4), has_offset, **SHRINKING)
    solver = BatchedSMO(32, NOT_HELD, policy=SHRINKS_EARLY)
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(150, 1e-6))
    free = np.flatnonzero((state.lower < state.s) & (state.s < state.upper))
    state.rows.narrow_to(free)
    state.is_complete = False
    assert state.active == len(free)
    for _ in range(MAX_CALLS):
        solver.advance(problem, state, Budget(20_000, 1e-6))
        verdict = certify_kernel(problem, solver.candidate(problem, state))
        if verdict.certificate.relative_gap <= 1e-6:
            break
        solver.take_outputs(problem, state, verdict.outputs)
    assert verdict.certificate.relative_gap <= 1e-6
    assert not state.is_stuck


def test_f_is_up_to_date_for_everyone_that_is_not_left_out():
    problem = build(RBF(0.4), **SHRINKING)
    _, _, state = solve(problem, 1e-8, BatchedSMO(32, dtype="float64", policy=SHRINKS_EARLY))
    assert state.rows.is_narrow
    f = problem.gram(np.arange(600), np.arange(600)) @ state.s
    assert np.allclose(state.f[state.rows.samples], f[state.rows.samples], atol=1e-10)


def test_a_chunk_is_not_spent_on_the_rest_of_a_budget():
    """A working set is not begun when the steps that are left are fewer than the last one took."""
    problem = build(RBF(0.4), C=100.0, n=600)
    state = BatchedSMO(64).init(problem, None, 0)
    BatchedSMO(64).advance(problem, state, Budget(1500, 1e-9))
    assert 1500 - state.usual_steps <= state.steps <= 1500
