r"""Predictions that are proved: those that the exact optimum of the training problem makes too.

A certificate says that w is within r = ``distance_bound`` of the exact optimum w*. By Cauchy and Schwarz, for every x,

.. math:: |\langle w, \phi(x) \rangle - \langle w^*, \phi(x) \rangle| \le r |\phi(x)|, \qquad |\phi(x)| = \sqrt{k(x, x)},

which is the bound (2) of Guillory and Bilmes, "Practical methods for exploiting bounds on change in the margin" (2007), with
w' = w*. So **a decision value greater in magnitude than r |phi(x)| has the sign of the exact one.** Where this holds:

- *no intercept*: as it stands.
- *penalised intercept*: it is the weight of a constant feature s = ``intercept_scaling``, so :math:`|\phi(x)|` is that of the
  row with s appended, :math:`\sqrt{|x|^2 + s^2}`.
- *free intercept* (every SVC, and ``penalize_intercept=False``): the ball says nothing of b*. ``offset_bounds`` encloses it
  with the training data, once, at the end of a fit, and that bound is kept with the model: the exact decision value is
  within :math:`r |\phi(x)| + |b - b^*|`.
- a kernel that is *not positive semidefinite* has no ball, and nothing is proved.

The computed value is itself wrong by rounding: at most :math:`\gamma_k \sum_j |w_j x_j|` for a row of k elements (Higham,
section 3.1), and with a kernel by what its values are wrong by too. That error is added, and norms are rounded upwards.

With more than two classes there is an interval for the exact decision value of every binary problem. **One against the rest**:
the greatest is proved where its lower end is above the upper ends of all others. **One against one**: a pair's vote is proved
by the sign; a class is proved to win where its proved votes are more than all that any other class has not provably lost, or
as many and it comes before that class, as ties go to the first. That is exact: the worst case for the winner against one
other class is that it loses, and the other wins, all that is not proved, and those votes do not exclude each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.certificate import policy
from maxmargin.certificate.rounding import OUTWARDS, SMALLEST, gamma
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.class_pairs import class_pairs, votes
from maxmargin.problem.kernels import Kernel, Points
from maxmargin.problem.losses import UNIT_ROUNDOFF


class Values(NamedTuple):
    """Decision values, a row a sample and a column a binary problem, and how wrong by rounding each can be."""

    values: Array
    errors: Array


class Decisions(NamedTuple):
    """Decision values, how far from each the value at the exact optimum can be, and what part of that is rounding."""

    values: Array
    reach: Array
    errors: Array

    @property
    def is_proved(self) -> Array:
        """Which decision values are proved to have the sign of the exact optimum's."""
        proved: Array = np.abs(self.values) > self.reach
        return proved


class Bounds(NamedTuple):
    """What is proved of each binary problem's optimum: |w - w*| and, where the intercept is free, |b - b*| at most."""

    distance: Array
    offset: Array


class CertifiedLabels(NamedTuple):
    """Labels, and a mask of those that the exact optimum is proved to give too."""

    labels: Array
    proved: Array


class CertifiedValues(NamedTuple):
    """Predictions of a regression, and for each a radius within which that of the exact optimum is proved to lie."""

    values: Array
    radius: Array


def linear_decisions(X: Any, coef: Array, intercept: Array, bounds: Bounds, constant: float) -> Decisions:
    """``constant`` is the value of the feature whose weight is the intercept, where that is penalised; else zero."""
    with np.errstate(all="ignore"):
        values, errors = linear_values(X, coef, intercept)
        lengths = np.hypot(norms(X), constant) * OUTWARDS
        return Decisions(values, _reach(lengths, bounds, errors), errors)


class MeasuredRows(NamedTuple):
    """Rows whose decision values are asked for again and again, in float64: what does not depend on w is computed once.

    The rounding of a value is bounded by :math:`\\gamma_k |w| |x|`, which is at least :math:`\\gamma_k \\sum_j |w_j x_j|`."""

    X: Any
    norms: Array
    lengths: Array
    roundings: Array

    @classmethod
    def of(cls, X: Any, constant: float) -> MeasuredRows:
        """``constant`` as in ``linear_decisions``."""
        X = (sparse.csr_array(X) if sparse.issparse(X) else X).astype(np.float64, copy=False)
        own = norms(X)
        return cls(X, own, np.hypot(own, constant) * OUTWARDS, _stored(X) + 4.0)

    def decisions(self, coef: Array, intercept: Array, bounds: Bounds) -> Decisions:
        """Decisions as ``linear_decisions`` makes them, a little less sharp."""
        with np.errstate(all="ignore"):
            values = self.X @ coef.T + intercept
            sizes = np.linalg.norm(coef, axis=1) * (1.0 + gamma(coef.shape[1] + 8.0))
            magnitudes = self.norms[:, None] * sizes + np.abs(intercept)
            roundings = self.roundings[:, None]
            errors = (gamma(roundings) * magnitudes + roundings * SMALLEST) * OUTWARDS
            return Decisions(values, _reach(self.lengths, bounds, errors), errors)


