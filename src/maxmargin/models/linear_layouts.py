"""What a model file holds of a linear estimator: its weights and intercepts, and ellipsoids where it has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.certificate.ellipsoid import Ellipsoid
from maxmargin.estimators.linear_classifier import dense_weights
from maxmargin.estimators.linear_fit import all_of, one_or_all
from maxmargin.models.layout import FLOAT64, Form, Header, Layout, Tensors, fill_all

FACTORS, RADII = "ellipsoid_factors", "ellipsoid_radii"


def _linear_tensors(estimator: Any) -> Tensors:
    coef, intercept = dense_weights(estimator)
    tensors = {"coef_": np.ascontiguousarray(coef), "intercept_": np.ascontiguousarray(intercept)}
    ellipsoids = all_of(getattr(estimator, "ellipsoid_", None))
    if any(ellipsoid is None for ellipsoid in ellipsoids):
        return tensors
    factors = np.stack([np.tril(ellipsoid.factor) for ellipsoid in ellipsoids])
    return {**tensors, FACTORS: factors, RADII: np.array([ellipsoid.radius for ellipsoid in ellipsoids])}


def _linear_details(estimator: Any) -> Header:
    """A file says only of a model of an indicator matrix y that it is one, so that other files are as they were."""
    return {"is_multilabel": True} if getattr(estimator, "multilabel_", False) else {}


def _linear_outputs(header: Header) -> int:
    """Two classes take one binary problem, two columns of an indicator two."""
    n_labels = len(header["labels"])
    return 1 if n_labels == 2 and not header.get("is_multilabel", False) else n_labels


def _fill_linear(estimator: Any, header: Header, tensors: Tensors) -> None:
    estimator.multilabel_ = header.get("is_multilabel", False)
    fill_all(estimator, {key: array for key, array in tensors.items() if key not in (FACTORS, RADII)})
    if FACTORS in tensors:
        constant = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
        pairs = zip(tensors[FACTORS], tensors[RADII], strict=True)
        estimator.ellipsoid_ = one_or_all([Ellipsoid(factor, float(radius), constant) for factor, radius in pairs])


def _complaint_about_linear(header: Header, tensors: Tensors) -> str | None:
    parameters = header["parameters"]
    if parameters["fit_intercept"] and parameters["intercept_scaling"] <= 0.0:
        return f"intercept_scaling must be positive; it is {parameters['intercept_scaling']}"
    if header.get("is_multilabel", False) and parameters.get("multi_class") == "crammer_singer":
        return "a model of multi_class='crammer_singer' is not one of an indicator matrix"
    if (FACTORS in tensors) != (RADII in tensors):
        return f"{FACTORS} and {RADII} come together"
    if FACTORS not in tensors:
        return None
    n_weights = header["n_features_in_"] + bool(parameters["fit_intercept"])
    if tensors[FACTORS].shape[1] != n_weights or np.any(np.diagonal(tensors[FACTORS], axis1=1, axis2=2) <= 0.0):
        return f"{FACTORS} must be lower triangular matrices of {n_weights} rows, positive on the diagonal"
    return None if np.all(tensors[RADII] >= 0.0) else f"{RADII} must not be negative"


LINEAR = Layout(
    estimator="LinearSVC",
    forms={
        "coef_": Form(FLOAT64, ("problems", "features")),
        "intercept_": Form(FLOAT64, ("problems",)),
        FACTORS: Form(FLOAT64, ("problems", "weights", "weights"), is_needed=False),
        RADII: Form(FLOAT64, ("problems",), is_needed=False),
    },
    scalars=("n_iter_", "n_features_in_", "relative_gap_"),
    tensors_of=_linear_tensors,
    details_of=_linear_details,
    n_problems=lambda n_classes: 1 if n_classes == 2 else n_classes,
    complaint=_complaint_about_linear,
    fill=_fill_linear,
    outputs_of=_linear_outputs,
)


def _regression_tensors(estimator: Any) -> Tensors:
    return {
        "coef_": np.ascontiguousarray(np.atleast_2d(estimator.coef_)),
        "intercept_": np.ascontiguousarray(estimator.intercept_),
    }


def _regression_details(estimator: Any) -> Header:
    """The number of outputs; None for a y of one dimension, whose coef_ has one too."""
    return {"n_outputs": None if estimator.coef_.ndim == 1 else len(estimator.coef_)}


def _complaint_about_regression(header: Header, tensors: Tensors) -> str | None:
    parameters = header["parameters"]
    if parameters["fit_intercept"] and parameters["intercept_scaling"] <= 0.0:
        return f"intercept_scaling must be positive; it is {parameters['intercept_scaling']}"
    return "quantile must be less than 1" if parameters.get("quantile", 0.5) == 1.0 else None


def _fill_regression(estimator: Any, header: Header, tensors: Tensors) -> None:
    fill_all(estimator, tensors)
    if header.get("n_outputs") is None:
        estimator.coef_ = tensors["coef_"][0]


def _fill_one_class(estimator: Any, header: Header, tensors: Tensors) -> None:
    fill_all(estimator, tensors)
    estimator.offset_ = -tensors["intercept_"]


REGRESSION = Layout(
    estimator="LinearSVR",
    forms={"coef_": Form(FLOAT64, ("problems", "features")), "intercept_": Form(FLOAT64, ("problems",))},
    scalars=("n_iter_", "n_features_in_", "relative_gap_"),
    tensors_of=_regression_tensors,
    details_of=_regression_details,
    n_problems=lambda n_classes: 1,
    complaint=_complaint_about_regression,
    fill=_fill_regression,
    fitted="coef_",
    outputs_of=lambda header: header.get("n_outputs") or 1,
)

ONE_CLASS = Layout(
    estimator="LinearOneClassSVM",
    forms={"coef_": Form(FLOAT64, ("problems", "features")), "intercept_": Form(FLOAT64, ("problems",))},
    scalars=("n_iter_", "n_features_in_", "relative_gap_"),
    tensors_of=_regression_tensors,
    details_of=lambda estimator: {},
    n_problems=lambda n_classes: 1,
    complaint=lambda header, tensors: None,
    fill=_fill_one_class,
    fitted="offset_",
    outputs_of=lambda header: 1,
)
