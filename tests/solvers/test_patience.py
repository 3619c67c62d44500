"""When a solver counts as stalled."""

from __future__ import annotations

import math

import pytest

from maxmargin.solvers.patience import IdleRounds, Patience, StallRule, Standstill


def first_stall(patience: Patience, dual, primal=2.0, most=3000) -> int | None:
    return next((work for work in range(1, most) if patience.note(work, dual(work), primal)), None)


def test_a_dual_value_that_does_not_rise_has_stalled_at_the_first_mark_after_the_least_work():
    assert 100 <= first_stall(Patience(100.0), lambda work: 1.0) <= 110


def test_a_dual_value_that_rises_towards_the_primal_value_never_stalls():
    assert first_stall(Patience(10.0), lambda work: 2.0 - 1.0 / work) is None


@pytest.mark.parametrize("factor", [10.0, 1000.0])
def test_a_solver_stalls_when_closing_the_gap_would_take_more_than_factor_times_the_work_done(factor):
    def crawling(rate):
        return lambda work: rate * work

    reached = 2000.0
    too_slow, just_fast_enough = 0.9 * 2.0 / (factor * reached), 1.2 * 2.0 / (factor * 100.0)
    assert first_stall(Patience(100.0, rule=StallRule(factor)), crawling(too_slow)) is not None
    assert first_stall(Patience(100.0, rule=StallRule(factor)), crawling(just_fast_enough)) is None


def test_the_gap_is_measured_from_the_least_primal_value_so_far():
    patience = Patience(10.0)
    patience.note(1.0, 0.0, 0.0)
    assert first_stall(patience, lambda work: 0.0, primal=1e9) is None


def test_idle_rounds_begin_anew_when_the_value_falls_below_the_share_of_its_least():
    idle = IdleRounds(share=0.9)
    assert [idle.note(value) for value in (10.0, 9.5, 9.0, 8.9, 8.1, 0.0, 0.0)] == [0, 1, 2, 0, 1, 0, 1]


def test_a_rising_dual_value_or_a_falling_gap_ends_a_standstill():
    standstill = Standstill(most=2)
    for gap, dual, count in [(1.0, 0.0, 0), (1.0, 0.0, 1), (0.995, 0.0, 2), (0.98, 0.0, 0), (1.0, 0.0, 1), (1.0, 0.1, 0)]:
        standstill.note(gap, dual)
        assert standstill.count == count
        assert standstill.is_reached == (count >= 2)


def test_a_standstill_is_reached_when_nothing_moves_and_forgets_values_that_were_too_good():
    standstill = Standstill(most=3)
    standstill.note(1e-9, 5.0)
    standstill.note_no_move()
    assert standstill.is_reached
    standstill.forget_values()
    standstill.note(1e-3, 4.0)
    assert standstill.count == 0


def test_a_rise_of_the_dual_value_that_is_rounding_does_not_end_a_standstill():
    """Once IRWLS with working sets of ten samples went on for ever: f drifted, and the dual value rose by its last digit."""
    standstill = Standstill(most=3)
    dual = 50.0
    standstill.note(1e-15, dual)
    for _ in range(3):
        dual = math.nextafter(dual, math.inf)
        standstill.note(1e-15, dual)
    assert standstill.is_reached
