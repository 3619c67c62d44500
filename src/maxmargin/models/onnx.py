"""Models as ONNX graphs, for runtimes without Python. Needs ``pip install maxmargin[onnx]``.

Importing this module registers every estimator with skl2onnx, so that pipelines which end in one convert too.
:func:`to_onnx` converts a model alone, and says how far the graph's outputs can be from ours
(:mod:`maxmargin.models.onnx_bounds`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from skl2onnx import to_onnx as _convert
from skl2onnx import update_registered_converter
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType

from maxmargin.estimators.labels import refuse_indicator
from maxmargin.estimators.linear_one_class_svm import LinearOneClassSVM
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.linear_svc_cv import LinearSVCCV
from maxmargin.estimators.linear_svr import LinearSVR
from maxmargin.estimators.linear_svr_cv import LinearSVRCV
from maxmargin.estimators.nu_svc import NuSVC
from maxmargin.estimators.nu_svr import NuSVR
from maxmargin.estimators.one_class_svm import OneClassSVM
from maxmargin.estimators.svc import SVC
from maxmargin.estimators.svc_cv import SVCCV
from maxmargin.estimators.svr import SVR
from maxmargin.estimators.svr_cv import SVRCV
from maxmargin.models.onnx_bounds import change_bound
from maxmargin.models.onnx_graphs import has_one_output, put_classes, put_inliers, put_targets

__all__ = ["Exported", "to_onnx"]

OPSET = 17
"""The version of ONNX's operators that is written: onnxruntime has read it since 1.12 (2022)."""
CLASSIFIERS = (LinearSVC, LinearSVCCV, SVC, SVCCV, NuSVC)
ONE_CLASS = (OneClassSVM, LinearOneClassSVM)
REGRESSORS = (LinearSVR, LinearSVRCV, SVR, SVRCV, NuSVR)
ELEMENT_TYPES = {"float64": 11, "float32": 1, "int64": 7, "object": 8}
"""ONNX's numbers for the types of tensors."""


@dataclass(frozen=True, eq=False)
class Exported:
    """An ONNX model with the input ``X``. A classifier and a one-class machine have the outputs ``label`` and ``scores``, a
    regressor the output ``value``.

    ``bound`` is the most by which a value, or the decision value of a binary problem, can differ from ours, for the rows that
    it was computed for. Where a decision value is greater in magnitude, the label is the same."""

    model: Any
    bound: float
    dtype: str

    def save(self, path: str | Path) -> Path:
        """Write the file that a runtime reads."""
        path = Path(path)
        path.write_bytes(self.model.SerializeToString())
        return path

    def __str__(self) -> str:
        nodes = [node.op_type for node in self.model.graph.node]
        return f"ONNX model in {self.dtype}: {', '.join(nodes)}. Its values differ from ours by at most {self.bound:.2e}."


def to_onnx(model: Any, X: Any, *, dtype: str = "float64") -> Exported:
    """Convert a fitted model.

    Parameters
    ----------
    model : fitted estimator of maxmargin
    X : array of shape (n_samples, n_features)
        Rows for which the bound shall hold: data such as will be predicted.
    dtype : {"float64", "float32"}, default "float64"
        The precision of the graph and of its input.

    Returns
    -------
    exported : Exported

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.models.onnx import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> exported = to_onnx(SVC().fit(X, y), X)
    >>> exported.bound < 1e-9
    True
    """
    tensors = {"float64": DoubleTensorType, "float32": FloatTensorType}
    if dtype not in tensors:
        raise ValueError(f"dtype must be 'float64' or 'float32'; got {dtype!r}.")
    refuse_indicator(model, "An ONNX graph of ours")
    rows = np.asarray(X, dtype=np.float64)
    inputs = [("X", tensors[dtype]([None, rows.shape[1]]))]
    converted = _convert(model, initial_types=inputs, target_opset=OPSET)
    return Exported(converted, change_bound(model, rows, np.dtype(dtype)), dtype)


