"""Model files that are safe to load from a stranger: safetensors, so arrays and text, no pickle and no code.

The header holds the estimator's name, parameters, labels, certificates and a digest of all of it and of the arrays; a file that
was truncated or altered by accident is refused. The digest is no signature: whoever writes a file can make one. So every field
is checked against a schema (``headers``, ``layouts``) before it is used, and a certificate in a file is the claim of its writer
until ``maxmargin certify`` has computed it again from the data.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict, fields
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as save_tensors

import maxmargin
from maxmargin.certificate.certificate import Certificate
from maxmargin.data.rows import Array
from maxmargin.estimators.linear_fit import one_or_all
from maxmargin.io.files import MalformedFile, explained
from maxmargin.io.outputs import Output, written
from maxmargin.models import policy
from maxmargin.models.headers import complaint_about_header
from maxmargin.models.layout import Layout
from maxmargin.models.layouts import LAYOUTS
from maxmargin.models.tensors import read_tensors
from maxmargin.solving.solution import Progress, Status

FORMAT = "maxmargin model 1"
PUBLIC = {layout.estimator: layout for layout in LAYOUTS.values()}
HEADER_KEY, DIGEST_KEY = "maxmargin", "sha256"
NOT_FINITE = ("inf", "-inf", "nan")
"""The texts that stand for numbers that JSON does not have."""


def save_model(estimator: Any, path: str | os.PathLike[str] | Output) -> int:
    """Write a fitted estimator. The file appears whole or not at all. Returns the number of bytes.

    The traces of very many binary problems, which would make the header longer than ``load_model`` reads, are left out."""
    name = type(estimator).__name__
    if name not in LAYOUTS:
        raise TypeError(f"maxmargin can save {', '.join(PUBLIC)}; got {name}.")
    layout = LAYOUTS[name]
    if not hasattr(estimator, layout.fitted):
        raise ValueError(f"This {name} is not fitted yet: there is nothing to save.")
    tensors = layout.tensors_of(estimator)
    header = _header_of(estimator, layout)
    sentence = _complaint_about(_as_written(header), tensors)
    if sentence:
        raise ValueError(f"This {name} cannot be kept in a file: {sentence}.")
    if len(text := _text_of(header)) > policy.LIMITS.most_header_bytes // 2:  # as a text within JSON it grows
        text = _text_of({**header, "traces": []})
    content = save_tensors(tensors, {HEADER_KEY: text, DIGEST_KEY: _digest(text, tensors)})
    with written(path) as file:
        file.write(content)
    return len(content)


def _header_of(estimator: Any, layout: Layout) -> dict[str, Any]:
    """All that a file says of a model besides its arrays."""
    labels, label_type = _labels_as_json(getattr(estimator, "classes_", np.empty(0)))
    return {
        "format": FORMAT,
        "version": maxmargin.__version__,
        "estimator": layout.estimator,
        "parameters": {key: _plain(key, value) for key, value in _parameters(estimator).items()},
        "labels": labels,
        "label_type": label_type,
        "feature_names": [str(feature) for feature in getattr(estimator, "feature_names_in_", [])],
        "certificates": [asdict(certificate) for certificate in _all(estimator, "certificate_")],
        "statuses": [status.name for status in _all(estimator, "status_")],
        "traces": [[asdict(row) for row in trace] for trace in _all(estimator, "trace_")],
        "offset_bounds": _all(estimator, "offset_bound_"),
        **layout.details_of(estimator),
        **{key: getattr(estimator, key) for key in layout.scalars if hasattr(estimator, key)},
    }


def _text_of(header: dict[str, Any]) -> str:
    return json.dumps(_finite_as_text(header), sort_keys=True)


def _parameters(estimator: Any) -> dict[str, Any]:
    return {name: getattr(estimator, name) for name in signature(type(estimator)).parameters}


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read what ``save_model`` wrote. The estimator predicts as before and carries its certificate."""
    path = Path(path)
    header, tensors = _read(path)
    with explained(path, "its header does not describe a model"):
        sentence = _complaint_about(header, tensors)
        if sentence:
            raise MalformedFile(path, sentence)
        return _restored(header, tensors)


def _complaint_about(header: Any, tensors: dict[str, Array]) -> str | None:
    """The same rules hold for what is written and for what is read."""
    return complaint_about_header(header) or PUBLIC[header["estimator"]].complaint_about(header, tensors)


