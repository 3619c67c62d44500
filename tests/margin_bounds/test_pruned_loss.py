"""The bound on the change in the margin, and the pruned evaluation against brute force at every call."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin.margin_bounds.bound import HINGE, SQUARED_HINGE, ZERO_ONE, huber, margin_bounds, pieces_of
from maxmargin.margin_bounds.pruned_loss import PrunedLoss, PruningPolicy
from maxmargin.margin_bounds.spheres import Spheres
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber, LeastSquares, SquaredHinge
from tests.catalogue import PROBLEMS, labelled

SHAPES = {"hinge": HINGE, "huber": huber(0.05), "zero-one": ZERO_ONE, "squared-hinge": SQUARED_HINGE}
SPHERES = {
    "origin": Spheres.around_origin,
    "classes": Spheres.around_classes,
    "clusters": lambda problem: Spheres.around_clusters(problem, 5),
}
shapes = pytest.mark.parametrize("shape_name", SHAPES)
spheres = pytest.mark.parametrize("spheres_name", SPHERES)


def made(n=400, d=7, *, is_sparse=False, scaling=0.0, weighted=False, seed=0) -> LinearProblem:
    X, y = labelled(n, d, 1.0, seed)
    X += 1.0
    rng = np.random.default_rng(seed)
    X[rng.random(X.shape) < 0.5] = 0.0
    C = rng.exponential(size=n) if weighted else 1.0
    return LinearProblem.build(sparse.csr_array(X) if is_sparse else X, y, C, intercept_scaling=scaling)


LAYOUTS = {
    "dense": lambda seed: made(seed=seed),
    "sparse": lambda seed: made(is_sparse=True, seed=seed),
    "dense with offset": lambda seed: made(scaling=2.0, seed=seed),
    "sparse with offset and weights": lambda seed: made(is_sparse=True, scaling=1.0, weighted=True, seed=seed),
}
layouts = pytest.mark.parametrize("layout", LAYOUTS)


def brute_force(problem: LinearProblem, shape, w):
    """Loss, and sum_i C_i s_i y_i x_i, from the definition alone."""
    margins = problem.margins(w[: problem.n_weights])
    if shape is ZERO_ONE:
        return float(problem.C @ (margins < 0.0)), np.zeros_like(w)
    if shape is SQUARED_HINGE:
        slack = np.maximum(0.0, 1.0 - margins)
        loss, slope = slack**2, 2.0 * slack
    elif shape is HINGE:
        loss, slope = np.maximum(0.0, 1.0 - margins), (margins < 1.0).astype(float)
    else:
        h = 1.0 - shape.low
        loss = np.where(margins <= 1 - h, 1 - margins, np.maximum(0.0, 1 + h - margins) ** 2 / (4 * h))
        slope = np.clip((1 + h - margins) / (2 * h), 0.0, 1.0)
    weights = np.zeros_like(w)
    weights[: problem.n_weights] = problem.weights(problem.C * slope)
    return float(problem.C @ loss), weights


def walk(problem: LinearProblem, steps: int, seed: int, smallest=1e-4):
    """A w that moves fast, then slowly, then jumps, and also stands still and goes back."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=problem.rows.n_features + 1)
    back = w.copy()
    for k in range(steps):
        size = 10.0 ** rng.uniform(np.log10(smallest), 0.0) if k % 7 else 0.0
        w = back.copy() if k % 11 == 10 else w + size * rng.normal(size=len(w))
        yield w.copy()


def assert_exact(problem, shape, evaluation, w):
    loss, weights = brute_force(problem, shape, w)
    greatest = np.sqrt(problem.rows.squared_norms(problem.intercept_scaling).max())
    scale, margin = float(problem.C.sum()), 1.0 + np.linalg.norm(w) * greatest
    rounding = 1e-13 * scale * margin
    assert evaluation.loss == pytest.approx(loss, rel=1e-12, abs=rounding)
    steepness = max(1.0, shape.curvature * margin)
    assert evaluation.weights[: problem.n_weights] == pytest.approx(
        weights[: problem.n_weights], rel=1e-11, abs=1e-13 * scale * steepness * (1.0 + greatest)
    )


