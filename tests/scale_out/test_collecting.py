"""A client collects rows where rounds of messages would take longer than one message with all rows."""

from __future__ import annotations

import pytest

from maxmargin.data.threads import at_most_cores
from maxmargin.scale_out.block_fit import bytes_from, client_bytes
from maxmargin.scale_out.collecting import Crowd, Work, is_cheaper_to_collect
from maxmargin.scale_out.policy import CollectingPolicy

HINGE = Work(n_weights=55, n_bytes=1e8, n_problems=1, is_smooth=False)


def collects(crowd, work, cores=2):
    with at_most_cores(cores):
        return is_cheaper_to_collect(crowd, work)


def test_no_row_leaves_its_worker_without_memory_and_half_of_the_machine_is_the_default():
    assert client_bytes(0) == 0.0
    assert client_bytes(None) == bytes_from(None) > 0
    with pytest.raises(ValueError, match="memory must be"):
        client_bytes(False)


def test_little_data_with_hinge_loss_is_collected_and_much_data_is_not():
    assert collects(Crowd(2, 2), HINGE)
    assert not collects(Crowd(2, 2), HINGE._replace(n_bytes=1e10))


def test_many_workers_keep_what_two_would_give_away():
    assert collects(Crowd(2, 2), HINGE)
    assert not collects(Crowd(50, 200), HINGE)


def test_a_large_matrix_makes_rounds_dearer():
    small, large = (HINGE._replace(n_bytes=4e8, n_weights=d) for d in (55, 785))
    assert not collects(Crowd(2, 2), small)
    assert collects(Crowd(2, 2), large)


def test_few_rounds_of_a_smooth_loss_are_cheaper_than_the_rows():
    assert not collects(Crowd(2, 2), HINGE._replace(is_smooth=True))


def test_rows_are_collected_once_for_all_problems_but_fitted_once_for_each():
    many = HINGE._replace(n_problems=10)
    assert collects(Crowd(2, 2), many)
    assert not collects(Crowd(20, 20), many)


def test_a_network_without_cost_always_collects_for_a_client_with_as_many_cores():
    with at_most_cores(2):
        assert is_cheaper_to_collect(Crowd(2, 2), HINGE, CollectingPolicy(collected_a_second=1e18))
