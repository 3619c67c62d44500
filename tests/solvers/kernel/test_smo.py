"""SMO with every kernel, offset, rule of shrinking and working set: judged by the certificate, and against LIBSVM."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from maxmargin.certificate.kernel import KernelVerdict, certify_kernel
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Custom, Kernel, Linear, Points, Polynomial, Precomputed, Sigmoid
from maxmargin.screening.shrinking import FSafe, Joachims, NoShrinking, Safe, ShrinkingRule
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.smo import SMO, SMOState
from tests.catalogue import labelled

KERNELS: dict[str, tuple[Kernel, dict[str, object]]] = {
    "linear": (Linear(), {"kernel": "linear"}),
    "rbf": (RBF(0.4), {"kernel": "rbf", "gamma": 0.4}),
    "polynomial": (Polynomial(0.3, 1.0, 3), {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 3}),
}
RULES: dict[str, ShrinkingRule] = {
    "none": NoShrinking(),
    "joachims": Joachims(),
    "joachims-often": Joachims(every=5),
    "safe": Safe(every=7),
    "f-safe": FSafe(),
    "f-safe-bold": FSafe(0.01, every=3),
}
rules = pytest.mark.parametrize("rule", RULES)
offsets = pytest.mark.parametrize("has_offset", [False, True])


def sizes(has_offset: bool) -> tuple[int, ...]:
    return (2,) if has_offset else (1, 2)


def run(problem: KernelProblem, solver: SMO, tol: float, warm_start=None, most: int = 60) -> tuple[SMOState, KernelVerdict]:
    """As the driver does it: advance, and certify when the solver looks done, until it is certified or stuck."""
    state = solver.init(problem, warm_start, 0)
    for _ in range(most):
        solver.advance(problem, state, Budget(5000, tol))
        if state.looks_done or state.is_stuck:
            verdict = certify_kernel(problem, solver.candidate(problem, state))
            if verdict.certificate.meets(tol) or state.is_stuck:
                return state, verdict
    raise AssertionError(f"Neither certified nor stuck after {state.steps} steps, relative gap {state.relative_gap:g}.")


def distance(problem: KernelProblem, one: np.ndarray, other: np.ndarray) -> float:
    """|w(alpha) - w(alpha')|"""
    everyone = np.arange(problem.n_samples)
    signed = (one - other) * problem.y
    return float(np.sqrt(max(0.0, signed @ problem.gram(everyone, everyone) @ signed)))


def libsvm(problem: KernelProblem, X: np.ndarray, C: float, parameters: dict[str, object]) -> np.ndarray:
    model = SVC(C=C, tol=1e-8, **parameters).fit(X, problem.y)
    alpha = np.zeros(problem.n_samples)
    alpha[model.support_] = np.minimum(np.abs(model.dual_coef_[0]), C)
    return alpha


@pytest.mark.parametrize("name", KERNELS)
@offsets
@pytest.mark.parametrize("C", [0.02, 2.0])
def test_all_rules_and_working_sets_and_libsvm_agree_within_their_certified_distances(name, has_offset, C):
    kernel, parameters = KERNELS[name]
    X, y = labelled(80, 4, 1.0, 3)
    problem = KernelProblem.build(X, y, C, kernel, has_offset)
    answers = {}
    for size in sizes(has_offset):
        for rule_name, rule in RULES.items():
            solver = SMO(size, rule)
            state, verdict = run(problem, solver, 1e-7)
            assert verdict.certificate.meets(1e-7), (rule_name, size)
            assert state.dual == pytest.approx(verdict.certificate.dual, rel=1e-10)
            answers[size, rule_name] = solver.candidate(problem, state), verdict.certificate.distance_bound
    if has_offset:
        alpha = libsvm(problem, X, C, parameters)
        answers[0, "libsvm"] = alpha, certify_kernel(problem, alpha).certificate.distance_bound
    for (one, at_most), (other, and_at_most) in combinations(answers.values(), 2):
        assert distance(problem, one, other) <= at_most + and_at_most + 1e-9


@offsets
@rules
def test_the_counters_say_what_was_done(rule, has_offset):
    X, y = labelled(150, 4, 0.5, 4)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.3), has_offset)
    state, _ = run(problem, SMO(2, RULES[rule]), 1e-6)
    assert state.present == 150
    assert state.removals >= state.present - state.active
    assert state.removals == 0 if rule == "none" else state.removals > 0 or rule == "joachims"
    assert (rule in ("joachims", "joachims-often", "f-safe", "f-safe-bold")) or state.resets == 0
    assert 0 <= state.checking_evaluations <= state.kernel_evaluations
    assert state.stage.solver == "smo"