class ContainerGraph:
    """A :class:`maxmargin.models.onnx_graphs.Graph` that puts its nodes into skl2onnx's container."""

    def __init__(self, scope: Any, container: Any, dtype: Any) -> None:
        self.scope, self.container, self.dtype = scope, container, np.dtype(dtype)

    def constant(self, values: Any, dtype: Any = None) -> str:
        array = np.asarray(values, dtype=self.dtype if dtype is None else dtype)
        name: str = self.scope.get_unique_variable_name("constant")
        flat = [str(value).encode() for value in array] if array.dtype == object else array.ravel().tolist()
        self.container.add_initializer(name, ELEMENT_TYPES[array.dtype.name], list(array.shape), flat)
        return name

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name: str = output or self.scope.get_unique_variable_name(operator.lower())
        unique = self.scope.get_unique_operator_name(operator)
        self.container.add_node(operator, list(inputs), name, name=unique, op_version=OPSET, **attributes)
        return name


def _outputs(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """skl2onnx's parser: what comes out, without its ZipMap."""
    operator = scope.declare_local_operator(f"Maxmargin{type(model).__name__}", model)
    operator.inputs = list(inputs)
    values = _tensor_of(operator)([None])
    if type(model) in REGRESSORS:
        operator.outputs.append(scope.declare_local_variable("value", values))
        return operator.outputs
    is_number = type(model) in ONE_CLASS or np.asarray(model.classes_).dtype.kind in "biuf"
    labels = Int64TensorType([None]) if is_number else StringTensorType([None])
    operator.outputs.append(scope.declare_local_variable("label", labels))
    operator.outputs.append(scope.declare_local_variable("scores", values))
    return operator.outputs


def _tensor_of(operator: Any) -> Any:
    return DoubleTensorType if isinstance(operator.inputs[0].type, DoubleTensorType) else FloatTensorType


def _shapes_of_values(operator: Any) -> None:
    """One value a row, or one for each output."""
    model, n = operator.raw_operator, operator.inputs[0].get_first_dimension()
    shape = [n] if has_one_output(model) else [n, len(model.intercept_)]
    operator.outputs[0].type = _tensor_of(operator)(shape)


def _shapes_of_inliers(operator: Any) -> None:
    n = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type.shape = [n]
    operator.outputs[1].type = _tensor_of(operator)([n])


def _shapes_of_classes(operator: Any) -> None:
    """One label a row; one score a row with two classes, else one for each column of ``decision_function``."""
    model, n = operator.raw_operator, operator.inputs[0].get_first_dimension()
    n_classes = len(model.classes_)
    is_ovo = getattr(model, "decision_function_shape", "ovr") == "ovo"
    width = n_classes * (n_classes - 1) // 2 if is_ovo else n_classes
    operator.outputs[0].type.shape = [n]
    operator.outputs[1].type = _tensor_of(operator)([n] if n_classes == 2 else [n, width])


def _converted(put: Callable[..., None], scope: Any, operator: Any, container: Any) -> None:
    dtype = np.float64 if _tensor_of(operator) is DoubleTensorType else np.float32
    X = operator.inputs[0].full_name
    graph = ContainerGraph(scope, container, dtype)
    if not isinstance(operator.inputs[0].type, (DoubleTensorType, FloatTensorType)):
        X = graph.node("Cast", X, to=ELEMENT_TYPES["float32"])
    put(graph, operator.raw_operator, X, *(output.full_name for output in operator.outputs))


def _register(kinds: tuple[type, ...], shapes: Callable[[Any], None], put: Callable[..., None]) -> None:
    for kind in kinds:
        update_registered_converter(kind, f"Maxmargin{kind.__name__}", shapes, partial(_converted, put), parser=_outputs)


_register(CLASSIFIERS, _shapes_of_classes, put_classes)
_register(ONE_CLASS, _shapes_of_inliers, put_inliers)
_register(REGRESSORS, _shapes_of_values, put_targets)
