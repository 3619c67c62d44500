"""Reading the text models of other tools line by line, and the labels that both of them have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data import Array
from maxmargin.io.files import MalformedFile

MOST_FEATURES = 2**27
"""A dense vector of weights of a gigabyte: a greater index in a model of a stranger is an accident or an attack."""


def whole_labels(estimator: Any) -> list[int]:
    """The classes of a model, if they are what LIBLINEAR and LIBSVM can name."""
    labels = np.asarray(estimator.classes_)
    if labels.dtype.kind not in "biuf" or np.any(labels != labels.astype(np.int64)):
        raise ValueError(f"LIBLINEAR and LIBSVM have whole numbers as labels; this model has {labels[:3].tolist()} ...")
    whole: list[int] = labels.astype(np.int64).tolist()
    return whole


class Lines:
    """The lines of a text model, with the number of the present one for complaints."""

    def __init__(self, path: Path) -> None:
        self.path, self.number_of_line = path, 0
        try:
            self.lines = path.read_text(encoding="ascii").splitlines()
        except UnicodeDecodeError as error:
            raise MalformedFile(path, "it is no text model") from error

    def _next(self) -> str:
        if self.number_of_line >= len(self.lines):
            raise MalformedFile(self.path, "it ends too early: it is truncated")
        self.number_of_line += 1
        return self.lines[self.number_of_line - 1].strip()

    def _complaint(self, sentence: str) -> MalformedFile:
        return MalformedFile(self.path, sentence, self.number_of_line, 1)

    def header(self, last: str, needed: tuple[str, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        while (line := self._next()) != last:
            key, _, value = line.partition(" ")
            if not value or key in found:
                raise self._complaint(f"a header line that is no 'name value' or comes twice: {line[:60]!r}")
            found[key] = value.strip()
        for key in needed:
            if key not in found:
                raise self._complaint(f"the header has no {key!r}")
        return found

    def rest(self) -> Iterator[str]:
        while self.number_of_line < len(self.lines):
            if line := self._next():
                yield line

    def labels(self, header: dict[str, str]) -> list[int]:
        labels = [self.whole(text) for text in header["label"].split()]
        if len(labels) != self.whole(header["nr_class"]) or len(set(labels)) != len(labels) or len(labels) < 2:
            raise self._complaint(f"the labels {header['label']!r} do not fit nr_class {header['nr_class']}")
        return labels

    def row(self, text: str, length: int) -> list[float]:
        values = [self.number(value) for value in text.split()]
        if len(values) != length:
            raise self._complaint(f"{len(values)} numbers on a line where {length} belong")
        return values

    def number(self, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise self._complaint(f"{text[:40]!r} is not a number") from None
        if not np.isfinite(value):
            raise self._complaint(f"{text[:40]!r} is not finite")
        return value

    def index(self, text: str) -> int:
        index = self.whole(text)
        if not 1 <= index <= MOST_FEATURES:
            raise self._complaint(f"a feature index must lie between 1 and {MOST_FEATURES}; {text[:40]!r} does not")
        return index

    def features(self, words: list[str]) -> tuple[Array, Array]:
        """The indices and values of words like 3:0.5, with rising indices."""
        numbers = _numbers([word.split(":") for word in words])
        indices = numbers[:, 0]
        is_good = np.isfinite(numbers).all() and (indices >= 1).all() and (indices <= MOST_FEATURES).all()
        if not (is_good and (indices == np.floor(indices)).all()):
            numbers = np.array([self._feature(word) for word in words])
        if np.any(np.diff(numbers[:, 0]) <= 0):
            raise self._complaint("the indices of a line must increase")
        return numbers[:, 0].astype(np.int64), numbers[:, 1]

    def _feature(self, word: str) -> tuple[float, float]:
        """One word, read slowly, to say what is wrong with it."""
        name, _, value = word.partition(":")
        return float(self.index(name)), self.number(value)

    def whole(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise self._complaint(f"{text[:40]!r} is not a whole number") from None


def _numbers(pairs: list[list[str]]) -> Array:
    """One row a pair; NaN if not all are pairs of numbers."""
    if not pairs:
        return np.empty((0, 2))
    try:
        numbers = np.array(pairs, dtype=np.float64)
    except ValueError:
        numbers = np.empty(0)
    return numbers if numbers.shape == (len(pairs), 2) else np.full((1, 2), np.nan)
