r"""How far the outputs of an exported graph can be from our own.

Both sides compute the same formula in floating point, ours with unit roundoff :math:`u = 2^{-53}` and the graph's with its
own u, so they differ by at most the sum of the two rounding errors. A sum of k products is wrong by at most
:math:`\gamma_k \sum_j |a_j b_j|`, :math:`\gamma_k = k u / (1 - k u)` (Higham, section 3.1); numbers that are stored in the
graph's precision are one more rounding each. The error of a kernel's argument goes through the kernel by its slope. The
functions exp and tanh are taken to be right to ``FUNCTION_ULPS`` units in the last place.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.estimators.kernel_settings import KernelSettings
from maxmargin.estimators.linear_classifier import dense_weights
from maxmargin.models.onnx_graphs import kernel_weights, support_vectors
from maxmargin.problem.feature_maps import Monomials
from maxmargin.problem.kernels import RBF, Kernel, Linear, Polynomial, Precomputed, Sigmoid

FUNCTION_ULPS = 8.0
"""Units in the last place that a runtime's exp or tanh can be wrong by."""
EXTRA_ROUNDINGS = 8.0
"""Roundings besides those of a sum of products: of a stored weight and input, of the final sum, and of the few operations
around a product."""


def change_bound(model: Any, X: Array, dtype: Any) -> float:
    """The most by which the decision value of a binary problem can differ, over the rows of X."""
    X = np.asarray(X, dtype=np.float64)
    graph, own = float(np.finfo(dtype).eps) / 2.0, 2.0**-53
    with np.errstate(all="ignore"):
        worst = float(np.max(_errors(model, X, graph) + _errors(model, X, own)))
    return worst if np.isfinite(worst) else np.inf


def gamma(k: float, u: float) -> float:
    return k * u / (1.0 - k * u) if k * u < 1.0 else np.inf


def _errors(model: Any, X: Array, u: float) -> Array:
    """The errors of the decision values of one side, a column for each binary problem."""
    if not isinstance(model, KernelSettings):
        coef, intercept = dense_weights(model)
        return _sum_errors(X, np.zeros_like(X), np.atleast_2d(coef).T, intercept, u)
    features = model._feature_weights_
    if features is not None:
        phi = features.map.of(X)
        roundings = (model.degree if isinstance(features.map, Monomials) else 0) + EXTRA_ROUNDINGS
        return _sum_errors(phi, gamma(roundings, u) * np.abs(phi), features.weights.T, model.intercept_, u)
    values, errors = _kernel_errors(model._kernel_, model, X, u)
    return _sum_errors(values, errors, kernel_weights(model), model.intercept_, u)


def _sum_errors(values: Array, errors: Array, weights: Array, intercept: Array, u: float) -> Array:
    """The errors of values @ weights + intercept, where the values are wrong by ``errors``."""
    size = np.abs(weights)
    magnitudes = (np.abs(values) + errors) @ size + np.abs(intercept)
    return np.asarray(errors @ size + gamma(len(weights) + EXTRA_ROUNDINGS, u) * magnitudes)


@singledispatch
def _kernel_errors(kernel: Kernel, model: Any, X: Array, u: float) -> tuple[Array, Array]:
    """Kernel values, and how wrong each can be. Every kernel has errors of its own."""
    raise ValueError(f"The rounding of {kernel!r} in an ONNX graph is not known.")


@_kernel_errors.register
def _(kernel: Precomputed, model: Any, X: Array, u: float) -> tuple[Array, Array]:
    values = X[:, model.support_]
    return values, u * np.abs(values)


@_kernel_errors.register
def _(kernel: Linear, model: Any, X: Array, u: float) -> tuple[Array, Array]:
    vectors = support_vectors(model)
    size = np.abs(X) @ np.abs(vectors).T
    return X @ vectors.T, gamma(X.shape[1] + EXTRA_ROUNDINGS, u) * size


def _argument_errors(kernel: Polynomial | Sigmoid, model: Any, X: Array, u: float) -> tuple[Array, Array]:
    """gamma x . v + coef0."""
    products, wrong = _kernel_errors(Linear(), model, X, u)
    return kernel.gamma * products + kernel.coef0, abs(kernel.gamma) * wrong + 2.0 * u * abs(kernel.coef0)


@_kernel_errors.register
def _(kernel: Sigmoid, model: Any, X: Array, u: float) -> tuple[Array, Array]:
    argument, wrong = _argument_errors(kernel, model, X, u)
    return np.tanh(argument), wrong + FUNCTION_ULPS * u


@_kernel_errors.register
def _(kernel: Polynomial, model: Any, X: Array, u: float) -> tuple[Array, Array]:
    argument, wrong = _argument_errors(kernel, model, X, u)
    power, reach = float(kernel.degree), np.abs(argument) + wrong
    errors = power * reach ** (power - 1.0) * wrong + gamma(2.0 * power + FUNCTION_ULPS, u) * reach**power
    return argument**power, errors


@_kernel_errors.register
def _(kernel: RBF, model: Any, X: Array, u: float) -> tuple[Array, Array]:
    """|x - v|^2 is computed from |x|^2, |v|^2 and x . v, so that its error is relative to (|x| + |v|)^2. The graph takes
    x and v from the mean of the support vectors; that subtraction, and the storing of x, are errors relative to |x| itself."""
    vectors, width = support_vectors(model), kernel.gamma
    x, v = np.linalg.norm(X, axis=1)[:, None], np.linalg.norm(vectors, axis=1)[None, :]
    centre = vectors.mean(axis=0)
    squares = np.maximum(0.0, x**2 + v**2 - 2.0 * X @ vectors.T)
    moved = (x + v + 2.0 * float(np.linalg.norm(centre))) ** 2
    wrong = width * gamma(X.shape[1] + 3.0 * EXTRA_ROUNDINGS, u) * moved
    return np.exp(-width * squares), np.minimum(1.0, wrong + FUNCTION_ULPS * u)
