"""Reading the text models of other tools: a header of names and values, then lines of numbers. A complaint names its line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.io.files import MalformedFile
from maxmargin.models import policy


class TextLine(NamedTuple):
    """A line of a file, or the part of it that matters; lines count from 1."""

    path: Path
    place: int
    text: str

    def complaint(self, sentence: str) -> MalformedFile:
        return MalformedFile(self.path, sentence, self.place)

    def parted(self, n_words: int) -> tuple[TextLine, TextLine]:
        """The first words, and the others."""
        words = self.text.split(maxsplit=n_words)
        return self._replace(text=" ".join(words[:n_words])), self._replace(text=" ".join(words[n_words:]))

    def number(self) -> float:
        return self.numbers(1)[0]

    def numbers(self, length: int) -> list[float]:
        values = [self._number(word) for word in self.text.split()]
        if len(values) != length:
            raise self.complaint(f"{len(values)} numbers on a line where {length} belong")
        return values

    def whole(self) -> int:
        return self._whole(self.text)

    def wholes(self) -> list[int]:
        return [self._whole(word) for word in self.text.split()]

    def features(self) -> tuple[Array, Array]:
        """The indices and values of words like 3:0.5, with rising indices."""
        words = self.text.split()
        numbers = _pairs([word.split(":") for word in words])
        if numbers is None or "_" in self.text:
            numbers = np.array([self._feature(word) for word in words])
        if np.any(np.diff(numbers[:, 0]) <= 0):
            raise self.complaint("the indices of a line must increase")
        return numbers[:, 0].astype(np.int64), numbers[:, 1]

    def _feature(self, word: str) -> tuple[float, float]:
        """Read one word alone, to say what is wrong with it."""
        name, _, value = word.partition(":")
        index = self._whole(name)
        if not 1 <= index <= policy.LIMITS.most_text_features:
            raise self.complaint(
                f"a feature index must lie between 1 and {policy.LIMITS.most_text_features}; {name[:40]!r} does not"
            )
        return float(index), self._number(value)

    def _number(self, word: str) -> float:
        try:
            value = float(_without_underscore(word))
        except ValueError:
            raise self.complaint(f"{word[:40]!r} is not a number") from None
        if not np.isfinite(value):
            raise self.complaint(f"{word[:40]!r} is not finite")
        return value

    def _whole(self, word: str) -> int:
        try:
            return int(_without_underscore(word))
        except ValueError:
            raise self.complaint(f"{word[:40]!r} is not a whole number") from None


def _without_underscore(word: str) -> str:
    """Python takes 1_000 for a number; no other tool does."""
    if "_" in word:
        raise ValueError
    return word


def _pairs(words: list[list[str]]) -> Array | None:
    """Read all words at once, a row for each feature. None if a word is wrong or has an unusual form."""
    if not words:
        return np.empty((0, 2))
    if not all(word[0].isdigit() for word in words):  # 1.0 and 1e0 are no indices
        return None
    try:
        numbers = np.array(words, dtype=np.float64)
    except ValueError:
        return None
    if numbers.shape != (len(words), 2) or not np.isfinite(numbers).all():
        return None
    indices = numbers[:, 0]
    is_good = (
        (indices >= 1).all() and (indices <= policy.LIMITS.most_text_features).all() and (indices == np.floor(indices)).all()
    )
    return numbers if is_good else None


@dataclass(frozen=True)
class Header:
    """The values by their names, each with its line, and the line that ends them."""

    values: dict[str, TextLine]
    end: TextLine

    def __getitem__(self, name: str) -> TextLine:
        if name not in self.values:
            raise self.end.complaint(f"the header has no {name!r}")
        return self.values[name]

    def labels(self) -> list[int]:
        """The labels: two or more, all different, and as many as ``nr_class`` says."""
        labels, n_classes = self["label"].wholes(), self["nr_class"].whole()
        if len(labels) != n_classes or len(set(labels)) != n_classes or n_classes < 2:
            raise self["label"].complaint(f"the labels {self['label'].text!r} do not fit nr_class {n_classes}")
        return labels


def header_and_rest(path: Path, last: str) -> tuple[Header, Iterator[TextLine]]:
    """What stands before the line ``last``, and the lines after it that are not empty, read when they are asked for."""
    lines = _lines(path)
    values: dict[str, TextLine] = {}
    place = 0
    for line in lines:
        place = line.place
        if line.text == last:
            return Header(values, line), (later for later in lines if later.text)
        name, _, value = line.text.partition(" ")
        if not value or name in values or len(values) == policy.LIMITS.most_names:
            raise line.complaint(f"a header line that is no 'name value' or comes twice: {line.text[:60]!r}")
        values[name] = line._replace(text=value.strip())
    raise MalformedFile(path, "it ends too early: it is truncated", place)


def _lines(path: Path) -> Iterator[TextLine]:
    with open(path, "rb") as file:
        for place in count(1):
            content = file.readline(policy.LIMITS.most_line_bytes + 1)
            if not content:
                return
            if len(content) > policy.LIMITS.most_line_bytes:
                raise MalformedFile(path, f"a line of a model may have at most {policy.LIMITS.most_line_bytes} bytes", place)
            if not content.isascii() or b"\0" in content:
                raise MalformedFile(path, "it is not a text model", place)
            if not content.endswith(b"\n"):  # a number that was cut off still looks like a number
                raise MalformedFile(path, "it ends too early, in the middle of a line: it is truncated", place)
            yield TextLine(path, place, content.decode("ascii").strip())


def whole_labels(estimator: Any) -> list[int]:
    """The classes of a model, if they are what LIBLINEAR and LIBSVM can name."""
    labels = np.asarray(estimator.classes_)
    if labels.dtype.kind not in "biuf" or np.any(labels != labels.astype(np.int64)):
        raise ValueError(f"LIBLINEAR and LIBSVM have whole numbers as labels; this model has {labels[:3].tolist()} ...")
    whole: list[int] = labels.astype(np.int64).tolist()
    return whole
