"""The solver for few samples of the problems with nu, against the certificate, LIBSVM and the driver's loop."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import load_iris, make_classification

from maxmargin import NuSVC, NuSVR, OneClassSVM, Status
from maxmargin.certificate.nu import certify_nu
from maxmargin.problem.kernels import RBF, Linear, Polynomial
from maxmargin.problem.nu import nu_svc, nu_svr, one_class
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.face import change_in_groups
from maxmargin.solvers.kernel.held_nu import HeldNuPolicy, HeldNuState
from maxmargin.solvers.kernel.nu_smo import NuSMO


def problems(n, seed=0, kernel=None):
    rng = np.random.default_rng(seed)
    X, y = make_classification(n, 6, flip_y=0.1, random_state=seed)
    kernel, targets = kernel or RBF(0.2), X[:, 0] + 0.3 * rng.standard_normal(n)
    weights = rng.integers(1, 4, n).astype(np.float64)
    return {
        "one-class": one_class(X, kernel, 0.3),
        "nu-svc": nu_svc(X, np.where(y > 0, 1, -1), kernel, 0.3),
        "nu-svc, weights": nu_svc(X, np.where(y > 0, 1, -1), kernel, 0.3, weights),
        "nu-svr": nu_svr(X, targets, kernel, 0.4, 2.0),
    }


@pytest.mark.parametrize("n", [3, 20, 63, 64, 65, 130, 300])
def test_the_certificate_of_its_answer_is_at_rounding(n):
    for name, problem in problems(n).items():
        state = HeldNuState.of(problem, HeldNuPolicy())
        state.advance(Budget(10**6, 1e-3))
        assert state.looks_done, name
        verdict = certify_nu(problem, state.alpha)
        few = state.n <= HeldNuPolicy().few_variables
        assert verdict.certificate.relative_gap <= (1e-9 if few else 1e-3), name


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(0.3, 1.0, 2)])
def test_other_kernels_are_solved_or_given_up(kernel):
    for problem in problems(80, seed=3, kernel=kernel).values():
        state = HeldNuState.of(problem, HeldNuPolicy())
        state.advance(Budget(10**6, 1e-6))
        if state.looks_done:
            assert certify_nu(problem, state.alpha).certificate.meets(1e-6)
        assert state.steps <= (HeldNuPolicy().most_steps + HeldNuPolicy().steps_a_round + 1) * state.n


def test_a_refused_answer_leads_to_more_rounds_and_then_to_none():
    problem = problems(120)["nu-svc"]
    state, rounds = HeldNuState.of(problem, HeldNuPolicy()), 0
    while rounds < 20:
        state.advance(Budget(10**6, 1e-3))
        rounds += 1
        if not state.looks_done:
            break
    assert rounds < 20


@pytest.mark.parametrize("seed", range(5))
def test_no_round_lowers_the_dual_value_and_every_point_is_feasible(seed):
    """A leap that would leave the box ends at the first bound, and goes on from there."""
    for name, problem in problems(150, seed=seed, kernel=RBF(1.0)).items():
        state = HeldNuState.of(problem, HeldNuPolicy(first_steps=0))
        state.chunk = 7  # so that most leaps end outside of the box
        state.survey()
        for _ in range(30):
            before = state.dual
            state.run_round()
            assert state.dual >= before - 1e-12 * abs(before), name
            sums = [state.alpha[own].sum() for own in problem.members]
            np.testing.assert_allclose(sums, problem.totals, rtol=1e-12)
            assert problem.is_feasible(state.alpha), name


def test_equal_samples_and_few_features_leap_to_rounding():
    """The matrix of the free variables is singular, and the number that is added within a group makes the system solvable."""
    X, y = make_classification(60, 4, flip_y=0.2, random_state=1)
    for kernel in (Linear(), RBF(0.3)):
        problem = nu_svc(np.repeat(X, 2, axis=0), np.repeat(np.where(y > 0, 1, -1), 2), kernel, 0.5)
        state = HeldNuState.of(problem, HeldNuPolicy())
        state.advance(Budget(10**6, 1e-3))
        assert state.looks_done
        assert state.is_at_rounding


@pytest.mark.parametrize("is_doubled", [False, True])
def test_a_leap_solves_its_system_and_keeps_the_sums_also_where_both_variables_of_a_sample_are_free(is_doubled):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((90, 4))
    samples = np.tile(np.arange(90), 2) if is_doubled else np.arange(90)
    groups = np.repeat([0, 1], len(samples) // 2)
    K, v, members = np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=2)), rng.standard_normal(90) + 3.0, np.eye(2)[groups]
    d = change_in_groups(K, v, samples, groups)
    missing = v[samples] - K[np.ix_(samples, samples)] @ d
    np.testing.assert_allclose(members @ np.linalg.lstsq(members, missing, rcond=None)[0], missing, atol=1e-9)
    np.testing.assert_allclose(members.T @ d, 0.0, atol=1e-9 * np.abs(d).sum())


def test_a_leap_before_smo_has_ended_spares_steps():
    """iris as a regression took 1,201 steps of SMO before its first leap; that leap led to the optimum after 300, too."""
    X, _ = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for nu in (0.05, 0.2):
        assert NuSVR(nu=nu).fit(X[:, 1:], X[:, 0]).trace_[-1].steps <= 2 * 2 * len(X) + 2


def test_many_samples_and_indefinite_kernels_have_none():
    assert HeldNuState.of(problems(70)["nu-svr"], HeldNuPolicy(most_samples=69)) is None
    assert NuSMO().few(problems(1030)["one-class"]) is None


@pytest.mark.parametrize("seed", range(6))
def test_estimators_agree_with_libsvm_and_with_the_loop_of_the_driver(seed):
    X, y = make_classification(150, 5, n_informative=3, n_classes=3, flip_y=0.05, random_state=seed)
    for ours, theirs in (
        (NuSVC(nu=0.3), svm.NuSVC(nu=0.3, tol=1e-9)),
        (NuSVR(), svm.NuSVR(tol=1e-9)),
        (OneClassSVM(nu=0.2), svm.OneClassSVM(nu=0.2, tol=1e-9)),
    ):
        ours.fit(X, y)
        assert np.all(np.array(ours.status_) == Status.CERTIFIED)
        decide = "predict" if isinstance(ours, NuSVR) else "decision_function"
        np.testing.assert_allclose(getattr(ours, decide)(X), getattr(theirs.fit(X, y), decide)(X), atol=1e-4)
        loop = type(ours)(**{**ours.get_params(), "max_iter": 10**6, "tol": 1e-10}).fit(X, y)
        np.testing.assert_allclose(getattr(ours, decide)(X), getattr(loop, decide)(X), atol=1e-6)


def test_the_sign_of_the_decision_is_the_label_on_the_border_too():
    X, _ = make_classification(300, 4, random_state=2)
    model = OneClassSVM(nu=0.4).fit(X)
    values = model.decision_function(X)
    assert np.any(values == 0.0)
    np.testing.assert_array_equal(model.predict(X), np.where(values >= 0.0, 1, -1))


def test_w_zero_with_few_features_is_found_by_the_shortest_solution_of_a_singular_system():
    """More free samples than features: the matrix is singular but for rounding, and its plain solution leaves the box."""
    X, y = load_iris(return_X_y=True)
    model = NuSVC(kernel="linear", nu=0.05).fit(X[50:], y[50:])
    assert model.status_ is Status.CERTIFIED
    assert model.certificate_.primal == model.certificate_.dual == 0.0
    assert [row.solver for row in model.trace_] == ["nu-smo"]
