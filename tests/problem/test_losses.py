"""The losses against their definitions: conjugates by brute force, gap terms against Fenchel and Young."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.problem.losses import Hinge, Huber, LeastSquares, SquaredHinge
from tests.catalogue import LOSSES as EVERY_SOLVERS_LOSSES

LOSSES = {**EVERY_SOLVERS_LOSSES, "huber": Huber(0.3), "narrow_huber": Huber(0.05)}

losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
margins = np.linspace(-4.0, 6.0, 20_001)


def dual_term(loss, alpha, C):
    """What a sample adds to D(alpha)."""
    box = loss.dual(np.array([C]))
    return box.p[0] * alpha - 0.5 * box.D[0] * alpha**2


@losses
@pytest.mark.parametrize("C", [0.3, 1.0, 4.0])
def test_dual_term_is_minus_the_conjugate(loss, C):
    box = loss.dual(np.array([C]))
    low, high = max(box.L[0], -2.0), min(box.U[0], 3.0 * C)
    for alpha in np.linspace(low, high, 7):
        # -l*(-alpha) = min over m of C l(m) + alpha m
        least = np.min(C * loss.value(margins) + alpha * margins)
        assert dual_term(loss, alpha, C) == pytest.approx(least, abs=1e-5)


@losses
def test_outside_the_box_the_conjugate_is_infinite(loss):
    box = loss.dual(np.array([1.0]))
    for alpha in (box.L[0] - 0.1, box.U[0] + 0.1):
        if np.isfinite(alpha):
            wide = np.array([-1e9, 1e9])
            assert np.min(loss.value(wide) + alpha * wide) < -1e7


@losses
@given(margin=st.floats(-1e3, 1e3), share=st.floats(0, 1), C=st.floats(1e-6, 1e6))
def test_gap_term_is_the_fenchel_young_gap_and_never_negative(loss, margin, share, C):
    alpha, m, costs = np.array([share * C]), np.array([margin]), np.array([C])
    term = loss.gap_terms(m, alpha, costs)[0]
    direct = C * loss.value(m)[0] - dual_term(loss, alpha[0], C) + alpha[0] * margin
    assert term >= 0.0
    assert term == pytest.approx(direct, rel=1e-9, abs=1e-9 * C * (1.0 + margin**2))


@losses
def test_gap_term_is_zero_exactly_where_alpha_is_minus_the_slope(loss):
    C = np.full(5, 2.0)
    m = np.array([-1.0, 0.0, 0.5, 2.0, 3.0])
    slopes = {Hinge: np.where(m < 1, 2.0, 0.0), SquaredHinge: 4.0 * np.maximum(0, 1 - m), LeastSquares: 4.0 * (1 - m)}
    slopes[Huber] = 2.0 * np.clip((1.0 + h - m) / (2.0 * h), 0.0, 1.0) if (h := getattr(loss, "width", 0.0)) else m
    assert loss.gap_terms(m, slopes[type(loss)], C) == pytest.approx(np.zeros(5))


@losses
@given(margin=st.floats(-50, 50), share=st.floats(0, 1), error=st.floats(0, 1))
def test_gap_sensitivity_bounds_the_change_of_a_gap_term(loss, margin, share, error):
    C = np.array([1.5])
    alpha, m = share * C, np.array([margin])
    here = loss.gap_terms(m, alpha, C)
    bound = loss.gap_sensitivity(m, alpha, C, np.array([error])) + 1e-9
    for moved in (m - error, m + error):
        assert abs(loss.gap_terms(moved, alpha, C) - here) <= bound


@losses
def test_a_sample_without_cost_has_the_box_zero_and_no_gap(loss):
    C = np.array([0.0, 1.0])
    box = loss.dual(C)
    assert box.L[0] == box.U[0] == box.D[0] == 0.0
    assert loss.gap_terms(np.array([-5.0, 1.0]), np.zeros(2), C)[0] == 0.0


def test_huber_is_hinge_with_its_kink_rounded():
    for width in (1e-3, 0.3, 1.0):
        excess = Huber(width).value(margins) - Hinge().value(margins)
        assert np.all((excess >= -1e-15) & (excess <= 0.25 * width + 1e-15))
        assert np.all(excess[np.abs(margins - 1.0) >= width] <= 1e-15)


def test_a_width_that_makes_no_sense_is_refused():
    for width in (0.0, -0.1, np.inf, np.nan, "wide"):
        with pytest.raises(ValueError, match=f"positive and finite; got {width!r}"):
            Huber(width)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), LeastSquares(), Huber(0.3)], ids=str)
def test_the_pieces_of_a_loss_are_the_loss(loss):
    margins = np.linspace(-3.0, 4.0, 141)
    low, high, curvature, _, is_two_sided = loss.margin_pieces()
    middle = 0.5 * curvature * np.square(high - margins)
    value = np.where(margins <= low, 1.0 - margins, np.where((margins >= high) & (not is_two_sided), 0.0, middle))
    np.testing.assert_allclose(value, loss.value(margins), rtol=1e-12, atol=1e-12)


def squared_hinge_term(margin, alpha, C):
    """The gap term of a sample, in rational numbers."""
    residual = 1 - margin
    return C * (max(Fraction(0), residual) - alpha / (2 * C)) ** 2 + alpha * max(Fraction(0), -residual)


@given(
    margin=st.floats(-1e3, 0.999),
    away=st.floats(-1e-3, 1e-3) | st.floats(-1e-15, 1e-15),
    error=st.floats(1e-16, 1e-2),
    part=st.floats(-1.0, 1.0),
    C=st.floats(1e-4, 1e4),
)
def test_near_the_optimum_squared_hinge_pays_for_an_error_by_its_slope_alone(margin, away, error, part, C):
    """At alpha = 2 C r the term is wrong by the square of the error, in rational numbers and with the rounding of the term."""
    alpha = 2.0 * C * (1.0 - margin) * (1.0 + away)
    loss, arrays = SquaredHinge(), [np.array([each]) for each in (margin, alpha, C)]
    computed = Fraction(float(loss.gap_terms(*arrays)[0]))
    bound = Fraction(float(loss.gap_sensitivity(*arrays, np.array([error]))[0]))
    exact = squared_hinge_term(Fraction(margin) + Fraction(part) * Fraction(error), Fraction(alpha), Fraction(C))
    assert abs(exact - computed) <= bound + Fraction(1, 10**15) * computed
    if 1.0 - margin > 4.0 * error and error > 1e-12 * (1.0 + abs(margin)):
        assert float(bound) <= 8.0 * C * (abs(away) * (1.0 - margin) + error) * error


@given(
    above=st.floats(1e-14, 1e3),
    size=st.floats(1e-25, 1e3),
    error=st.floats(1e-17, 1e-2),
    part=st.floats(-1.0, 1.0),
    C=st.floats(1e-4, 1e8),
)
def test_beyond_the_margin_squared_hinge_pays_for_an_error_with_alpha_alone(above, size, error, part, C):
    """A margin above one whatever the error is: its term is linear there, in rational numbers and with the rounding of the
    term, so a large C costs nothing."""
    margin = 1.0 + above
    loss, arrays = SquaredHinge(), [np.array([each]) for each in (margin, size, C)]
    computed = Fraction(float(loss.gap_terms(*arrays)[0]))
    bound = Fraction(float(loss.gap_sensitivity(*arrays, np.array([error]))[0]))
    exact = squared_hinge_term(Fraction(margin) + Fraction(part) * Fraction(error), Fraction(size), Fraction(C))
    assert abs(exact - computed) <= bound + Fraction(1, 10**15) * computed
    if above > 4.0 * error and error > 1e-14 * (1.0 + margin + size / C):
        assert float(bound) <= 4.0 * size * error
