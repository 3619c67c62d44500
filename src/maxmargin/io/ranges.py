"""Scaling of features into one range, and the files of ranges of LIBSVM's ``svm-scale``, read and written.

A feature with the values m to M becomes l + (u - l)(x - m) / (M - m). A feature that a line does not name has the value zero. A
feature with only one value carries no information and is left out. The file has a line ``x``, a line with l and u, and a line
with the index, m and M of every feature that is kept; before them, if the labels are scaled, ``y``, their bounds and their m
and M.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.io.files import MalformedFile, explained
from maxmargin.io.outputs import Output, written


@dataclass(frozen=True)
class ScalingPolicy:
    """Limits of scaling."""

    most_dense_cells: int = 1 << 22
    """Values of a block of rows that is dense for a moment: 32 MB in float64."""
    most_features: int = 1 << 27
    """Features in a file of ranges: two vectors of a gigabyte each."""
    most_file_bytes: int = 1 << 32
    """The longest file of ranges that is read: 2^27 lines of 32 bytes."""


POLICY = ScalingPolicy()


class Ends(NamedTuple):
    """Two ends, the lower one first."""

    lower: float
    upper: float


class TargetRange(NamedTuple):
    """What labels are scaled from and to."""

    bounds: Ends
    seen: Ends


@dataclass(frozen=True)
class Ranges:
    """The least and the greatest value of every feature, and the bounds that they are to be scaled to."""

    bounds: Ends
    least: Array
    greatest: Array
    target: TargetRange | None = None

    @classmethod
    def measured(cls, pieces: Iterable[tuple[Any, Array]], bounds: Ends, target_bounds: Ends | None = None) -> Ranges:
        """The ranges of all samples of some pieces. A piece may be narrower than another: its last features are zero."""
        least = greatest = np.zeros(0)
        seen = Ends(np.inf, -np.inf)
        for X, y in pieces:
            X = sparse.csr_matrix(X)
            least = _combined(np.minimum, least, X.min(axis=0).toarray().ravel(), is_first=seen.lower > seen.upper)
            greatest = _combined(np.maximum, greatest, X.max(axis=0).toarray().ravel(), is_first=seen.lower > seen.upper)
            labels = y if target_bounds is not None else np.zeros(1)
            seen = Ends(min(seen.lower, float(labels.min())), max(seen.upper, float(labels.max())))
        return cls(bounds, least, greatest, None if target_bounds is None else TargetRange(target_bounds, seen))

    @property
    def n_features(self) -> int:
        return len(self.least)

    @property
    def is_kept(self) -> Array:
        """Features with more than one value."""
        return self.least < self.greatest

    def blocks(self, X: Any) -> Iterator[Any]:
        """The scaled rows, as CSR matrices of some megabytes. Features that the ranges do not know are left out."""
        X = sparse.csr_matrix(X, dtype=np.float64, copy=True)
        X.resize(X.shape[0], self.n_features)
        zeros = np.where(self.is_kept, self._scaled(np.zeros(self.n_features), np.arange(self.n_features)), 0.0)
        if not zeros.any():
            yield self._stored(X)
            return
        n_rows = max(1, POLICY.most_dense_cells // self.n_features)
        for start in range(0, X.shape[0], n_rows):
            yield self._dense(X[start : start + n_rows], zeros)

    def labels(self, y: Array) -> Array:
        """The labels, scaled if the ranges say so."""
        if self.target is None:
            return y
        (lower, upper), (least, greatest) = self.target
        return _mapped(y, np.asarray(least), np.asarray(greatest), Ends(lower, upper))

    def _stored(self, X: Any) -> Any:
        """Scale the stored values only, where zero stays zero."""
        X.data = np.where(self.is_kept[X.indices], self._scaled(X.data, X.indices), 0.0)
        X.eliminate_zeros()
        return X

    def _dense(self, X: Any, zeros: Array) -> Any:
        cells = np.repeat(zeros[None, :], X.shape[0], axis=0)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        cells[rows, X.indices] = np.where(self.is_kept[X.indices], self._scaled(X.data, X.indices), 0.0)
        return sparse.csr_matrix(cells)

    def _scaled(self, values: Array, features: Array) -> Array:
        return _mapped(values, self.least[features], self.greatest[features], self.bounds)

    def write(self, path: str | os.PathLike[str] | Output, *, zero_based: bool = False) -> None:
        """Write the file as ``svm-scale -s`` does."""
        lines = []
        if self.target is not None:
            lines += ["y", _joined(self.target.bounds), _joined(self.target.seen)]
        lines += ["x", _joined(self.bounds)]
        first = 0 if zero_based else 1
        kept = np.flatnonzero(self.is_kept)
        ends = zip(kept.tolist(), self.least[kept].tolist(), self.greatest[kept].tolist(), strict=True)
        lines += [f"{feature + first} {_joined(Ends(*rest))}" for feature, *rest in ends]
        with written(path) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, zero_based: bool = False) -> Ranges:
        """Read a file that ``svm-scale -s`` or ``write`` wrote."""
        path = Path(path)
        with explained(path, "it is not a file of ranges, as svm-scale and maxmargin scale write them"):
            return _Reader(path).ranges(first=0 if zero_based else 1)


def _combined(choose: Any, one: Array, other: Array, *, is_first: bool) -> Array:
    """The extremes of both. A feature that one of them lacks was zero there."""
    if is_first:
        return other
    width = max(len(one), len(other))
    return np.asarray(choose(*(np.pad(part, (0, width - len(part))) for part in (one, other))))


def _mapped(values: Array, least: Array, greatest: Array, bounds: Ends) -> Array:
    """svm-scale's formula. The ends are hit exactly, and a feature with one value stays as it is."""
    span = np.where(greatest > least, greatest - least, 1.0)
    inside = bounds.lower + (bounds.upper - bounds.lower) * (values - least) / span
    ends = np.where(values == least, bounds.lower, np.where(values == greatest, bounds.upper, inside))
    return np.where(greatest > least, ends, values)


