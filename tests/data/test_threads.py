"""Threads that share a problem: what they do to BLAS ends with them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
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
