"""Plain loops are compiled by fewer passes, and do what they do without Numba."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from numba.core.compiler import Compiler
from numba.core.errors import TypingError

from maxmargin.data.caching import njit
from maxmargin.data.plain_compiler import NEEDLESS


class NumbasOwn(Compiler):
    names: ClassVar[set[str]] = set()

    def define_pipelines(self):
        found = super().define_pipelines()
        self.names.update(each.name() for passes in found for each, _ in passes.passes)
        return found


def test_every_pass_that_is_left_out_is_one_of_numbas():
    njit(pipeline_class=NumbasOwn)(abs_of)(1.0)
    assert NumbasOwn.names >= NEEDLESS


def abs_of(value):
    return abs(value)


@njit(inline="always")
def larger(one, other):
    return one if one > other else other


def running_maximum(values, found):
    most, n_rises = -np.inf, 0
    for i in range(len(values)):
        n_rises += 1 if values[i] > most else 0
        most = larger(most, values[i])
        found[i] = most
    return most, n_rises


def test_a_plain_loop_does_what_python_does():
    values = np.random.default_rng(0).standard_normal(100)
    there, here = np.zeros(100), np.zeros(100)
    assert njit(allocates=False)(running_maximum)(values, there) == running_maximum(values, here)
    np.testing.assert_array_equal(there, here)


def sum_twice(values, n):
    total = 0.0
    for i in range(n):
        total += values[i]
    for i in range(np.uint64(n)):
        total += values[i]
    return total


def test_a_loop_with_a_variable_of_two_types_is_refused_and_not_compiled_wrongly():
    values = np.arange(3.0)
    assert njit()(sum_twice)(values, 3) == 6.0
    with pytest.raises(TypingError):
        njit(allocates=False)(sum_twice)(values, 3)
