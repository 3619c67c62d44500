"""The gap ball and the rules that follow from it, against solutions found by trying every partition of the samples."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.certificate.kernel import certify_kernel
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Linear, Polynomial
from maxmargin.problem.offset import best_offsets, offset_interval, offset_level
from maxmargin.screening.rules import f_safe_rule, gap_ball, gap_terms, gradient_reach, safe_rule, screen, screen_with_offset

KERNELS = (Linear(), RBF(0.7), Polynomial(0.5, 1.0, 2))
problems = given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 5),
    kernel=st.sampled_from(KERNELS),
    C=st.sampled_from([0.05, 1.0, 20.0]),
    near=st.sampled_from([0.0, 1e-6, 1e-3, 0.03, 0.3, 1.0]),
)
fast = settings(max_examples=60, deadline=None)


def small_problem(seed: int, n: int, kernel, C: float, has_offset: bool) -> KernelProblem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    X += 0.8 * y[:, None]
    costs = C * rng.choice([0.5, 1.0, 3.0], n) if seed % 2 else np.full(n, C)
    return KernelProblem.build(X, y, costs, kernel, has_offset)


def gram(problem: KernelProblem) -> np.ndarray:
    everyone = np.arange(problem.n_samples)
    return problem.gram(everyone, everyone)


def brute_force(problem: KernelProblem) -> np.ndarray:
    """The best feasible alpha among the stationary points of all 3^n partitions into at 0, at C and free."""
    n, y, C = problem.n_samples, problem.y.astype(float), problem.C
    Q = np.outer(y, y) * gram(problem)
    best, found = -np.inf, np.zeros(n)
    for kinds in product((0, 1, 2), repeat=n):
        where = np.array(kinds)
        alpha = np.where(where == 1, C, 0.0)
        free = where == 2
        if free.any():
            right = 1.0 - Q[free] @ alpha
            matrix = Q[np.ix_(free, free)]
            if problem.has_offset:
                matrix = np.block([[matrix, y[free][:, None]], [y[free][None, :], np.zeros((1, 1))]])
                right = np.append(right, -(alpha @ y))
            alpha[free] = np.linalg.lstsq(matrix, right, rcond=None)[0][: free.sum()]
        slack = 1e-10 * C
        if np.any(alpha < -slack) or np.any(alpha > C + slack) or (problem.has_offset and abs(alpha @ y) > 1e-13 * C.max()):
            continue
        alpha = np.clip(alpha, 0.0, C)
        dual = alpha.sum() - 0.5 * alpha @ Q @ alpha
        if dual > best:
            best, found = dual, alpha
    return found


def feasible_point(problem: KernelProblem, optimum: np.ndarray, near: float, seed: int) -> np.ndarray:
    """A random feasible alpha, drawn towards the optimum: all the way for near = 0."""
    rng = np.random.default_rng(seed + 1)
    alpha = problem.C * np.clip(rng.uniform(-0.4, 1.4, problem.n_samples), 0.0, 1.0)
    if problem.has_offset:
        sums = {sign: alpha[problem.y == sign].sum() for sign in (1, -1)}
        heavier = max(sums, key=sums.__getitem__)
        if sums[heavier] > 0.0:
            alpha[problem.y == heavier] *= sums[-heavier] / sums[heavier]
    return near * alpha + (1.0 - near) * optimum


def kinks_of(problem: KernelProblem, alpha: np.ndarray) -> np.ndarray:
    return problem.y - gram(problem) @ (alpha * problem.y)


def gap_of(problem: KernelProblem, alpha: np.ndarray, chosen: np.ndarray) -> float:
    """Of the problem in which all but the chosen samples are fixed where they are."""
    y, C, kinks = problem.y[chosen], problem.C[chosen], kinks_of(problem, alpha)[chosen]
    b = best_offsets(kinks, C, offset_level(y, alpha[chosen], C)).middle if problem.has_offset else 0.0
    return float(gap_terms(y * (kinks - b), alpha[chosen], C).sum())


ROUNDING = 1e-9
"""What the brute force, by least squares on singular systems, leaves."""


@pytest.mark.parametrize("has_offset", [False, True])
@problems
@fast
def test_w_is_no_farther_from_the_optimum_than_the_root_of_the_gap(has_offset, seed, n, kernel, C, near):
    problem = small_problem(seed, n, kernel, C, has_offset)
    optimum = brute_force(problem)
    alpha = feasible_point(problem, optimum, near, seed)
    signed = (alpha - optimum) * problem.y
    distance = np.sqrt(max(0.0, signed @ gram(problem) @ signed))
    gap = gap_of(problem, alpha, np.arange(n))
    assert gap == pytest.approx(certify_kernel(problem, alpha).certificate.gap, rel=1e-6, abs=ROUNDING * C)
    assert distance <= gap_ball(gap) + np.sqrt(ROUNDING * (1.0 + C))


@problems
@fast
def test_a_safely_screened_sample_is_at_that_bound_of_the_brute_force_solution(seed, n, kernel, C, near):
    problem = small_problem(seed, n, kernel, C, False)
    optimum = brute_force(problem)
    alpha = feasible_point(problem, optimum, near, seed)
    gap = gap_of(problem, alpha, np.arange(n)) + ROUNDING * C
    screened = safe_rule(problem.y * kinks_of(problem, alpha), problem.diagonal, gap)
    assert np.all(optimum[screened.at_zero] <= 1e-7 * C)
    assert np.all(optimum[screened.at_C] >= (problem.C * (1 - 1e-7))[screened.at_C])


@problems
@fast
def test_with_an_offset_too_given_an_interval_that_holds_every_optimal_one(seed, n, kernel, C, near):
    problem = small_problem(seed, n, kernel, C, True)
    optimum = brute_force(problem)
    alpha = feasible_point(problem, optimum, near, seed)
    kinks, level = kinks_of(problem, alpha), offset_level(problem.y, alpha, problem.C)
    reach = gradient_reach(problem.diagonal, gap_ball(gap_of(problem, alpha, np.arange(n)) + ROUNDING * C)) + ROUNDING
    offsets = offset_interval(kinks, problem.C, level, reach, 1e-12 * C)
    optimal = best_offsets(kinks_of(problem, optimum), problem.C, level)
    assert offsets.low <= optimal.low <= optimal.high <= offsets.high
    screened = screen_with_offset(kinks, problem.y, reach, offsets)
    assert np.all(optimum[screened.at_zero] <= 1e-7 * C)
    assert np.all(optimum[screened.at_C] >= (problem.C * (1 - 1e-7))[screened.at_C])


@pytest.mark.parametrize("has_offset", [False, True])
@problems
@fast
def test_samples_fixed_at_their_optimal_bounds_leave_a_problem_with_the_same_optimum(has_offset, seed, n, kernel, C, near):
    problem = small_problem(seed, n, kernel, C, has_offset)
    optimum = brute_force(problem)
    fixed = ((optimum == 0.0) | (optimum == problem.C)) & (np.random.default_rng(seed).random(n) < 0.5)
    alpha = feasible_point(problem, optimum, near, seed)
    alpha[fixed] = optimum[fixed]
    left = np.flatnonzero(~fixed)
    if len(left) == 0 or (has_offset and abs(alpha @ problem.y) > 1e-12 * C):
        return
    gap = gap_of(problem, alpha, left) + ROUNDING * C
    signed = (alpha - optimum) * problem.y
    assert np.sqrt(max(0.0, signed @ gram(problem) @ signed)) <= gap_ball(gap) + np.sqrt(ROUNDING)
    y, costs, kinks = problem.y[left], problem.C[left], kinks_of(problem, alpha)[left]
    reach = gradient_reach(problem.diagonal[left], gap_ball(gap)) + ROUNDING
    if has_offset:
        offsets = offset_interval(kinks, costs, offset_level(y, alpha[left], costs), reach, 1e-12 * C)
        whole = best_offsets(kinks_of(problem, optimum), problem.C, offset_level(problem.y, optimum, problem.C))
        assert offsets.low <= whole.low + ROUNDING
        assert whole.high <= offsets.high + ROUNDING
        screened = screen_with_offset(kinks, y, reach, offsets)
    else:
        screened = screen(y * kinks, reach)
    assert np.all(optimum[left][screened.at_zero] <= 1e-7 * C)
    assert np.all(optimum[left][screened.at_C] >= (costs * (1 - 1e-7))[screened.at_C])


def test_the_rules_do_remove_something():
    """The tests above are not empty: near the optimum every sample off the margin is screened."""
    removed = 0
    for seed in range(30):
        for has_offset in (False, True):
            problem = small_problem(seed, 5, KERNELS[seed % 3], 1.0, has_offset)
            optimum = brute_force(problem)
            kinks, level = kinks_of(problem, optimum), offset_level(problem.y, optimum, problem.C)
            reach = gradient_reach(problem.diagonal, 1e-4)
            offsets = offset_interval(kinks, problem.C, level, reach)
            with_offset = screen_with_offset(kinks, problem.y, reach, offsets)
            screened = with_offset if has_offset else screen(problem.y * kinks, reach)
            removed += int(np.count_nonzero(screened.at_zero | screened.at_C))
    assert removed > 60


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), even=st.booleans(), ties=st.booleans())
@settings(max_examples=100, deadline=None)
def test_the_best_offsets_are_all_the_minimisers_of_the_primal(seed, n, even, ties):
    rng = np.random.default_rng(seed)
    y, kinks = np.where(rng.random(n) < 0.5, 1, -1), rng.integers(-3, 4, n) / 2.0 if ties else rng.normal(size=n)
    C = np.ones(n) if even else rng.integers(1, 5, n) / 4.0

    def loss(b: float) -> float:
        return float(C @ np.maximum(0.0, y * (kinks - b)))

    best = min(loss(b) for b in kinks)
    offsets = best_offsets(kinks, C, float(C[y > 0].sum()))
    assert loss(offsets.middle) == pytest.approx(best, abs=1e-12)
    for end, outwards in ((offsets.low, -1e-3), (offsets.high, 1e-3)):
        if np.isfinite(end):
            assert loss(end) == pytest.approx(best, abs=1e-12)
            assert loss(end + outwards) > best + 1e-5
        else:
            assert loss(np.sign(outwards) * 1e6) == pytest.approx(best, abs=1e-12)


@given(seed=st.integers(0, 10**6), f=st.floats(0.01, 0.99))
@settings(max_examples=40, deadline=None)
def test_a_smaller_f_removes_all_that_a_larger_one_does(seed, f):
    rng = np.random.default_rng(seed)
    gradient, diagonal = rng.normal(size=30), rng.exponential(size=30)
    safe, bold = safe_rule(gradient, diagonal, 0.4), f_safe_rule(gradient, diagonal, 0.4, f)
    assert np.all(bold.at_zero >= safe.at_zero)
    assert np.all(bold.at_C >= safe.at_C)
    assert not np.any(bold.at_zero & bold.at_C)


def test_nothing_is_screened_while_the_offset_can_be_anywhere():
    kinks, y, C = np.array([0.5, 2.0, -1.0]), np.ones(3), np.ones(3)
    offsets = offset_interval(kinks, C, float(C.sum()), np.zeros(3))
    assert offsets.high == np.inf
    assert not np.any(screen_with_offset(kinks, y, np.zeros(3), offsets).at_C)
