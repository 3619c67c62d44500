"""Order statistics of many values."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.problem import policy
from maxmargin.problem.offset import order_statistics

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
