"""What a model file holds of each kind of estimator: which arrays, of which types and shapes, and what else must be true.

A kernel machine by the name of its kernel is its support vectors, dense or CSR, and their coefficients; with a precomputed
kernel it is the places of the support vectors in the kernel matrix. A kernel that is a function of the user's is code, and a
model file holds none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.certificate.ellipsoid import Ellipsoid
from maxmargin.data.rows import Array
from maxmargin.estimators.linear_classifier import dense_weights
from maxmargin.estimators.linear_fit import all_of, one_or_all
from maxmargin.models import policy
from maxmargin.problem.class_pairs import number_of_pairs

if TYPE_CHECKING:  # a linear model needs nothing of kernels
    from maxmargin.problem.feature_maps import FeatureMap

FLOAT64, FLOATS = ("float64",), ("float64", "float32")
WHOLE = ("int32", "int64")
VECTORS = "support_vectors_"
CSR_PARTS = ("data", "indices", "indptr")
FACTORS, RADII = "ellipsoid_factors", "ellipsoid_radii"
FEATURE_WEIGHTS = "feature_weights"
"""The w of each pair on the features of its kernel, where the model has one."""

Tensors = dict[str, Array]
Header = dict[str, Any]


class Form(NamedTuple):
    """The types that an array may have, and its shape: names of sizes, each the same wherever it occurs."""

    types: tuple[str, ...]
    shape: tuple[str, ...]
    is_needed: bool = True


@dataclass(frozen=True)
class Layout:
    """How one kind of estimator becomes arrays and a header, and how it comes back."""

    estimator: str
    forms: dict[str, Form]
    scalars: tuple[str, ...]
    tensors_of: Callable[[Any], Tensors]
    details_of: Callable[[Any], Header]
    n_problems: Callable[[int], int]
    complaint: Callable[[Header, Tensors], str | None]
    fill: Callable[[Any, Header, Tensors], None]
    fitted: str = "classes_"
    """The attribute that only a fitted estimator has."""
    outputs_of: Callable[[Header], int] | None = None
    """How many problems there are where that is no matter of classes."""

    def complaint_about(self, header: Header, tensors: Tensors) -> str | None:
        """What a file that was not altered still gets wrong: its writer may have been dishonest."""
        n_classes = len(header["labels"])
        n_problems = self.n_problems(n_classes) if self.outputs_of is None else self.outputs_of(header)
        sizes = {"classes": n_classes, "others": n_classes - 1, "problems": n_problems}
        sizes["features"] = header["n_features_in_"]
        strangers = sorted(set(tensors) - set(self.forms))
        if strangers:
            return f"{strangers[0]} does not belong into a model of {self.estimator}"
        for key, form in self.forms.items():
            if key in tensors or form.is_needed:
                sentence = _complaint_about_array(key, tensors.get(key), form, sizes)
                if sentence:
                    return sentence
        if len(header["feature_names"]) not in (0, sizes["features"]):
            return f"it has {len(header['feature_names'])} feature_names for {sizes['features']} features"
        for key in ("certificates", "statuses", "traces", "offset_bounds"):
            if len(header.get(key, ())) not in (0, sizes["problems"]):
                return f"it has {len(header[key])} {key} for {sizes['problems']} problems"
        if len(header["certificates"]) != len(header["statuses"]):
            return f"it has {len(header['statuses'])} statuses for {len(header['certificates'])} certificates"
        return self.complaint(header, tensors)


def _complaint_about_array(key: str, array: Array | None, form: Form, sizes: dict[str, int]) -> str | None:
    """A size that is not known yet is what the first array with it has."""
    if array is not None and array.ndim == len(form.shape):
        for name, extent in zip(form.shape, array.shape, strict=True):
            sizes.setdefault(name, extent)
    wanted = tuple(sizes.get(name) for name in form.shape)
    if array is None or array.shape != wanted or array.dtype.name not in form.types:
        return f"{key} must be {' or '.join(form.types)} of shape {wanted}"
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return f"{key} holds a value that is not finite"
    return None


def _linear_tensors(estimator: Any) -> Tensors:
    coef, intercept = dense_weights(estimator)
    tensors = {"coef_": np.ascontiguousarray(coef), "intercept_": np.ascontiguousarray(intercept)}
    ellipsoids = all_of(getattr(estimator, "ellipsoid_", None))
    if any(ellipsoid is None for ellipsoid in ellipsoids):
        return tensors
    factors = np.stack([np.tril(ellipsoid.factor) for ellipsoid in ellipsoids])
    return {**tensors, FACTORS: factors, RADII: np.array([ellipsoid.radius for ellipsoid in ellipsoids])}


def _fill_linear(estimator: Any, header: Header, tensors: Tensors) -> None:
    _fill_all(estimator, header, {key: array for key, array in tensors.items() if key not in (FACTORS, RADII)})
    if FACTORS in tensors:
        constant = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
        pairs = zip(tensors[FACTORS], tensors[RADII], strict=True)
        estimator.ellipsoid_ = one_or_all([Ellipsoid(factor, float(radius), constant) for factor, radius in pairs])


def _complaint_about_linear(header: Header, tensors: Tensors) -> str | None:
    parameters = header["parameters"]
    if parameters["fit_intercept"] and parameters["intercept_scaling"] <= 0.0:
        return f"intercept_scaling must be positive; it is {parameters['intercept_scaling']}"
    if (FACTORS in tensors) != (RADII in tensors):
        return f"{FACTORS} and {RADII} come together"
    if FACTORS not in tensors:
        return None
    n_weights = header["n_features_in_"] + bool(parameters["fit_intercept"])
    if tensors[FACTORS].shape[1] != n_weights or np.any(np.diagonal(tensors[FACTORS], axis1=1, axis2=2) <= 0.0):
        return f"{FACTORS} must be lower triangular matrices of {n_weights} rows, positive on the diagonal"
    return None if np.all(tensors[RADII] >= 0.0) else f"{RADII} must not be negative"


def _fill_all(estimator: Any, header: Header, tensors: Tensors) -> None:
    for key, array in tensors.items():
        setattr(estimator, key, array)


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
    details_of=lambda estimator: {},
    n_problems=lambda n_classes: 1 if n_classes == 2 else n_classes,
    complaint=_complaint_about_linear,
    fill=_fill_linear,
)


def _regression_tensors(estimator: Any) -> Tensors:
    return {
        "coef_": np.ascontiguousarray(np.atleast_2d(estimator.coef_)),
        "intercept_": np.ascontiguousarray(estimator.intercept_),
    }


def _regression_details(estimator: Any) -> Header:
    """None for a y of one dimension, whose coef_ has one too."""
    return {"n_outputs": None if estimator.coef_.ndim == 1 else len(estimator.coef_)}


def _complaint_about_regression(header: Header, tensors: Tensors) -> str | None:
    parameters = header["parameters"]
    if parameters["fit_intercept"] and parameters["intercept_scaling"] <= 0.0:
        return f"intercept_scaling must be positive; it is {parameters['intercept_scaling']}"
    return "quantile must be less than 1" if parameters.get("quantile", 0.5) == 1.0 else None


def _fill_regression(estimator: Any, header: Header, tensors: Tensors) -> None:
    _fill_all(estimator, header, tensors)
    if header.get("n_outputs") is None:
        estimator.coef_ = tensors["coef_"][0]


def _fill_one_class(estimator: Any, header: Header, tensors: Tensors) -> None:
    _fill_all(estimator, header, tensors)
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

KERNEL_FORMS = {
    "dual_coef_": Form(FLOAT64, ("others", "support vectors")),
    "intercept_": Form(FLOAT64, ("problems",)),
    "n_support_": Form(WHOLE, ("classes",)),
    "support_": Form(WHOLE, ("support vectors",), is_needed=False),  # a model of LIBSVM's does not say
    "class_weight_": Form(FLOAT64, ("classes",), is_needed=False),
    "n_iter_": Form(WHOLE, ("problems",), is_needed=False),
    FEATURE_WEIGHTS: Form(FLOAT64, ("problems", "kernel features"), is_needed=False),
    VECTORS: Form(FLOATS, ("support vectors", "features"), is_needed=False),
    f"{VECTORS}.data": Form(FLOATS, ("stored",), is_needed=False),
    f"{VECTORS}.indices": Form(WHOLE, ("stored",), is_needed=False),
    f"{VECTORS}.indptr": Form(WHOLE, ("ends",), is_needed=False),
}
NEED_GAMMA = ("rbf", "poly", "sigmoid")
PLAIN = tuple(key for key in KERNEL_FORMS if not key.startswith((VECTORS, FEATURE_WEIGHTS)))


def _kernel_tensors(estimator: Any) -> Tensors:
    if callable(estimator.kernel):
        raise TypeError(
            "This SVC's kernel is a function, which is code, and a model file holds none: train with a kernel by name, or "
            "with kernel='precomputed'."
        )
    tensors = {key: np.ascontiguousarray(getattr(estimator, key)) for key in PLAIN if hasattr(estimator, key)}
    if estimator._feature_weights_ is not None:
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
    if counts.min() < 0 or counts.sum() != n_support:
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
    from maxmargin.estimators.kernel_settings import kernel_named
    from maxmargin.problem.feature_maps import feature_map

    parameters = header["parameters"]
    kernel = kernel_named(parameters["kernel"], header["gamma"], parameters["coef0"], parameters["degree"])
    return feature_map(kernel, header["n_features_in_"], parameters["fit_intercept"])


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

    _fill_all(estimator, header, {key: array for key, array in tensors.items() if key in PLAIN})
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


KERNEL = Layout(
    estimator="SVC",
    forms=KERNEL_FORMS,
    scalars=("n_features_in_", "relative_gap_", "fit_status_", "shape_fit_"),
    tensors_of=_kernel_tensors,
    details_of=lambda estimator: {"gamma": getattr(estimator._kernel_, "gamma", None)},
    n_problems=number_of_pairs,
    complaint=_complaint_about_kernel,
    fill=_fill_kernel,
)

LAYOUTS = {
    "LinearSVC": LINEAR,
    "LinearClassifier": LINEAR,
    "LinearSVR": REGRESSION,
    "LinearRegressor": REGRESSION,
    "LinearOneClassSVM": ONE_CLASS,
    "LinearOneClass": ONE_CLASS,
    "SVC": KERNEL,
    "KernelClassifier": KERNEL,
}
"""From a class to what a file of it is like; the command line trains with classes that are not public."""
