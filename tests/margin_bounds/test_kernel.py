"""The kernel form (6) of the margin bound: pruned losses equal those over all samples, at every call."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin.margin_bounds.kernel import KernelMargins
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Custom, Linear, Polynomial, Precomputed, Sigmoid
from tests.catalogue import labelled

KERNELS = {
    "rbf": RBF(0.3),
    "linear": Linear(),
    "polynomial": Polynomial(0.3, 1.0, 2),
    "function": Custom(lambda A, B: (1.0 + A @ B.T) ** 2),
}
cases = given(
    seed=st.integers(0, 10**6),
    kernel=st.sampled_from(sorted(KERNELS)),
    step=st.sampled_from([0.0, 1e-9, 1e-4, 1e-2, 0.3, 3.0]),
    n_changed=st.integers(0, 60),
    b_step=st.sampled_from([0.0, 1e-3, 0.7]),
)
fast = settings(max_examples=80, deadline=None)


def some_problem(seed: int, kernel: str) -> KernelProblem:
    X, y = labelled(60, 3, 0.5, seed)
    X[::9] = 0.0
    if seed % 3 == 0 and kernel in ("rbf", "linear", "polynomial"):
        X = sparse.csr_array(X)
    return KernelProblem.build(X, y, np.random.default_rng(seed).exponential(size=60), KERNELS[kernel])


def moved(problem: KernelProblem, seed: int, step: float, n_changed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    before = problem.C * np.clip(rng.uniform(-1.0, 1.4, 60), 0.0, 1.0)
    after = before.copy()
    chosen = rng.permutation(60)[:n_changed]
    after[chosen] += step * rng.normal(size=n_changed)
    return before, after


def all_margins(problem: KernelProblem, alpha: np.ndarray, b: float) -> np.ndarray:
    everyone = np.arange(problem.n_samples)
    return problem.y * (problem.gram(everyone, everyone) @ (alpha * problem.y) + b)


@cases
@fast
def test_pruned_losses_and_subgradients_equal_those_over_all_samples(seed, kernel, step, n_changed, b_step):
    problem = some_problem(seed, kernel)
    before, after = moved(problem, seed, step, n_changed)
    margins = all_margins(problem, after, 0.2 + b_step)
    results = []
    for evaluate in (KernelMargins.hinge, KernelMargins.zero_one, KernelMargins.below):
        index = KernelMargins(problem)
        index.sort(before, 0.2)
        results.append(evaluate(index, after, 0.2 + b_step))
    hinge, zero_one, below = results
    assert hinge.loss == pytest.approx(problem.C @ np.maximum(0.0, 1.0 - margins), rel=1e-10)
    assert zero_one.loss == pytest.approx(problem.C[margins < 0.0].sum(), rel=1e-12)
    assert np.array_equal(hinge.is_below, margins < 1.0)
    assert np.array_equal(below.is_below, margins < 1.0)
    assert np.array_equal(zero_one.is_below, margins < 0.0)
    assert zero_one.examined <= 60
    assert below.examined <= hinge.examined


@cases
@fast
def test_the_distance_is_that_of_equation_6_and_never_less(seed, kernel, step, n_changed, b_step):
    problem = some_problem(seed, kernel)
    before, after = moved(problem, seed, step, n_changed)
    index = KernelMargins(problem)
    index.sort(before, b_step)
    y, everyone = problem.y, np.arange(60)
    gram = problem.gram(everyone, everyone)
    signs = np.outer(y, y)
    written_out = np.outer(after, after) + np.outer(before, before) - 2.0 * np.outer(after, before)
    true = np.sqrt(max(0.0, float(np.sum(signs * gram * written_out))))
    distance, n_values = index.distance(after)
    changed = int(np.count_nonzero(after != before))
    assert distance >= true * (1.0 - 1e-6) - 1e-6 * (1.0 + np.abs(before).sum())
    assert n_values in (0, changed**2)
    if n_values:
        assert distance == pytest.approx(true, rel=1e-3, abs=1e-5 * (1.0 + np.abs(before).sum()))
    cheap = float(np.abs(after - before) @ np.sqrt(problem.diagonal))
    assert distance <= cheap * (1.0 + 1e-6) + 1e-6


def test_with_a_small_step_few_samples_are_examined_and_kernel_values_are_saved():
    X, y = labelled(2000, 3, 0.1, 1)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5))
    rng = np.random.default_rng(0)
    alpha = np.zeros(2000)
    alpha[rng.permutation(2000)[:300]] = rng.random(300)
    index = KernelMargins(problem)
    everything = index.sort(alpha, 0.1)
    assert everything == 2000 * 300
    after = alpha.copy()
    after[np.flatnonzero(alpha)[:10]] *= 1.001
    zero_one, hinge = index.zero_one(after, 0.1), index.hinge(after, 0.1)
    margins = all_margins(problem, after, 0.1)
    assert np.array_equal(zero_one.is_below, margins < 0.0)
    assert zero_one.examined < 0.02 * 2000
    assert zero_one.kernel_evaluations == zero_one.examined * 300 + 100 < 0.03 * everything
    assert hinge.examined == pytest.approx(np.count_nonzero(margins < 1.0), abs=40)


def test_a_move_of_b_alone_leaves_nothing_to_look_at_but_what_crosses_the_knee():
    problem = some_problem(1, "rbf")
    before, _ = moved(problem, 1, 0.0, 0)
    index = KernelMargins(problem)
    index.sort(before, 0.0)
    found = index.zero_one(before, 5.0)
    assert found.examined == 0
    assert np.array_equal(found.is_below, all_margins(problem, before, 5.0) < 0.0)


def test_bad_input_is_named():
    X, y = labelled(20, 3, 0.5, 0)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        KernelMargins(KernelProblem.build(X, y, 1.0, Sigmoid(0.1)))
    index = KernelMargins(KernelProblem.build(X, y, 1.0, RBF(0.1)))
    with pytest.raises(ValueError, match=r"call sort\(\) first"):
        index.distance(np.zeros(20))
    with pytest.raises(ValueError, match="alpha must be a vector of 20"):
        index.sort(np.zeros(3))
    with pytest.raises(ValueError, match="must be finite; b is nan"):
        index.sort(np.zeros(20), np.nan)


def test_a_precomputed_kernel_is_pruned_as_the_kernel_that_it_holds():
    problem = some_problem(2, "rbf")
    everyone = np.arange(60)
    same = KernelProblem.build(problem.gram(everyone, everyone), problem.y, problem.C, Precomputed())
    before, after = moved(problem, 2, 0.01, 5)
    results = []
    for each in (problem, same):
        index = KernelMargins(each)
        index.sort(before)
        results.append(index.hinge(after))
    assert results[0].loss == pytest.approx(results[1].loss, rel=1e-12)
    assert results[0].examined == results[1].examined


@given(seed=st.integers(0, 10**6), step=st.sampled_from([1e-5, 1e-3, 0.1]), is_step=st.booleans())
@settings(max_examples=20, deadline=None)
def test_along_a_path_every_loss_is_exact_and_margins_are_stored_anew_when_it_pays(seed, step, is_step):
    problem = some_problem(seed, "rbf")
    rng = np.random.default_rng(seed)
    index = KernelMargins(problem)
    alpha, b = problem.C * np.clip(rng.uniform(-1.0, 1.4, 60), 0.0, 1.0), 0.1
    for _ in range(12):
        found = index.zero_one(alpha, b) if is_step else index.hinge(alpha, b)
        margins = all_margins(problem, alpha, b)
        losses = (margins < 0.0) if is_step else np.maximum(0.0, 1.0 - margins)
        assert found.loss == pytest.approx(problem.C @ losses, rel=1e-10)
        assert np.array_equal(found.is_below, margins < (0.0 if is_step else 1.0))
        alpha, b = alpha * (1.0 + step * rng.normal(size=60)), b + step * rng.normal()
    assert 1 <= index.sorts <= 12
    if step == 1e-5:
        assert index.sorts < 6


def test_margins_are_stored_anew_when_less_than_half_is_left_out():
    X, y = labelled(400, 3, 0.1, 1)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5))
    alpha = np.where(np.arange(400) % 7 == 0, 1.0, 0.0)
    index = KernelMargins(problem)
    assert index.zero_one(alpha).examined == 400
    assert index.zero_one(alpha).examined == 0
    far = np.where(np.arange(400) % 5 == 0, 2.0, 0.0)
    assert index.zero_one(far).examined > 200
    assert index.sorts == 1
    assert index.zero_one(far).examined == 400
    assert index.sorts == 2
    assert index.zero_one(far).examined == 0
