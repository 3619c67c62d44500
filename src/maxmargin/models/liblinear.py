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
from maxmargin.estimators.labels import refuse_indicator
from maxmargin.estimators.linear_classifier import dense_weights
from maxmargin.estimators.linear_one_class_svm import LinearOneClassSVM
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.linear_svr import LinearSVR
from maxmargin.io.files import explained
from maxmargin.io.outputs import Output, written
from maxmargin.models.text_lines import Header, TextLine, header_and_rest, whole_labels

LIBLINEAR_LOSSES: dict[str, Literal["hinge", "squared_hinge"]] = {
    "MCSVM_CS": "hinge",
    "L1R_L2LOSS_SVC": "squared_hinge",
    "L2R_L2LOSS_SVC_DUAL": "squared_hinge",
    "L2R_L2LOSS_SVC": "squared_hinge",
    "L2R_L1LOSS_SVC_DUAL": "hinge",
}
LIBLINEAR_REGRESSION_LOSSES: dict[str, Literal["epsilon_insensitive", "squared_epsilon_insensitive"]] = {
    "L2R_L2LOSS_SVR": "squared_epsilon_insensitive",
    "L2R_L2LOSS_SVR_DUAL": "squared_epsilon_insensitive",
    "L2R_L1LOSS_SVR_DUAL": "epsilon_insensitive",
}
SETTINGS_OF_TYPE: dict[str, dict[str, Any]] = {
    "MCSVM_CS": {"multi_class": "crammer_singer"},
    "L1R_L2LOSS_SVC": {"penalty": "l1"},
}
"""What else a type says. A model of Crammer and Singer's has a column of weights for each of two classes too."""
LIBLINEAR_ONE_CLASS = "ONECLASS_SVM"
LIBLINEAR_TYPES = {
    "hinge": "L2R_L1LOSS_SVC_DUAL",
    "squared_hinge": "L2R_L2LOSS_SVC_DUAL",
    "epsilon_insensitive": "L2R_L1LOSS_SVR_DUAL",
    "squared_epsilon_insensitive": "L2R_L2LOSS_SVR",
}
READABLE = (*LIBLINEAR_LOSSES, *LIBLINEAR_REGRESSION_LOSSES, LIBLINEAR_ONE_CLASS)


def read_liblinear(path: str | os.PathLike[str]) -> LinearSVC | LinearSVR | LinearOneClassSVM:
    """A model of LIBLINEAR's for hinge or squared hinge loss, for regression or for one class."""
    path = Path(path)
    with explained(path, "it is no model of LIBLINEAR's, or it is damaged"):
        return _model(*header_and_rest(path, "w"))


def _model(header: Header, lines: Iterator[TextLine]) -> LinearSVC | LinearSVR | LinearOneClassSVM:
    kind = header["solver_type"]
    if kind.text not in READABLE:
        raise kind.complaint(f"a LIBLINEAR model of type {kind.text!r}; {', '.join(READABLE)} can be read")
    if kind.text not in LIBLINEAR_LOSSES:
        return _model_without_classes(header, lines)
    labels = header.labels()
    is_of_all = kind.text == "MCSVM_CS"
    w, intercept, settings = _weights(header, lines, 1 if len(labels) == 2 and not is_of_all else len(labels))
    if is_of_all and len(labels) == 2:
        w, intercept = w[:1] - w[1:], intercept[:1] - intercept[1:]
    own = SETTINGS_OF_TYPE.get(kind.text, {})
    return filled(LinearSVC(loss=LIBLINEAR_LOSSES[kind.text], **settings, **own), labels, w, intercept)


def _model_without_classes(header: Header, lines: Iterator[TextLine]) -> LinearSVR | LinearOneClassSVM:
    w, intercept, settings = _weights(header, lines, 1)
    if header["solver_type"].text == LIBLINEAR_ONE_CLASS:
        outlier = LinearOneClassSVM()
        outlier.coef_, outlier.offset_ = w, np.array([header["rho"].number() - float(intercept[0])])
        outlier.intercept_, outlier.n_features_in_ = -outlier.offset_, w.shape[1]
        return outlier
    model = LinearSVR(loss=LIBLINEAR_REGRESSION_LOSSES[header["solver_type"].text], **settings)
    model.coef_, model.intercept_, model.n_features_in_ = w[0], intercept, w.shape[1]
    return model


def _weights(header: Header, lines: Iterator[TextLine], n_columns: int) -> tuple[Array, Array, dict[str, Any]]:
    """Weights, a row for each problem, and intercepts; and what the header says of these."""
    bias, n_features = header["bias"].number(), header["nr_feature"].whole()
    n_rows = n_features + (bias >= 0)
    if n_features < 1:
        raise header["nr_feature"].complaint("a model has at least one feature")
    numbers = array("d")
    for line in lines:
        numbers.extend(line.numbers(n_columns))
    w = np.array(numbers).reshape(-1, n_columns)
    if len(w) != n_rows:
        raise header["nr_feature"].complaint(f"{len(w)} rows of weights where {n_rows} belong: it is truncated or damaged")
    intercept = w[-1] * bias if bias >= 0 else np.zeros(n_columns)
    settings = {"fit_intercept": bool(bias > 0), "intercept_scaling": bias if bias > 0 else 1.0}
    return np.ascontiguousarray(w[:n_features].T), intercept, settings


def write_liblinear(estimator: Any, path: str | os.PathLike[str] | Output) -> None:
    """A model that LIBLINEAR's ``predict`` reads."""
    if hasattr(estimator, "kernel"):
        raise ValueError(
            f"LIBLINEAR has linear models of one vector a class; {type(estimator).__name__} can be written for LIBSVM."
        )
    if hasattr(estimator, "offset_"):
        _write(path, f"solver_type {LIBLINEAR_ONE_CLASS}\nnr_class 2\n", estimator.coef_, None, float(estimator.offset_[0]))
        return
    if estimator.loss not in LIBLINEAR_TYPES:
        raise ValueError(f"LIBLINEAR has no model for loss={estimator.loss!r}.")
    kind = f"solver_type {LIBLINEAR_TYPES[estimator.loss]}\n"
    if not hasattr(estimator, "classes_"):
        if estimator.coef_.ndim != 1:
            raise ValueError(f"LIBLINEAR predicts one number for a sample; this model predicts {len(estimator.coef_)}.")
        _write(path, f"{kind}nr_class 2\n", estimator.coef_.reshape(1, -1), estimator.intercept_)
        return
    refuse_indicator(estimator, "LIBLINEAR")
    labels, w, intercept = with_positive_first(estimator)
    if estimator.multi_class == "crammer_singer":
        kind = "solver_type MCSVM_CS\n"
        if len(labels) == 2:
            w, intercept = np.vstack([0.5 * w, -0.5 * w]), np.concatenate([0.5 * intercept, -0.5 * intercept])
    elif estimator.penalty == "l1":
        kind = "solver_type L1R_L2LOSS_SVC\n"
    _write(path, f"{kind}nr_class {len(labels)}\nlabel {' '.join(map(str, labels))}\n", w, intercept)


def _write(
    path: str | os.PathLike[str] | Output, head: str, w: Array, intercept: Array | None, rho: float | None = None
) -> None:
    has_intercept = intercept is not None and bool(intercept.any())
    table = np.vstack([w.T, intercept]) if has_intercept else w.T  # type: ignore[list-item]
    tail = "" if rho is None else f"rho {rho!r}\n"
    with written(path) as file:
        file.write(f"{head}nr_feature {w.shape[1]}\nbias {1 if has_intercept else -1}\n{tail}w\n".encode())
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
