"""IRWLS with its three selections: certified on every kernel, equal to SMO and to LIBSVM, and always at an end."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.svm import SVC as LibSVM

from maxmargin import IRWLS, SMO, SVC, FSafe, Joachims, Largest, NoShrinking, RandomViolators, Safe, Smallest, Status, solve
from maxmargin.certificate.kernel import KernelVerdict, certify_kernel
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Custom, Kernel, Linear, Polynomial, Precomputed, Sigmoid
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.irwls.selection import Errors, Selection, worst_pair
from maxmargin.solvers.kernel.irwls.start import Fading, FadingTask
from maxmargin.solvers.kernel.irwls.state import IRWLSPolicy, IRWLSState
from tests.catalogue import labelled

KERNELS: dict[str, tuple[Kernel, dict[str, object]]] = {
    "linear": (Linear(), {"kernel": "linear"}),
    "rbf": (RBF(0.4), {"kernel": "rbf", "gamma": 0.4}),
    "polynomial": (Polynomial(0.3, 1.0, 3), {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 3}),
}
SELECTIONS: dict[str, Selection] = {"largest": Largest(), "smallest": Smallest(), "random": RandomViolators()}
offsets = pytest.mark.parametrize("has_offset", [False, True])
selections = pytest.mark.parametrize("selection", SELECTIONS)


def run(
    problem: KernelProblem, solver: IRWLS, tol: float, warm_start=None, most: int = 300
) -> tuple[IRWLSState, KernelVerdict]:
    """As the driver does it: advance, and certify when the solver looks done, until it is certified or stuck."""
    state = solver.init(problem, warm_start, 0)
    for _ in range(most):
        solver.advance(problem, state, Budget(5000, tol))
        if state.looks_done or state.is_stuck:
            verdict = certify_kernel(problem, solver.candidate(problem, state))
            if verdict.certificate.meets(tol) or state.is_stuck:
                return state, verdict
            solver.take_outputs(problem, state, verdict.outputs)
    raise AssertionError(f"Neither certified nor stuck after {state.chunks} chunks, relative gap {state.relative_gap:g}.")


def build(kernel: Kernel, has_offset: bool = True, C: object = 2.0, n: int = 200, noise: float = 1.0) -> KernelProblem:
    X, y = labelled(n, 4, noise, 3)
    return KernelProblem.build(X, y, C, kernel, has_offset)


def distance(problem: KernelProblem, one: np.ndarray, other: np.ndarray) -> float:
    """|w(alpha) - w(alpha')|"""
    everyone = np.arange(problem.n_samples)
    signed = (one - other) * problem.y
    return float(np.sqrt(max(0.0, signed @ problem.gram(everyone, everyone) @ signed)))


@pytest.mark.parametrize("name", KERNELS)
@offsets
@pytest.mark.parametrize("C", [0.02, 2.0, 200.0])
def test_irwls_agrees_with_smo_and_libsvm_within_certified_distances(name, has_offset, C):
    kernel, parameters = KERNELS[name]
    X, y = labelled(80, 4, 1.0, 3)
    problem = KernelProblem.build(X, y, C, kernel, has_offset)
    answers = []
    for q in (None, 30):
        solver = IRWLS(q)
        state, verdict = run(problem, solver, 1e-8)
        assert verdict.certificate.meets(1e-8), q
        assert state.relative_gap == pytest.approx(verdict.certificate.relative_gap, abs=1e-9)
        answers.append((solver.candidate(problem, state), verdict.certificate.distance_bound))
    smo = solve(problem, SMO(), tol=1e-7)
    answers.append((smo.alpha, smo.certificate.distance_bound))
    if has_offset:
        model = LibSVM(C=C, tol=1e-8, **parameters).fit(X, y)
        alpha = np.zeros(80)
        alpha[model.support_] = np.minimum(np.abs(model.dual_coef_[0]), C)
        answers.append((alpha, certify_kernel(problem, alpha).certificate.distance_bound))
    for (one, at_most), (other, and_at_most) in combinations(answers, 2):
        assert distance(problem, one, other) <= at_most + and_at_most + 1e-8


@selections
@offsets
@pytest.mark.parametrize("q", [2, 5, 40, 10_000])
def test_every_selection_and_working_set_is_certified(selection, has_offset, q):
    problem = build(RBF(0.4), has_offset, n=90)
    state, verdict = run(problem, IRWLS(q, SELECTIONS[selection]), 1e-6, most=3000)
    assert verdict.certificate.meets(1e-6)
    assert state.chunks > 0
    assert q < 10_000 or state.chunks <= 3


@offsets
def test_a_working_set_of_all_samples_is_finished_to_rounding_at_once(has_offset):
    state, verdict = run(build(RBF(0.4), has_offset), IRWLS(10_000), 1e-3)
    assert state.chunks == 1
    assert verdict.certificate.relative_gap <= 1e-12


@offsets
@pytest.mark.parametrize("name", ["sigmoid", "negative"])
def test_a_kernel_that_is_not_positive_semidefinite_never_hangs(name, has_offset):
    kernel = Sigmoid(2.0, 1.0) if name == "sigmoid" else Custom(lambda A, B: -np.asarray(A @ B.T))
    X, y = labelled(80, 4, 1.0, 5)
    problem = KernelProblem.build(X, y, 1.0, kernel, has_offset)
    solver = IRWLS(30)
    state, _ = run(problem, solver, 1e-9)
    assert problem.is_feasible(solver.candidate(problem, state))


@offsets
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 30),
    q=st.sampled_from([2, 7, 100]),
    rank=st.integers(1, 3),
    C=st.sampled_from([1e-6, 0.3, 50.0]),
    selection=st.sampled_from(sorted(SELECTIONS)),
)
@settings(max_examples=30, deadline=None)
def test_duplicated_and_contradicting_points_and_singular_kernels_are_certified(has_offset, seed, n, q, rank, C, selection):
    random = np.random.default_rng(seed)
    X = random.integers(-2, 3, size=(n, rank)).astype(float)
    y = np.where(random.random(n) < 0.5, 1.0, -1.0)
    C = C * random.integers(0, 3, n)
    C[0] = max(C[0], 1e-6)
    problem = KernelProblem.build(X, y, C, Linear(), has_offset)
    _, verdict = run(problem, IRWLS(q, SELECTIONS[selection]), 1e-5, most=3000)
    certificate = verdict.certificate
    assert certificate.meets(1e-5) or certificate.gap <= 1e-9 * max(1.0, float(C.sum()))


