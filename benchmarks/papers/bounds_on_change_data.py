"""The data sets of ``benchmarks.papers.bounds_on_change_in_the_margin``, and what the paper says of each."""

from __future__ import annotations

import lzma
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.datasets import Data, data_folder, load, load_test

QUICK_ROWS = 3000


class Case(NamedTuple):
    """A data set with the paper's lambdas, iterations for Table 3 (k = 100 and 1000) and speed-ups. ``most`` limits Table 2,
    ``followed`` the comparison of iterates."""

    name: str
    stands_for: str
    lambda_2: float
    lambda_3: float
    T: dict[int, int]
    paper_2: tuple[float, float, float]
    paper_3: dict[int, float]
    most: int = 20_000
    followed: int = 500


COVTYPE, MNIST, USPS, NEWS20 = "covtype.binary.scale", "mnist (8)", "usps (8)", "news20_bigram"
REUTERS = "svmlight_example1"
RCV1 = (2.41, 2.47, 2.39), {100: 0.23, 1000: 0.86}
CASES = (
    Case(COVTYPE, "Covtype", 1e-7, 1e-6, {100: 10**5, 1000: 10**5}, (0.25, 0.97, 2.11), {100: 1.07, 1000: 1.21}),
    Case(MNIST, "MNIST", 1e-3, 1e-3, {100: 10**4, 1000: 10**4}, (3.19, 4.80, 6.54), {100: 1.13, 1000: 1.82}),
    Case(USPS, "USPS", 1e-5, 1e-5, {100: 10**6, 1000: 10**5}, (2.65, 5.30, 9.25), {100: 1.25, 1000: 1.27}),
    Case(REUTERS, "RCV1", 1e-7, 1e-4, {100: 10**4, 1000: 10**3}, *RCV1, 7868, 500),
    Case(NEWS20, "RCV1", 1e-7, 1e-4, {100: 10**4, 1000: 10**3}, *RCV1, 500, 60),
)
BY_NAME = {case.name: case for case in CASES}
TEXTS = (REUTERS, NEWS20)


class Split(NamedTuple):
    train: Data
    test: Data


def split_of(name: str, is_quick: bool = False) -> Split:
    """The official test set, or, as in the paper, a tenth of the rows where there is none."""
    split = _split_of(name)
    return Split(Data(split.train.X[:QUICK_ROWS], split.train.y[:QUICK_ROWS]), split.test) if is_quick else split


def _split_of(name: str) -> Split:
    if name == USPS:
        return Split(_usps("usps"), _usps("usps.t"))
    if name == REUTERS:
        return Split(_reuters("train"), _reuters("test"))
    source = name.removesuffix(" (8)")
    data, test = load(source), load_test(source)
    if test is not None:
        return Split(data, test)
    order = np.random.default_rng(0).permutation(len(data.y))
    held_out, kept = np.sort(order[: len(order) // 10]), np.sort(order[len(order) // 10 :])
    return Split(Data(data.X[kept], data.y[kept]), Data(data.X[held_out], data.y[held_out]))


def _usps(file: str) -> Data:
    X, labels = _parsed(file, 256)
    return Data(np.ascontiguousarray(X.toarray()), np.where(labels == 8.0, 1.0, -1.0))


def _reuters(part: str) -> Data:
    return _parsed(f"{REUTERS}.{part}", 9947)


def _parsed(file: str, n_features: int) -> Data:
    with lzma.open(data_folder() / f"{file}.xz", "rb") as text:
        return Data(*load_svmlight_file(text, n_features=n_features, zero_based=False))
