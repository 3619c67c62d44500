r"""The probabilities of LIBSVM's models: a sigmoid for each pair of classes (Platt, 1999), and one distribution of all.

A pair (i, j) with the decision value v has :math:`r_{ij} = 1 / (1 + \exp(A v + B))`, its probability of class i among the two.
The distribution of several classes is that of Wu, Lin and Weng, "Probability estimates for multi-class classification by
pairwise coupling", 2004, second approach:

.. math:: \min_p \sum_{i < j} (r_{ji} p_i - r_{ij} p_j)^2, \qquad \sum_i p_i = 1, \; p_i \ge 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from maxmargin.data.rows import Array


@dataclass(frozen=True)
class CouplingPolicy:
    """LIBSVM's numbers, so that both print the same probabilities."""

    least_probability: float = 1e-7
    """The least probability of a class of a pair."""
    tolerance: float = 0.005
    """The greatest violation of the conditions of optimality, divided by the number of classes."""
    least_sweeps: int = 100
    """Sweeps after which the iteration ends; with more classes than that, as many as classes."""


class Sigmoids(NamedTuple):
    """A and B of each pair. With two classes they belong to the second class, as the decision value does, else to the first
    of the pair."""

    A: Array
    B: Array

    @classmethod
    def of_libsvm(cls, A: Array, B: Array, labels: list[int]) -> Sigmoids:
        """The file has them for the class that it lists first. Of two classes in rising order ours is the other one."""
        return cls(A, -B) if len(labels) == 2 and labels[0] < labels[1] else cls(A, B)

    def probabilities(self, values: Array, n_classes: int) -> Array:
        """A row for each sample, a column for each class, from a column of decision values for each pair."""
        least = CouplingPolicy().least_probability
        pairs = np.clip(expit(-(values * self.A + self.B)), least, 1.0 - least)
        return np.column_stack([1.0 - pairs[:, 0], pairs[:, 0]]) if n_classes == 2 else coupled(pairs, n_classes)


def coupled(pairs: Array, n_classes: int) -> Array:
    """The paper's iteration, as LIBSVM has it, for all samples together; each sample stops when it is done."""
    Q = _quadratic_form(pairs, n_classes)
    p = np.full((len(pairs), n_classes), 1.0 / n_classes)
    policy, left = CouplingPolicy(), np.arange(len(pairs))
    for _ in range(max(policy.least_sweeps, n_classes)):
        Qp = np.einsum("ntj,nj->nt", Q[left], p[left])
        error = np.abs(Qp - np.sum(p[left] * Qp, axis=1, keepdims=True)).max(axis=1)
        left, Qp = left[error >= policy.tolerance / n_classes], Qp[error >= policy.tolerance / n_classes]
        if not len(left):
            break
        p[left] = _sweep(Q[left], p[left], Qp)
    return p


def _quadratic_form(pairs: Array, n_classes: int) -> Array:
    """The Q of p'Qp: the sums of r_ji^2 on the diagonal, and -r_ij r_ji beside it."""
    r = np.zeros((len(pairs), n_classes, n_classes))
    first, second = np.triu_indices(n_classes, 1)
    r[:, first, second], r[:, second, first] = pairs, 1.0 - pairs
    Q = -r * r.transpose(0, 2, 1)
    Q[:, np.arange(n_classes), np.arange(n_classes)] = np.sum(r**2, axis=1)
    return Q


def _sweep(Q: Array, p: Array, Qp: Array) -> Array:
    """One coordinate after the other to its optimum, and p back to the sum one."""
    p, Qp = p.copy(), Qp.copy()
    pQp = np.sum(p * Qp, axis=1)
    for t in range(p.shape[1]):
        change = (pQp - Qp[:, t]) / Q[:, t, t]
        scale = 1.0 + change
        pQp = (pQp + change * (change * Q[:, t, t] + 2.0 * Qp[:, t])) / scale**2
        Qp = (Qp + change[:, None] * Q[:, t]) / scale[:, None]
        p[:, t] += change
        p /= scale[:, None]
    return p


def has_probabilities(estimator: Any) -> bool:
    """Whether the model is calibrated: by LIBSVM's sigmoids, or in a way of its own."""
    return hasattr(estimator, "_sigmoids_") or hasattr(estimator, "predict_proba")


def class_probabilities(estimator: Any, X: Any) -> Array:
    """The probability of each class of ``classes_`` for every sample, of a model that has them."""
    if not hasattr(estimator, "_sigmoids_"):
        return np.asarray(estimator.predict_proba(X))
    values = estimator._checked_pair_values(X) if hasattr(estimator, "_kernel_") else estimator.decision_function(X)
    sigmoids: Sigmoids = estimator._sigmoids_
    return sigmoids.probabilities(values.reshape(X.shape[0], -1), len(estimator.classes_))
