r"""Labels of points that move slowly, kept up to date without looking at most of them: A. Guillory, J. Bilmes, "Practical
Methods for Exploiting Bounds on Change in the Margin", 2007, section 5, "Adaptation to changing data".

A point that was looked at when it was x', and has moved by at most s since, has a decision value within

.. math:: |w \cdot x - w \cdot x'| \le |w| \, s

of the one it had. With a kernel the same holds for :math:`\phi(x)`. For the RBF kernel
:math:`|\phi(x) - \phi(x')|^2 = 2 - 2 \exp(-\gamma |x - x'|^2)`, so the bound is useful even for a large s.
When the weights have moved too since that look, from w' to w, the two bounds are combined:

.. math:: |w \cdot x - w' \cdot x'| \le |w| \, s + |w - w'| \, |x'| .

A label is known while no value within these bounds changes it (:mod:`maxmargin.certificate.predictions`: two classes, one
against the rest, one against one). Only when a label is not known, its point is fetched.

The distance that points move is *announced*, not measured: measuring it would mean fetching the points. Every fetched point is
compared with what was announced since it was last fetched. ``audit`` looks at further points, drawn at random at every update;
``audit=1.0`` looks at all. A point that has moved farther than announced raises :class:`MovedTooFar`, and the labels stay as
they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from maxmargin.certificate.predictions import (
    Bounds,
    Decisions,
    Values,
    kernel_decisions,
    linear_values,
    norms,
)
from maxmargin.certificate.rounding import OUTWARDS, gamma
from maxmargin.data.rows import Array
from maxmargin.estimators.kernel_classifier import KernelClassifier
from maxmargin.estimators.linear_classifier import LinearClassifier, dense_weights
from maxmargin.estimators.multiclass import OneAgainstOne, OneAgainstRest
from maxmargin.estimators.pair_features import FeatureWeights
from maxmargin.estimators.pairs import pair_weights
from maxmargin.problem.kernels import Kernel, Points

Fetch = Callable[[Array], Any]
"""A function from the numbers of some points to where they are now, a row each."""

ANNOUNCED_ROUNDING = 1e-9
"""Share by which a point may be farther than announced, as the announcement itself was rounded: part of the bound, not a
setting."""


class MovedTooFar(ValueError):
    """A point has moved farther since it was last looked at than was announced."""


class Update(NamedTuple):
    """The labels now, and the numbers of the points that had to be looked at (those of an audit included)."""

    labels: Array
    looked_at: Array


class Machine(Protocol):
    """What a stream needs of a model."""

    @property
    def classes(self) -> Array: ...

    @property
    def intercept(self) -> Array:
        """One for each binary problem."""

    def values(self, X: Array) -> Values:
        """A column for each binary problem."""

    def reach(self, moved: Array) -> Array:
        """How far the values of points that have moved so far can be from what they were."""

    def codes(self, values: Array) -> Array:
        """Which class the values mean."""

    def known(self, decisions: Decisions) -> Array:
        """Whether no values within reach mean another class."""


@dataclass(frozen=True, eq=False)
class FollowedLinearMachine:
    """w . x + b for each row of ``coef``: two classes, or one against the rest."""

    classes: Array
    coef: Array
    intercept: Array

    @classmethod
    def of(cls, model: LinearClassifier) -> FollowedLinearMachine:
        return cls(model.classes_, *dense_weights(model))

    @property
    def lengths(self) -> Array:
        return norms(self.coef)

    def values(self, X: Array) -> Values:
        return linear_values(X, self.coef, self.intercept)

    def reach(self, moved: Array) -> Array:
        reach: Array = moved[:, None] * self.lengths
        return reach

    def codes(self, values: Array) -> Array:
        return OneAgainstRest(len(self.classes)).codes(values)

    def known(self, decisions: Decisions) -> Array:
        return OneAgainstRest(len(self.classes)).proved(decisions)


@dataclass(frozen=True, eq=False)
class FollowedKernelMachine:
    """An SVC with the linear or the RBF kernel: two classes, or one against one."""

    classes: Array
    kernel: Kernel
    vectors: Points
    weights: Array
    intercept: Array
    lengths: Array
    """|w| of each pair."""
    features: FeatureWeights | None = None
    """The w themselves, where the model predicts by them."""

    @classmethod
    def of(cls, model: KernelClassifier) -> FollowedKernelMachine:
        vectors = Points.of(model.support_vectors_)
        kernel = model._kernel_.suited_to(vectors)
        if kernel.feature_distance(np.zeros(1)) is None:
            raise TypeError(f"Points can be followed under the linear and the RBF kernel, not under {kernel!r}.")
        if getattr(model, "break_ties", False) and len(model.classes_) > 2:
            raise ValueError("Points can be followed with break_ties=False only.")
        weights, features = pair_weights(model.dual_coef_, model.n_support_), model._feature_weights_
        if features is not None:
            return cls(model.classes_, kernel, vectors, weights, model.intercept_, norms(features.weights), features)
        gram, size = kernel.block(vectors, vectors), np.abs(weights)
        squares = np.einsum("ik,ij,jk->k", weights, gram, weights, optimize=True)
        error = kernel.rounding_error(vectors, vectors) * size.sum(axis=0) ** 2
        error = error + gamma(2.0 * len(weights) + 8.0) * np.einsum("ik,ij,jk->k", size, np.abs(gram), size, optimize=True)
        lengths = np.sqrt(np.maximum(squares, 0.0) + error) * OUTWARDS
        return cls(model.classes_, kernel, vectors, weights, model.intercept_, lengths)

    def values(self, X: Array) -> Values:
        if self.features is not None:
            return self.features.exact_values(X, self.intercept)
        points = Points.of(X)
        nothing = Bounds(*np.zeros((2, len(self.intercept))))
        kernel = self.kernel.suited_to(points, self.vectors)
        block, error = kernel.block(points, self.vectors), kernel.rounding_error(points, self.vectors)
        decisions = kernel_decisions(block, error, np.zeros(len(X)), self.weights, self.intercept, nothing)
        return Values(decisions.values, decisions.errors)

    def reach(self, moved: Array) -> Array:
        distance = self.kernel.feature_distance(moved)
        assert distance is not None
        reach: Array = distance[:, None] * OUTWARDS * self.lengths
        return reach

    def codes(self, values: Array) -> Array:
        return OneAgainstOne(len(self.classes)).codes(values)

    def known(self, decisions: Decisions) -> Array:
        return OneAgainstOne(len(self.classes)).proved(decisions)


def machine_of(model: Any) -> Machine:
    if not hasattr(model, "classes_"):
        raise ValueError(f"This {type(model).__name__} is not fitted yet: it gives no labels to follow.")
    if isinstance(model, LinearClassifier):
        return FollowedLinearMachine.of(model)
    if isinstance(model, KernelClassifier):
        return FollowedKernelMachine.of(model)
    raise TypeError(f"Points can be followed under a LinearSVC or an SVC; got {type(model).__name__}.")


class LabelStream:
    """The labels that a fitted model gives to points that move slowly.

    Parameters
    ----------
    model : LinearSVC, or SVC with the linear or RBF kernel
    X : array of shape (n_points, n_features)
        Where the points are at first.
    max_step : float, or array with one for each point
        How far a point moves between two updates at most, in the Euclidean norm.
    audit : float, default 0.0
        The share of the points that is looked at besides, at random, at every update.
    random_state : int, default 0
        Seeds the audit.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import LabelStream, LinearSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> model = LinearSVC().fit(X, X[:, 0] > 0)
    >>> stream = LabelStream(model, X, max_step=0.01)
    >>> update = stream.update(X + 0.005)
    >>> bool((update.labels == model.predict(X + 0.005)).all()), len(update.looked_at) < 50
    (True, True)
    """

    def __init__(self, model: Any, X: Any, *, max_step: Any, audit: float = 0.0, random_state: int = 0) -> None:
        self._machine = machine_of(model)
        if not 0.0 <= audit <= 1.0:
            raise ValueError(f"audit is a share of the points, from 0 to 1; got {audit!r}.")
        self._audit, self._random = audit, np.random.default_rng(random_state)
        points = _dense(X, model.n_features_in_)
        self._max_step = _steps(max_step, len(points))
        self._seen = points.copy()
        self._moved = np.zeros(len(points))
        """How far each can have moved since it was seen, by what was announced."""
        self._drift = np.zeros((len(points), len(self._machine.intercept)))
        """|w - w'| |x'|, for each point and binary problem."""
        self._values, self._errors = (array.copy() for array in self._machine.values(points))
        self._norms = norms(points)
        self._codes = self._machine.codes(self._values)

    @property
    def labels(self) -> Array:
        labels: Array = self._machine.classes[self._codes]
        return labels

    def update(self, now: Any, *, model: Any = None, max_step: Any = None) -> Update:
        """The labels of the points where they are now.

        Parameters
        ----------
        now : array of shape (n_points, n_features), or a function
            The points, or ``now(numbers)`` that gives the rows of some of them: only those are asked for that are needed.
        model : LinearSVC, optional
            The model from now on, if it has changed: of the same classes, and linear.
        max_step : float or array, optional
            How far the points can have moved since the last update, if not as far as announced at first.
        """
        step = self._max_step if max_step is None else _steps(max_step, len(self._moved))
        fetch = now if callable(now) else _rows_of(_all_points(now, self._seen.shape))
        machine, drift, shift = self._moved_machine(model)
        moved = (self._moved + step) * OUTWARDS
        reach = (machine.reach(moved) + drift + self._errors) * OUTWARDS
        decisions = Decisions(self._values + shift, reach, self._errors)
        needed = ~machine.known(decisions)
        needed |= self._random.random(len(moved)) < self._audit
        chosen = np.flatnonzero(needed)
        points = self._checked(fetch, chosen, moved)
        # Nothing has been changed up to here, so that an error leaves the stream as it was.
        self._machine, self._drift, self._moved, self._values = machine, drift, moved, decisions.values
        self._codes = machine.codes(decisions.values) if model is not None else self._codes
        self._look(chosen, points)
        return Update(self.labels, chosen)

    def _moved_machine(self, model: Any) -> tuple[Machine, Array, Array]:
        """The model from now on, the drift of the values by its weights, and their shift by its intercept."""
        old = self._machine
        if model is None:
            return old, self._drift, np.zeros(self._values.shape[1])
        new = machine_of(model)
        if not (isinstance(old, FollowedLinearMachine) and isinstance(new, FollowedLinearMachine)):
            raise TypeError("A model that changes must be a LinearSVC, before and after.")
        if not (np.array_equal(old.classes, new.classes) and old.coef.shape == new.coef.shape):
            raise ValueError(f"The new model has classes {new.classes} and weights of shape {new.coef.shape}, unlike the old.")
        distance = norms(new.coef - old.coef) * OUTWARDS
        drift = (self._drift + self._norms[:, None] * distance) * OUTWARDS  # |w - w'| is at most the way that w has gone
        return new, drift, new.intercept - old.intercept

    def _look(self, chosen: Array, points: Array) -> None:
        values, errors = self._machine.values(points)
        self._seen[chosen], self._norms[chosen] = points, norms(points)
        self._values[chosen], self._errors[chosen] = values, errors
        self._moved[chosen], self._drift[chosen] = 0.0, 0.0
        self._codes[chosen] = self._machine.codes(values)

    def _checked(self, fetch: Fetch, chosen: Array, moved: Array) -> Array:
        points = _dense(fetch(chosen), self._seen.shape[1]) if len(chosen) else np.empty((0, self._seen.shape[1]))
        if len(points) != len(chosen):
            raise ValueError(f"{len(chosen)} points were asked for; {len(points)} rows came.")
        distances = np.linalg.norm(points - self._seen[chosen], axis=1)
        allowed = moved[chosen] * (1.0 + ANNOUNCED_ROUNDING)
        wrong = np.flatnonzero(~(distances <= allowed))
        if wrong.size:
            k = wrong[np.argmax(distances[wrong] - allowed[wrong])]
            raise MovedTooFar(
                f"Point {chosen[k]} has moved by {distances[k]:.6g} since it was last looked at; by what was announced it can "
                f"have moved by {moved[chosen[k]]:.6g} at most ({len(wrong)} of {len(chosen)} points looked at moved too far)."
            )
        return points


def _steps(max_step: Any, n: int) -> Array:
    steps = np.asarray(max_step, dtype=np.float64)
    if steps.shape not in ((), (n,)):
        raise ValueError(f"max_step must be one number or one for each of {n} points; its shape is {steps.shape}.")
    wrong = np.flatnonzero(~(np.isfinite(steps) & (steps >= 0.0)))
    if wrong.size:
        raise ValueError(f"max_step must be finite and not negative; it holds {steps.reshape(-1)[wrong[0]]}.")
    return np.broadcast_to(steps, (n,))


def _dense(X: Any, n_features: int) -> Array:
    if sparse.issparse(X):
        raise TypeError("Points that move are dense: every reading changes. Give an array.")
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != n_features:
        raise ValueError(f"The points must be rows of {n_features} numbers; their shape is {points.shape}.")
    if not np.isfinite(points).all():
        raise ValueError("A point holds a value that is not finite.")
    return points


def _all_points(X: Any, shape: tuple[int, ...]) -> Any:
    if sparse.issparse(X):
        raise TypeError("Points that move are dense: every reading changes. Give an array.")
    if np.shape(X) != shape:
        raise ValueError(f"The stream has points of shape {shape}; the update has shape {np.shape(X)}.")
    return np.asarray(X)


def _rows_of(X: Any) -> Fetch:
    return lambda chosen: X[chosen]
