"""The text models of LIBSVM, read and written: here those of classification, in ``libsvm_outputs`` the others.

Its labels stand in an order of its own, and the first class of a pair is the positive one. The coefficients of a support vector
of class i stand in the order of the other classes, those before i and those after; the decision value of a pair is the sum over
both classes minus rho. A tie between votes goes to the label that is listed first, so a model of more than two classes keeps
LIBSVM's order in ``classes_``, and predicts what ``svm-predict`` predicts. Two classes stand in rising order, as ours do.

A file says neither C nor how many features there were, nor which samples the support vectors are. The sigmoids that make
probabilities of decision values (probA, probB) are kept in ``_sigmoids_`` where the file has them (``probabilities``).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.estimators.kernel_machine import KernelMachine
from maxmargin.estimators.kernel_settings import kernel_named
from maxmargin.estimators.linear_one_class import LinearOneClass
from maxmargin.estimators.linear_regressor import LinearRegressor
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.nu_svc import NuSVC
from maxmargin.estimators.svc import SVC
from maxmargin.io.files import explained
from maxmargin.io.outputs import Output, written
from maxmargin.models import libsvm_outputs, policy
from maxmargin.models.liblinear import filled, with_positive_first
from maxmargin.models.probabilities import Sigmoids
from maxmargin.models.text_lines import Header, TextLine, header_and_rest, whole_labels

KERNELS = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "sigmoid": "sigmoid"}
"""The kernels by LIBSVM's names, in our names."""
SETTINGS = {"linear": (), "poly": ("degree", "gamma", "coef0"), "rbf": ("gamma",), "sigmoid": ("gamma", "coef0")}
"""What the header says of each kernel, in LIBSVM's order."""


def read_libsvm(path: str | os.PathLike[str]) -> Any:
    """A C-SVC model: an SVC, or with linear kernel and two classes a LinearSVC, its support vectors added up to one vector. A
    nu-SVC, epsilon-SVR, nu-SVR or one-class model: the estimator of that name."""
    path = Path(path)
    with explained(path, "it is no model of LIBSVM's, or it is damaged"):
        header, lines = header_and_rest(path, "SV")
        return _calibrated(_model(header, lines), header)