@layouts
@shapes
@spheres
def test_the_pruned_evaluation_equals_brute_force_at_every_call(layout, shape_name, spheres_name):
    shape = SHAPES[shape_name]
    examined = 0
    for seed in range(3):
        problem = LAYOUTS[layout](seed)
        loss = PrunedLoss(problem, shape, spheres=SPHERES[spheres_name](problem))
        for w in walk(problem, 60, seed):
            evaluation = loss.evaluate(w)
            assert_exact(problem, shape, evaluation, w)
            examined += evaluation.examined
    assert examined < 3 * 60 * 400  # something was pruned


@layouts
@shapes
def test_a_sorted_index_changes_nothing(layout, shape_name):
    """Small steps, so that the margins stay stored and are sorted after a few looks."""
    problem, shape = LAYOUTS[layout](4), SHAPES[shape_name]
    loss = PrunedLoss(problem, shape, spheres=Spheres.around_classes(problem))
    rng = np.random.default_rng(4)
    w = rng.normal(size=problem.rows.n_features + 1)
    for _ in range(40):
        w = w + 1e-5 * rng.normal(size=len(w))
        assert_exact(problem, shape, loss.evaluate(w), w)
    if shape is not SQUARED_HINGE:  # of which too little can be pruned
        assert loss.tally.sorted == loss.tally.stored == 1


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 40),
    d=st.integers(1, 6),
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([2.0**-30, 2.0**-10, 1.0, 2.0**10, 2.0**30]),
    shape_name=st.sampled_from(sorted(SHAPES)),
    is_sparse=st.booleans(),
    scaling=st.sampled_from([0.0, 1.0]),
)
def test_it_is_exact_on_awkward_data_too(n, d, seed, scale, shape_name, is_sparse, scaling):
    """Zero rows, equal rows, one class, margins exactly on the knee (all numbers are sums of powers of two), huge and tiny
    scales."""
    rng = np.random.default_rng(seed)
    X = scale * rng.integers(-1, 2, size=(n, d)).astype(float)
    y = np.where(rng.random(n) < rng.choice([0.0, 0.5]), 1, -1)
    problem = LinearProblem.build(sparse.csr_array(X) if is_sparse else X, y, 1.0, intercept_scaling=scaling)
    loss = PrunedLoss(problem, SHAPES[shape_name], spheres=Spheres.default(problem))
    w = np.zeros(d + 1)
    for k in range(25):
        w = w + (2.0 ** -rng.integers(0, 20) if k % 3 else 0.0) * rng.integers(-1, 2, size=d + 1) / scale
        if not scaling:
            w[-1] = 0.0
        assert_exact(problem, SHAPES[shape_name], loss.evaluate(w), w)


@pytest.mark.parametrize("problem_name", PROBLEMS)
def test_it_is_exact_on_every_problem_of_the_catalogue(problem_name):
    problem = PROBLEMS[problem_name](Huber(0.05))
    loss = PrunedLoss(problem, spheres=Spheres.default(problem))
    for w in walk(problem, 60, 1):
        assert_exact(problem, loss.shape, loss.evaluate(w), w)


@given(seed=st.integers(0, 1000), size=st.floats(0.0, 3.0))
def test_no_margin_leaves_its_bounds(seed, size):
    X, y = labelled(30, 4, 1.0, seed)
    rng = np.random.default_rng(seed)
    before, centre = rng.normal(size=4), X.mean(axis=0)
    after = before + size * rng.normal(size=4)
    distance = np.linalg.norm(after - before)
    norms = np.linalg.norm(X, axis=1)
    for low, high in (
        margin_bounds(y * (X @ before), distance, norms),
        margin_bounds(y * (X @ before), distance, norms.max()),
        margin_bounds(y * (X @ before), distance, np.linalg.norm(X - centre, axis=1), y * ((after - before) @ centre)),
    ):
        assert np.all(low <= y * (X @ after) + 1e-12)
        assert np.all(y * (X @ after) <= high + 1e-12)


def test_a_sphere_around_the_classes_or_clusters_prunes_more_than_one_around_the_origin():
    problem = made(3000, 5, scaling=1.0, seed=3)
    problem = LinearProblem.build(problem.rows.matrix + 5.0 * problem.y[:, None], problem.y, 1.0, intercept_scaling=1.0)
    w = np.random.default_rng(0).normal(size=6) / 10.0
    sideways = np.array([1.0, -1.0, 1.0, -1.0, 0.0, 0.0])  # across the line between the classes
    examined = {}
    for name, around in SPHERES.items():
        loss = PrunedLoss(problem, HINGE, spheres=around(problem))
        loss.evaluate(w)
        examined[name] = loss.evaluate(w + 0.15 * sideways).examined
    assert examined["clusters"] < examined["classes"] < examined["origin"]


