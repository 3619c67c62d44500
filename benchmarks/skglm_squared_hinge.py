"""Squared hinge loss for skglm, which has no such loss of its own: the methods that its ``AndersonCD`` asks of a datafit.

skglm compiles the class, so that its methods are loops and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64
from skglm.datafits.base import BaseDatafit


class SquaredHingeDatafit(BaseDatafit):
    """C sum_i max(0, 1 - y_i (Xw)_i)^2"""

    def __init__(self, C: float) -> None:
        self.C = C

    def get_spec(self) -> Any:
        return (("C", float64),)

    def params_to_dict(self) -> dict[str, float]:
        return {"C": self.C}

    def value(self, y: Any, w: Any, Xw: Any) -> Any:
        return self.C * np.sum(np.maximum(0.0, 1.0 - y * Xw) ** 2)

    def raw_grad(self, y: Any, Xw: Any) -> Any:
        return -2.0 * self.C * y * np.maximum(0.0, 1.0 - y * Xw)

    def raw_hessian(self, y: Any, Xw: Any) -> Any:
        return 2.0 * self.C * (y * Xw < 1.0).astype(np.float64)

    def get_lipschitz(self, X: Any, y: Any) -> Any:
        return 2.0 * self.C * (X**2).sum(axis=0)

    def gradient_scalar(self, X: Any, y: Any, w: Any, Xw: Any, j: int) -> Any:
        return X[:, j] @ self.raw_grad(y, Xw)

    def get_lipschitz_sparse(self, X_data: Any, X_indptr: Any, X_indices: Any, y: Any) -> Any:
        n_features = len(X_indptr) - 1
        lipschitz = np.zeros(n_features)
        for j in range(n_features):
            for k in range(X_indptr[j], X_indptr[j + 1]):
                lipschitz[j] += 2.0 * self.C * X_data[k] ** 2
        return lipschitz

    def gradient_scalar_sparse(self, X_data: Any, X_indptr: Any, X_indices: Any, y: Any, Xw: Any, j: int) -> Any:
        total = 0.0
        for k in range(X_indptr[j], X_indptr[j + 1]):
            i = X_indices[k]
            slack = 1.0 - y[i] * Xw[i]
            if slack > 0.0:
                total -= 2.0 * self.C * y[i] * X_data[k] * slack
        return total

    def full_grad_sparse(self, X_data: Any, X_indptr: Any, X_indices: Any, y: Any, Xw: Any) -> Any:
        n_features = len(X_indptr) - 1
        gradient = np.zeros(n_features)
        for j in range(n_features):
            gradient[j] = self.gradient_scalar_sparse(X_data, X_indptr, X_indices, y, Xw, j)
        return gradient
