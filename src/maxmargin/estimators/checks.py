"""Checks of the parameters and weights of every estimator. An error says in one sentence what is wrong.

scikit-learn is imported inside the functions that need it, so that a plain fit on the command line does not load it.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data.real import is_real
from maxmargin.data.rows import DTYPES, Array, Rows, UncheckedRows, sound

MOST_LABEL = 2.0**31
"""Whole labels below this are exact in float64, and so is the difference of two of them. This is mathematics, not a setting."""


def one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")


def number(name: str, value: Any, *, above: float | None = None, at_least: float | None = None) -> None:
    """A finite real number, above or at least a bound."""
    if not (is_real(value) and not isinstance(value, (bool, np.bool_)) and math.isfinite(value)):
        raise ValueError(f"{name} must be a finite number; got {value!r}.")
    if above is not None and not value > above:
        raise ValueError(f"{name} must be greater than {above:g}; got {value!r}.")
    if at_least is not None and not value >= at_least:
        raise ValueError(f"{name} must be at least {at_least:g}; got {value!r}.")


def cost(C: Any) -> None:
    """A positive number; infinity asks for the hard margin."""
    if not (isinstance(C, float) and C == math.inf):
        number("C", C, above=0.0)


def between(name: str, value: Any, low: float, high: float) -> None:
    """A number strictly between two bounds."""
    number(name, value)
    if not low < value < high:
        raise ValueError(f"{name} must be greater than {low:g} and less than {high:g}; got {value!r}.")


def flag(name: str, value: Any) -> None:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False; got {value!r}.")


def thread_count(n_jobs: Any) -> None:
    """None, or a whole number that is not zero; -1 means all cores."""
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and n_jobs != 0):
        raise ValueError(f"n_jobs must be None or a whole number other than 0; got {n_jobs!r}.")


def epochs_from(max_iter: Any) -> float:
    """-1 means no limit."""
    if not isinstance(max_iter, Integral) or isinstance(max_iter, bool) or max_iter < -1:
        raise ValueError(f"max_iter must be a whole number >= 0, or -1 for no limit; got {max_iter!r}.")
    return math.inf if max_iter == -1 else float(max_iter)


def seconds_from(max_seconds: Any) -> float:
    """None means no limit."""
    if max_seconds is None or max_seconds == math.inf:
        return math.inf
    number("max_seconds", max_seconds, above=0.0)
    return float(max_seconds)


def validated(estimator: Any, X: Any, y: Any, *, takes_indicator: bool = False, makes_rows: bool = False) -> tuple[Any, Array]:
    """X and y as scikit-learn's ``validate_data`` and ``check_classification_targets`` return them, with the attributes that
    they set. Those functions take half a millisecond, so arrays that they would not change are checked here instead. A caller
    that ``makes_rows`` of X before anything else has its indices looked at there."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import validate_data

    if _is_plain(X, y):
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        return (X if makes_rows else sound(X)), y
    is_table = takes_indicator and _is_table(y)
    settings: dict[str, Any] = {"multi_output": True} if is_table else {}
    X, y = validate_data(
        estimator,
        sound(X),
        y,
        accept_sparse="csr",
        accept_large_sparse=True,
        dtype=DTYPES,
        order="C",
        ensure_min_features=1,
        **settings,
    )
    if is_table:
        _check_indicator(y)
    elif not _are_plainly_classes(y):
        check_classification_targets(y)
    return X, y


