"""The decision function of a fitted model as an ONNX graph of plain operators, in the precision of its input.

ONNX's own operators for linear models and SVMs store their numbers in float32 and put a softmax behind some of them. Here a
linear model is MatMul and Add, a kernel model the kernel's formula, MatMul and Add; labels are ArgMax, or the sign with two
classes and with one.
"""

from __future__ import annotations

from functools import singledispatch
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.estimators import policy
from maxmargin.estimators.kernel_classifier import KernelClassifier
from maxmargin.estimators.kernel_settings import KernelSettings
from maxmargin.estimators.linear_classifier import dense_weights
from maxmargin.estimators.pair_features import FeatureWeights
from maxmargin.estimators.pairs import pair_weights
from maxmargin.problem.feature_maps import Monomials
from maxmargin.problem.kernels import RBF, Kernel, Linear, Polynomial, Precomputed, Sigmoid


class Graph(Protocol):
    """Where nodes are put. Values are known by their names."""

    dtype: Any

    def constant(self, values: Any, dtype: Any = None) -> str:
        """An array, by default in the precision of the graph."""

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """An operator, and the name of what comes out."""


def put_classes(graph: Graph, model: Any, X: str, label: str, scores: str) -> None:
    """Both outputs of a fitted classifier: what ``predict`` and ``decision_function`` give."""
    values = _put_values(graph, model, X)
    if isinstance(model, KernelClassifier):
        codes = _put_kernel_codes(graph, model, values)
        _put_kernel_scores(graph, model, values, scores)
    else:
        codes = _put_codes(graph, values, len(model.classes_))
        _put_scores(graph, values, len(model.classes_), scores)
    classes = np.asarray(model.classes_)
    kept = classes.astype(np.int64) if classes.dtype.kind in "biuf" else classes.astype(str).astype(object)
    graph.node("Gather", graph.constant(kept, kept.dtype), codes, output=label, axis=0)


def put_inliers(graph: Graph, model: Any, X: str, label: str, scores: str) -> None:
    """Both outputs of a fitted one-class machine: +1 for inliers and -1 for outliers, and ``decision_function``."""
    values = _flat(graph, _put_values(graph, model, X))
    border = policy.ONE_CLASS.border if isinstance(model, KernelSettings) else 0.0
    is_inlier = graph.node("GreaterOrEqual", values, graph.constant(-border * np.abs(model.offset_)))
    graph.node("Where", is_inlier, graph.constant([1], np.int64), graph.constant([-1], np.int64), output=label)
    graph.node("Identity", values, output=scores)


def put_targets(graph: Graph, model: Any, X: str, value: str) -> None:
    """The output of a fitted regressor: one value a sample, or one column for each output."""
    values = _put_values(graph, model, X)
    if has_one_output(model):
        values = _flat(graph, values)
    graph.node("Identity", values, output=value)


def has_one_output(model: Any) -> bool:
    """Whether a regressor was fitted to an array of targets, and not to a matrix with a column for each output."""
    return bool(model._is_one_) if isinstance(model, KernelSettings) else np.ndim(model.coef_) == 1


def _flat(graph: Graph, values: str) -> str:
    return graph.node("Reshape", values, graph.constant([-1], np.int64))


def _put_values(graph: Graph, model: Any, X: str) -> str:
    """w . x + b, a column for each binary problem or output."""
    if not isinstance(model, KernelSettings):
        coef, intercept = dense_weights(model)
        return _affine(graph, X, np.atleast_2d(coef).T, intercept)
    features: FeatureWeights | None = model._feature_weights_
    if features is not None:
        phi = _put_monomials(graph, features.map, X) if isinstance(features.map, Monomials) else X
        return _affine(graph, phi, features.weights.T, model.intercept_)
    values = _put_kernel(model._kernel_, graph, model, X)
    return _affine(graph, values, kernel_weights(model), model.intercept_)


def kernel_weights(model: Any) -> Array:
    """The coefficients of the support vectors, a column for each binary problem or output."""
    if isinstance(model, KernelClassifier):
        return pair_weights(model.dual_coef_, model.n_support_)
    return np.asarray(model.dual_coef_.T)


def _affine(graph: Graph, X: str, weights: Array, intercept: Array) -> str:
    return graph.node("Add", graph.node("MatMul", X, graph.constant(weights)), graph.constant(intercept))


def _put_codes(graph: Graph, values: str, n_classes: int) -> str:
    """The number of the class: by the sign with two classes, else the greatest."""
    if n_classes > 2:
        return graph.node("ArgMax", values, axis=1, keepdims=0)
    positive = graph.node("Greater", values, graph.constant(0.0))
    flat = graph.node("Reshape", positive, graph.constant([-1], np.int64))
    return graph.node("Cast", flat, to=7)  # INT64


def _put_scores(graph: Graph, values: str, n_classes: int, output: str) -> None:
    if n_classes > 2:
        graph.node("Identity", values, output=output)
    else:
        graph.node("Reshape", values, graph.constant([-1], np.int64), output=output)


def support_vectors(model: Any) -> Array:
    vectors = model.support_vectors_
    return np.asarray(vectors.toarray() if sparse.issparse(vectors) else vectors, dtype=np.float64)


