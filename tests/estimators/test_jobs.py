"""How the binary problems of a fit share their time."""

from types import SimpleNamespace
from typing import Any

import pytest

from maxmargin.data.limits import Stop
from maxmargin.estimators.jobs import run_until
from maxmargin.solving.solution import Status


class Needing:
    """A job that ends within ``tol`` where it may take ``seconds``, without taking any. It counts its runs."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.runs = seconds, 0

    def __call__(self, stop: Stop) -> Any:
        self.runs += 1
        share = stop.seconds_left
        is_enough = share >= self.seconds
        return SimpleNamespace(
            status=Status.CERTIFIED if is_enough else Status.TIME_LIMIT,
            seconds=min(share, self.seconds),
            certificate=SimpleNamespace(relative_gap=0.0 if is_enough else 1.0 / share),
        )


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_class_that_ran_out_of_its_share_gets_the_time_that_others_left(n_jobs: int) -> None:
    jobs = [Needing(5000.0), *(Needing(0.0) for _ in range(19))]
    solutions = run_until(Stop.within(10_000.0), jobs, n_jobs)
    assert all(solution.status is Status.CERTIFIED for solution in solutions)
    assert [job.runs for job in jobs] == [2] + [1] * 19


def test_no_class_is_run_again_where_little_time_would_be_added() -> None:
    jobs = [Needing(1e6), Needing(1e6)]
    solutions = run_until(Stop.within(10_000.0), jobs, 1)  # the clock stands nearly still, so that the second has all of it
    assert [job.runs for job in jobs] == [1, 1]
    assert solutions[1].status is Status.TIME_LIMIT


def test_classes_that_ran_out_again_end_with_the_better_of_both_answers() -> None:
    jobs = [Needing(1e6), *(Needing(0.0) for _ in range(19))]
    solution = run_until(Stop.within(10_000.0), jobs, 1)[0]
    assert solution.status is Status.TIME_LIMIT
    assert solution.certificate.relative_gap == pytest.approx(1e-4, rel=0.01)
