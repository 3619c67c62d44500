"""The text models of LIBLINEAR, read and written.

LIBLINEAR and LIBSVM take whole numbers as labels and the first label they list as the positive class; their weights go the
other way round when the greater label stands second. An imported model predicts, but has no certificate: ``maxmargin certify``
makes one.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.estimators.linear_classifier import dense_weights
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.io.files import explained
from maxmargin.io.outputs import Output, written
from maxmargin.models.text_lines import Header, Line, header_and_rest, whole_labels

LIBLINEAR_LOSSES: dict[str, Literal["hinge", "squared_hinge"]] = {
    "L2R_L2LOSS_SVC_DUAL": "squared_hinge",
    "L2R_L2LOSS_SVC": "squared_hinge",
    "L2R_L1LOSS_SVC_DUAL": "hinge",
}
LIBLINEAR_TYPES = {"hinge": "L2R_L1LOSS_SVC_DUAL", "squared_hinge": "L2R_L2LOSS_SVC_DUAL"}


def read_liblinear(path: str | os.PathLike[str]) -> LinearSVC:
    """A model of LIBLINEAR's for hinge or squared hinge loss."""
    path = Path(path)
    with explained(path, "it is no model of LIBLINEAR's, or it is damaged"):
        return _model(*header_and_rest(path, "w"))


def _model(header: Header, lines: Iterator[Line]) -> LinearSVC:
    kind, bias = header["solver_type"], header["bias"].number()
    if kind.text not in LIBLINEAR_LOSSES:
        raise kind.complaint(f"a LIBLINEAR model of type {kind.text!r}; {', '.join(LIBLINEAR_LOSSES)} can be read")
    labels, n_features = header.labels(), header["nr_feature"].whole()
    n_columns, n_rows = 1 if len(labels) == 2 else len(labels), n_features + (bias >= 0)
    if n_features < 1:
        raise header["nr_feature"].complaint("a model has at least one feature")
    numbers = array("d")
    for line in lines:
        numbers.extend(line.numbers(n_columns))
    w = np.array(numbers).reshape(-1, n_columns)
    if len(w) != n_rows:
        raise header["nr_feature"].complaint(f"{len(w)} rows of weights where {n_rows} belong: it is truncated or damaged")
    intercept = w[-1] * bias if bias >= 0 else np.zeros(n_columns)
    model = LinearSVC(
        loss=LIBLINEAR_LOSSES[kind.text], fit_intercept=bool(bias > 0), intercept_scaling=bias if bias > 0 else 1.0
    )
    return filled(model, labels, w[:n_features].T, intercept)


def write_liblinear(estimator: Any, path: str | os.PathLike[str] | Output) -> None:
    """A model that LIBLINEAR's ``predict`` reads."""
    if not hasattr(estimator, "loss"):
        raise ValueError(
            f"LIBLINEAR has linear models of one vector a class; {type(estimator).__name__} can be written for LIBSVM."
        )
    labels, w, intercept = with_positive_first(estimator)
    has_intercept = bool(intercept.any())
    table = np.vstack([w.T, intercept]) if has_intercept else w.T
    with written(path) as file:
        file.write(
            f"solver_type {LIBLINEAR_TYPES[estimator.loss]}\nnr_class {len(labels)}\nlabel {' '.join(map(str, labels))}\n"
            f"nr_feature {w.shape[1]}\nbias {1 if has_intercept else -1}\nw\n".encode()
        )
        for row in table.tolist():
            file.write((" ".join(f"{value!r}" for value in row) + " \n").encode())


def with_positive_first(estimator: Any) -> tuple[list[int], Array, Array]:
    """Labels, weights and intercepts with the positive class first."""
    whole = whole_labels(estimator)
    return (whole[::-1] if len(whole) == 2 else whole), *dense_weights(estimator)


def filled(model: LinearSVC, labels: list[int], w: Array, intercept: Array) -> LinearSVC:
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