def test_kernel_evaluations_are_those_that_the_kernel_was_asked_for():
    X, y = labelled(80, 3, 0.5, 5)
    asked = []

    def counting(A, B):
        asked.append(len(A) * len(B))
        return rbf_kernel(A, B, gamma=0.5)

    problem = KernelProblem.build(X, y, 1.0, Custom(counting), False)
    for cache_mb in (0.0, 1.0):
        solver = SMO(1, FSafe(every=2), cache_mb)
        state = solver.init(problem, None, 0)
        asked.clear()
        while not state.looks_done:
            solver.advance(problem, state, Budget(10, 1e-4))
        assert sum(asked) == state.kernel_evaluations > 0


def test_with_room_for_all_rows_no_value_is_computed_twice():
    X, y = labelled(100, 3, 1.0, 6)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5), False)
    state, _ = run(problem, SMO(1, Safe(every=3), cache_mb=10.0), 1e-8)
    assert state.kernel_evaluations <= 100 * 100


@offsets
@rules
def test_a_cache_of_two_rows_gives_the_same_answer_as_one_of_all(rule, has_offset):
    X, y = labelled(90, 3, 1.0, 7)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5), has_offset)
    small, large = SMO(2, RULES[rule], cache_mb=0.0), SMO(2, RULES[rule], cache_mb=50.0)
    (one, first), (other, second) = run(problem, small, 1e-8), run(problem, large, 1e-8)
    bounds = first.certificate.distance_bound + second.certificate.distance_bound
    assert distance(problem, small.candidate(problem, one), large.candidate(problem, other)) <= bounds
    assert one.kernel_evaluations >= other.kernel_evaluations
    assert one.rows.cache.values.shape == (2, 90)


@given(seed=st.integers(0, 10**6), has_offset=st.booleans(), kernel=st.sampled_from([Linear(), RBF(0.6), Polynomial(0.4, 1.0)]))
@settings(max_examples=25, deadline=None)
def test_what_safe_removes_is_at_that_bound_of_a_tight_solution_and_never_comes_back(seed, has_offset, kernel):
    X, y = labelled(40, 2, 0.4, seed)
    problem = KernelProblem.build(X, y, 1.0, kernel, has_offset)
    exact = SMO(2, NoShrinking())
    optimum = exact.candidate(problem, run(problem, exact, 1e-12)[0])
    solver, removed = SMO(2, Safe(every=1)), np.zeros(40, dtype=bool)
    state = solver.init(problem, None, 0)
    while not (state.looks_done or state.is_stuck):
        solver.advance(problem, state, Budget(1, 1e-9))
        now = np.zeros(40, dtype=bool)
        now[state.variables.sample[state.active :]] = True
        assert np.all(now >= removed)
        removed = now
    alpha = solver.candidate(problem, state)
    assert state.resets == 0
    assert np.all(np.abs(alpha - optimum)[removed] <= 1e-5)


def test_safe_screening_leaves_little_more_than_the_free_samples():
    X, y = labelled(200, 2, 0.3, 8)
    for has_offset in (False, True):
        problem = KernelProblem.build(X, y, 1.0, RBF(0.5), has_offset)
        solver = SMO(2, Safe())
        state, verdict = run(problem, solver, 1e-12)
        free = verdict.certificate.n_support - verdict.certificate.n_at_bound
        assert state.active <= 2 * free + 5


@offsets
def test_a_rule_that_is_not_safe_is_found_out_and_put_right(has_offset):
    X, y = labelled(200, 3, 1.0, 9)
    problem = KernelProblem.build(X, y, 5.0, RBF(0.5), has_offset)
    state, verdict = run(problem, SMO(2, FSafe(1e-4, every=1)), 1e-8)
    assert state.resets > 0
    assert verdict.certificate.meets(1e-8)


