"""The theorems of the papers on constructed problems: Theorems 1 and 2 of Hsieh et al. (2008), the linear convergence of
Glasmachers and Dogan (2013), and Proposition 4.1 of Zimmert et al. (2015)."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import AVSF, DCD, LinearProblem, Order, solve
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.screening.rules import gap_ball
from maxmargin.solvers.base import Budget
from tests.catalogue import labelled
from tests.plain_papers import Box

NEVER = 1e-300
"""An epsilon that no sweep meets."""
LOSSES = {"hinge": (Hinge(), Box.hinge), "squared_hinge": (SquaredHinge(), Box.squared_hinge)}
losses = pytest.mark.parametrize("loss_name", LOSSES)
DESCENTS = {
    "cyclic": DCD(Order.CYCLIC, None, NEVER, stop="paper"),
    "permuted": DCD(Order.PERMUTED, None, NEVER, stop="paper"),
    "avsf": AVSF(epsilon=NEVER, stop="paper"),
}
descents = pytest.mark.parametrize("descent", DESCENTS)


def alphas_of(problem, solver, start, sweeps, seed=0):
    """alpha after every sweep, the start first."""
    state = solver.init(problem, start, seed)
    alphas = [state.samples["alpha"].copy()]
    for _ in range(sweeps):
        solver.advance(problem, state, Budget(problem.n_samples, 0.0))
        alphas.append(state.samples["alpha"].copy())
    return alphas


def errors_of(box, alphas, optimum):
    """f(alpha^k) - f(alpha*), which is never negative but for rounding."""
    least = box.objective(optimum)
    return np.array([max(box.objective(alpha) - least, 0.0) for alpha in alphas])


def overlapping(loss_name, C=1.0, d=4):
    X, y = labelled(40, d, 1.0, 11)
    loss, box = LOSSES[loss_name]
    return LinearProblem.build(X, y, C, loss), box(X, y, C)


def two_samples(cosine):
    """Two unit vectors of one class: Q = [[1, c], [c, 1]], and alpha* = 1 / (1 + c) for both."""
    X = np.array([[1.0, 0.0], [cosine, math.sqrt(1.0 - cosine**2)]])
    y = np.array([1, 1])
    return LinearProblem.build(X, y, 100.0, Hinge()), Box.hinge(X, y, 100.0), np.full(2, 1.0 / (1.0 + cosine))


@pytest.mark.parametrize("cosine", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("start", [(0.0, 0.0), (0.9, 0.2), (0.4, 0.7)])
def test_two_samples_at_an_angle_converge_by_the_fourth_power_of_its_cosine_in_every_sweep(cosine, start):
    """Theorem 1 with its mu: Gauss and Seidel's error in the second alpha falls by c^2 a sweep, and f is quadratic in it."""
    problem, box, optimum = two_samples(cosine)
    errors = errors_of(box, alphas_of(problem, DESCENTS["cyclic"], np.array(start), 8), optimum)[1:]
    ratios = [after / before for before, after in pairwise(errors) if after > 1e-13]
    assert ratios
    assert ratios == pytest.approx([cosine**4] * len(ratios), rel=1e-2)


@losses
@descents
@pytest.mark.parametrize("seed", range(4))
def test_f_converges_linearly_from_any_start(loss_name, descent, seed):
    """Theorem 1, and section 3 of Glasmachers and Dogan: as many sweeps for the next digits as for the last ones, or fewer."""
    problem, box = overlapping(loss_name)
    start = np.random.default_rng(seed).uniform(0.0, 1.0, 40)
    optimum = solve(problem, tol=1e-14).alpha
    errors = errors_of(box, alphas_of(problem, DESCENTS[descent], start, 1500, seed), optimum)
    first = errors[0]
    needed = [int(np.argmax(errors <= goal * first)) for goal in (1e-3, 1e-6, 1e-9)]
    assert 0 < needed[0] < needed[1] < needed[2]
    assert needed[2] - needed[1] <= 2 * (needed[1] - needed[0]) + 10
    assert np.all(np.diff(errors) <= 1e-13 * (1.0 + abs(box.objective(optimum))))


