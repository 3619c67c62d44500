"""The text models of LIBLINEAR and of LIBSVM (linear kernel, two classes), read and written.

Both tools take whole numbers as labels and the first label they list as the positive class; their weights go the other way
round when the greater label stands second. An imported model predicts, but has no certificate: ``maxmargin certify`` makes one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data import Array
from maxmargin.estimators.linear_classifier import dense_weights
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.io.files import MalformedFile, replaced

LIBLINEAR_LOSSES = {
    "L2R_L2LOSS_SVC_DUAL": "squared_hinge",
    "L2R_L2LOSS_SVC": "squared_hinge",
    "L2R_L1LOSS_SVC_DUAL": "hinge",
}
MOST_FEATURES = 2**27
"""A dense vector of weights of a gigabyte: a greater index in a model of a stranger is an accident or an attack."""
LIBLINEAR_TYPES = {"hinge": "L2R_L1LOSS_SVC_DUAL", "squared_hinge": "L2R_L2LOSS_SVC_DUAL"}


def read_liblinear(path: str | os.PathLike[str]) -> LinearSVC:
    """A model of LIBLINEAR's for hinge or squared hinge loss."""
    lines = _Lines(Path(path))
    header = lines.header("w", ("solver_type", "nr_class", "label", "nr_feature", "bias"))
    kind = header["solver_type"]
    if kind not in LIBLINEAR_LOSSES:
        raise MalformedFile(path, f"a LIBLINEAR model of type {kind!r}; {', '.join(LIBLINEAR_LOSSES)} can be read")
    labels, bias = lines.labels(header), lines.number(header["bias"])
    n_features, n_columns = lines.whole(header["nr_feature"]), 1 if len(labels) == 2 else len(labels)
    rows = [lines.row(text, n_columns) for text in lines.rest()]
    if len(rows) != n_features + (bias >= 0):
        raise MalformedFile(
            path, f"{len(rows)} rows of weights where {n_features + (bias >= 0)} belong: it is truncated or damaged"
        )
    w = np.array(rows, dtype=np.float64).reshape(len(rows), n_columns)
    intercept = w[-1] * bias if bias >= 0 else np.zeros(n_columns)
    model = LinearSVC(loss=LIBLINEAR_LOSSES[kind], fit_intercept=bool(bias > 0), intercept_scaling=bias if bias > 0 else 1.0)
    return _filled(model, labels, w[:n_features].T, intercept)


def read_libsvm(path: str | os.PathLike[str]) -> LinearSVC:
    """A two-class model of LIBSVM's with linear kernel, its support vectors added up to one vector of weights."""
    lines = _Lines(Path(path))
    header = lines.header("SV", ("svm_type", "kernel_type", "nr_class", "total_sv", "rho", "label"))
    for key, value in (("svm_type", "c_svc"), ("kernel_type", "linear"), ("nr_class", "2")):
        if header[key] != value:
            raise MalformedFile(path, f"a LIBSVM model with {key} {header[key]}; only {value} can be read")
    labels, rho = lines.labels(header), lines.number(header["rho"])
    weights: dict[int, float] = {}
    count = 0
    for text in lines.rest():
        coefficient, *features = text.split()
        count += 1
        for feature in features:
            name, _, value = feature.partition(":")
            index = lines.index(name)
            weights[index] = weights.get(index, 0.0) + lines.number(coefficient) * lines.number(value)
    if count != lines.whole(header["total_sv"]):
        raise MalformedFile(path, f"{count} support vectors where {header['total_sv']} belong: it is truncated or damaged")
    w = np.zeros((1, max(weights, default=1)))
    for index, weight in weights.items():
        w[0, index - 1] = weight
    return _filled(LinearSVC(loss="hinge", penalize_intercept=False), labels, w, np.array([-rho]))


def write_liblinear(estimator: Any, path: str | os.PathLike[str]) -> None:
    """A model that LIBLINEAR's ``predict`` reads."""
    labels, w, intercept = _as_they_have_it(estimator)
    has_intercept = bool(intercept.any())
    table = np.vstack([w.T, intercept]) if has_intercept else w.T
    with replaced(path) as file:
        file.write(
            f"solver_type {LIBLINEAR_TYPES[estimator.loss]}\nnr_class {len(labels)}\nlabel {' '.join(map(str, labels))}\n"
            f"nr_feature {w.shape[1]}\nbias {1 if has_intercept else -1}\nw\n".encode()
        )
        for row in table.tolist():
            file.write((" ".join(f"{value!r}" for value in row) + " \n").encode())


def write_libsvm(estimator: Any, path: str | os.PathLike[str]) -> None:
    """A model that LIBSVM's ``svm-predict`` reads: the weights as its only support vector."""
    labels, w, intercept = _as_they_have_it(estimator)
    if len(labels) != 2:
        raise ValueError(
            f"LIBSVM separates classes pairwise: a one-vs-rest model of {len(labels)} classes cannot be written for it."
        )
    features = "".join(f" {j + 1}:{value!r}" for j, value in enumerate(w[0].tolist()) if value != 0.0)
    with replaced(path) as file:
        file.write(
            f"svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho {float(-intercept[0])!r}\n"
            f"label {labels[0]} {labels[1]}\nnr_sv 1 0\nSV\n1{features} \n".encode()
        )


def _as_they_have_it(estimator: Any) -> tuple[list[int], Array, Array]:
    """Labels, weights and intercepts with the positive class first."""
    labels = np.asarray(estimator.classes_)
    if labels.dtype.kind not in "biuf" or np.any(labels != labels.astype(np.int64)):
        raise ValueError(f"LIBLINEAR and LIBSVM have whole numbers as labels; this model has {labels[:3].tolist()} ...")
    whole = labels.astype(np.int64).tolist()
    return (whole[::-1] if len(whole) == 2 else whole), *dense_weights(estimator)


def _filled(model: LinearSVC, labels: list[int], w: Array, intercept: Array) -> LinearSVC:
    """The model with fitted attributes; of two labels the first is the positive class."""
    order = np.argsort(labels)
    model.classes_ = np.array(labels)[order]
    if len(labels) == 2:
        sign = 1.0 if labels[0] == model.classes_[1] else -1.0
        model.coef_, model.intercept_ = sign * w, sign * intercept
    else:
        model.coef_, model.intercept_ = w[order], intercept[order]
    model.n_features_in_ = w.shape[1]
    return model


class _Lines:
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
            raise self._complaint(f"{len(values)} weights on a line where {length} belong")
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

    def whole(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise self._complaint(f"{text[:40]!r} is not a whole number") from None
