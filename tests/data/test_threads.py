"""Threads that share a problem: what they do to BLAS ends with them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from maxmargin.data.threads import Crew, single_threaded_blas


def blas_threads() -> set[int]:
    np.ones((2, 2)) @ np.ones((2, 2))
    return {library.num_threads for library in ThreadpoolController().lib_controllers if library.user_api == "blas"}


def test_the_limit_on_blas_ends_with_the_last_of_those_who_asked_for_it():
    """Two threads that leave in the order in which they came."""
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = blas_threads()
        one, other = single_threaded_blas(), single_threaded_blas()
        one.__enter__()
        other.__enter__()
        assert blas_threads() == {1}
        one.__exit__(None, None, None)
        assert blas_threads() == {1}
        other.__exit__(None, None, None)
        assert blas_threads() == before


def test_a_crew_shares_every_sample_once():
    parts = Crew(1 << 30).share(1001, lambda k, start, stop: (start, stop))
    assert parts[0][0] == 0
    assert parts[-1][1] == 1001
    assert all(end == begin for (_, end), (begin, _) in pairwise(parts))


def test_the_limit_on_blas_holds_for_whichever_thread_asks_for_it():
    def threads_within() -> set[int]:
        with single_threaded_blas():
            return blas_threads()

    assert threads_within() == {1}
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(threads_within).result() == {1}
    assert threads_within() == {1}


def test_the_calling_thread_takes_what_no_other_thread_has_begun_and_the_answers_stay_in_order():
    """The only other thread is held by its first task until the caller has made all the rest."""
    crew, caller, made = Crew.of_size(2), threading.get_ident(), threading.Semaphore(0)

    def job(k: int) -> tuple[int, bool]:
        if threading.get_ident() != caller:
            assert all(made.acquire(timeout=60.0) for _ in range(5))
            return k, False
        if k == 0:
            while crew._pool._work_queue.qsize() > 4:  # type: ignore[union-attr]
                time.sleep(0.001)
        made.release()
        return k, True

    found = crew.run([(k,) for k in range(6)], job)
    assert [k for k, _ in found] == list(range(6))
    assert [own for _, own in found] == [True, False, True, True, True, True]


def test_a_task_that_fails_in_the_calling_thread_ends_those_that_nobody_has_begun():
    crew, begun, done = Crew.of_size(2), threading.Event(), []

    def job(k: int) -> None:
        if k == 0:
            assert begun.wait(60.0)
            raise ZeroDivisionError
        begun.set()
        done.append(k)
        time.sleep(0.01)

    with pytest.raises(ZeroDivisionError):
        crew.run([(k,) for k in range(1000)], job)
    assert len(done) < 999
    before = list(done)
    time.sleep(0.05)
    assert done == before


def test_a_crew_has_several_parts_for_each_thread_where_each_part_has_enough_to_do(monkeypatch):
    monkeypatch.setattr("maxmargin.data.threads.available_cores", lambda: 2)
    assert Crew(1 << 24).n_parts == 2
    assert Crew.in_parts(1 << 24).n_parts == 8
    assert Crew.in_parts(1 << 24, overhead=1 << 20).n_parts == 4
    assert Crew.in_parts(1 << 24, overhead=1 << 22).n_parts == 2
    assert Crew.in_parts(1000).n_parts == 1