@offsets
def test_a_warm_start_is_made_feasible_and_a_solution_is_recognised(has_offset):
    X, y = labelled(100, 3, 1.0, 10)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5), has_offset)
    solver = SMO()
    cold, _ = run(problem, solver, 1e-6)
    again, verdict = run(problem, solver, 1e-6, warm_start=solver.candidate(problem, cold))
    assert verdict.certificate.meets(1e-6)
    assert again.steps == 0
    wild = 3.0 * np.random.default_rng(0).normal(size=100)
    start = solver.candidate(problem, solver.init(problem, wild, 0))
    assert problem.is_feasible(start)
    assert not has_offset or abs(start @ problem.y) < 1e-12
    assert run(problem, solver, 1e-6, warm_start=wild)[1].certificate.meets(1e-6)
    harder = KernelProblem.build(X, y, 10.0, RBF(0.5), has_offset)
    assert run(harder, solver, 1e-6, warm_start=solver.candidate(problem, cold))[1].certificate.meets(1e-6)


@offsets
@rules
@pytest.mark.parametrize("size", [1, 2])
def test_duplicates_contradictions_zero_rows_weights_and_absent_samples(rule, has_offset, size):
    if has_offset and size == 1:
        return
    X, y = labelled(25, 2, 0.5, 11)
    X = np.vstack([X, X, X, np.zeros((3, 2))])
    y = np.concatenate([y, -y, y, [1, -1, 1]])
    C = np.random.default_rng(11).exponential(size=78)
    C[::6] = 0.0
    for kernel in (Linear(), RBF(0.5)):
        problem = KernelProblem.build(X, y, C, kernel, has_offset)
        solver = SMO(size, RULES[rule])
        state, verdict = run(problem, solver, 1e-6)
        assert verdict.certificate.meets(1e-6)
        assert np.all(solver.candidate(problem, state)[::6] == 0.0)


@offsets
@pytest.mark.parametrize("C", [1e-12, 1e-3, 1e4, 1e9])
def test_tiny_and_huge_costs(C, has_offset):
    X, y = labelled(40, 6, 0.0, 12)
    problem = KernelProblem.build(X, y, C, RBF(0.5), has_offset)
    for rule in (NoShrinking(), Safe(), FSafe()):
        state, verdict = run(problem, SMO(2, rule), 1e-3)
        assert verdict.certificate.relative_gap <= 1e-3
        assert verdict.certificate.meets(1e-3) or (state.is_stuck and C == 1e9)  # the certificate's own rounding is too large


@offsets
@pytest.mark.parametrize("scale", [1e-9, 1e-4, 1e5])
def test_the_scale_of_the_data_does_not_matter_when_the_cost_goes_with_it(scale, has_offset):
    X, y = labelled(40, 3, 1.0, 12)
    problem = KernelProblem.build(scale * X, y, 0.1 / scale**2, Linear(), has_offset)
    for rule in (NoShrinking(), Safe(), FSafe()):
        assert run(problem, SMO(2, rule), 1e-6)[1].certificate.meets(1e-6)


@rules
@pytest.mark.parametrize("sign", [1, -1])
def test_one_class_needs_no_step_with_an_offset_and_is_solved_without(rule, sign):
    X = labelled(20, 3, 1.0, 13)[0]
    for has_offset in (False, True):
        problem = KernelProblem.build(X, np.full(20, sign), 1.0, RBF(0.5), has_offset)
        state, verdict = run(problem, SMO(2, RULES[rule]), 1e-6)
        assert verdict.certificate.meets(1e-6) or verdict.certificate.gap == 0.0
        assert (state.steps == 0) == has_offset


def test_a_single_sample_is_put_on_its_margin():
    X, y = labelled(6, 2, 1.0, 14)
    single = KernelProblem.build(X[:1], y[:1], 3.0, RBF(1.0), False)
    for size in (1, 2):
        solver = SMO(size)
        assert solver.candidate(single, run(single, solver, 1e-9)[0]) == pytest.approx([1.0])


