"""A point in signed variables: its gap, dual value and violation against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF
from maxmargin.solvers.kernel.signed_point import SignedPoint
from tests.catalogue import labelled

offsets = pytest.mark.parametrize("has_offset", [False, True])


def point_of(has_offset: bool, seed: int = 0) -> tuple[KernelProblem, SignedPoint, np.ndarray]:
    """A random feasible point, and the kernel matrix."""
    X, y = labelled(60, 4, 1.0, 3)
    problem, everyone = KernelProblem.build(X, y, 2.0, RBF(0.4), has_offset), np.arange(60)
    K, alpha = problem.gram(everyone, everyone), np.random.default_rng(seed).uniform(-0.5, 2.5, 60)
    signed = problem.signed(alpha)
    return problem, SignedPoint(**signed._asdict(), f=K @ signed.s), K


@offsets
@pytest.mark.parametrize("seed", range(5))
def test_the_gap_is_the_primal_value_at_the_best_offset_minus_the_dual_value(seed, has_offset):
    problem, point, K = point_of(has_offset, seed)
    here = point.measure(has_offset)
    dual = point.alpha.sum() - 0.5 * point.s @ K @ point.s
    losses = np.maximum(0.0, 1.0 - problem.y * (point.f + problem.best_offset(point.f)))
    assert here.dual == pytest.approx(dual, rel=1e-12)
    assert here.gap == pytest.approx(0.5 * point.s @ K @ point.s + problem.C @ losses - dual, rel=1e-9)


@offsets
def test_the_violation_is_that_of_the_variables_that_can_move(has_offset):
    _, point, _ = point_of(has_offset)
    here = point.measure(has_offset)
    top, bottom = point.v[point.s < point.upper].max(), point.v[point.s > point.lower].min()
    assert here.violation == (top - bottom if has_offset else max(top, 0.0) - min(bottom, 0.0))
    assert here.relative(is_definite=False) == here.violation


@offsets
def test_an_offset_that_is_given_is_kept_and_its_gap_is_no_smaller(has_offset):
    _, point, _ = point_of(has_offset)
    best, other = point.measure(has_offset), point.measure(has_offset, 0.7)
    assert other.b == (0.7 if has_offset else 0.0)
    assert other.gap >= best.gap


def test_the_point_at_some_samples_has_their_variables():
    _, point, _ = point_of(True)
    some = np.array([5, 2, 40])
    assert np.array_equal(point.at(some).v, point.v[some])
    assert point.at(some).n_free == np.count_nonzero(point.is_free[some])