@offsets
@pytest.mark.parametrize(("C", "n_free"), [([1e-3, 1e-3, 0.0], 0), ([4e-4, 1e-3, 10.0], 1)])
def test_no_free_variable_and_one(C, n_free, has_offset):
    X, y = np.array([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]]), np.array([1.0, -1.0, 1.0])
    state, verdict = run(KernelProblem.build(X, y, C, RBF(1.0), has_offset), IRWLS(), 1e-9)
    assert verdict.certificate.meets(1e-9)
    assert np.count_nonzero((state.s > state.lower) & (state.s < state.upper)) == n_free


@offsets
@pytest.mark.parametrize("C", [1e-12, 1e-4, 1e4])
def test_a_tiny_and_a_large_C_are_certified(C, has_offset):
    assert run(build(RBF(0.4), has_offset, C, n=100), IRWLS(40), 1e-6)[1].certificate.meets(1e-6)


@offsets
@pytest.mark.parametrize("sign", [-1, 1])
def test_one_class_alone_is_certified(sign, has_offset):
    X, _ = labelled(50, 3, 1.0, 9)
    problem = KernelProblem.build(X, np.full(50, sign), 1.0, RBF(0.3), has_offset)
    state, verdict = run(problem, IRWLS(20), 1e-9)
    assert verdict.certificate.meets(1e-9)
    if has_offset:
        assert not state.s.any()


