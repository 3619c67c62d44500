"""A centre for every sample: no product with a move leaves its bound, and the codes are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.margin_bounds.coded_centres import DIRECTIONS, CodedCentres, CodingPolicy
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from tests.catalogue import labelled


def made(n=3000, d=20, *, is_sparse=False, scaling=0.0, single=False):
    X, y = labelled(n, d, 0.5, 3)
    X = (X + 0.5) * np.geomspace(1.0, 0.05, d)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = 0.0
    X[::50] = 0.0
    X = X.astype(np.float32) if single else X
    return LinearProblem.build(sparse.csr_array(X) if is_sparse else X, y, 1.0, Hinge(), scaling)


MADE = {
    "dense": lambda: made(),
    "sparse": lambda: made(is_sparse=True),
    "float32": lambda: made(single=True),
    "with intercept": lambda: made(scaling=2.0),
    "fewer features than directions": lambda: made(d=3),
    "one feature": lambda: made(d=1),
    "few samples": lambda: made(n=4),
    "one class": lambda: LinearProblem.build(made().rows.matrix, np.ones(3000), 1.0, Hinge()),
    "equal rows": lambda: LinearProblem.build(np.ones((100, 12)), made(100).y, 1.0, Hinge()),
}


def numbers(codes):
    """Byte k of every code, as the loops read it."""
    return codes.astype("<u8").view(np.int8).reshape(len(codes), DIRECTIONS).astype(float)


def dense(problem):
    X = problem.rows.matrix
    return np.asarray(X.toarray() if problem.rows.is_sparse else X, dtype=float)


@pytest.mark.parametrize("name", MADE)
def test_no_product_with_a_move_leaves_its_bound(name):
    problem = MADE[name]()
    X, coded, rng = dense(problem), CodedCentres.of(problem), np.random.default_rng(0)
    directions, means = coded.vectors[:DIRECTIONS], coded.vectors[DIRECTIONS:][(problem.y > 0).astype(int)]
    has_code = np.isfinite(coded.radii)
    assert has_code.mean() > 0.98
    for move in (*rng.normal(size=(20, X.shape[1])), *directions, *X[:20]):
        within = directions @ move
        outside = np.linalg.norm(move - directions.T @ within)
        middle = means @ move + numbers(coded.codes) @ (coded.steps * within)
        reach = outside * coded.radii[has_code] + 0.5 * np.linalg.norm(within) * np.linalg.norm(coded.steps)
        rounding = 1e-12 * np.linalg.norm(move) * (1.0 + np.linalg.norm(X[has_code], axis=1))
        assert np.all(np.abs(X @ move - middle)[has_code] <= reach + rounding)


@pytest.mark.parametrize("name", MADE)
def test_the_directions_are_orthonormal_and_the_codes_are_rounded_coordinates(name):
    problem = MADE[name]()
    X, coded = dense(problem), CodedCentres.of(problem)
    directions, means = coded.vectors[:DIRECTIONS], coded.vectors[DIRECTIONS:][(problem.y > 0).astype(int)]
    used = directions.any(axis=1)
    assert used.sum() == min(DIRECTIONS, X.shape[1])
    assert directions[used] @ directions[used].T == pytest.approx(np.eye(used.sum()), abs=1e-12)
    has_code = np.isfinite(coded.radii)
    exact = ((X - means) @ directions.T)[has_code]
    assert np.all(np.abs(exact - numbers(coded.codes)[has_code] * coded.steps) <= 0.5 * coded.steps + 1e-12)


def test_principal_directions_leave_less_than_others_would():
    problem = made()
    coded, centred = CodedCentres.of(problem), dense(problem)
    centred = centred - np.array([centred[problem.y == s].mean(axis=0) for s in (-1, 1)])[(problem.y > 0).astype(int)]
    has_code = np.isfinite(coded.radii)
    rest = np.sum(np.square(coded.radii[has_code])) / np.sum(np.square(centred[has_code]))
    best = np.linalg.svd(centred, compute_uv=False)
    assert rest < 1.1 * np.sum(np.square(best[DIRECTIONS:])) / np.sum(np.square(best))


def test_a_sample_too_far_out_for_a_code_is_never_decided():
    n = 4 * CodingPolicy().rows
    X = dense(made(n))
    X[1] *= 1000.0  # none of the rows that the directions are taken from
    coded = CodedCentres.of(LinearProblem.build(X, made(n).y, 1.0, Hinge()))
    assert np.isinf(coded.radii[1])
    assert np.isfinite(coded.radii).mean() > 0.98


def test_the_classes_alone_are_spheres_around_their_means():
    problem = made()
    coded, X = CodedCentres.of_classes(problem), dense(made())
    means = coded.vectors[DIRECTIONS:][(problem.y > 0).astype(int)]
    assert not coded.vectors[:DIRECTIONS].any()
    assert not coded.codes.any()
    assert coded.radii == pytest.approx(np.linalg.norm(X - means, axis=1), rel=1e-6)