def test_every_sample_lies_within_its_sphere():
    for layout in LAYOUTS.values():
        problem = layout(5)
        X = problem.rows.matrix.toarray() if problem.rows.is_sparse else problem.rows.matrix
        for around in SPHERES.values():
            of = around(problem)
            assert np.all(np.linalg.norm(X - of.centres[of.cluster, :-1], axis=1) <= of.radii)
            assert np.all(of.centres[:, -1] == problem.intercept_scaling)


def test_margins_are_stored_anew_when_little_is_pruned_and_not_while_much_is():
    problem = made(2000, 5, seed=1)
    loss = PrunedLoss(problem, HINGE, spheres=Spheres.around_classes(problem))
    w = np.ones(6)
    for _ in range(100):
        loss.evaluate(w)
    assert loss.tally.stored == 1
    rng = np.random.default_rng(0)
    for _ in range(20):
        loss.evaluate(10.0 * rng.normal(size=6))
    assert loss.tally.stored > 3


def test_nothing_is_prepared_before_the_evaluations_have_cost_ten_times_as_much():
    problem = made(20_000)
    loss = PrunedLoss(problem, HINGE)
    elements = problem.rows.n_stored + PruningPolicy().sample_elements * problem.n_samples
    first = math.ceil(10.0 * (PruningPolicy().setup_passes + PruningPolicy().setup_elements / elements))
    for _ in range(first):
        assert loss.evaluate(np.ones(8)).examined == problem.n_samples
    assert loss.tally.stored == 0
    loss.evaluate(np.ones(8))
    assert loss.evaluate(np.ones(8)).examined < problem.n_samples


def test_a_small_problem_is_never_pruned_unless_it_is_asked_for():
    problem = made(100)
    for spheres_, is_pruned in ((None, False), (Spheres.default(problem), True)):
        loss = PrunedLoss(problem, HINGE, spheres=spheres_)
        for _ in range(40):
            loss.evaluate(np.ones(8))
        assert (loss.tally.plain < 40) == is_pruned


@layouts
def test_the_averages_are_the_weighted_slopes_of_every_evaluation(layout):
    problem, shape = LAYOUTS[layout](2), huber(0.3)
    loss = PrunedLoss(problem, shape, spheres=Spheres.around_origin(problem))
    total = np.zeros(problem.n_samples)
    for k, w in enumerate(walk(problem, 50, 2)):
        loss.evaluate(w, weight=1.0 + k)
        margins = problem.margins(w[: problem.n_weights])
        total += (1.0 + k) * np.clip((1.3 - margins) / 0.6, 0.0, 1.0)
        if k % 20 == 19:
            assert loss.averages() == pytest.approx(total, rel=1e-12, abs=1e-10)
    assert loss.averages() == pytest.approx(total, rel=1e-12, abs=1e-10)
    assert 0 < loss.tally.plain < 50


def test_another_shape_begins_anew():
    problem = made()
    loss = PrunedLoss(problem, huber(0.1), spheres=Spheres.around_classes(problem))
    for k, w in enumerate(walk(problem, 40, 3)):
        if k == 20:
            loss.reshape(HINGE)
        assert_exact(problem, loss.shape, loss.evaluate(w), w)


def test_bad_input_is_named():
    problem = made()
    with pytest.raises(ValueError, match=r"n_clusters must lie in 1 \.\. 400 for 400 samples; got 401"):
        Spheres.around_clusters(problem, 401)
    with pytest.raises(ValueError, match=r"must be positive and finite; got 0\.0"):
        huber(0.0)
    with pytest.raises(ValueError, match=r"overhead must be positive; got 0"):
        PrunedLoss(problem, HINGE, overhead=0)
    with pytest.raises(ValueError, match="A distance is not negative; got -1"):
        margin_bounds(np.zeros(2), -1.0, 1.0)
    with pytest.raises(ValueError, match=r"LeastSquares\(\) has no piece"):
        pieces_of(LeastSquares())
    assert pieces_of(Hinge()) == HINGE
    assert pieces_of(SquaredHinge()) == SQUARED_HINGE