@rules
@offsets
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_a_kernel_that_is_not_positive_semidefinite_ends_at_a_stationary_point(rule, has_offset, size, C):
    if has_offset and size == 1:
        return
    X, y = labelled(60, 4, 1.0, 15)
    problem = KernelProblem.build(X, y, C, Sigmoid(0.5, -0.5), has_offset)
    solver = SMO(size, RULES[rule])
    state, verdict = run(problem, solver, 1e-6)
    assert state.looks_done
    assert state.is_stuck or verdict.certificate.meets(1e-6)
    assert problem.is_feasible(solver.candidate(problem, state))


@offsets
def test_a_safe_rule_is_not_believed_where_the_kernel_belies_it(has_offset):
    """A matrix that claims to be positive semidefinite and is not: what was removed wrongly is taken back."""
    rng = np.random.default_rng(16)
    for _ in range(10):
        matrix = rng.normal(size=(30, 30))
        matrix = matrix + matrix.T
        problem = KernelProblem.build(matrix, np.where(np.arange(30) % 2, 1, -1), 1.0, Precomputed(), has_offset)
        state, verdict = run(problem, SMO(2, Safe(every=1)), 1e-6)
        assert state.is_stuck or verdict.certificate.meets(1e-6)


@offsets
def test_sparse_float32_precomputed_and_custom_forms_of_one_problem_agree(has_offset):
    X, y = labelled(70, 5, 1.0, 17)
    X = X.astype(np.float32)
    X[np.abs(X) < 0.5] = 0.0
    kernel, points = RBF(0.3), Points.of(X)
    forms = [
        (X, kernel),
        (X.astype(np.float64), kernel),
        (sparse.csr_array(X), kernel),
        (kernel.block(points, points), Precomputed()),
        (sparse.csr_array(kernel.block(points, points)), Precomputed()),
        (X, Custom(lambda A, B: rbf_kernel(A, B, gamma=0.3))),
    ]
    duals = []
    for matrix, form in forms:
        problem = KernelProblem.build(matrix, y, 1.0, form, has_offset)
        _, verdict = run(problem, SMO(), 1e-6)
        assert verdict.certificate.meets(1e-6)
        duals.append(verdict.certificate.dual)
    assert np.ptp(duals) <= 2e-6 * abs(duals[0])


def test_the_path_does_not_depend_on_how_the_work_is_cut():
    X, y = labelled(100, 3, 1.0, 18)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5), True)
    solver = SMO(2, FSafe(every=10))
    whole, _ = run(problem, solver, 1e-6)
    cut = solver.init(problem, None, 0)
    while not cut.looks_done:
        solver.advance(problem, cut, Budget(3, 1e-6))
    assert (cut.steps, cut.kernel_evaluations, cut.removals) == (whole.steps, whole.kernel_evaluations, whole.removals)
    assert np.array_equal(solver.candidate(problem, cut), solver.candidate(problem, whole))


def test_a_target_of_zero_ends_where_nothing_moves_any_more():
    X, y = labelled(60, 3, 1.0, 19)
    for has_offset in (False, True):
        problem = KernelProblem.build(X, y, 1.0, RBF(0.5), has_offset)
        state, verdict = run(problem, SMO(2, FSafe()), 0.0)
        assert state.is_stuck
        assert verdict.certificate.relative_gap < 1e-12


def test_bad_settings_are_refused_with_a_sentence_that_names_the_value():
    with pytest.raises(ValueError, match=r"working_set must be 1 or 2; got 3"):
        SMO(working_set=3)
    with pytest.raises(TypeError, match=r"rule such as FSafe"):
        SMO(shrinking=FSafe)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"cache_mb must be zero or positive; got -1"):
        SMO(cache_mb=-1.0)
    with pytest.raises(ValueError, match=r"f of FSafe must lie in \(0, 1\]; got 0"):
        FSafe(0.0)
    with pytest.raises(ValueError, match=r"every must be a whole number >= 1; got 0"):
        Joachims(every=0)
    X, y = labelled(10, 2, 1.0, 20)
    with pytest.raises(ValueError, match=r"must change two samples: set working_set=2"):
        SMO(working_set=1).init(KernelProblem.build(X, y, 1.0, RBF(1.0), True), None, 0)