@losses
@descents
def test_halving_epsilon_again_and_again_adds_a_bounded_number_of_sweeps_each_time(loss_name, descent):
    """O(log(1 / epsilon)): the sweeps to an epsilon-accurate alpha grow no faster than the digits of epsilon."""
    problem, box = overlapping(loss_name, C=10.0)
    optimum = solve(problem, tol=1e-14).alpha
    errors = errors_of(box, alphas_of(problem, DESCENTS[descent], None, 8000), optimum)
    goals = abs(box.objective(optimum)) * 0.5 ** np.arange(4, 28)
    needed = np.array([np.argmax(errors <= goal) for goal in goals])
    assert np.all(errors[needed] <= goals)
    early, late = np.diff(needed)[:12], np.diff(needed)[12:]
    assert late.max() <= 3 * max(early.max(), 1) + 3


@descents
def test_alpha_itself_converges_where_many_alphas_are_optimal(descent):
    """Theorem 1, "quite remarkable": with every row twice no alpha is the only optimal one, and yet the sequence has a limit,
    which depends on the start, while w does not."""
    X, y = labelled(20, 3, 1.0, 12)
    X, y = np.vstack([X, X]), np.concatenate([y, y])
    problem = LinearProblem.build(X, y, 1.0, Hinge())
    ends = []
    for seed in (1, 2):
        start = np.random.default_rng(seed).uniform(0.0, 1.0, 40)
        alphas = alphas_of(problem, DESCENTS[descent], start, 3000)
        moved = [float(np.abs(alpha - alphas[-1]).max()) for alpha in alphas]
        assert moved[1500] <= 1e-9 < moved[1]
        ends.append(alphas[-1])
    assert np.abs(ends[0] - ends[1]).max() > 0.1
    assert (ends[0] * y) @ X == pytest.approx((ends[1] * y) @ X, abs=1e-6)


@losses
@descents
def test_a_variable_that_is_at_its_bound_with_a_slope_against_it_is_fixed_there_after_some_step(loss_name, descent):
    """Theorem 2, properties 1 and 2, after every single step."""
    problem, box = overlapping(loss_name)
    optimum = solve(problem, tol=1e-14).alpha
    slope = box.gradient(optimum)
    at_zero, at_U = (optimum == 0.0) & (slope > 1e-3), (optimum == box.U) & (slope < -1e-3)
    bound = np.where(at_U, box.U, 0.0)
    state = DESCENTS[descent].init(problem, np.random.default_rng(0).uniform(0.0, 1.0, 40), 0)
    last_away = np.zeros(40, dtype=int)
    for step in range(1, 12_001):
        DESCENTS[descent].advance(problem, state, Budget(1, 0.0))
        last_away[state.samples["alpha"] != bound] = step
    settled = at_zero | at_U
    assert settled.sum() >= 5
    assert at_U.any() == (loss_name == "hinge")
    assert last_away[settled].max() < 6000
    assert np.all(last_away[~settled] == 12_000)


@losses
@descents
def test_the_violation_tends_to_zero(loss_name, descent):
    """Theorem 2, property 3: M - m, and AVSF's v, fall below any epsilon, so that the stopping rules end every run."""
    problem, _ = overlapping(loss_name)
    state = DESCENTS[descent].init(problem, None, 0)
    violations = []
    for _ in range(1000):
        DESCENTS[descent].advance(problem, state, Budget(problem.n_samples, 0.0))
        violations.append(state.violation)
    for epsilon in (0.1, 1e-3, 1e-6, 1e-9):
        assert min(violations) < epsilon
    assert max(violations[500:]) < 1e-3 * max(violations[:3])


@losses
@pytest.mark.parametrize("epsilon", [0.1, 1e-3, 1e-6])
def test_rule_17_leaves_no_greater_violation_than_epsilon_and_what_the_sweep_itself_moved(loss_name, epsilon):
    """What the rule promises of the answer: each gradient was seen within its sweep, and w has moved little since."""
    problem, box = overlapping(loss_name)
    solver = DCD(epsilon=epsilon, stop="paper")
    answer = solve(problem, solver).alpha
    projected = [box.projected(G, alpha) for G, alpha in zip(box.gradient(answer), answer, strict=True)]
    norms = np.linalg.norm(box.rows, axis=1)
    most_moved = epsilon * np.sum(1.0 / np.maximum(norms, 1e-3)) * norms.max()  # |delta alpha_i| |x_i| <= epsilon / |x_i|
    assert max(map(abs, projected)) <= epsilon + most_moved