@offsets
def test_samples_without_weight_stay_out(has_offset):
    C = np.random.default_rng(0).exponential(size=200)
    C[::3] = 0.0
    state, verdict = run(build(RBF(0.4), has_offset, C), IRWLS(50), 1e-9)
    assert verdict.certificate.meets(1e-9)
    assert not state.s[::3].any()


@offsets
@pytest.mark.parametrize("cache_mb", [0.0, 0.003, 500.0])
def test_the_cache_does_not_change_the_optimum(cache_mb, has_offset):
    assert run(build(RBF(0.4), has_offset), IRWLS(30, cache_mb=cache_mb), 1e-8)[1].certificate.meets(1e-8)


@offsets
def test_a_precomputed_kernel_and_a_sparse_matrix_give_the_same_optimum(has_offset):
    problem = build(RBF(0.4), has_offset, n=100)
    everyone = np.arange(100)
    gram = KernelProblem.build(problem.gram(everyone, everyone), problem.y, 2.0, Precomputed(), has_offset)
    scattered = KernelProblem.build(sparse.csr_array(problem.rows.matrix), problem.y, 2.0, RBF(0.4), has_offset)
    expected = run(problem, IRWLS(30), 1e-9)[1].certificate.dual
    for same in (gram, scattered):
        assert run(same, IRWLS(30), 1e-9)[1].certificate.dual == pytest.approx(expected, rel=1e-8)


@offsets
@pytest.mark.parametrize("rule", [Joachims(), Safe(), FSafe(0.1), FSafe(0.001)], ids=str)
def test_shrinking_changes_no_optimum_and_leaves_samples_out(rule, has_offset):
    problem = build(RBF(0.4), has_offset, C=0.5, n=300, noise=0.3)
    state, verdict = run(problem, IRWLS(20, shrinking=rule), 1e-8)
    assert verdict.certificate.meets(1e-8)
    assert state.removals > 0
    plain, _ = run(problem, IRWLS(20), 1e-8)
    assert plain.removals == 0
    assert state.dual == pytest.approx(plain.dual, rel=1e-7)


def test_shorter_rows_after_shrinking_cost_fewer_evaluations():
    problem = build(RBF(0.4), True, C=0.5, n=300, noise=0.3)
    evaluations = [
        run(problem, IRWLS(20, shrinking=rule, cache_mb=0.0), 1e-8)[0].kernel_evaluations for rule in (FSafe(), NoShrinking())
    ]
    assert evaluations[0] < evaluations[1]


@offsets
@pytest.mark.parametrize("q", [10, 10_000])
def test_an_unreachable_target_ends_stuck_at_rounding(q, has_offset):
    state, verdict = run(build(RBF(0.4), has_offset, n=100), IRWLS(q), 0.0, most=3000)
    assert state.is_stuck
    assert verdict.certificate.relative_gap <= 1e-11


@offsets
def test_a_bound_on_iterations_that_is_hit_hands_over_to_smo_which_is_counted_and_reported(has_offset):
    problem = build(RBF(0.4), has_offset, C=50.0)
    solution = solve(problem, IRWLS(60, max_inner_iterations=0), tol=1e-6)
    assert solution.status is Status.CERTIFIED
    assert "SMO solved" in solution.trace[-1].reason
    state, _ = run(problem, IRWLS(60, max_inner_iterations=0), 1e-6)
    assert 0 < state.handovers <= state.chunks
    unhindered, _ = run(problem, IRWLS(60), 1e-6)
    assert unhindered.handovers == 0
    assert unhindered.stage.reason == "asked for"


