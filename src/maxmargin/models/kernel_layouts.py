"""What a model file holds of an estimator with a kernel.

A kernel machine by the name of its kernel is its support vectors, dense or CSR, and their coefficients; with a precomputed
kernel it is the places of the support vectors in the kernel matrix. A kernel that is a function of the user's is code, and a
model file holds none. Machines of classes have a coefficient of each support vector for every other class, and the others one
for every output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.models import policy
from maxmargin.models.layout import FLOAT64, FLOATS, WHOLE, Form, Header, Layout, Tensors, fill_all
from maxmargin.problem.class_pairs import number_of_pairs

if TYPE_CHECKING:  # a linear model needs nothing of kernels
    from maxmargin.problem.feature_maps import FeatureMap

VECTORS = "support_vectors_"
CSR_PARTS = ("data", "indices", "indptr")
FEATURE_WEIGHTS = "feature_weights"
"""The w of each problem on the features of its kernel, where the model has one."""
NEED_GAMMA = ("rbf", "poly", "sigmoid")
SCALARS = ("n_features_in_", "relative_gap_", "fit_status_", "shape_fit_")

FORMS_OF_ALL = {
    "intercept_": Form(FLOAT64, ("problems",)),
    "support_": Form(WHOLE, ("support vectors",), is_needed=False),  # a model of LIBSVM's does not say
    VECTORS: Form(FLOATS, ("support vectors", "features"), is_needed=False),
    f"{VECTORS}.data": Form(FLOATS, ("stored",), is_needed=False),
    f"{VECTORS}.indices": Form(WHOLE, ("stored",), is_needed=False),
    f"{VECTORS}.indptr": Form(WHOLE, ("ends",), is_needed=False),
}
FORMS_OF_CLASSES = {
    "dual_coef_": Form(FLOAT64, ("others", "support vectors")),
    **FORMS_OF_ALL,
    "n_support_": Form(WHOLE, ("classes",)),
    "class_weight_": Form(FLOAT64, ("classes",), is_needed=False),
    "n_iter_": Form(WHOLE, ("problems",), is_needed=False),
}
FORMS_OF_NU_CLASSES = {**FORMS_OF_CLASSES, **{key: Form(FLOAT64, ("problems",), is_needed=False) for key in ("rho_", "cost_")}}
FORMS_OF_OUTPUTS = {
    "dual_coef_": Form(FLOAT64, ("problems", "support vectors")),
    **FORMS_OF_ALL,
    "n_support_": Form(WHOLE, ("one",)),
}
WITH_FEATURES = {FEATURE_WEIGHTS: Form(FLOAT64, ("problems", "kernel features"), is_needed=False)}
"""The arrays of machines that a linear solver may have trained."""
NOT_ATTRIBUTES = (FEATURE_WEIGHTS, "epsilon_")
"""Arrays that are more than the attribute of their name."""


def _is_attribute(key: str) -> bool:
    return not key.startswith(VECTORS) and key not in NOT_ATTRIBUTES


def _tensors_of(estimator: Any, forms: dict[str, Form]) -> Tensors:
    if callable(estimator.kernel):
        raise TypeError(
            f"The kernel of this {type(estimator).__name__} is a function, which is code, and a model file holds none: train "
            "with a kernel by name, or with kernel='precomputed'."
        )
    keys = [key for key in forms if _is_attribute(key) and hasattr(estimator, key)]
    tensors = {key: np.ascontiguousarray(getattr(estimator, key)) for key in keys}
    if getattr(estimator, "_feature_weights_", None) is not None:
        tensors[FEATURE_WEIGHTS] = np.ascontiguousarray(estimator._feature_weights_.weights)
    if estimator.kernel == "precomputed":
        return tensors
    vectors = estimator.support_vectors_
    if not sparse.issparse(vectors):
        return {**tensors, VECTORS: np.ascontiguousarray(vectors)}
    csr = vectors.tocsr(copy=True)
    csr.sum_duplicates()
    return {**tensors, **{f"{VECTORS}.{part}": np.ascontiguousarray(getattr(csr, part)) for part in CSR_PARTS}}


def _complaint_about_kernel(header: Header, tensors: Tensors) -> str | None:
    if header["parameters"]["kernel"] in NEED_GAMMA and header.get("gamma") is None:
        return f"a kernel {header['parameters']['kernel']!r} needs a number gamma"
    n_support, counts = tensors["dual_coef_"].shape[1], tensors["n_support_"]
    if counts.min() < 0 or counts.max() > n_support or counts.sum() != n_support:
        return f"n_support_ must add up to the {n_support} support vectors"
    is_precomputed = header["parameters"]["kernel"] == "precomputed"
    n_samples = header["n_features_in_"] if is_precomputed else header.get("shape_fit_", [np.inf])[0]
    places = tensors.get("support_", np.empty(0))
    if len(places) and not (places.min() >= 0 and places.max() < n_samples):
        return f"support_ must lie between 0 and {n_samples}"
    kinds = [key for key in (VECTORS, f"{VECTORS}.indptr") if key in tensors]
    if len(kinds) != (0 if is_precomputed else 1) or (is_precomputed and "support_" not in tensors):
        return "it must hold either the support vectors or, with a precomputed kernel, their places"
    wrong = _complaint_about_features(header, tensors)
    if wrong is not None:
        return wrong
    return _complaint_about_csr(header["n_features_in_"], n_support, tensors) if kinds == [f"{VECTORS}.indptr"] else None


def _complaint_about_features(header: Header, tensors: Tensors) -> str | None:
    if FEATURE_WEIGHTS not in tensors:
        return None
    found = _feature_map(header)
    if found is None:
        return f"{FEATURE_WEIGHTS} does not belong into a model whose kernel has no short feature map"
    if tensors[FEATURE_WEIGHTS].shape[1] != found.n_features:
        return f"{FEATURE_WEIGHTS} must have {found.n_features} columns"
    return None


def _feature_map(header: Header) -> FeatureMap | None:
    """Every machine but an SVC that was asked for none has an intercept."""
    from maxmargin.estimators.kernel_settings import kernel_named
    from maxmargin.problem.feature_maps import feature_map

    parameters = header["parameters"]
    kernel = kernel_named(parameters["kernel"], header["gamma"], parameters["coef0"], parameters["degree"])
    return feature_map(kernel, header["n_features_in_"], parameters.get("fit_intercept", True))


def _complaint_about_csr(n_features: int, n_rows: int, tensors: Tensors) -> str | None:
    """The compiled loops trust the structure of a sparse matrix."""
    missing = [part for part in CSR_PARTS if f"{VECTORS}.{part}" not in tensors]
    if missing:
        return f"{VECTORS}.{missing[0]} is missing"
    if n_features > policy.LIMITS.most_sparse_features:
        return f"sparse support vectors may have at most {policy.LIMITS.most_sparse_features} features; these have {n_features}"
    _, indices, indptr = (tensors[f"{VECTORS}.{part}"] for part in CSR_PARTS)
    if len(indptr) != n_rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices) or np.any(indptr[1:] < indptr[:-1]):
        return f"{VECTORS}.indptr must rise from 0 to {len(indices)} in {n_rows} steps"
    if len(indices) and not (indices.min() >= 0 and indices.max() < n_features):
        return f"{VECTORS}.indices must lie between 0 and {n_features}"
    if np.any(np.delete(np.diff(indices), _row_ends(indptr, len(indices))) <= 0):
        return f"{VECTORS}.indices must rise within each support vector"
    return None


def _row_ends(indptr: Array, n_stored: int) -> Array:
    """Where the next index belongs to another row, and so may be smaller."""
    inner = indptr[(indptr > 0) & (indptr < n_stored)]
    return np.unique(inner) - 1


def _fill_kernel(estimator: Any, header: Header, tensors: Tensors) -> None:
    from maxmargin.estimators.kernel_settings import kernel_named
    from maxmargin.estimators.pair_features import FeatureWeights

    fill_all(estimator, {key: array for key, array in tensors.items() if _is_attribute(key)})
    estimator.support_vectors_ = _vectors(tensors, len(tensors["dual_coef_"][0]), header["n_features_in_"])
    estimator._kernel_ = kernel_named(estimator.kernel, header.get("gamma"), estimator.coef0, estimator.degree)
    if FEATURE_WEIGHTS in tensors:
        found = _feature_map(header)
        assert found is not None
        estimator._feature_weights_ = FeatureWeights(found, tensors[FEATURE_WEIGHTS])
    if "shape_fit_" in header:
        estimator.shape_fit_ = tuple(header["shape_fit_"])


def _vectors(tensors: Tensors, n_support: int, n_features: int) -> Any:
    if VECTORS in tensors:
        return tensors[VECTORS]
    if f"{VECTORS}.indptr" not in tensors:
        return np.empty((0, 0))
    parts = tuple(tensors[f"{VECTORS}.{part}"] for part in CSR_PARTS)
    return sparse.csr_matrix(parts, shape=(n_support, n_features))


def _details_of_kernel(estimator: Any) -> Header:
    return {"gamma": getattr(estimator._kernel_, "gamma", None)}


def _details_of_outputs(estimator: Any) -> Header:
    """``n_outputs`` is None for a y of one dimension, whose predictions have one too."""
    is_one = getattr(estimator, "_is_one_", True)
    return {**_details_of_kernel(estimator), "n_outputs": None if is_one else len(estimator.intercept_)}


def _outputs_of(header: Header) -> int:
    return header.get("n_outputs") or 1


def _fill_outputs(estimator: Any, header: Header, tensors: Tensors) -> None:
    _fill_kernel(estimator, header, tensors)
    estimator._is_one_ = header.get("n_outputs") is None


def _complaint_about_epsilon_svr(header: Header, tensors: Tensors) -> str | None:
    wrong = "quantile must be less than 1" if header["parameters"].get("quantile", 0.5) == 1.0 else None
    return wrong or _complaint_about_kernel(header, tensors)


def _nu_svr_tensors(estimator: Any) -> Tensors:
    tensors = _tensors_of(estimator, FORMS_OF_OUTPUTS)
    has_width = hasattr(estimator, "epsilon_")  # a model of LIBSVM's has none
    return {**tensors, "epsilon_": np.atleast_1d(np.asarray(estimator.epsilon_))} if has_width else tensors


def _fill_nu_svr(estimator: Any, header: Header, tensors: Tensors) -> None:
    _fill_outputs(estimator, header, tensors)
    if "epsilon_" in tensors:
        widths = tensors["epsilon_"]
        estimator.epsilon_ = float(widths[0]) if estimator._is_one_ else widths


def _complaint_about_nu_svc(header: Header, tensors: Tensors) -> str | None:
    if header["certificates"] and "rho_" not in tensors:
        return "rho_ is missing, by which a model with certificates was divided"
    for key in ("rho_", "cost_"):
        if key in tensors and not np.all(tensors[key] > 0.0):
            return f"{key} must be positive"
    return _complaint_about_kernel(header, tensors)


def _fill_one_class(estimator: Any, header: Header, tensors: Tensors) -> None:
    _fill_kernel(estimator, header, tensors)
    estimator.offset_ = -tensors["intercept_"]


KERNEL = Layout(
    estimator="SVC",
    forms={**FORMS_OF_CLASSES, **WITH_FEATURES},
    scalars=SCALARS,
    tensors_of=lambda estimator: _tensors_of(estimator, FORMS_OF_CLASSES),
    details_of=_details_of_kernel,
    n_problems=number_of_pairs,
    complaint=_complaint_about_kernel,
    fill=_fill_kernel,
)
NU_CLASSES = Layout(
    estimator="NuSVC",
    forms={**FORMS_OF_NU_CLASSES, **WITH_FEATURES},
    scalars=SCALARS,
    tensors_of=lambda estimator: _tensors_of(estimator, FORMS_OF_NU_CLASSES),
    details_of=_details_of_kernel,
    n_problems=number_of_pairs,
    complaint=_complaint_about_nu_svc,
    fill=_fill_kernel,
)
EPSILON_REGRESSION = Layout(
    estimator="SVR",
    forms={**FORMS_OF_OUTPUTS, **WITH_FEATURES},
    scalars=("n_iter_", *SCALARS),
    tensors_of=lambda estimator: _tensors_of(estimator, FORMS_OF_OUTPUTS),
    details_of=_details_of_outputs,
    n_problems=lambda n_classes: 1,
    complaint=_complaint_about_epsilon_svr,
    fill=_fill_outputs,
    fitted="dual_coef_",
    outputs_of=_outputs_of,
)
NU_REGRESSION = Layout(
    estimator="NuSVR",
    forms=FORMS_OF_OUTPUTS | WITH_FEATURES | {"epsilon_": Form(FLOAT64, ("problems",), is_needed=False)},
    scalars=("n_iter_", *SCALARS),
    tensors_of=_nu_svr_tensors,
    details_of=_details_of_outputs,
    n_problems=lambda n_classes: 1,
    complaint=_complaint_about_kernel,
    fill=_fill_nu_svr,
    fitted="dual_coef_",
    outputs_of=_outputs_of,
)
ONE_CLASS = Layout(
    estimator="OneClassSVM",
    forms=FORMS_OF_OUTPUTS | WITH_FEATURES,
    scalars=("n_iter_", *SCALARS),
    tensors_of=lambda estimator: _tensors_of(estimator, FORMS_OF_OUTPUTS),
    details_of=_details_of_kernel,
    n_problems=lambda n_classes: 1,
    complaint=_complaint_about_kernel,
    fill=_fill_one_class,
    fitted="dual_coef_",
    outputs_of=lambda header: 1,
)
