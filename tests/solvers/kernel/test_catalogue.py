"""Every kernel x offset x rule of shrinking x solver: certified, in agreement with each other and with LIBSVM."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
import sklearn.svm

from maxmargin import SVC, LinearProblem, Status, certify, certify_kernel, solve
from maxmargin.certificate.certificate import Certificate
from maxmargin.data.rows import Array
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.losses import Hinge
from maxmargin.solvers.registry import KERNEL_SOLVERS
from maxmargin.solving.solution import Solution
from tests.kernel_catalogue import KERNELS, LIBSVM, PROBLEMS, VARIANTS, accepts, matrix_of, problem_of, samples

offsets = pytest.mark.parametrize("has_offset", [True, False], ids=["offset", "no offset"])
kernels = pytest.mark.parametrize("kernel", KERNELS)
variants = pytest.mark.parametrize("variant", VARIANTS)
solvers = pytest.mark.parametrize("solver", KERNEL_SOLVERS)
problems = pytest.mark.parametrize("name", PROBLEMS)
TOL = 1e-8
DEFINITE = [kernel for kernel in KERNELS if KERNELS[kernel].is_positive_semidefinite]


@cache
def answer(kernel: str, has_offset: bool, variant: str) -> Solution | None:
    """Solved once for all tests; None where the solver refuses it."""
    problem = problem_of(kernel, has_offset)
    return solve(problem, VARIANTS[variant], tol=TOL, max_seconds=60.0) if accepts(VARIANTS[variant], problem) else None


def answers(kernel: str, has_offset: bool) -> dict[str, Solution]:
    every = {variant: answer(kernel, has_offset, variant) for variant in VARIANTS}
    return {variant: solution for variant, solution in every.items() if solution is not None}


def gram(problem: KernelProblem) -> Array:
    everyone = np.arange(problem.n_samples)
    return problem.gram(everyone, everyone)


def parts(problem: KernelProblem) -> tuple[Array, Array]:
    """K = K+ - N, both positive semidefinite; with an offset where sum_i alpha_i y_i = 0. N is rounding for most kernels."""
    n = problem.n_samples
    centre = np.eye(n) - (1.0 / n if problem.has_offset else 0.0)
    values, vectors = np.linalg.eigh(centre @ gram(problem) @ centre)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T, (vectors * np.maximum(-values, 0.0)) @ vectors.T


def assert_agreement(problem: KernelProblem, found: dict[str, tuple[Array, Certificate]]) -> None:
    """|w(alpha) - w(alpha')| is within the two certified distances, and no dual value is above a primal value.

    With K+ for K the outputs change by (N s)_i, s = alpha y, and the gap by at most sum_i C_i |(N s)_i|: so much is allowed to
    kernels that are not positive semidefinite."""
    positive, negative = parts(problem)
    gaps = {
        name: judged.gap + judged.rounding_error + problem.C @ np.abs(negative @ (alpha * problem.y))
        for name, (alpha, judged) in found.items()
    }
    for one, other in combinations(found, 2):
        (alpha, first), (beta, second) = found[one], found[other]
        difference = (alpha - beta) * problem.y
        distance = np.sqrt(max(0.0, difference @ positive @ difference))
        assert distance <= np.sqrt(gaps[one]) + np.sqrt(gaps[other]) + 1e-9, (one, other)
        allowed = 1e-12 * first.primal + gaps[one] - first.gap + gaps[other] - second.gap
        assert max(first.dual, second.dual) <= min(first.primal, second.primal) + allowed, (one, other)


@kernels
@offsets
@variants
def test_every_kernel_and_rule_is_certified_by_every_solver(kernel, has_offset, variant):
    solution = answer(kernel, has_offset, variant)
    if solution is None:
        return
    problem = problem_of(kernel, has_offset)
    judged, reported = certify_kernel(problem, solution.alpha).certificate, solution.certificate
    assert judged.gap == pytest.approx(reported.gap, abs=judged.rounding_error + reported.rounding_error)
    assert (judged.is_proof, judged.n_support) == (reported.is_proof, reported.n_support)
    assert problem.is_feasible(solution.alpha)
    if kernel in DEFINITE:
        assert solution.status is Status.CERTIFIED
        assert solution.certificate.meets(TOL)
    else:
        assert solution.status in (Status.STATIONARY, Status.PRECISION_LIMIT)
        assert not solution.certificate.is_proof


@offsets
def test_at_least_one_form_of_every_solver_takes_problems_of_each_kind(has_offset):
    problem = problem_of("rbf", has_offset)
    taken = {variant.split(",")[0] for variant in VARIANTS if accepts(VARIANTS[variant], problem)}
    assert taken == set(KERNEL_SOLVERS) or not has_offset
    assert {"auto", "batched-smo", "smo"} <= taken


@pytest.mark.parametrize("kernel", DEFINITE)
@offsets
def test_all_solvers_and_rules_agree_within_their_certified_distances(kernel, has_offset):
    found = {variant: (solution.alpha, solution.certificate) for variant, solution in answers(kernel, has_offset).items()}
    assert len(found) >= 8
    assert_agreement(problem_of(kernel, has_offset), found)


def libsvm(kernel: str, C: float) -> Array:
    X, y = samples()
    model = sklearn.svm.SVC(C=C, tol=1e-9, **LIBSVM[kernel]).fit(matrix_of(kernel, X), y)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.minimum(np.abs(model.dual_coef_[0]), C)
    return alpha


@kernels
def test_all_solvers_and_rules_agree_with_libsvm(kernel):
    """The sigmoid kernel too: with coef0 = -1 it is almost positive semidefinite where sum_i alpha_i y_i = 0."""
    problem = problem_of(kernel, True)
    theirs = libsvm(kernel, 2.0)
    judged = certify_kernel(problem, theirs).certificate
    assert judged.relative_gap < 1e-6
    for variant, solution in answers(kernel, True).items():
        assert_agreement(problem, {variant: (solution.alpha, solution.certificate), "LIBSVM": (theirs, judged)})


@pytest.mark.parametrize("kernel", DEFINITE)
def test_without_offset_all_solvers_and_rules_agree_with_liblinear_on_the_features_of_the_kernel(kernel):
    """LIBSVM has no such problem. With K = F F' it is the linear one on the rows of F."""
    problem = problem_of(kernel, False)
    values, vectors = np.linalg.eigh(gram(problem))
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    linear = LinearProblem.build(features, problem.y, 2.0, Hinge())
    model = sklearn.svm.LinearSVC(C=2.0, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0)
    theirs = model.fit(features, problem.y).coef_[0]
    for variant, solution in answers(kernel, False).items():
        judged = certify(linear, theirs, solution.alpha)
        distance = np.linalg.norm(features.T @ (solution.alpha * problem.y) - theirs)
        assert judged.relative_gap < 1e-5, variant
        assert distance <= solution.certificate.distance_bound + judged.distance_bound + 1e-6, variant


@problems
@offsets
def test_every_solver_is_certified_on_awkward_problems_and_agrees_with_the_others(name, has_offset):
    problem = PROBLEMS[name](has_offset)
    found = {}
    for variant, solver in VARIANTS.items():
        if accepts(solver, problem):
            solution = solve(problem, solver, tol=1e-6, max_seconds=60.0)
            assert solution.status is Status.CERTIFIED, variant
            found[variant] = solution.alpha, solution.certificate
    assert_agreement(problem, found)


@solvers
@offsets
def test_the_order_of_the_samples_and_the_names_of_the_classes_do_not_matter(solver, has_offset):
    problem = problem_of("rbf", has_offset)
    if not accepts(VARIANTS[_first(solver)], problem):
        return
    order = np.random.default_rng(0).permutation(60)
    X, y, kernel = problem.rows.matrix, problem.y, problem.kernel
    plain = solve(problem, solver, tol=TOL)
    other = solve(KernelProblem.build(X[order], -y[order], 2.0, kernel, has_offset), solver, tol=TOL)
    back = np.empty(60)
    back[order] = other.alpha
    assert_agreement(problem, {"plain": (plain.alpha, plain.certificate), "changed": (back, other.certificate)})
    assert abs(plain.b + other.b) < 1e-3


@solvers
@offsets
def test_a_sample_twice_is_a_sample_of_twice_the_weight(solver, has_offset):
    problem = problem_of("polynomial", has_offset)
    if not accepts(VARIANTS[_first(solver)], problem):
        return
    X, y, kernel = problem.rows.matrix, problem.y, problem.kernel
    doubled = KernelProblem.build(X, y, 4.0, kernel, has_offset)
    twice = solve(KernelProblem.build(np.vstack([X, X]), np.tile(y, 2), 2.0, kernel, has_offset), solver, tol=TOL)
    once = solve(doubled, solver, tol=TOL)
    merged = twice.alpha[:60] + twice.alpha[60:]
    assert_agreement(doubled, {"once": (once.alpha, once.certificate), "twice": (merged, twice.certificate)})


def _first(solver: str) -> str:
    return next(variant for variant in VARIANTS if variant.split(",")[0] == solver)


@kernels
@solvers
@pytest.mark.parametrize("shrinking", [True, False])
def test_the_estimator_with_every_solver_and_kernel_is_libsvms(kernel, solver, shrinking):
    """|f(x) - f'(x)| <= |w - w'| k(x, x)^1/2 without the offset; the sigmoid kernel has no bound."""
    X, y = samples()
    K, parameters = matrix_of(kernel, X), LIBSVM[kernel]
    ours = SVC(C=2.0, tol=TOL, solver=solver, shrinking=shrinking, **parameters).fit(K, y)
    theirs = sklearn.svm.SVC(C=2.0, tol=1e-9, **parameters).fit(K, y)
    problem = problem_of(kernel, True)
    judged = certify_kernel(problem, libsvm(kernel, 2.0)).certificate
    outputs = [model.decision_function(K) - model.intercept_ for model in (ours, theirs)]
    bound = (ours.certificate_.distance_bound + judged.distance_bound) * np.sqrt(np.abs(problem.diagonal))
    assert np.all(np.abs(outputs[0] - outputs[1]) <= bound + 1e-6)
    assert ours.decision_function(K) == pytest.approx(theirs.decision_function(K), abs=1e-2)
    assert np.array_equal(ours.predict(K), theirs.predict(K))
