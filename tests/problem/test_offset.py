"""Order statistics of many values."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.problem import policy
from maxmargin.problem.offset import offset_interval, order_statistics

SAMPLED = policy.OFFSET.sample_every
MANY = SAMPLED * policy.OFFSET.least_sample


@pytest.mark.parametrize("n", [5, MANY - 1, MANY, 5 * MANY + 3])
@pytest.mark.parametrize("kind", ["normal", "few different", "sorted", "periodic", "heavy tails", "not a number"])
def test_order_statistics_are_the_elements_of_the_sorted_values(n, kind):
    rng = np.random.default_rng(n)
    values = {
        "normal": rng.normal(size=n),
        "few different": rng.integers(0, 3, n).astype(float),
        "sorted": np.arange(n) ** 2.0,
        "periodic": np.where(np.arange(n) % SAMPLED == 0, 1e6, rng.normal(size=n)),
        "heavy tails": rng.standard_cauchy(n) ** 3,
        "not a number": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
    }[kind]
    ordered = np.sort(values)
    for low in {0, 1, n // 100, n // 3, n // 2, n - 2}:
        ranks = [low, low + 1]
        np.testing.assert_array_equal(order_statistics(values, ranks), ordered[ranks])
    assert order_statistics(values, []) == []


@pytest.mark.parametrize("n", [7, 5 * MANY])
@pytest.mark.parametrize("is_even", [True, False])
def test_the_interval_of_kinks_that_move_apart_has_the_low_end_of_those_below_and_the_high_end_of_those_above(n, is_even):
    rng = np.random.default_rng(n)
    kinks, reach = rng.normal(size=n), rng.uniform(0.0, 0.1, n)
    C = np.full(n, 2.0) if is_even else rng.uniform(1.0, 2.0, n)
    level = 0.3 * float(C.sum())
    interval = offset_interval(kinks, C, level, reach)
    assert interval.low == offset_interval(kinks - reach, C, level, 0.0).low
    assert interval.high == offset_interval(kinks + reach, C, level, 0.0).high
