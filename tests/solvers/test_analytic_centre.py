"""The point far inside of a box that solves equations."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.solvers.analytic_centre import centre


@pytest.mark.parametrize("spread", [0.0, 6.0, 15.0])
def test_it_solves_the_equations_inside_of_the_box_whatever_their_scales(spread):
    rng = np.random.default_rng(0)
    B, inside = rng.normal(size=(60, 9)) * 10.0 ** rng.uniform(-spread, spread, 9), rng.uniform(0.05, 0.95, 60)
    b = B.T @ inside
    found = centre(B, b, np.ones(60), np.full(60, 0.5))
    assert found is not None
    assert np.all((found > 0.0) & (found < 1.0))
    assert np.all(np.abs(B.T @ found - b) <= 1e-9 * (np.abs(B).T @ found))


def test_equations_that_no_point_of_the_box_solves_have_no_centre():
    B = np.random.default_rng(1).uniform(0.5, 1.0, size=(40, 3))
    assert centre(B, -B.sum(axis=0), np.ones(40), np.full(40, 0.5)) is None


def test_it_is_the_point_at_which_the_barrier_is_least():
    rng = np.random.default_rng(3)
    B = rng.normal(size=(20, 4))
    b = B.T @ rng.uniform(0.2, 0.8, 20)
    found = centre(B, b, np.ones(20), np.full(20, 0.5))
    slope = 1.0 / found - 1.0 / (1.0 - found)
    along = slope - B @ np.linalg.lstsq(B, slope, rcond=None)[0]
    assert np.linalg.norm(along) <= 1e-2 * np.linalg.norm(slope)


def test_numbers_that_are_not_finite_have_no_centre():
    B = np.full((5, 2), np.inf)
    assert centre(B, np.zeros(2), np.ones(5), np.full(5, 0.5)) is None
