"""How far a fitted model is from the optimum of its training problem: scikit-learn's, oneDAL's or ours, from Python.

scikit-learn's estimators keep their weights and coefficients under the names that ours have. So a model of theirs becomes one
of ours by copying them, and is judged as a model from a file is (``proof.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.estimators.linear_fit import one_or_all
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.linear_svr import LinearSVR
from maxmargin.estimators.nu_svc import NuSVC
from maxmargin.estimators.nu_svr import NuSVR
from maxmargin.estimators.one_class_svm import OneClassSVM
from maxmargin.estimators.svc import SVC
from maxmargin.estimators.svr import SVR
from maxmargin.models.proof import prove

OURS: dict[str, Any] = {kind.__name__: kind for kind in (LinearSVC, LinearSVR, SVC, SVR, NuSVC, NuSVR, OneClassSVM)}
"""The estimators of ``sklearn.svm``, by the names that they share with ours."""
THEIR_PACKAGES = ("sklearn", "sklearnex", "daal4py")
SETTINGS = (
    *("C", "loss", "penalty", "fit_intercept", "intercept_scaling", "class_weight", "multi_class", "epsilon"),
    *("kernel", "degree", "gamma", "coef0", "nu"),
)
"""The parameters that a training problem depends on. ``tol``, ``max_iter`` and others say how it is solved."""
FITTED = (
    *("classes_", "coef_", "intercept_", "n_features_in_", "support_", "support_vectors_", "dual_coef_", "n_support_"),
    *("shape_fit_", "offset_"),
)


def judge(
    model: Any, X: Any, y: Any = None, *, tol: float = 1e-4, max_seconds: float = 60.0
) -> Certificate | list[Certificate]:
    """Prove how far a fitted model is from the optimum of its training problem, whoever trained it.

    Parameters
    ----------
    model : estimator
        A fitted estimator of ``sklearn.svm`` or of maxmargin, or of scikit-learn-intelex; a pipeline that ends in one, or a
        search whose best estimator is one. It must have been fitted without ``sample_weight``.
    X : array or sparse matrix of shape (n_samples, n_features)
        The samples that the model was trained on.
    y : array of shape (n_samples,)
        Their labels or targets. One-class machines need none.
    tol : float, default 1e-4
        How closely to bound the optimum, relative to the objective.
    max_seconds : float, default 60.0
        Limit on the search for a bound, for each binary problem.

    Returns
    -------
    Certificate, or a list with one for each binary problem
        ``primal`` is the objective of the model, ``dual`` a bound that no model is below, and ``relative_gap`` says how far the
        model can be from the optimum at most.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.svm import LinearSVC
    >>> from maxmargin import judge
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> theirs = LinearSVC(max_iter=10_000, random_state=0).fit(X, y)
    >>> judge(theirs, X, y).relative_gap > 1e-6
    True
    """
    from sklearn.utils.validation import check_array, check_is_fitted

    machine, X = _machine_of(model, X)
    check_is_fitted(machine)
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    ours = _as_ours(machine, X)
    y = np.zeros(X.shape[0]) if y is None else np.asarray(y)
    if len(y) != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} samples, and y has {len(y)}.")
    proofs = prove(ours, X, y, C=getattr(ours, "C", 1.0), tol=tol, max_seconds=max_seconds)
    return one_or_all(proofs)


def _machine_of(model: Any, X: Any) -> tuple[Any, Any]:
    """The last estimator of a pipeline or a search, and X as it sees it."""
    if hasattr(model, "best_estimator_"):
        return _machine_of(model.best_estimator_, X)
    return (model[-1], model[:-1].transform(X)) if hasattr(model, "steps") else (model, X)


def _as_ours(model: Any, X: Any) -> Any:
    """The model itself, if it is ours, or one of ours with its weights."""
    kind, package = type(model).__name__, type(model).__module__.partition(".")[0]
    if package == "maxmargin":
        return model
    if package not in THEIR_PACKAGES or kind not in OURS:
        raise TypeError(f"judge takes the estimators of sklearn.svm ({', '.join(OURS)}) and those of maxmargin; got {kind}.")
    known = OURS[kind]().get_params()
    ours = OURS[kind](**{name: getattr(model, name) for name in SETTINGS if name in known and hasattr(model, name)})
    vars(ours).update({name: _copied(model, name) for name in FITTED if _has(model, name)})
    if "kernel" in known:
        _give_kernel(ours, model, X)
    return ours


def _has(model: Any, name: str) -> bool:
    """Where the weights of a kernel machine follow from its coefficients, they are not copied."""
    return hasattr(model, name) and not (name == "coef_" and hasattr(model, "dual_coef_"))


def _copied(model: Any, name: str) -> Any:
    value = getattr(model, name)
    return value.toarray() if name == "dual_coef_" and hasattr(value, "toarray") else value


def _give_kernel(ours: Any, model: Any, X: Any) -> None:
    """The kernel with the number that gamma was in the fit."""
    if isinstance(gamma := getattr(model, "_gamma", None), float) and gamma > 0.0:
        ours.gamma = gamma
    ours._kernel_, ours._is_one_ = ours._kernel(X, None), True