def features(kernel, seed):
    """Points and labels in a feature space of finite dimension: fewer dimensions than samples, or as many."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(7, 2)), np.where(np.arange(7) % 2, 1.0, -1.0)
    return (X if kernel == "semidefinite" else np.linalg.cholesky(rbf_kernel(X) + 1e-9 * np.eye(7))), y


def least_gap(phi, y, C, w):
    """G_P(w) = P(w) - max {D(alpha): omega(alpha) = w}: the maximum is a linear program."""
    rows = phi * y[:, None]
    best = linprog(-np.ones(len(y)), A_eq=rows.T, b_eq=w, bounds=(0.0, C), method="highs")
    assert best.success
    return float(C * np.maximum(0.0, 1.0 - rows @ w).sum() + w @ w + best.fun)


@pytest.mark.parametrize("kernel", ["semidefinite", "definite"])
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_gap_is_strongly_convex_with_parameter_two(kernel, C, seed):
    """Proposition 4.1: along every chord G_P lies below it by t (1 - t) |w_1 - w_2|^2 or more; and no gap is below G_P."""
    phi, y = features(kernel, seed)
    rng = np.random.default_rng(seed + 100)
    alphas = [rng.uniform(0.0, C, 7) for _ in range(2)]
    one, other = (((alpha * y) @ phi) for alpha in alphas)
    ends = [least_gap(phi, y, C, w) for w in (one, other)]
    for t in (0.1, 0.5, 0.8):
        chord = t * ends[0] + (1.0 - t) * ends[1]
        below = least_gap(phi, y, C, t * one + (1.0 - t) * other)
        assert below <= chord - t * (1.0 - t) * float((one - other) @ (one - other)) + 1e-8 * (1.0 + abs(chord))
    for alpha, w, least in zip(alphas, (one, other), ends, strict=True):
        gap = C * np.maximum(0.0, 1.0 - y * (phi @ w)).sum() + w @ w - alpha.sum()
        assert gap >= least - 1e-8 * (1.0 + gap)


@pytest.mark.parametrize("kernel", ["semidefinite", "definite"])
@pytest.mark.parametrize("seed", range(4))
def test_the_parameter_two_cannot_be_raised(kernel, seed):
    """Between two w in the same linear piece of the loss and of the program, the bound is met with equality."""
    phi, y = features(kernel, seed)
    alpha = np.full(7, 0.5)
    step = 1e-4 * np.random.default_rng(seed).uniform(-1.0, 1.0, 7)
    one, other = (((alpha + sign * step) * y) @ phi for sign in (1.0, -1.0))
    ends = [least_gap(phi, y, 1.0, w) for w in (one, other)]
    sagitta = 0.5 * sum(ends) - least_gap(phi, y, 1.0, 0.5 * (one + other))
    squared = float((one - other) @ (one - other))
    assert sagitta >= 0.25 * squared - 1e-12
    if kernel == "definite":  # alpha is the only one for its w, and the program linear
        assert sagitta == pytest.approx(0.25 * squared, rel=1e-3)


def test_the_least_gap_is_zero_at_the_optimum_and_w_lies_within_its_root_elsewhere():
    """What Corollary 4.2 makes of the proposition."""
    phi, y = features("semidefinite", 0)
    best = solve(LinearProblem.build(phi, y, 1.0, Hinge()), tol=1e-14).w
    assert least_gap(phi, y, 1.0, best) == pytest.approx(0.0, abs=1e-8)
    for seed in range(10):
        w = (np.random.default_rng(seed).uniform(0.0, 1.0, 7) * y) @ phi
        assert np.linalg.norm(w - best) <= gap_ball(least_gap(phi, y, 1.0, w)) + 1e-7