def _put_monomials(graph: Graph, map: Monomials, X: str) -> str:
    """The features of a polynomial kernel: products of columns of X with a coefficient each."""
    parts = []
    for variables, coefficients in map.terms():
        if variables.shape[1] == 0:  # the constant: zero times a column, plus its coefficient
            column = graph.node("Gather", X, graph.constant([0], np.int64), axis=1)
            zero = graph.node("Mul", column, graph.constant(0.0))
            parts.append(graph.node("Add", zero, graph.constant(coefficients)))
            continue
        product = graph.constant(coefficients)
        for place in variables.T:
            product = graph.node("Mul", product, graph.node("Gather", X, graph.constant(place, np.int64), axis=1))
        parts.append(product)
    return parts[0] if len(parts) == 1 else graph.node("Concat", *parts, axis=1)


@singledispatch
def _put_kernel(kernel: Kernel, graph: Graph, model: Any, X: str) -> str:
    """k(x, v) for each support vector v of the model, a column each. Every kernel has a graph of its own."""
    raise ValueError("A kernel that is a Python function cannot be put into an ONNX graph. Use kernel='precomputed'.")


@_put_kernel.register
def _(kernel: Precomputed, graph: Graph, model: Any, X: str) -> str:
    return graph.node("Gather", X, graph.constant(model.support_, np.int64), axis=1)


@_put_kernel.register
def _(kernel: Linear, graph: Graph, model: Any, X: str) -> str:
    return graph.node("MatMul", X, graph.constant(support_vectors(model).T))


@_put_kernel.register
def _(kernel: Polynomial, graph: Graph, model: Any, X: str) -> str:
    return _put_power(graph, _shifted(graph, kernel, model, X), int(kernel.degree))


@_put_kernel.register
def _(kernel: Sigmoid, graph: Graph, model: Any, X: str) -> str:
    return graph.node("Tanh", _shifted(graph, kernel, model, X))


def _shifted(graph: Graph, kernel: Polynomial | Sigmoid, model: Any, X: str) -> str:
    """gamma x . v + coef0. gamma is in the weights: onnxruntime would merge a product and a number after it into one operator,
    which keeps that number in float32."""
    products = graph.node("MatMul", X, graph.constant(kernel.gamma * support_vectors(model).T))
    return graph.node("Add", products, graph.constant(kernel.coef0))


def _put_power(graph: Graph, base: str, degree: int) -> str:
    """A power by squaring: the roundings can be counted, as those of a runtime's Pow cannot."""
    product = None
    while degree:
        if degree % 2:
            product = base if product is None else graph.node("Mul", product, base)
        degree //= 2
        base = graph.node("Mul", base, base) if degree else base
    return product if product is not None else graph.constant(1.0)


@_put_kernel.register
def _(kernel: RBF, graph: Graph, model: Any, X: str) -> str:
    """exp(-gamma |x - v|^2), with x and v taken from the mean of the support vectors, so that little cancels."""
    vectors = support_vectors(model)
    centre = vectors.mean(axis=0)
    centred = vectors - centre
    x = graph.node("Sub", X, graph.constant(centre))
    squares = graph.node("ReduceSum", graph.node("Mul", x, x), graph.constant([1], np.int64), keepdims=1)
    products = graph.node("MatMul", x, graph.constant(-2.0 * centred.T))
    lengths = graph.node("Add", graph.node("Add", products, squares), graph.constant((centred**2).sum(axis=1)))
    exponents = graph.node("Mul", graph.node("Max", lengths, graph.constant(0.0)), graph.constant(-kernel.gamma))
    return graph.node("Exp", exponents)


def _put_kernel_codes(graph: Graph, model: Any, values: str) -> str:
    n_classes = len(model.classes_)
    if n_classes == 2:
        return _put_codes(graph, values, 2)
    if model.break_ties:
        return graph.node("ArgMax", _put_ovr(graph, n_classes, values), axis=1, keepdims=0)
    is_first = graph.node("Greater", values, graph.constant(0.0))
    return graph.node("ArgMax", _put_votes(graph, n_classes, is_first), axis=1, keepdims=0)


def _put_kernel_scores(graph: Graph, model: Any, values: str, output: str) -> None:
    n_classes = len(model.classes_)
    if n_classes == 2 or model.decision_function_shape == "ovo":
        _put_scores(graph, values, 3 if n_classes > 2 else 2, output)
    else:
        graph.node("Identity", _put_ovr(graph, n_classes, values), output=output)


def _sides(n_classes: int) -> tuple[Array, Array]:
    """Which class is the first and which the second of each pair, a row a pair."""
    pairs = list(combinations(range(n_classes), 2))
    first, second = np.zeros((2, len(pairs), n_classes))
    for k, (i, j) in enumerate(pairs):
        first[k, i] = second[k, j] = 1.0
    return first, second


def _put_votes(graph: Graph, n_classes: int, is_first: str) -> str:
    """How many pairs each class wins."""
    first, second = _sides(n_classes)
    to = 11 if graph.dtype == np.float64 else 1  # DOUBLE, FLOAT
    return _affine(graph, graph.node("Cast", is_first, to=to), first - second, second.sum(axis=0))


def _put_ovr(graph: Graph, n_classes: int, values: str) -> str:
    """scikit-learn's one-against-rest values: votes, and a third of a vote at most for the sum of the pairs' values."""
    first, second = _sides(n_classes)
    is_second = graph.node("Less", values, graph.constant(0.0))
    votes = _put_votes(graph, n_classes, graph.node("Not", is_second))
    sums = graph.node("MatMul", values, graph.constant(first - second))
    size = graph.node("Mul", graph.node("Add", graph.node("Abs", sums), graph.constant(1.0)), graph.constant(3.0))
    return graph.node("Add", votes, graph.node("Div", sums, size))
