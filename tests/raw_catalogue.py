"""Tables as they come: unscaled columns of very different sizes, from scikit-learn's built-in sets and from generators.

Nobody scales these tables. The generated ones are what spreadsheets and logs hold: unix times, years beside salaries, one
feature in millions, one-hot columns, codes, copies of rows and columns. The tests and ``benchmarks.raw_data`` share them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets

from maxmargin.data.rows import Array

SEED = 20240229


class Table(NamedTuple):
    """Dense float64 columns, and one whole number a row for its class."""

    X: Array
    y: Array

    def thinned(self, most_rows: int) -> Table:
        """At most so many rows, drawn without replacement from a fixed seed."""
        if len(self.y) <= most_rows:
            return self
        chosen = np.sort(np.random.default_rng(SEED).permutation(len(self.y))[:most_rows])
        return Table(np.ascontiguousarray(self.X[chosen]), self.y[chosen])

    @property
    def n_classes(self) -> int:
        return len(np.unique(self.y))


def cut(target: Array, n_classes: int) -> Array:
    """Classes 0, 1, ... of a real target, cut at its quantiles; fewer where so many rows are equal that quantiles coincide."""
    edges = np.unique(np.quantile(target, np.arange(1, n_classes) / n_classes))
    classes: Array = np.searchsorted(edges, target)
    return np.unique(classes, return_inverse=True)[1]


def _labels(score: Array, noise: float, rng: np.random.Generator, n_classes: int = 2) -> Array:
    """Classes by a score of the columns, with noise of this size relative to the score's own spread."""
    return cut(score + noise * score.std() * rng.normal(size=len(score)), n_classes)


def _unix_times(n: int, rng: np.random.Generator) -> Table:
    """Two times in seconds since 1970, and two small numbers: the class depends on the time of day."""
    start = rng.uniform(1.2e9, 1.7e9, n)
    length, load = rng.exponential(3600.0, n), rng.normal(size=n)
    score = (start % 86_400.0) / 86_400.0 + length / 3600.0 + load
    return Table(np.column_stack([start, start + length, load, rng.integers(0, 8, n)]), _labels(score, 0.3, rng))


def _milliseconds(n: int, rng: np.random.Generator) -> Table:
    """A log: time in milliseconds since 1970, a process number, bytes sent, a status code, seconds taken."""
    time = np.sort(rng.uniform(1.6e12, 1.7e12, n)).round()
    process, sent = rng.integers(1, 65_536, n), rng.lognormal(9.0, 2.0, n).round()
    status, seconds = rng.choice([200, 301, 404, 500], n, p=[0.8, 0.1, 0.07, 0.03]), rng.lognormal(-3.0, 1.0, n)
    return Table(np.column_stack([time, process, sent, status, seconds]), _labels(np.log(sent) + 2.0 * seconds, 0.5, rng, 3))


def _salaries(n: int, rng: np.random.Generator) -> Table:
    """Years, salaries, ages and a rate."""
    year, age = rng.integers(1990, 2025, n), rng.integers(18, 70, n)
    salary, rate = rng.lognormal(10.5, 0.6, n).round(-2), rng.uniform(0.0, 0.12, n)
    score = (salary - 40_000.0) / 25_000.0 + (age - 40.0) / 15.0 - 20.0 * rate
    return Table(np.column_stack([year, salary, age, rate]), _labels(score, 0.5, rng))


def _invoices(n: int, rng: np.random.Generator) -> Table:
    """Amounts over eight decades, days, discounts, and a customer number: four classes."""
    amount, days = 10.0 ** rng.uniform(-2.0, 6.0, n), rng.integers(0, 365, n)
    discount, customer = rng.choice([0.0, 0.05, 0.1, 0.25], n), rng.integers(100_000, 999_999, n)
    score = np.log10(amount) + days / 100.0 - 4.0 * discount
    return Table(np.column_stack([amount, days, discount, customer]), _labels(score, 0.2, rng, 4))


def _one_in_millions(n: int, rng: np.random.Generator) -> Table:
    X = rng.normal(size=(n, 8))
    score = X @ rng.normal(size=8)
    X[:, 3] = 4e6 + 1e6 * X[:, 3]
    return Table(X, _labels(score, 0.5, rng))


def _mixed_scales(n: int, rng: np.random.Generator) -> Table:
    """Thirteen columns of sizes 1e-6 to 1e6, all of which matter alike."""
    X = rng.normal(size=(n, 13))
    return Table(X * 10.0 ** np.arange(-6, 7), _labels(X @ rng.normal(size=13), 0.3, rng))


def _mixed_scales_off_centre(n: int, rng: np.random.Generator) -> Table:
    """The same with five classes and columns whose mean is far from zero."""
    X = rng.normal(size=(n, 7))
    return Table((X + 30.0) * 10.0 ** np.arange(-6, 7, 2), _labels(X @ rng.normal(size=7), 0.3, rng, 5))


