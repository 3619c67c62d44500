"""What is asked of the arrays of a model file: which there are, of which types and shapes, and what else must be true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array

FLOAT64, FLOATS = ("float64",), ("float64", "float32")
WHOLE = ("int32", "int64")

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
        sizes = {"classes": n_classes, "others": n_classes - 1, "problems": n_problems, "one": 1}
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
        takes_all_classes = header["parameters"].get("multi_class") == "crammer_singer"
        n_solved = 1 if takes_all_classes else sizes["problems"]
        for key in ("certificates", "statuses", "traces", "offset_bounds"):
            if len(header.get(key, ())) not in (0, n_solved):
                return f"it has {len(header[key])} {key} for {n_solved} problems"
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


def fill_all(estimator: Any, tensors: Tensors) -> None:
    """Every array as the attribute of its name."""
    for key, array in tensors.items():
        setattr(estimator, key, array)
