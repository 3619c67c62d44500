"""The pace of a solver: what is left is counted in the work that the last decade of the gap took."""

from __future__ import annotations

import pytest

from maxmargin.solvers.kernel.pace import Pace, PaceMark


def test_the_work_left_is_that_of_the_last_decade_times_the_decades_left():
    pace = Pace()
    for gap, work in ((0.5, 10.0), (0.1, 20.0), (0.01, 50.0)):
        pace.note(gap, work)
    assert pace.work_left(PaceMark(0.01, 50.0), 1e-5) == pytest.approx(3.0 * 30.0)


def test_before_the_first_decade_the_pace_is_that_since_the_beginning():
    pace = Pace()
    pace.note(0.5, 10.0)
    assert pace.work_left(PaceMark(0.1**0.5, 20.0), 0.1) == pytest.approx(20.0)


def test_a_solver_whose_gap_does_not_fall_has_much_work_left():
    pace = Pace()
    pace.note(1.0, 10.0)
    assert pace.work_left(PaceMark(1.0, 20.0), 0.1) > 1e12


def test_a_point_that_another_solver_has_moved_tells_nothing_of_the_pace():
    pace = Pace()
    pace.note(0.1, 10.0)
    pace.begin_again(PaceMark(1e-5, 10.0))
    assert pace.work_left(PaceMark(1e-5, 10.0), 1e-6) == float("inf")
    assert pace.work_left(PaceMark(1e-6, 12.0), 1e-8) == pytest.approx(4.0)