def _restored(header: dict[str, Any], tensors: dict[str, Array]) -> Any:
    parameters, layout = dict(header["parameters"]), PUBLIC[header["estimator"]]
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = dict(parameters["class_weight"]["pairs"])
    estimator = getattr(maxmargin, layout.estimator)(**parameters)
    for key in set(layout.scalars) & set(header):
        setattr(estimator, key, header[key])
    layout.fill(estimator, header, tensors)
    if header["labels"]:
        estimator.classes_ = np.array(header["labels"], dtype=header["label_type"])
    if header["feature_names"]:
        estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    if header["certificates"]:  # an imported model has none
        estimator.certificate_ = one_or_all([_with_floats(Certificate, each) for each in header["certificates"]])
        estimator.status_ = one_or_all([Status[status] for status in header["statuses"]])
        if header["traces"]:
            estimator.trace_ = one_or_all([tuple(_with_floats(Progress, row) for row in trace) for trace in header["traces"]])
        if header.get("offset_bounds"):  # files of before they were kept have none
            estimator.offset_bound_ = one_or_all([float(bound) for bound in header["offset_bounds"]])
    return estimator


def _with_floats(kind: type, values: dict[str, Any]) -> Any:
    """A dataclass from a table in a header. JSON may write a float as a whole number of any length, with which NumPy cannot
    compute."""
    floats = {field.name for field in fields(kind) if field.type in (float, "float")}
    return kind(**{name: float(value) if name in floats else value for name, value in values.items()})


def _read(path: Path) -> tuple[Any, dict[str, Array]]:
    metadata, tensors = read_tensors(path, "maxmargin model")
    if not isinstance(metadata.get(HEADER_KEY), str):
        raise MalformedFile(path, "it is a safetensors file, but not a maxmargin model")
    if metadata.get(DIGEST_KEY) != _digest(metadata[HEADER_KEY], tensors):
        raise MalformedFile(path, "its digest does not match: it has been altered")
    with explained(path, "its header is damaged"):
        header = _text_as_finite(json.loads(metadata[HEADER_KEY]))
    if isinstance(header, dict) and header.get("format") != FORMAT:
        raise MalformedFile(path, f"its format is {str(header.get('format'))[:60]!r}; this version reads {FORMAT!r}")
    return header, tensors


def _digest(text: str, tensors: dict[str, Array]) -> str:
    digest = hashlib.sha256(text.encode(errors="surrogatepass"))
    for key in sorted(tensors):
        digest.update(f"{key} {tensors[key].dtype} {tensors[key].shape} ".encode(errors="surrogatepass"))
        digest.update(np.ascontiguousarray(tensors[key]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _labels_as_json(classes: Array) -> tuple[list[Any], str]:
    if classes.dtype.kind in "biuf":
        return classes.tolist(), classes.dtype.str
    if classes.dtype.kind in "UO" and all(isinstance(label, str) for label in classes.tolist()):
        return classes.tolist(), "object" if classes.dtype.kind == "O" else classes.dtype.str
    raise TypeError(f"Labels must be numbers, booleans or strings to be saved; got {classes.dtype}.")


def _plain(key: str, value: Any) -> Any:
    """A parameter as JSON has it. A solver object is kept by its name and a shrinking rule as True; a callback and a generator
    are not kept."""
    if key == "solver" and not isinstance(value, str):
        return value.name
    if key == "shrinking" and not isinstance(value, (bool, np.bool_)):
        return True
    if key == "class_weight" and isinstance(value, dict):
        return {"pairs": [[_item(label), float(weight)] for label, weight in value.items()]}
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return _item(value) if isinstance(value, np.generic) else None


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _finite_as_text(value: Any) -> Any:
    """JSON has no infinity: write it as a marked text."""
    if isinstance(value, dict):
        return {key: _finite_as_text(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite_as_text(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def _text_as_finite(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"float"} and value["float"] in NOT_FINITE:
            return float(value["float"])
        return {key: _text_as_finite(item) for key, item in value.items()}
    return [_text_as_finite(item) for item in value] if isinstance(value, list) else value


def _as_written(header: dict[str, Any]) -> Any:
    """The header as a reader will see it: tuples are lists in JSON."""
    return _text_as_finite(_finite_as_text(header))


def _all(estimator: Any, attribute: str) -> list[Any]:
    value = getattr(estimator, attribute, [])
    return value if isinstance(value, list) else [value]
