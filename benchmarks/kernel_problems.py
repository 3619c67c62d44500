"""The problems of the kernel benchmarks: data, kernel and C."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from benchmarks.datasets import Data, data_folder, load
from maxmargin import RBF, KernelProblem
from maxmargin.data.rows import Array

COVTYPE_ROWS = 30_000
MNIST_ROWS = 20_000
BANANA_ROWS = 4_900


@dataclass(frozen=True)
class Named:
    """An RBF problem with offset; ``X`` is dense where most of it is not zero, as a user would have it."""

    name: str
    gamma: float
    C: float
    make: Callable[[], Data]

    def __str__(self) -> str:
        return f"{self.name}, C = {self.C:g}"

    def problem(self, data: Data) -> KernelProblem:
        return KernelProblem.build(data.X, data.y, self.C, RBF(self.gamma))


def _dense(data: Data) -> Data:
    return Data(np.ascontiguousarray(data.X.toarray()), data.y)


def raw(file: str, n_features: int) -> tuple[Any, Array]:
    with lzma.open(data_folder() / f"{file}.xz", "rb") as text:
        X, labels = load_svmlight_file(text, n_features=n_features, zero_based=False)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # LIBSVM takes no others
    return sparse.csr_matrix(X), labels


def _mnist_digits(first: int, second: int) -> Data:
    X, labels = raw("mnist", 784)
    chosen = np.flatnonzero((labels == first) | (labels == second))
    return Data(X[chosen] / 255.0, np.where(labels[chosen] == first, 1.0, -1.0))


def _mnist_8() -> Data:
    data = load("mnist")
    return Data(data.X[:MNIST_ROWS], data.y[:MNIST_ROWS])


def _covtype() -> Data:
    data = load("covtype.binary.scale")
    chosen = np.sort(np.random.default_rng(0).choice(len(data.y), COVTYPE_ROWS, replace=False))
    return _dense(Data(data.X[chosen], data.y[chosen]))


def _banana() -> Data:
    X, labels = raw("banana", 2)
    return _dense(Data(X, np.where(labels > 0, 1.0, -1.0)))


def _banana_sample() -> Data:
    data = _banana()
    chosen = np.sort(np.random.default_rng(0).choice(len(data.y), BANANA_ROWS, replace=False))
    return Data(data.X[chosen], data.y[chosen])


def _usps() -> Data:
    X, labels = raw("usps", 256)
    return _dense(Data(X, np.where(labels % 2 == 0, 1.0, -1.0)))


PROBLEMS = (
    Named("a9a", 1 / 200, 1.0, lambda: load("a9a")),
    Named("a9a", 1 / 200, 100.0, lambda: load("a9a")),
    Named("ijcnn1", 2.0, 1.0, lambda: load("ijcnn1")),
    Named("ijcnn1", 2.0, 32.0, lambda: load("ijcnn1")),
    Named("mnist 3/5", 1 / 72, 1.0, lambda: _mnist_digits(3, 5)),
    Named("mnist 8/rest", 1 / 72, 1.0, _mnist_8),
    Named("w7a", 1 / 200, 5.0, lambda: load("w7a")),
    Named("banana", 0.5, 10.0**2.5, _banana),
    Named("usps even/odd", 1 / 256, 10.0, _usps),
    Named("covtype 30,000", 8.0, 1.0, _covtype),
)
HARD = (
    Named("covtype 30,000", 8.0, 100.0, _covtype),
    Named("a1a", 1 / 200, 1000.0, lambda: Data(*raw("a1a", 123))),
    Named("banana 4,900", 0.5, 10.0**2.5, _banana_sample),
)
"""Where C is large; apart from the others, so that no mean counts them."""
QUICK = ("w7a", "usps even/odd", "banana")