@offsets
def test_a_warm_start_at_the_optimum_needs_one_working_set_at_most(has_offset):
    problem = build(RBF(0.4), has_offset)
    solver = IRWLS(50)
    state, _ = run(problem, solver, 1e-6)
    again, _ = run(problem, solver, 1e-6, warm_start=solver.candidate(problem, state))
    assert again.chunks <= 1


@offsets
def test_any_warm_start_is_made_feasible(has_offset):
    problem = build(RBF(0.4), has_offset)
    for start in (np.full(200, 1e9), np.full(200, -3.0), np.random.default_rng(0).normal(size=200)):
        assert problem.is_feasible(np.abs(IRWLS().init(problem, start, 0).s))
        assert run(problem, IRWLS(), 1e-6, warm_start=start)[1].certificate.meets(1e-6)


@offsets
@pytest.mark.parametrize("is_held", [False, True])
def test_the_answer_is_feasible_and_better_after_every_chunk(is_held, has_offset):
    problem = build(RBF(0.4), has_offset, C=50.0)
    solver = IRWLS(20, cache_mb=500.0 if is_held else 0.0, policy=IRWLSPolicy(most_steps=1))
    state = solver.init(problem, None, 0)
    assert (state.held is not None) == is_held
    before = 0.0
    while not (state.looks_done or state.is_stuck):
        solver.advance(problem, state, Budget(1, 1e-6))
        alpha = solver.candidate(problem, state)
        assert problem.is_feasible(alpha)
        assert state.dual >= before * (1.0 - 1e-13)
        before = state.dual
        if has_offset:
            assert abs(alpha @ problem.y) <= 1e-12 * max(1.0, alpha.sum())
    assert state.chunks > 5
    assert not state.is_stuck


@offsets
@selections
@pytest.mark.parametrize("q", [5, 30])
def test_the_compiled_chunks_end_where_the_others_do(q, selection, has_offset):
    """With a matrix that is held, and with rows of a cache."""
    problem = build(RBF(0.4), has_offset, C=5.0, n=120)
    held, other = (run(problem, IRWLS(q, SELECTIONS[selection], cache_mb=mb), 1e-7, most=3000) for mb in (500.0, 0.0))
    assert held[0].held is not None
    assert other[0].held is None
    assert held[1].certificate.meets(1e-7)
    assert held[1].certificate.dual == pytest.approx(other[1].certificate.dual, rel=2e-7)


def test_the_same_seed_gives_the_same_answer_to_the_last_bit():
    problem = build(RBF(0.4))
    first, again = (solve(problem, IRWLS(20), tol=1e-6, random_state=7).alpha for _ in range(2))
    assert np.array_equal(first, again)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_svc_takes_irwls_by_name(fit_intercept):
    X, y = labelled(120, 4, 1.0, 3)
    by_name = SVC(C=5.0, solver="irwls", fit_intercept=fit_intercept, tol=1e-8).fit(X, y)
    by_default = SVC(C=5.0, fit_intercept=fit_intercept, tol=1e-8).fit(X, y)
    assert by_name.status_ is Status.CERTIFIED
    assert by_name.trace_[-1].solver == "irwls"
    assert by_name.decision_function(X) == pytest.approx(by_default.decision_function(X), abs=1e-2)


@pytest.mark.parametrize(
    ("settings_", "error", "message"),
    [
        ({"working_set": 1}, ValueError, "working_set must be a whole number >= 2, or None; got 1"),
        ({"working_set": 2.5}, ValueError, "working_set"),
        ({"working_set": True}, ValueError, "working_set"),
        ({"selection": Largest}, TypeError, "selection must be a strategy"),
        ({"shrinking": True}, TypeError, "shrinking must be a rule"),
        ({"selection": "random"}, TypeError, "selection must be a strategy"),
        ({"cache_mb": -1.0}, ValueError, "cache_mb"),
        ({"max_inner_iterations": -1}, ValueError, "max_inner_iterations"),
    ],
)
def test_settings_out_of_range_are_refused(settings_, error, message):
    with pytest.raises(error, match=message):
        IRWLS(**settings_)