def _model(header: Header, lines: Iterator[TextLine]) -> Any:
    _check_type(header)
    if header["svm_type"].text in libsvm_outputs.TYPES:
        return _model_of_outputs(header, lines)
    labels = header.labels()
    rho = np.array(header["rho"].numbers(len(labels) * (len(labels) - 1) // 2))
    coefficients, vectors = _support_vectors(lines, len(labels) - 1)
    total = header["total_sv"]
    if len(coefficients) != total.whole():
        raise total.complaint(f"{len(coefficients)} support vectors where {total.text} belong: it is truncated or damaged")
    is_nu = header["svm_type"].text == "nu_svc"
    if header["kernel_type"].text == "linear" and len(labels) == 2 and not is_nu:
        if vectors.shape[1] > max(policy.LIMITS.free_weights, policy.LIMITS.weights_a_value * vectors.nnz):
            raise total.complaint(f"{vectors.shape[1]} weights for {vectors.nnz} values of support vectors are no model")
        w = np.asarray(vectors.T @ coefficients).T
        return filled(LinearSVC(loss="hinge", penalize_intercept=False), labels, w, -rho)
    model = NuSVC(**_settings(header)) if is_nu else SVC(**_settings(header))
    model._kernel_ = kernel_named(model.kernel, model.gamma, model.coef0, model.degree)
    return _filled(model, _LibsvmMachine(labels, coefficients.T, rho, _counts(header), vectors))


def _model_of_outputs(header: Header, lines: Iterator[TextLine]) -> Any:
    coefficients, vectors = _support_vectors(lines, 1)
    total = header["total_sv"]
    if len(coefficients) != total.whole():
        raise total.complaint(f"{len(coefficients)} support vectors where {total.text} belong: it is truncated or damaged")
    rho = header["rho"].numbers(1)[0]
    return libsvm_outputs.machine_with(header["svm_type"].text, _settings(header), coefficients, rho, vectors)


def _calibrated(model: Any, header: Header) -> Any:
    """The model with the sigmoids of the file, if it has any."""
    has_sigmoids = "probA" in header.values or "probB" in header.values
    if has_sigmoids and header["svm_type"].text not in libsvm_outputs.TYPES:
        labels = header.labels()
        n_pairs = len(labels) * (len(labels) - 1) // 2
        A, B = (np.array(header[name].numbers(n_pairs)) for name in ("probA", "probB"))
        model._sigmoids_ = Sigmoids.of_libsvm(A, B, labels)
    return model


def _sigmoid_lines(estimator: Any) -> str:
    """A model of two classes is written with the greater label first, which is the one that our sigmoid is of."""
    sigmoids = getattr(estimator, "_sigmoids_", None)
    return "" if sigmoids is None else f"probA {_joined(sigmoids.A.tolist())}\nprobB {_joined(sigmoids.B.tolist())}\n"


def write_libsvm(estimator: Any, path: str | os.PathLike[str] | Output) -> None:
    """A model that LIBSVM's ``svm-predict`` reads: an SVC, NuSVC, SVR, NuSVR or OneClassSVM, or a linear model of two classes,
    of one output or of one class, its weights as the only support vector."""
    if isinstance(estimator, (KernelMachine, LinearRegressor, LinearOneClass)):
        kind, (name, machine), labels = libsvm_outputs.type_of(estimator), _output_machine(estimator), ""
    else:
        kind = "nu_svc" if isinstance(estimator, NuSVC) else "c_svc"
        name, machine = _linear_machine(estimator) if hasattr(estimator, "loss") else _machine(estimator)
        labels = f"label {' '.join(map(str, machine.labels))}\n{_sigmoid_lines(estimator)}"
        labels += f"nr_sv {' '.join(map(str, machine.counts))}\n"
    settings = "".join(f"{key} {np.asarray(getattr(estimator._kernel_, key)).item()!r}\n" for key in SETTINGS[KERNELS[name]])
    with written(path) as file:
        file.write(
            f"svm_type {kind}\nkernel_type {name}\n{settings}nr_class {len(machine.labels)}\n"
            f"total_sv {machine.vectors.shape[0]}\nrho {_joined(machine.rho.tolist())}\n{labels}SV\n".encode()
        )
        names, values, starts = (part.tolist() for part in _csr_parts(machine.vectors))
        for k, row in enumerate(machine.coefficients.T.tolist()):
            features = "".join(f" {names[e] + 1}:{values[e]!r}" for e in range(starts[k], starts[k + 1]) if values[e] != 0.0)
            file.write(f"{_joined(row)}{features} \n".encode())


def _output_machine(estimator: Any) -> tuple[str, _LibsvmMachine]:
    """LIBSVM's files say two classes where there are none. A linear model is written with its weights as the only support
    vector, and so is one with a linear kernel that predicts by the weights of its features."""
    rho = -estimator.intercept_
    if not isinstance(estimator, KernelMachine):
        return "linear", _LibsvmMachine([0, 1], np.ones((1, 1)), rho, [], np.atleast_2d(estimator.coef_))
    weights = estimator._feature_weights_
    if weights is not None and estimator.kernel == "linear":
        return "linear", _LibsvmMachine([0, 1], np.ones((1, 1)), rho, [], np.asarray(weights.weights))
    return _kernel_name(estimator), _LibsvmMachine([0, 1], estimator.dual_coef_, rho, [], estimator.support_vectors_)


def width_of(model: Any) -> int | None:
    """How many features a model has; None for a kernel model of LIBSVM's, which ends with the last of its support vectors'."""
    was_fitted = not isinstance(model, (SVC, KernelMachine)) or hasattr(model, "certificate_")
    is_open = not was_fitted and sparse.issparse(model.support_vectors_)
    return None if is_open else int(model.n_features_in_)


def aligned(model: Any, X: Any) -> Any:
    """X as wide as the model. Where the model does not say how wide it is, the narrower of the two grows; while they are sparse
    that costs nothing."""
    if width_of(model) is not None:
        return X
    width = max(model.n_features_in_, X.shape[1])
    model.support_vectors_.resize(model.support_vectors_.shape[0], width)
    model.n_features_in_ = width
    if sparse.issparse(X):
        X.resize(X.shape[0], width)
    return X


class _LibsvmMachine(NamedTuple):
    """A model as LIBSVM has it. ``coefficients`` has a row for each other class and a column for each support vector."""

    labels: list[int]
    coefficients: Array
    rho: Array
    counts: list[int]
    vectors: Any


def _filled(model: SVC, machine: _LibsvmMachine) -> SVC:
    if len(machine.labels) == 2:
        if machine.labels[0] > machine.labels[1]:
            machine = _swapped(machine)  # our first class is the negative one, as the second of theirs
        else:
            machine = machine._replace(coefficients=-machine.coefficients, rho=-machine.rho)
    model.classes_ = np.array(machine.labels)
    model.n_support_ = np.array(machine.counts, np.int32)
    model.dual_coef_, model.intercept_ = np.ascontiguousarray(machine.coefficients), -machine.rho
    model.support_vectors_, model.n_features_in_ = machine.vectors, machine.vectors.shape[1]
    return model


def _machine(estimator: Any) -> tuple[str, _LibsvmMachine]:
    labels, counts = whole_labels(estimator), estimator.n_support_.tolist()
    machine = _LibsvmMachine(labels, estimator.dual_coef_, -estimator.intercept_, counts, estimator.support_vectors_)
    return _kernel_name(estimator), _swapped(machine) if len(labels) == 2 else machine


def _kernel_name(estimator: Any) -> str:
    """The name of the kernel in LIBSVM's words."""
    names = {ours: theirs for theirs, ours in KERNELS.items()}
    if not isinstance(estimator.kernel, str) or estimator.kernel not in names:
        kind = "precomputed" if isinstance(estimator.kernel, str) else "a function"
        raise ValueError(f"LIBSVM's files have the kernels {', '.join(KERNELS)}; the kernel of this model is {kind}.")
    return names[estimator.kernel]


def _linear_machine(estimator: Any) -> tuple[str, _LibsvmMachine]:
    labels, w, intercept = with_positive_first(estimator)
    if len(labels) != 2:
        raise ValueError(
            f"LIBSVM separates classes pairwise: a one-vs-rest model of {len(labels)} classes cannot be written for it."
        )
    return "linear", _LibsvmMachine(labels, np.ones((1, 1)), -intercept, [1, 0], w)


def _swapped(machine: _LibsvmMachine) -> _LibsvmMachine:
    """Two classes in the other order, the signs as they are."""
    first = machine.counts[0]
    order = np.r_[first : sum(machine.counts), :first]
    return machine._replace(
        labels=machine.labels[::-1],
        coefficients=machine.coefficients[:, order],
        counts=machine.counts[::-1],
        vectors=machine.vectors[order],
    )


def _check_type(header: Header) -> None:
    kind, kernel = header["svm_type"], header["kernel_type"]
    types = ("c_svc", "nu_svc", *libsvm_outputs.TYPES)
    for line, known in ((kind, types), (kernel, KERNELS)):
        if line.text not in known:
            what = f"svm_type {kind.text}, kernel_type {kernel.text}"
            raise line.complaint(f"a LIBSVM model with {what}; only {', '.join(types)} with {', '.join(KERNELS)} can be read")


def _settings(header: Header) -> dict[str, Any]:
    kernel = KERNELS[header["kernel_type"].text]
    settings: dict[str, Any] = {"kernel": kernel}
    for name in SETTINGS[kernel]:
        line = header[name]
        settings[name] = line.whole() if name == "degree" else line.number()
        if name == "gamma" and settings[name] <= 0.0:
            raise line.complaint(f"gamma must be positive; it is {line.text}")
        if name == "degree" and not 0 <= settings[name] <= policy.LIMITS.most_degree:
            raise line.complaint(f"degree must lie between 0 and {policy.LIMITS.most_degree}; it is {line.text[:40]}")
    return settings


def _counts(header: Header) -> list[int]:
    line, total = header["nr_sv"], header["total_sv"].whole()
    counts = line.wholes()
    if len(counts) != header["nr_class"].whole() or min(counts) < 0 or sum(counts) != total:
        raise line.complaint(f"nr_sv must say for each class how many of the {total} support vectors are its own")
    return counts


def _support_vectors(lines: Iterator[TextLine], n_coefficients: int) -> tuple[Array, Any]:
    """A row of coefficients for each support vector, and the vectors as CSR."""
    coefficients, indices, values, ends = array("d"), array("i"), array("d"), array("q", [0])
    for line in lines:
        first, others = line.parted(n_coefficients)
        coefficients.extend(first.numbers(n_coefficients))
        columns, numbers = others.features()
        indices.frombytes((columns - 1).astype(np.int32).tobytes())
        values.frombytes(numbers.astype(np.float64).tobytes())
        ends.append(len(indices))
    places = np.array(indices, np.int32)
    shape = (len(ends) - 1, int(places.max(initial=0)) + 1)
    vectors = sparse.csr_matrix((np.array(values), places, np.array(ends)), shape=shape)
    return np.array(coefficients).reshape(-1, n_coefficients), vectors


def _csr_parts(vectors: Any) -> tuple[Array, Array, Array]:
    csr = sparse.csr_matrix(vectors)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr.indices, csr.data, csr.indptr


def _joined(values: list[float]) -> str:
    return " ".join(map(repr, values))
