"""Random small problems and what must be true of their answers (for ``fuzz.soak``).

Every sample, cost and constant is a number of few bits, so that rational arithmetic is cheap. Among the problems are some with
equal samples, zeros, costs of zero, and a single class.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np

from fuzz.exact import (
    EXP_ERROR,
    Values,
    kernel_matrix,
    kernel_regression_values,
    kernel_values,
    linear_values,
    regression_values,
)
from fuzz.targets import ask
from maxmargin import SVC, LinearSVC
from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.kernel import certify_kernel
from maxmargin.certificate.linear import certify
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Linear, Polynomial, Precomputed
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber, LeastSquares, Loss, SquaredHinge
from maxmargin.problem.regression_losses import EpsilonInsensitive, Quantile, SquaredEpsilonInsensitive
from maxmargin.solving.driver import solve

TOLERANCES = (1e-1, 1e-3, 1e-3, 1e-6, 1e-6, 1e-9, 0.0)
COSTS = (0.0625, 0.5, 1.0, 2.0, 64.0)
LOSSES: tuple[Loss, ...] = (*[Hinge()] * 4, *[SquaredHinge()] * 3, *[LeastSquares()] * 2, Huber(0.25))
KERNEL_REGRESSION_LOSSES: tuple[Any, ...] = (EpsilonInsensitive(0.25), EpsilonInsensitive(0.0), Quantile(0.25), Quantile(0.5))
REGRESSION_LOSSES: tuple[Any, ...] = (
    *KERNEL_REGRESSION_LOSSES,
    SquaredEpsilonInsensitive(0.25),
    SquaredEpsilonInsensitive(0.0),
)
SOLVERS = (*["dcd"] * 6, "avsf", "newton", "auto")
SOLVERS_OF_HUBER = ("pruned-gradient", "pegasos")
SOLVERS_OF_A_FREE_INTERCEPT = ("newton", "newton", "newton", "auto")
KERNEL_SOLVERS = (*["batched-smo"] * 8, *["smo"] * 2, "irwls", "auto")
MOST_EPOCHS = 200
"""A solve that does not get there is judged where it stands."""
ANOTHER_ANSWER = 0.3
"""The share of the problems for which an answer that is no optimum is judged too."""
TEST_POINTS = 400
"""Labels that are checked for each model."""
REFERENCE_TOL = 1e-13
"""Of the tighter optimum."""
SLACK = Fraction(1, 2**40)
"""The share by which the scale of a relative gap may be rounded."""


def samples(chance: random.Random) -> tuple[Array, Array]:
    n, d = chance.randint(2, 6), chance.randint(1, 3)
    X = np.array([[chance.randint(-8, 8) * chance.choice((0.125, 0.125, 1.0)) for _ in range(d)] for _ in range(n)])
    if chance.random() < 0.2:
        X[-1] = X[0]
    y = np.array([chance.choice((-1, 1)) for _ in range(n)])
    if chance.random() < 0.9:
        y[0] = -y[-1]
    return X, y


def costs(chance: random.Random, n: int) -> Any:
    if chance.random() < 0.7:
        return chance.choice(COSTS)
    C = np.array([chance.choice((*COSTS, 0.0)) for _ in range(n)])
    return C if C.any() else 1.0


def linear_problem(chance: random.Random) -> LinearProblem:
    X, y = samples(chance)
    scaling = chance.choice((0.0, 1.0, 0.5, 4.0))
    penalises = not scaling or chance.random() < 0.6
    rows = Rows.from_matrix(X, check=False)  # what scikit-learn checks is true of X
    return LinearProblem.build(rows, y, costs(chance, len(y)), chance.choice(LOSSES), scaling, penalises)


def kernel_problem(chance: random.Random) -> KernelProblem:
    X, y = samples(chance)
    kernel = chance.choice((Linear(), RBF(0.5), RBF(4.0), Polynomial(0.5, 1.0, 2), Polynomial(1.0, 0.0, 3), Precomputed()))
    matrix = X @ X.T if isinstance(kernel, Precomputed) else X
    return KernelProblem.build(matrix, y, costs(chance, len(y)), kernel, chance.random() < 0.6, check=False)


def linear_case(chance: random.Random) -> dict[str, int]:
    problem, tol = linear_problem(chance), chance.choice(TOLERANCES)
    solver = chance.choice(_solvers_for(problem))
    try:
        solution = solve(problem, solver, tol=tol, max_epochs=MOST_EPOCHS)
    except ValueError as error:  # a solver that says that it cannot: no problem that was checked
        ask("cannot fit" in str(error), f"{solver}: {error}")
        return {"cases": 0, "not solved": 1}
    values = linear_values(problem, solution.w, solution.alpha)
    is_two_sided = problem.penalizes_intercept
    check_certificate(solution.certificate, values, tol, solution.status.is_certified, is_two_sided, problem.loss)
    if chance.random() > ANOTHER_ANSWER:
        return {}
    w = solution.w * chance.choice((0.0, 0.5, 1.25))
    other = certify(problem, w, solution.alpha)
    check_certificate(other, linear_values(problem, w, solution.alpha), 0.0, False, is_two_sided, problem.loss)
    return {}


def _solvers_for(problem: LinearProblem) -> tuple[str, ...]:
    if isinstance(problem.loss, Huber):
        return SOLVERS_OF_HUBER
    return SOLVERS if problem.penalizes_intercept else SOLVERS_OF_A_FREE_INTERCEPT


def kernel_case(chance: random.Random) -> None:
    problem, tol = kernel_problem(chance), chance.choice(TOLERANCES)
    solution = solve(problem, chance.choice(KERNEL_SOLVERS), tol=tol, max_epochs=MOST_EPOCHS)
    K = kernel_matrix(problem)
    values = kernel_values(problem, K, solution.alpha, solution.b)
    check_certificate(solution.certificate, values, tol, solution.status.is_certified, False, problem.kernel)
    if chance.random() > ANOTHER_ANSWER:
        return
    alpha = problem.nearest_feasible(solution.alpha * chance.choice((0.0, 0.5, 1.0)))
    verdict = certify_kernel(problem, alpha)
    check_certificate(verdict.certificate, kernel_values(problem, K, alpha, verdict.b), 0.0, False, False, problem.kernel)


def regression_case(chance: random.Random) -> None:
    """A regression problem, linear or with a kernel, and the certificate of its answer."""
    X, _ = samples(chance)
    y = np.array([chance.randint(-16, 16) * 0.25 for _ in X])
    (linear_regression if chance.random() < 0.5 else kernel_regression)(chance, X, y)


def linear_regression(chance: random.Random, X: Array, y: Array) -> None:
    scaling = chance.choice((0.0, 1.0, 0.5, 4.0))
    penalises = not scaling or chance.random() < 0.6
    rows, C, tol = Rows.from_matrix(X, check=False), costs(chance, len(y)), chance.choice(TOLERANCES)
    problem = LinearProblem.build(rows, y, C, chance.choice(REGRESSION_LOSSES), scaling, penalises)
    solver = chance.choice(SOLVERS if penalises else SOLVERS_OF_A_FREE_INTERCEPT)
    solution = solve(problem, solver, tol=tol, max_epochs=MOST_EPOCHS)
    values = regression_values(problem, solution.w, solution.alpha)
    check_certificate(solution.certificate, values, tol, solution.status.is_certified, penalises, problem.loss)


def kernel_regression(chance: random.Random, X: Array, y: Array) -> None:
    kernel = chance.choice((Linear(), RBF(0.5), RBF(4.0), Polynomial(0.5, 1.0, 2)))
    C, loss, tol = costs(chance, len(y)), chance.choice(KERNEL_REGRESSION_LOSSES), chance.choice(TOLERANCES)
    problem = KernelProblem.build(X, y, C, kernel, chance.random() < 0.6, loss=loss, check=False)
    solution = solve(problem, chance.choice(("batched-smo", "auto")), tol=tol, max_epochs=MOST_EPOCHS)
    values = kernel_regression_values(problem, kernel_matrix(problem), solution.alpha, solution.b)
    check_certificate(solution.certificate, values, tol, solution.status.is_certified, False, (problem.kernel, loss))


def check_certificate(
    certificate: Certificate, exact: Values, tol: float, is_certified: bool, is_two_sided: bool, what: Any
) -> None:
    """The gap is no smaller than the exact one, within the rounding error that the certificate says, and a status that says
    CERTIFIED is true. Without a free intercept the gap is no greater either. Where the objective is zero, CERTIFIED says that
    the gap is zero up to the rounding error."""
    if not np.isfinite(certificate.gap):  # it proves nothing, and says so
        ask(not is_certified and not certificate.is_proof, f"{what}: an infinite gap that is certified")
        return
    claimed, error = Fraction(certificate.gap), Fraction(certificate.rounding_error) + EXP_ERROR
    ask(exact.gap >= -EXP_ERROR, f"{what}: the dual value {float(exact.dual)} is above the primal {float(exact.primal)}")
    ask(exact.gap <= claimed + error, f"{what}: gap {float(exact.gap)}, claimed {certificate}")
    if is_two_sided:
        ask(exact.gap >= claimed - error, f"{what}: gap {float(exact.gap)}, claimed {certificate}")
    if is_certified and certificate.scale > 0.0:  # an objective of zero has no relative gap (docs/certificate.md)
        allowed = Fraction(tol) * exact.scale * (1 + SLACK) + EXP_ERROR
        ask(exact.gap <= allowed, f"{what}: certified for {tol}, but the gap is {float(exact.gap)} of {float(exact.scale)}")


def linear_labels_case(chance: random.Random) -> dict[str, int]:
    """Labels that a loose model proves, against those of the tighter optimum."""
    X, y = _cloud(chance)
    settings: dict[str, Any] = {
        "loss": chance.choice(("hinge", "squared_hinge")),
        "C": chance.choice(COSTS),
        "fit_intercept": chance.random() < 0.8,
        "penalize_intercept": chance.random() < 0.5,
        "intercept_scaling": chance.choice((1.0, 4.0)),
    }
    is_free = settings["fit_intercept"] and not settings["penalize_intercept"]
    solver = "newton" if is_free else "dcd"
    loose = LinearSVC(**settings, solver=solver, tol=10.0 ** -chance.randint(1, 7), sharp_proofs=chance.random() < 0.3)
    return compare_labels(loose.fit(X, y), LinearSVC(**settings, tol=REFERENCE_TOL).fit(X, y), chance)


def kernel_labels_case(chance: random.Random) -> dict[str, int]:
    X, y = _cloud(chance)
    settings: dict[str, Any] = {
        "kernel": chance.choice(("rbf", "rbf", "poly", "linear")),
        "C": chance.choice(COSTS),
        "gamma": chance.choice((0.25, 1.0)),
        "coef0": 1.0,
        "degree": 2,
        "fit_intercept": chance.random() < 0.7,
    }
    loose = SVC(**settings, solver=chance.choice(("smo", "batched-smo")), tol=10.0 ** -chance.randint(1, 7))
    return compare_labels(loose.fit(X, y), SVC(**settings, tol=REFERENCE_TOL).fit(X, y), chance)


def compare_labels(loose: Any, reference: Any, chance: random.Random) -> dict[str, int]:
    """A proved label is wrong where the reference proves another one. Where the reference proves nothing, its own label is
    compared, and a difference is open: the optimum may lie on either side."""
    points = np.random.default_rng(chance.randrange(2**32)).normal(size=(TEST_POINTS, loose.n_features_in_)) * 2.0
    labels, proved = loose.certified_predict(points)
    expected, is_sure = reference.certified_predict(points)
    wrong = proved & is_sure & (labels != expected)
    ask(not wrong.any(), f"{loose}: {int(wrong.sum())} proved labels that the optimum does not give")
    is_open = proved & ~is_sure & (labels != expected)
    return {"proved": int(proved.sum()) - int(is_open.sum()), "open": int(is_open.sum()), "not proved": int((~proved).sum())}


def _cloud(chance: random.Random) -> tuple[Array, Array]:
    """Overlapping classes, two or three of them."""
    rng = np.random.default_rng(chance.randrange(2**32))
    n_classes = chance.choice((2, 2, 2, 3))
    y = np.arange(30) % n_classes
    return rng.normal(size=(n_classes, 3))[y] + rng.normal(size=(30, 3)), y


def threads_case(chance: random.Random) -> None:
    """The same problem gives the same bits: again, and in several threads at a time."""
    problems = [linear_problem(chance) for _ in range(4)] + [kernel_problem(chance) for _ in range(4)]
    problems = [each for each in problems if not isinstance(each.loss, Huber)]
    tol = chance.choice(TOLERANCES)

    def answer(problem: Any) -> bytes:
        return solve(problem, tol=tol, max_epochs=MOST_EPOCHS).alpha.tobytes()

    alone = [answer(problem) for problem in problems]
    ask(alone == [answer(problem) for problem in problems], "a repeated solve gives another answer")
    with ThreadPoolExecutor(4) as pool:
        ask(alone == list(pool.map(answer, problems)), "a solve in a thread gives another answer")
