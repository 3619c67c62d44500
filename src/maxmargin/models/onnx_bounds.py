r"""How far the outputs of an exported graph can be from our own.

Both sides compute the same formula in floating point, ours with unit roundoff :math:`u = 2^{-53}` and the graph's with its
own u, so they differ by at most the sum of the two rounding errors. A sum of k products is wrong by at most
:math:`\gamma_k \sum_j |a_j b_j|`, :math:`\gamma_k = k u / (1 - k u)` (Higham, section 3.1); numbers that are stored in the
graph's precision are one more rounding each. The error of a kernel's argument goes through the kernel by its slope. The
functions exp and tanh are taken to be right to ``FUNCTION_ULPS`` units in the last place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.estimators.kernel_classifier import KernelClassifier
from maxmargin.estimators.linear_classifier import dense_weights
from maxmargin.estimators.pairs import pair_weights
from maxmargin.models.onnx_graphs import support_vectors
from maxmargin.problem.kernels import RBF, Linear, Polynomial, Precomputed, Sigmoid

FUNCTION_ULPS = 8.0
"""Units in the last place that a runtime's exp or tanh can be wrong by."""
EXTRA_ROUNDINGS = 8.0
"""Storing a weight and an input, the final sum, and what the few operations around a product add."""


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
    """Of each decision value (a column a binary problem), for one side."""
    if not isinstance(model, KernelClassifier):
        coef, intercept = dense_weights(model)
        return _sum_errors(X, np.zeros_like(X), coef.T, intercept, u)
    if model._feature_weights_ is not None:
        phi, weights = model._feature_weights_.map.of(X), model._feature_weights_.weights
        roundings = (model.degree if isinstance(model._kernel_, Polynomial) else 0) + EXTRA_ROUNDINGS
        return _sum_errors(phi, gamma(roundings, u) * np.abs(phi), weights.T, model.intercept_, u)
    values, errors = _kernel_errors(model, X, u)
    return _sum_errors(values, errors, pair_weights(model.dual_coef_, model.n_support_), model.intercept_, u)


def _sum_errors(values: Array, errors: Array, weights: Array, intercept: Array, u: float) -> Array:
    """Of values @ weights + intercept, where the values are wrong by ``errors``."""
    size = np.abs(weights)
    magnitudes = (np.abs(values) + errors) @ size + np.abs(intercept)
    return np.asarray(errors @ size + gamma(len(weights) + EXTRA_ROUNDINGS, u) * magnitudes)


def _kernel_errors(model: Any, X: Array, u: float) -> tuple[Array, Array]:
    """Kernel values, and how wrong each can be."""
    kernel = model._kernel_
    if isinstance(kernel, Precomputed):
        values = X[:, model.support_]
        return values, u * np.abs(values)
    vectors = support_vectors(model)
    if isinstance(kernel, RBF):
        return _rbf_errors(kernel.gamma, X, vectors, u)
    products, size = X @ vectors.T, np.abs(X) @ np.abs(vectors).T
    wrong = gamma(X.shape[1] + EXTRA_ROUNDINGS, u) * size
    if isinstance(kernel, Linear):
        return products, wrong
    argument, wrong = kernel.gamma * products + kernel.coef0, abs(kernel.gamma) * wrong + 2.0 * u * abs(kernel.coef0)
    if isinstance(kernel, Sigmoid):
        return np.tanh(argument), wrong + FUNCTION_ULPS * u
    power, reach = float(kernel.degree), np.abs(argument) + wrong
    values = argument**power
    return values, power * reach ** (power - 1.0) * wrong + gamma(2.0 * power + FUNCTION_ULPS, u) * reach**power


def _rbf_errors(width: float, X: Array, vectors: Array, u: float) -> tuple[Array, Array]:
    """|x - v|^2 is computed from |x|^2, |v|^2 and x . v, so that its error is relative to (|x| + |v|)^2. The graph takes
    x and v from the mean of the support vectors; that subtraction, and the storing of x, are errors relative to |x| itself."""
    x, v = np.linalg.norm(X, axis=1)[:, None], np.linalg.norm(vectors, axis=1)[None, :]
    centre = vectors.mean(axis=0)
    squares = np.maximum(0.0, x**2 + v**2 - 2.0 * X @ vectors.T)
    moved = (x + v + 2.0 * float(np.linalg.norm(centre))) ** 2
    wrong = width * gamma(X.shape[1] + 3.0 * EXTRA_ROUNDINGS, u) * moved
    return np.exp(-width * squares), np.minimum(1.0, wrong + FUNCTION_ULPS * u)