def validated_targets(estimator: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """The same for the targets of a regression, one column for each output."""
    if _is_plain_array(X, y) and _has_plain_targets(X, y):
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        return X, y
    from sklearn.utils.validation import validate_data

    settings: dict[str, Any] = {"multi_output": True, "y_numeric": True}
    checked: tuple[Any, Array] = validate_data(
        estimator, sound(X), y, accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, order="C", **settings
    )
    return checked


def validated_rows(estimator: Any, X: Any) -> Any:
    """The same for X alone."""
    if (_is_plain_matrix(X) and _is_finite(X)) or (_is_plain_csr(X) and _is_finite(X.data)):
        _note_features(estimator, X)
        return X
    from sklearn.utils.validation import validate_data

    return validate_data(estimator, sound(X), accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, order="C")


def rows_to_check(estimator: Any, X: Any) -> Rows:
    """The rows of X. Whether they are finite is left to a solver that reads all of them, where X needs no other check."""
    if _is_plain_matrix(X) or _is_plain_csr(X):
        _note_features(estimator, X)
        return UncheckedRows.from_matrix(X, check=False)
    return Rows.from_matrix(validated_rows(estimator, X), check=False)


def _note_features(estimator: Any, X: Any) -> None:
    """What scikit-learn's ``validate_data`` notes of an X without names."""
    estimator.n_features_in_ = X.shape[1]
    vars(estimator).pop("feature_names_in_", None)


def _has_plain_targets(X: Any, y: Array) -> bool:
    """Whether y holds numbers, and both are finite."""
    return y.dtype.kind in "iuf" and _is_finite(X, y)


def _is_finite(*arrays: Array) -> bool:
    """Whether the sums are finite, and so all values are. A sum of large ones may overflow: then the answer is no."""
    with np.errstate(all="ignore"):
        return all(math.isfinite(np.add.reduce(values, axis=None)) for values in arrays)


def _is_table(y: Any) -> bool:
    """Whether y has several columns."""
    if isinstance(y, (list, tuple)):
        return len(y) > 0 and isinstance(y[0], (list, tuple, np.ndarray)) and len(y[0]) > 1
    shape: Any = getattr(y, "shape", ())
    return sparse.issparse(y) or (len(shape) == 2 and shape[1] > 1)


def _check_indicator(y: Any) -> None:
    """Zeros and ones, a column for each label."""
    from sklearn.utils.multiclass import type_of_target

    kind = type_of_target(y, input_name="y")
    if kind != "multilabel-indicator":
        raise ValueError(f"A y of several columns must hold zeros and ones, a column for each label; this one is {kind}.")


def _is_plain(X: Any, y: Any) -> bool:
    """Whether X is a finite C-ordered array or CSR matrix of floats, and y holds labels that need no further check."""
    if _is_plain_csr(X):
        has_labels = type(y) is np.ndarray and y.shape == X.shape[:1] and _are_plainly_classes(y)
        return has_labels and _is_finite(X.data)
    return _is_plain_array(X, y) and _are_plainly_classes(y) and _is_finite(X)


def _is_plain_array(X: Any, y: Any) -> bool:
    """Whether X is a C-ordered array of floats, and y an array with a number or label for each row."""
    return _is_plain_matrix(X) and type(y) is np.ndarray and y.ndim == 1 and len(X) == len(y)


def _is_plain_matrix(X: Any) -> bool:
    is_array = type(X) is np.ndarray and X.ndim == 2 and X.flags.c_contiguous
    return is_array and X.dtype in DTYPES and X.size > 0


def _is_plain_csr(X: Any) -> bool:
    """Whether X is a CSR matrix of floats. ``Rows`` looks at its indices."""
    is_csr = sparse.issparse(X) and X.format == "csr" and X.ndim == 2
    return is_csr and X.dtype in DTYPES and min(X.shape) > 0 and X.indices.dtype in (np.int32, np.int64)


def _are_plainly_classes(y: Array) -> bool:
    """Whether y holds whole numbers in a range of at most half the number of samples."""
    if y.dtype.kind not in "iuf" or len(y) == 0:
        return False
    least, greatest = float(y.min()), float(y.max())
    is_short = 2.0 * (greatest - least + 1.0) <= len(y) and abs(least) < MOST_LABEL  # false where y is not finite
    return is_short and (y.dtype.kind != "f" or bool(np.all(y == np.floor(y))))


def classes_of(y: Array) -> Array:
    """The distinct labels, in order. There must be at least two, and none may be a fraction."""
    classes = _distinct(y)
    if len(classes) < 2:
        named = ", ".join(str(label) for label in classes)
        raise ValueError(f"The number of classes has to be greater than one; got {len(classes)} class: {named}.")
    if classes.dtype.kind == "f" and np.any(classes != np.floor(classes)):
        fraction = classes[classes != np.floor(classes)][0]
        raise ValueError(f"Labels must be whole numbers or words, one for each class; y holds {fraction:g}.")
    return classes


def two_classes_of(y: Array) -> Array:
    """The two labels, the smaller one first."""
    classes = classes_of(y)
    if len(classes) > 2:
        raise ValueError(f"This takes two classes; y has {len(classes)}.")
    return classes


def _distinct(y: Array) -> Array:
    """The distinct labels, in order. Whole numbers in a small range are counted, which takes a tenth of the time of sorting."""
    if not _are_plainly_classes(y):
        return np.unique(y)
    whole = y.astype(np.int64)  # a difference of two int8 may not fit in one
    least = whole.min()
    return (np.flatnonzero(np.bincount(whole - least)) + least).astype(y.dtype)


def sample_costs(C: float, class_weight: Any, sample_weight: Any, X: Any, classes: Array, y: Array) -> Array:
    """C_i = C x class weight x sample weight: one number when it is the same for all, else one for each sample."""
    costs = weighted_costs(C, sample_weight, X)
    if class_weight is None:
        return costs
    from sklearn.utils.class_weight import compute_class_weight

    by_class = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=sample_weight)
    if not (np.isfinite(by_class).all() and by_class.min() >= 0.0 and by_class.any()):
        raise ValueError(f"class_weight must give finite weights that are not negative and not all zero; got {by_class}.")
    return np.asarray(costs * by_class[np.searchsorted(classes, y)])


def weighted_costs(C: float, sample_weight: Any, X: Any) -> Array:
    """C_i = C x sample weight: one number without weights, else one for each sample."""
    if sample_weight is None:
        return np.asarray(float(C))
    from sklearn.utils.validation import _check_sample_weight

    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if weights.max() <= 0.0:
        raise ValueError("Invalid input - all samples have zero or negative weights.")
    if weights.min() < 0.0:
        raise ValueError(f"Negative values in data passed to `sample_weight`; the least is {weights.min():g}.")
    return np.asarray(float(C) * weights)


class PickledByName:
    """An estimator whose pickles hold the names of its statuses."""

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        return named_statuses(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        parent: Any = super()
        state = with_statuses(state)
        if hasattr(parent, "__setstate__"):  # of scikit-learn, which compares versions
            parent.__setstate__(state)
        else:
            vars(self).update(state)


def named_statuses(state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an estimator, with names instead of statuses: skops cannot load members of an Enum."""
    status = state.get("status_")
    if status is None:
        return state
    return state | {"status_": [each.name for each in status] if isinstance(status, list) else status.name}


def with_statuses(state: dict[str, Any]) -> dict[str, Any]:
    """The opposite of ``named_statuses``. A state from before that function existed stays as it is."""
    from maxmargin.solving.solution import Status

    status = state.get("status_")
    if isinstance(status, str):
        return state | {"status_": Status[status]}
    if isinstance(status, list):
        return state | {"status_": [Status[each] if isinstance(each, str) else each for each in status]}
    return state


class unchanged_on_error:
    """Restore the estimator when an error occurs inside, so that a failed fit leaves the old model. A class takes a third of
    the time of a generator, which counts in small fits."""

    def __init__(self, estimator: Any) -> None:
        self.estimator, self.before = estimator, dict(vars(estimator))

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            vars(self.estimator).clear()
            vars(self.estimator).update(self.before)
