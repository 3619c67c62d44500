"""The data of ``irwls_svc``: what stands for the sets of F. Perez-Cruz et al., with k(x, z) = exp(-|x - z|^2 / (2 sigma^2))."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.datasets import Data, load
from benchmarks.kernel_problems import Named, raw

GAUSS_SAMPLES = 4000


def gamma_of(sigma: float) -> float:
    return 1.0 / (2.0 * sigma**2)


def _first(data: Data, n: int) -> Data:
    return Data(data.X[:n], data.y[:n])


def _drawn_by_class(data: Data, n: int) -> Data:
    """Each class with its share: the first rows of w7a hold all of its positives."""
    random, chosen = np.random.default_rng(0), []
    for sign in (-1.0, 1.0):
        members = np.flatnonzero(data.y == sign)
        chosen.append(random.choice(members, round(n * len(members) / len(data.y)), replace=False))
    everyone = np.sort(np.concatenate(chosen))
    return Data(data.X[everyone], data.y[everyone])


def _drawn(data: Data, n: int) -> Data:
    chosen = np.sort(np.random.default_rng(0).choice(len(data.y), n, replace=False))
    return Data(data.X[chosen], data.y[chosen])


def _file(name: str, n_features: int) -> Data:
    X, labels = raw(name, n_features)
    return Data(X, np.where(labels > 0, 1.0, -1.0))


def _dense(name: str, n_features: int) -> Data:
    data = _file(name, n_features)
    return Data(np.ascontiguousarray(data.X.toarray()), data.y)


def _splice() -> Data:
    """EI against IE: UCI's has three classes, and the paper's two are not said."""
    X, labels = raw("splice", 287)
    chosen = np.flatnonzero(labels != 3)
    return Data(X[chosen], np.where(labels[chosen] == 1, 1.0, -1.0))


def _pima() -> Data:
    """Standardised, as Raetsch's diabetes is."""
    data = _dense("pima", 8)
    return Data((data.X - data.X.mean(axis=0)) / data.X.std(axis=0), data.y)


def _gauss() -> Data:
    """Two Gaussians that overlap: S. Haykin, "Neural networks", section 4.8: unit variance at 0, variance 4 at (2, 0)."""
    random = np.random.default_rng(0)
    y = np.where(random.random(GAUSS_SAMPLES) < 0.5, 1.0, -1.0)
    points = random.normal(size=(GAUSS_SAMPLES, 2))
    return Data(np.where(y[:, None] > 0.0, points, 2.0 * points + np.array([2.0, 0.0])), y)


class Printed(NamedTuple):
    """What the paper has: the set, its support vectors, the q of its program, and the seconds of it and of SVMlight."""

    name: str
    n_support: int
    q: int
    radit: float
    light: float


class Entry(NamedTuple):
    """A row of Table 3."""

    named: Named
    paper: Printed
    is_quick: bool = False


TABLE_3 = (
    Entry(
        Named("a9a, first 11,221", gamma_of(10), 1.0, lambda: _first(load("a9a"), 11221)),
        Printed("Adult6", 4477, 150, 118.2, 124.46),
    ),
    Entry(Named("a9a", gamma_of(10), 1.0, lambda: load("a9a")), Printed("Adult9", 12181, 130, 1093.29, 1097.09)),
    Entry(Named("a1a", gamma_of(10), 1000.0, lambda: _file("a1a", 123)), Printed("Adult1", 630, 100, 25.98, 113.54), True),
    Entry(
        Named("w7a, 2,477 by class", gamma_of(10), 5.0, lambda: _drawn_by_class(load("w7a"), 2477)),
        Printed("Web1", 224, 100, 2.42, 2.36),
    ),
    Entry(Named("w7a", gamma_of(10), 5.0, lambda: load("w7a")), Printed("Web7", 1444, 150, 158.13, 124.57)),
    Entry(Named("Gauss-M", gamma_of(1), 1.0, _gauss), Printed("Gauss-M", 1736, 70, 12.69, 48.28), True),
    Entry(Named("Gauss-M", gamma_of(1), 100.0, _gauss), Printed("Gauss-M", 1516, 100, 61.68, 3053.20)),
    Entry(
        Named("banana, 400", gamma_of(1), 316.2, lambda: _drawn(_dense("banana", 2), 400)),
        Printed("Banana 400", 80, 40, 0.33, 0.77),
        True,
    ),
    Entry(Named("banana", gamma_of(1), 316.2, lambda: _dense("banana", 2)), Printed("Banana 4900", 1084, 70, 22.46, 1786.56)),
    Entry(Named("pima", gamma_of(2), 10.0, _pima), Printed("Diabetes", 409, 40, 2.41, 6.04), True),
    Entry(Named("splice EI/IE", gamma_of(70), 1000.0, _splice), Printed("Splice", 525, 150, 14.06, 49.19)),
)
TABLE_2 = (
    Named("a9a, first 4,781", gamma_of(10), 1.0, lambda: _first(load("a9a"), 4781)),
    Named("splice EI/IE", gamma_of(70), 1000.0, _splice),
)
QUICK_TABLE_2 = (Named("a1a", gamma_of(10), 1.0, lambda: _file("a1a", 123)), TABLE_2[1])
SELECTION = (
    Named("a1a", gamma_of(10), 1.0, lambda: _file("a1a", 123)),
    Named("a1a", gamma_of(10), 1000.0, lambda: _file("a1a", 123)),
    Named("w7a, first 2,477", gamma_of(10), 5.0, lambda: _first(load("w7a"), 2477)),
    Named("w7a, 2,477 by class", gamma_of(10), 5.0, lambda: _drawn_by_class(load("w7a"), 2477)),
    Named("Gauss-M", gamma_of(1), 1.0, _gauss),
    Named("Gauss-M", gamma_of(1), 100.0, _gauss),
    Named("banana", gamma_of(1), 316.2, lambda: _dense("banana", 2)),
    Named("splice EI/IE", gamma_of(70), 1000.0, _splice),
)