def _one_hot(n: int, rng: np.random.Generator) -> Table:
    """Five categories of 3 to 20 values as columns of ones and zeros."""
    sizes = (3, 5, 8, 12, 20)
    columns = [np.eye(size)[rng.integers(0, size, n)] for size in sizes]
    X = np.column_stack(columns)
    return Table(X, _labels(X @ rng.normal(size=X.shape[1]), 0.4, rng))


def _one_hot_and_amounts(n: int, rng: np.random.Generator) -> Table:
    """One-hot columns beside an amount in thousands and a year: three classes."""
    X, amount = np.eye(15)[rng.integers(0, 15, n)], rng.gamma(2.0, 4000.0, n)
    year = rng.integers(2000, 2024, n)
    score = X @ rng.normal(size=15) + amount / 6000.0 + (year - 2012.0) / 8.0
    return Table(np.column_stack([X, amount, year]), _labels(score, 0.3, rng, 3))


def _duplicated(n: int, rng: np.random.Generator) -> Table:
    """Every row four times, some of them with the other label."""
    X = rng.normal(size=(n // 4, 5)) * np.array([1.0, 10.0, 100.0, 1e3, 1e4])
    y = np.tile(_labels(X @ (1.0 / np.array([1.0, 10.0, 100.0, 1e3, 1e4])), 0.3, rng), 4)
    flips = rng.random(len(y)) < 0.1
    return Table(np.tile(X, (4, 1)), np.where(flips, 1 - y, y))


def _constant_columns(n: int, rng: np.random.Generator) -> Table:
    """A constant 1e5, a constant zero and a constant 1e-3 beside three that vary."""
    X = rng.normal(size=(n, 3)) * np.array([1.0, 50.0, 2000.0])
    constants = np.broadcast_to(np.array([1e5, 0.0, 1e-3]), (n, 3))
    return Table(np.column_stack([X, constants]), _labels(X[:, 0] + X[:, 1] / 50.0, 0.5, rng))


def _collinear(n: int, rng: np.random.Generator) -> Table:
    """A length in metres, in feet and in millimetres, a sum of two columns, and one that differs in the eighth digit."""
    metres, other = rng.uniform(1.0, 300.0, n), rng.normal(size=n)
    near = metres * (1.0 + 1e-8 * rng.normal(size=n))
    X = np.column_stack([metres, metres * 3.28084, metres * 1000.0, other, metres + other, near])
    return Table(X, _labels(metres / 90.0 + other, 0.4, rng))


class Measured(NamedTuple):
    """Dense float64 columns, and a real target a row."""

    X: Array
    y: Array


def beside_a_sensor(n: int, seed: int, offset: float = 1e6) -> Measured:
    """A sensor whose values differ by little more than their rounding, a constant, ids, codes, salaries, two plain columns, one
    of 1e12 and one of 1e-12, and a target far from zero. Fits of these failed for a stranger."""
    rng = np.random.default_rng(seed)
    sensor, ids, constant = 1.5e10 + 1e-4 * rng.normal(size=n), 8_000_000.0 + np.arange(n), np.full(n, 1e6)
    huge, tiny = 1e12 * rng.normal(size=n), 1e-12 * rng.normal(size=n)
    salaries, plain = np.round(rng.lognormal(10.5, 0.6, n), -2), rng.normal(size=(n, 2))
    X = np.column_stack([sensor, constant, ids, rng.integers(0, 100_000, n), salaries, plain, huge, tiny])
    scale = np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
    score = (X - X.mean(axis=0)) / scale @ rng.normal(size=X.shape[1])
    return Measured(X, offset + score + 0.5 * rng.normal(size=n))


def _few_rows(n: int, rng: np.random.Generator) -> Table:
    X = rng.normal(size=(12, 3)) * np.array([1.0, 1e3, 1e6])
    return Table(X, np.arange(12) % 2)


def _wide(n: int, rng: np.random.Generator) -> Table:
    """Sixty rows and six hundred columns, as counts of genes are."""
    rate = rng.lognormal(3.0, 2.0, 600)
    X = rng.poisson(rate, (60, 600)).astype(float)
    return Table(X, _labels(X[:, :20] @ (1.0 / rate[:20]), 0.3, rng))


def _integer_codes(n: int, rng: np.random.Generator) -> Table:
    """Postal codes, product codes and counts: the codes say nothing, the counts do."""
    postal, product = rng.integers(1000, 100_000, n), rng.integers(1, 4000, n)
    counts = rng.poisson(4.0, (n, 3))
    return Table(
        np.column_stack([postal, product, counts]).astype(float), _labels(counts @ np.array([1.0, -2.0, 0.5]), 0.4, rng)
    )


def _separable(n: int, rng: np.random.Generator) -> Table:
    """Two classes apart along one of three columns, all in thousands."""
    X = rng.normal(size=(n, 3)) * 1000.0 + 5000.0
    y = (X[:, 0] > 5000.0).astype(int)
    X[:, 0] += np.where(y == 1, 500.0, -500.0)
    return Table(X, y)


def _orders(n: int, rng: np.random.Generator) -> Table:
    """A shop: order numbers, milliseconds since 1970 within some weeks, prices, amounts with a heavy tail, a rate, a place, a
    country as one-hot columns, and a constant."""
    Z, country = rng.normal(size=(n, 5)), np.eye(12)[rng.integers(0, 12, n)]
    time, price = 1.6e12 + 1e9 * Z[:, 0], np.exp(3.0 + 1.5 * Z[:, 1])
    columns = [np.arange(n) + 1e7, time, price, 10.0 * rng.pareto(1.2, n), 0.03 + 0.01 * Z[:, 2], 48.0 + Z[:, 3], 2.0 + Z[:, 4]]
    score = Z @ rng.normal(size=5) + country @ rng.normal(size=12)
    return Table(np.column_stack([*columns, country, np.full(n, 7.0)]), _labels(score, 0.1, rng, 2))


def _nanoseconds(n: int, rng: np.random.Generator) -> Table:
    """What a data frame makes of a date: nanoseconds since 1970, of three years, beside prices and flags."""
    Z, flags = rng.normal(size=(n, 4)), rng.random((n, 2)) < 0.3
    times = 1.6e18 + 1e17 * rng.random(n)
    score = (times - 1.65e18) / 5e16 + Z @ rng.normal(size=4) + flags @ np.ones(2)
    return Table(np.column_stack([times, np.exp(Z), flags]), _labels(score, 0.1, rng))


def _account_numbers(n: int, rng: np.random.Generator) -> Table:
    """Sixteen digits that say nothing, beside an income, a rate and a year."""
    Z = rng.normal(size=(n, 3))
    columns = [
        rng.integers(10**15, 9 * 10**15, n),
        np.exp(10.5 + 0.7 * Z[:, 0]),
        0.1 + 0.03 * Z[:, 1],
        1990 + (5 * Z[:, 2]).round(),
    ]
    return Table(np.column_stack(columns), _labels(Z @ rng.normal(size=3), 0.1, rng))


GENERATED: dict[str, Callable[[int, np.random.Generator], Table]] = {
    "unix-times": _unix_times,
    "milliseconds": _milliseconds,
    "salaries": _salaries,
    "invoices": _invoices,
    "one-in-millions": _one_in_millions,
    "mixed-scales": _mixed_scales,
    "mixed-scales-off-centre": _mixed_scales_off_centre,
    "one-hot": _one_hot,
    "one-hot-and-amounts": _one_hot_and_amounts,
    "duplicated": _duplicated,
    "constant-columns": _constant_columns,
    "collinear": _collinear,
    "few-rows": _few_rows,
    "wide": _wide,
    "integer-codes": _integer_codes,
    "separable": _separable,
    "orders": _orders,
    "nanoseconds": _nanoseconds,
    "account-numbers": _account_numbers,
}
"""Makers of a table with about so many rows."""


def _with_classes(load: Callable[[], Any]) -> Callable[[], Table]:
    return lambda: Table(*_arrays(load()))


def _arrays(bunch: Any) -> tuple[Array, Array]:
    return np.ascontiguousarray(bunch.data, dtype=np.float64), bunch.target


def _diabetes() -> Table:
    """Blood values in their own units; the progression in three classes."""
    X, target = _arrays(datasets.load_diabetes(scaled=False))
    return Table(X, cut(target, 3))


def _linnerud() -> Table:
    """Twenty people: chin-ups, sit-ups and jumps, and whether the weight is above the median."""
    X, target = _arrays(datasets.load_linnerud())
    return Table(X, cut(target[:, 0], 2))


BUILT_IN: dict[str, Callable[[], Table]] = {
    "iris": _with_classes(datasets.load_iris),
    "wine": _with_classes(datasets.load_wine),
    "breast_cancer": _with_classes(datasets.load_breast_cancer),
    "digits": _with_classes(datasets.load_digits),
    "diabetes": _diabetes,
    "linnerud": _linnerud,
}
"""scikit-learn's own sets, as they are."""


def table(name: str, n_rows: int) -> Table:
    """The table of that name with at most ``n_rows`` rows: the same at every call."""
    if name in BUILT_IN:
        return BUILT_IN[name]().thinned(n_rows)
    number = list(GENERATED).index(name)
    X, y = GENERATED[name](n_rows, np.random.default_rng([SEED, number]))
    return Table(np.ascontiguousarray(X, dtype=np.float64), y)
