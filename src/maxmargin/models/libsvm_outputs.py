"""The text models of LIBSVM whose output is a number: epsilon-SVR, nu-SVR and one-class, read and written.

Such a file has one coefficient for each support vector, no labels, and one rho, which is minus the intercept. It says neither C
nor epsilon nor nu."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.estimators.kernel_machine import KernelMachine
from maxmargin.estimators.kernel_settings import kernel_named
from maxmargin.estimators.linear_one_class import LinearOneClass
from maxmargin.estimators.linear_regressor import LinearRegressor
from maxmargin.estimators.nu_svr import NuSVR
from maxmargin.estimators.one_class_svm import OneClassSVM
from maxmargin.estimators.svr import SVR

TYPES: dict[str, type[KernelMachine]] = {"epsilon_svr": SVR, "nu_svr": NuSVR, "one_class": OneClassSVM}
"""Our estimators by LIBSVM's names of its machines."""


def machine_with(kind: str, settings: dict[str, Any], coefficients: Array, rho: float, vectors: Any) -> Any:
    """The estimator of that type, with what the file says."""
    model: Any = TYPES[kind](**settings)
    model._kernel_ = kernel_named(model.kernel, model.gamma, model.coef0, model.degree)
    model.dual_coef_ = np.ascontiguousarray(coefficients.reshape(1, -1))
    model.intercept_ = np.array([-rho])
    model.support_vectors_, model.n_features_in_ = vectors, vectors.shape[1]
    model.n_support_ = np.array([vectors.shape[0]], np.int32)
    if kind == "one_class":
        model.offset_ = -model.intercept_
    else:
        model._is_one_ = True
    return model


def type_of(model: Any) -> str:
    """LIBSVM's name of the machine of an estimator."""
    if len(model.intercept_) != 1:
        raise ValueError(f"LIBSVM's files hold one output; this model has {len(model.intercept_)}.")
    if isinstance(model, LinearOneClass):
        return "one_class"
    if isinstance(model, LinearRegressor):
        return "epsilon_svr"
    return next(name for name, kind in TYPES.items() if isinstance(model, kind))