def linear_values(X: Any, coef: Array, intercept: Array) -> Values:
    """X w' + b for the rows w of ``coef``."""
    values, errors = np.empty((X.shape[0], len(coef))), np.empty((X.shape[0], len(coef)))
    for block, rows in _blocks(X):
        roundings = _stored(rows)[:, None] + 4.0
        values[block] = rows @ coef.T + intercept
        magnitudes = abs(rows) @ np.abs(coef).T + np.abs(intercept)
        errors[block] = (gamma(roundings) * magnitudes + roundings * SMALLEST) * OUTWARDS
    return Values(values, errors)


def norms(X: Any) -> Array:
    """|x| for each row, rounded upwards."""
    lengths = np.empty(X.shape[0])
    for block, rows in _blocks(X):
        squares = rows.multiply(rows).sum(axis=1) if sparse.issparse(rows) else np.einsum("ij,ij->i", rows, rows)
        stored = _stored(rows)
        squares = np.asarray(squares, dtype=np.float64).reshape(-1) + stored * SMALLEST
        lengths[block] = np.sqrt(squares) * (1.0 + gamma(stored + 8.0))
    return lengths


def kernel_decisions(
    block: Array, entry_error: float, lengths: Array, weights: Array, intercept: Array, bounds: Bounds
) -> Decisions:
    """The decisions from kernel values of samples (rows) and support vectors (columns), each wrong by at most ``entry_error``.

    ``lengths`` is :math:`|\\phi(x)|`, and ``weights`` has a column of coefficients for each binary problem."""
    with np.errstate(all="ignore"):
        size = np.abs(weights)
        magnitudes = np.abs(block) @ size + np.abs(intercept)
        errors = (entry_error * size.sum(axis=0) + gamma(len(weights) + 4.0) * magnitudes) * OUTWARDS
        return Decisions(block @ weights + intercept, _reach(lengths, bounds, errors), errors)


def kernel_lengths(kernel: Kernel, points: Points) -> Array:
    """sqrt(k(x, x)) for each point, rounded upwards."""
    with np.errstate(all="ignore"):
        diagonal = kernel.diagonal(points) + kernel.rounding_error(points, points)
        return np.sqrt(np.maximum(diagonal, 0.0)) * OUTWARDS


def _reach(lengths: Array, bounds: Bounds, errors: Array) -> Array:
    """r |phi(x)| + |b - b*| + rounding. A value that is not a number becomes infinite, so that it proves nothing."""
    reach = (lengths[:, None] * bounds.distance + bounds.offset + errors) * OUTWARDS
    return np.where(np.isnan(reach), np.inf, reach)


def _blocks(X: Any) -> Iterator[tuple[slice, Any]]:
    """The rows of X in float64, some at a time, each after a check point."""
    n, d = X.shape
    row_length = X.nnz // max(1, n) if sparse.issparse(X) else d
    size = max(1, policy.PREDICTIONS.elements_a_block // max(1, row_length))
    X = sparse.csr_array(X) if sparse.issparse(X) else X
    for start in range(0, n, size):
        check_point()
        block = slice(start, min(start + size, n))
        yield block, X[block].astype(np.float64, copy=False)


def _stored(rows: Any) -> Array:
    """The elements of each row."""
    if sparse.issparse(rows):
        return np.diff(rows.indptr).astype(np.float64)
    return np.full(len(rows), float(rows.shape[1]))


def proved_greatest(decisions: Decisions) -> Array:
    """Where the greatest decision value of a row is that of the exact optimum too."""
    low, high = decisions.values - decisions.reach, decisions.values + decisions.reach
    everyone = np.arange(len(low))
    winners = decisions.values.argmax(axis=1)
    others = high.copy()
    others[everyone, winners] = -np.inf
    # The ends are rounded by half a unit in the last place each: the comparison is moved by more.
    room = 4.0 * UNIT_ROUNDOFF * np.max(np.abs(decisions.values) + decisions.reach, axis=1)
    proved: Array = low[everyone, winners] - room > others.max(axis=1)
    return proved


def proved_votes(decisions: Decisions, n_classes: int, *, ties_go_to_the_first: bool = True) -> Array:
    """Where the class with most votes is that of the exact optimum too; a positive value is a vote for the first of a pair."""
    is_first, is_proved = decisions.values > 0.0, decisions.is_proved
    winners = votes(is_first, n_classes).argmax(axis=1)
    least, most = np.zeros((2, len(winners), n_classes), int)
    for k, (i, j) in enumerate(class_pairs(n_classes)):
        for winner, is_won in ((i, is_first[:, k]), (j, ~is_first[:, k])):
            least[:, winner] += is_won & is_proved[:, k]
            most[:, winner] += is_won | ~is_proved[:, k]
    everyone = np.arange(len(winners))
    lead = least[everyone, winners][:, None] - most
    others = np.arange(n_classes)[None, :]
    wins_ties = ties_go_to_the_first & (winners[:, None] < others)
    proved: Array = np.all((lead > 0) | ((lead == 0) & wins_ties) | (winners[:, None] == others), axis=1)
    return proved
