from typing import NamedTuple

import numpy as np
import pytest

from maxmargin.data.by_type import by_type, loop_by_type


class Square(NamedTuple):
    scale: float


class Cube(NamedTuple):
    scale: float


@by_type
def power(kind, x):
    """x to the power of the type, times its scale"""


@power.when(Square)
def _(kind, x):
    return kind.scale * x * x


@power.when(Cube)
def _(kind, x):
    return kind.scale * x * x * x


@loop_by_type("kind")
def total(values, kind):
    """The sum of the powers."""
    result = 0.0
    for value in values:
        result += power(kind, value)
    return result


@pytest.mark.parametrize(("kind", "exponent"), [(Square, 2), (Cube, 3)])
def test_a_loop_uses_the_operation_of_the_type_at_hand(kind, exponent):
    values = np.arange(5.0)
    assert total(values, kind(2.0)) == 2.0 * np.sum(values**exponent)
    assert total.of(kind) is total.of(kind)


def test_a_type_without_the_operation_is_an_error():
    class Other(NamedTuple):
        scale: float

    with pytest.raises(Exception, match="power"):
        total(np.arange(5.0), Other(1.0))
