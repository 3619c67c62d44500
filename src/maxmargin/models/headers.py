"""The schema of the header of a model file: every field, by the kind of estimator."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.io.schema import (
    Rule,
    either,
    fields_of,
    flag,
    list_of,
    number,
    one_of,
    record,
    row_of,
    text,
    whole,
)
from maxmargin.models import policy
from maxmargin.solving.solution import Progress, Status

MOST_FEATURES = 2**31
"""Features of a model: an index of the data has 32 bits."""

LABEL = either(whole(-(2**63), 2**64 - 1), number(), flag(), text())
LABEL_TYPE = re.compile(r"object|\|b1|\|[iu]1|[<>][iu][248]|[<>]f[248]|<U(?P<length>[1-9][0-9]{0,4})")
NOTHING = one_of(None)

COMMON: dict[str, Rule] = {
    "C": number(0.0, is_open=True, is_finite=False),
    "tol": number(0.0),
    "class_weight": either(NOTHING, one_of("balanced"), record({"pairs": list_of(row_of(LABEL, number(0.0)))})),
    "verbose": either(flag(), whole()),
    "random_state": either(NOTHING, whole()),
    "max_iter": whole(-1),
    "solver": text(100),
    "fit_intercept": flag(),
    "max_seconds": either(NOTHING, number(0.0, is_open=True, is_finite=False)),
    "warm_start": flag(),
    "n_jobs": either(NOTHING, whole()),
    "callback": NOTHING,
}
NU = number(0.0, 1.0, is_open=True)


def _rules(*names: str) -> dict[str, Rule]:
    return {name: COMMON[name] for name in names}


OF_KERNELS: dict[str, Rule] = {
    **_rules("tol", "verbose", "max_iter", "solver", "max_seconds", "callback"),
    "kernel": one_of("linear", "poly", "rbf", "sigmoid", "precomputed"),
    "degree": whole(0, policy.LIMITS.most_degree),
    "gamma": either(one_of("scale", "auto"), number(0.0, is_open=True)),
    "coef0": number(),
    "shrinking": flag(),
    "cache_size": number(0.0, is_open=True),
}
"""The parameters of every machine with a kernel."""
OF_KERNEL_CLASSES: dict[str, Rule] = {"decision_function_shape": one_of("ovr", "ovo"), "break_ties": flag()}
PARAMETERS = {
    "LinearSVC": {
        **COMMON,
        "penalty": one_of("l2", "l1", "elasticnet"),
        "l1_ratio": number(0.0, 1.0),
        "loss": one_of("hinge", "squared_hinge"),
        "dual": one_of("auto", True, False),
        "multi_class": one_of("ovr", "crammer_singer"),
        "intercept_scaling": number(),
        "penalize_intercept": flag(),
        "sharp_proofs": flag(),
    },
    "LinearSVR": {
        **{key: rule for key, rule in COMMON.items() if key != "class_weight"},
        "epsilon": number(0.0),
        "loss": one_of("epsilon_insensitive", "squared_epsilon_insensitive", "quantile"),
        "quantile": number(0.0, 1.0, is_open=True),
        "dual": one_of("auto", True, False),
        "intercept_scaling": number(),
        "penalize_intercept": flag(),
    },
    "LinearOneClassSVM": {
        **{key: rule for key, rule in COMMON.items() if key not in ("C", "class_weight", "fit_intercept", "n_jobs")},
        "nu": NU,
    },
    "SVC": {
        **OF_KERNELS,
        **OF_KERNEL_CLASSES,
        **_rules("C", "class_weight", "random_state", "fit_intercept", "warm_start", "n_jobs"),
    },
    "NuSVC": {**OF_KERNELS, **OF_KERNEL_CLASSES, **_rules("class_weight", "random_state", "n_jobs"), "nu": NU},
    "SVR": {
        **OF_KERNELS,
        **_rules("C", "warm_start", "n_jobs"),
        "epsilon": number(0.0),
        "loss": one_of("epsilon_insensitive", "quantile"),
        "quantile": number(0.0, 1.0, is_open=True),
    },
    "NuSVR": {**OF_KERNELS, **_rules("C", "n_jobs"), "nu": NU},
    "OneClassSVM": {**OF_KERNELS, "nu": NU},
}
"""What each estimator is made with. A file of an older version may lack some."""
KERNEL_NAMES = ("kernel", "degree", "gamma", "coef0")
NEEDED_PARAMETERS = {
    "LinearSVC": ("loss", "fit_intercept", "intercept_scaling"),
    "LinearSVR": ("loss", "fit_intercept", "intercept_scaling"),
    "LinearOneClassSVM": ("nu",),
    "SVC": (*KERNEL_NAMES, "fit_intercept"),
    "NuSVC": (*KERNEL_NAMES, "nu"),
    "SVR": (*KERNEL_NAMES, "loss"),
    "NuSVR": (*KERNEL_NAMES, "nu"),
    "OneClassSVM": (*KERNEL_NAMES, "nu"),
}
WITHOUT_CLASSES = ("LinearSVR", "LinearOneClassSVM", "SVR", "NuSVR", "OneClassSVM")
"""Estimators whose header has an empty list of labels."""

NEEDED: dict[str, Rule] = {
    "format": text(100),
    "version": text(100),
    "estimator": one_of(*PARAMETERS),
    "labels": list_of(LABEL),
    "label_type": text(20),
    "n_features_in_": whole(1, MOST_FEATURES),
    "certificates": list_of(fields_of(Certificate)),
    "statuses": list_of(one_of(*(status.name for status in Status))),
    "traces": list_of(list_of(fields_of(Progress))),
    "feature_names": list_of(text()),
}
OPTIONAL: dict[str, Rule] = {
    "offset_bounds": list_of(number(0.0, is_finite=False)),
    "relative_gap_": number(0.0, is_finite=False),
}
OF_A_KERNEL: dict[str, Rule] = {
    "gamma": either(NOTHING, number(0.0, is_open=True)),
    "fit_status_": whole(0, 1),
    "shape_fit_": list_of(whole(1), least=2, most=2),
}
EPOCHS: dict[str, Rule] = {"n_iter_": whole(0)}
OUTPUTS: dict[str, Rule] = {"n_outputs": either(NOTHING, whole(1))}
OPTIONAL_OF = {
    "LinearSVC": {**EPOCHS, "is_multilabel": flag()},
    "LinearSVR": EPOCHS | OUTPUTS,
    "LinearOneClassSVM": EPOCHS,
    "SVC": OF_A_KERNEL,
    "NuSVC": OF_A_KERNEL,
    "SVR": EPOCHS | OUTPUTS | OF_A_KERNEL,
    "NuSVR": EPOCHS | OUTPUTS | OF_A_KERNEL,
    "OneClassSVM": EPOCHS | OF_A_KERNEL,
}


def complaint_about_header(header: Any) -> str | None:
    """What is wrong with a header, or None."""
    if not isinstance(header, dict):
        return "its header is no table of names and values"
    name: Any = header.get("estimator")
    sentence = NEEDED["estimator"]("the header.estimator", name)
    if sentence:
        return sentence
    known, wanted = PARAMETERS[name], NEEDED_PARAMETERS[name]
    parameters = record({key: known[key] for key in wanted}, known)
    rule = record({**NEEDED, "parameters": parameters}, {**OPTIONAL, **OPTIONAL_OF[name]})
    return (
        rule("the header", header)
        or _complaint_about_count(name, len(header["labels"]))
        or _complaint_about_labels(header["labels"], header["label_type"])
    )


def _complaint_about_count(name: str, n_labels: int) -> str | None:
    if name in WITHOUT_CLASSES:
        return f"a model of {name} has no labels" if n_labels else None
    return None if n_labels >= 2 else "the header.labels must be a list of at least 2 items"


def _complaint_about_labels(labels: list[Any], label_type: str) -> str | None:
    """The labels must be distinct and all of the type that the header names, without loss."""
    found = LABEL_TYPE.fullmatch(label_type)
    if found is None:
        return f"label_type {label_type!r} is not a type of numbers, booleans or texts"
    is_text = label_type == "object" or found["length"] is not None
    if any(isinstance(label, str) != is_text for label in labels):
        return f"the labels are not all of the type {label_type!r}"
    if found["length"] is not None and 4 * int(found["length"]) * len(labels) > policy.LIMITS.most_labels_bytes:
        return f"labels of the type {label_type!r} would take more than {policy.LIMITS.most_labels_bytes} bytes"
    if len(set(labels)) != len(labels):
        return "a label comes twice"
    if any(isinstance(label, float) and not math.isfinite(label) for label in labels):
        return "a label is not finite"
    return None if np.array(labels, dtype=label_type).tolist() == labels else f"a label does not fit the type {label_type!r}"
