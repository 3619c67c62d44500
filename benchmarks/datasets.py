"""The real data sets of the benchmarks, from LIBSVM text.

They lie in the folder named by the environment variable MAXMARGIN_DATA, else in ``../shared/data`` beside the repository.
The parsed arrays are kept in ``.cache/`` of the repository: delete it after a change of the text files.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from maxmargin.data.rows import Array

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"


class _Source(NamedTuple):
    n_features: int
    has_test: bool
    scale: float = 1.0
    positive: float = 1.0
    """The label that becomes +1; all others become -1."""


SOURCES = {
    "a9a": _Source(123, True),
    "w7a": _Source(300, True),
    "ijcnn1": _Source(22, True),
    "covtype.binary.scale": _Source(54, False),
    "mnist": _Source(784, True, scale=1.0 / 255.0, positive=8.0),
    "news20_bigram": _Source(1_848_216, False),
    "mushrooms": _Source(112, False),
}
NAMES = tuple(name for name in SOURCES if name != "mushrooms")
QUICK_NAMES = ("a9a", "w7a", "ijcnn1")


class Data(NamedTuple):
    """CSR in float64 with 32-bit indices, and labels +1.0 and -1.0."""

    X: Any
    y: Array


def load(name: str) -> Data:
    """The training set. ``mnist`` is 8 against the rest with pixels in [0, 1]."""
    return _load(name, name)


def load_test(name: str) -> Data | None:
    """The test set with the features of the training set, where there is one."""
    return _load(name, f"{name}.t") if SOURCES[name].has_test else None


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Write under a temporary name beside ``path`` (same suffix) and rename: no reader meets half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """All of the text, or nothing."""
    write_atomically(path, lambda temporary: _write(temporary, text))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _load(name: str, file: str) -> Data:
    cached = CACHE / "data" / f"{file}.npz"
    if not cached.exists():
        X, y = _parse(data_folder() / f"{file}.xz", SOURCES[name])
        write_atomically(
            cached,
            lambda path: np.savez(path, values=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y),
        )
    with np.load(cached) as arrays:
        X = sparse.csr_matrix((arrays["values"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
        return Data(X, arrays["y"])


def load_raw(name: str) -> Data:
    """A set as its file has it: unscaled dense columns, and the labels or real targets."""
    with lzma.open(data_folder() / f"{name}.xz", "rb") as text:
        X, target = load_svmlight_file(text, zero_based=False)
    return Data(np.ascontiguousarray(X.toarray()), target)


def data_folder() -> Path:
    return Path(os.environ.get("MAXMARGIN_DATA") or ROOT.parent / "shared" / "data")


def _parse(path: Path, source: _Source) -> Data:
    with lzma.open(path, "rb") as text:
        raw, labels = load_svmlight_file(text, n_features=source.n_features, zero_based=False)
    values = raw.data.astype(np.float64) * source.scale
    X = sparse.csr_matrix((values, raw.indices.astype(np.int32), raw.indptr.astype(np.int32)), shape=raw.shape)
    X.sort_indices()
    return Data(X, np.where(labels == source.positive, 1.0, -1.0))


def load_digits(one: int, other: int) -> Data:
    """Two digits of mnist's training set, pixels in [0, 1]: +1 for the first."""
    X, labels = load("mnist").X, _digits()
    chosen = np.flatnonzero((labels == one) | (labels == other))
    return Data(X[chosen], np.where(labels[chosen] == one, 1.0, -1.0))


def load_all_digits() -> Data:
    """mnist's training set with all ten classes, pixels in [0, 1]."""
    return Data(load("mnist").X, _digits())


def _digits() -> Array:
    """The digit of every training sample: ``load`` keeps only whether it is an 8."""
    cached = CACHE / "data" / "mnist.digits.npy"
    if not cached.exists():
        with lzma.open(data_folder() / "mnist.xz", "rt") as text:
            labels = np.array([float(line.split(maxsplit=1)[0]) for line in text])
        write_atomically(cached, lambda path: np.save(path, labels))
    digits: Array = np.load(cached)
    return digits


MULTICLASS = {"letter.scale": 16, "usps": 256, "sector.scale": 55_197}
"""Sets with several classes, and their features."""


def load_classes(name: str) -> Data:
    """A training set with the labels of its file: those of ``MULTICLASS``, and mnist."""
    if name == "mnist":
        return load_all_digits()
    cached = CACHE / "data" / f"{name}.classes.npz"
    if not cached.exists():
        with lzma.open(data_folder() / f"{name}.xz", "rb") as text:
            X, labels = load_svmlight_file(text, n_features=MULTICLASS[name], zero_based=False)
        write_atomically(
            cached,
            lambda path: np.savez(path, values=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=labels),
        )
    with np.load(cached) as arrays:
        X = sparse.csr_matrix(
            (arrays["values"], arrays["indices"].astype(np.int32), arrays["indptr"].astype(np.int32)),
            shape=tuple(arrays["shape"]),
        )
        return Data(X, arrays["y"])