def _joined(ends: Ends) -> str:
    return " ".join(repr(float(end)).removesuffix(".0") for end in ends)


class _Reader:
    """The lines of a file of ranges, each complained about by its number."""

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, 0
        with open(path, "rb") as file:
            content = file.read(POLICY.most_file_bytes)
        self.lines = content.decode("ascii").splitlines()

    def ranges(self, first: int) -> Ranges:
        target = None
        if self._next() == "y":
            target = TargetRange(self._interval("bounds of the labels"), self._interval("labels", may_be_equal=True))
            self._next()
        if self.lines[self.place - 1].strip() != "x":
            raise self._complaint("a line with 'x' alone belongs here: it is not a file of ranges of svm-scale")
        bounds = self._interval("bounds of the features")
        ends = [self._feature(first) for _ in range(len(self.lines) - self.place)]
        width = max((feature + 1 for feature, _ in ends), default=0)
        least, greatest = np.zeros(width), np.zeros(width)
        for feature, interval in ends:
            least[feature], greatest[feature] = interval
        return Ranges(bounds, least, greatest, target)

    def _next(self) -> str:
        self.place += 1
        if self.place > len(self.lines):
            raise self._complaint("it ends too early: it is truncated, or not a file of ranges of svm-scale")
        return self.lines[self.place - 1].strip()

    def _interval(self, what: str, *, may_be_equal: bool = False) -> Ends:
        return self._numbers(self._next().split(), what, may_be_equal)

    def _feature(self, first: int) -> tuple[int, Ends]:
        name, *ends = self._next().split() or [""]
        if not name.isdigit() or not first <= int(name) < POLICY.most_features:
            raise self._complaint(f"{name[:40]!r} is not the index of a feature between {first} and {POLICY.most_features}")
        return int(name) - first, self._numbers(ends, f"feature {name}", True)

    def _numbers(self, words: list[str], what: str, may_be_equal: bool) -> Ends:
        try:
            lower, upper = map(float, words)
        except ValueError:
            raise self._complaint(f"two numbers belong here, the ends of the range of the {what}") from None
        if not (np.isfinite(lower) and np.isfinite(upper) and (lower < upper or (may_be_equal and lower == upper))):
            raise self._complaint(f"the range of the {what} must have a lower end and a greater upper end")
        return Ends(lower, upper)

    def _complaint(self, sentence: str) -> MalformedFile:
        return MalformedFile(self.path, sentence, self.place)