def test_a_kernel_problem_has_a_finite_C():
    """The hard margin is a problem of its own (``solving/hard_kernel.py``)."""
    X, y = labelled(20, 3, 1.0, 5)
    with pytest.raises(ValueError, match="finite"):
        KernelProblem.build(X, y, np.inf, RBF(1.0))


def errors(seed: int, n: int, epsilon: float) -> Errors:
    random = np.random.default_rng(seed)
    where = random.integers(0, 3, n)
    y = np.where(random.random(n) < 0.5, 1.0, -1.0)
    return Errors(random.normal(size=n), y, where != 0, where != 1, epsilon)


@selections
@given(seed=st.integers(0, 10**6), n=st.integers(2, 60), size=st.integers(2, 80), epsilon=st.sampled_from([0.0, 0.5, 10.0]))
@settings(max_examples=60, deadline=None)
def test_a_selection_gives_as_many_as_were_asked_for_and_violators_first(selection, seed, n, size, epsilon):
    here = errors(seed, n, epsilon)
    chosen = SELECTIONS[selection].choose(here, size, np.random.default_rng(seed))
    assert len(chosen) == min(size, n)
    assert np.array_equal(chosen, np.unique(chosen))
    n_violators = np.count_nonzero(here.violates)
    if selection != "random":
        assert np.count_nonzero(here.violates[chosen]) == min(len(chosen), n_violators)
    else:
        n_candidates = np.count_nonzero(here.candidates)
        assert np.count_nonzero(here.candidates[chosen]) == min(len(chosen), n_candidates)


def test_largest_takes_the_greatest_errors_and_smallest_the_least():
    here = errors(3, 200, 0.1)._replace(can_rise=np.ones(200, bool), can_fall=np.ones(200, bool))
    random = np.random.default_rng(0)
    large, small = Largest().choose(here, 40, random), Smallest().choose(here, 40, random)
    for side in (here.e > 0.0, here.e < 0.0):
        sizes = np.abs(here.e[side & here.violates])
        assert np.abs(here.e[large][side[large]]).min() >= np.sort(sizes)[-20]
        assert np.abs(here.e[small][side[small]]).max() <= np.sort(sizes)[19]


def test_random_selection_has_one_of_each_kind_of_violator():
    here = errors(5, 300, 0.1)
    for seed in range(20):
        chosen = RandomViolators().choose(here, 12, np.random.default_rng(seed))
        for violates in (here.rising, here.falling):
            for sign in (1.0, -1.0):
                for free in (True, False):
                    kind = violates & (here.y == sign) & (here.is_free == free)
                    assert not kind.any() or kind[chosen].any()


def test_the_worst_pair_is_the_greatest_to_rise_and_the_least_to_fall():
    here = errors(1, 50, 0.0)
    pair = worst_pair(here)
    assert here.e[pair].max() == here.e[here.can_rise].max()
    assert here.e[pair].min() == here.e[here.can_fall].min()


@offsets
def test_the_start_settles_within_its_width_of_the_optimum(has_offset):
    X, y = labelled(150, 6, 1.0, 3)
    K = RBF(0.3).block(*(KernelProblem.build(X, y, 1.0, RBF(0.3)).points,) * 2)
    lower, upper = np.minimum(10.0 * y, 0.0), np.maximum(10.0 * y, 0.0)
    start = Fading(FadingTask(K, y, lower, upper, 0.0 if has_offset else None), np.zeros(150, int))
    start.run()
    assert start.has_settled
    assert ((start.s >= lower) & (start.s <= upper)).all()
    assert not has_offset or abs(start.s.sum()) <= 1e-9
    v = y - K @ start.s
    top, bottom = v[start.s < upper].max(), v[start.s > lower].min()
    assert (top - bottom if has_offset else max(top, -bottom)) <= 1.1e-3
