r"""A centre for every sample: the "tighter bounds" of Guillory and Bilmes, 2007, section 5, with as many centres as samples.

The bound (2) holds around any centre, and the nearer the centre the tighter it is. Let :math:`u_1 \dots u_8` be orthonormal,
:math:`\mu` the mean of the sample's class, and :math:`p_{ij} = u_j \cdot (x_i - \mu)` its coordinates. Rounded to multiples of
:math:`s_j` they fit into a byte each, :math:`q_{ij} = p_{ij} / s_j` rounded, and for a move :math:`\Delta` of the weights

.. math:: \Delta \cdot x_i = \Delta \cdot \mu + \sum_j q_{ij} s_j (\Delta \cdot u_j) + \text{at most} \;
          |\Delta_\perp| \, \rho_i + \tfrac12 |\Delta_\parallel| \, |s| ,

where :math:`\Delta_\parallel` is the part of the move within the span of the directions, :math:`\Delta_\perp` the rest of it,
and :math:`\rho_i` the length of the part of :math:`x_i - \mu` outside the span. The directions are the first principal ones of
a few rows: there both the samples and the moves, which are made of samples, are longest. On covtype and mnist eight of
them decide as much as a hundred clusters, for the price of a few passes over X.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.margin_bounds.coded_centres_loop import DIRECTIONS, LARGEST_CODE, Frame, code_rows
from maxmargin.margin_bounds.spheres import Spheres, class_means
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF


@dataclass(frozen=True)
class CodingPolicy:
    """How the directions and the steps of the codes are found. A bound holds for any choice; these decide how tight it is."""

    rows: int = 500
    """Rows of X from which the principal directions are found, about."""
    rounds: int = 2
    """Rounds of subspace iteration. The directions need not be exact."""
    extra_directions: int = 4
    """Directions that are iterated beyond the eight that are kept."""
    room: float = 1.25
    """Largest coordinate that has a code, as a multiple of the largest among those rows. A sample farther out has no bound."""
    smallest_step: float = 1e-6
    """Smallest step of a code, relative to the greatest step. Where all those rows agree, another row differs from them by
    rounding, and rounding must not count as far out."""


class CodedCentres(NamedTuple):
    """``vectors``: a line for each direction u_j, and two for the means of the classes; ``steps`` are the s_j."""

    vectors: Array
    steps: Array
    codes: Array
    radii: Array

    @classmethod
    def of_classes(cls, problem: LinearProblem) -> CodedCentres:
        """The means of the classes alone, which cost less to know."""
        spheres = Spheres.around_classes(problem)
        vectors = np.vstack([np.zeros((DIRECTIONS, problem.rows.n_features)), spheres.centres[:, :-1]])
        return cls(vectors, np.zeros(DIRECTIONS), np.zeros(problem.n_samples, np.uint64), spheres.radii)

    @classmethod
    def of(cls, problem: LinearProblem, policy: CodingPolicy | None = None) -> CodedCentres:
        policy, n, d = policy or CodingPolicy(), problem.n_samples, problem.rows.n_features
        means = class_means(problem)
        sample = _centred_rows(problem, means[:, :d], policy.rows)
        directions = _principal_directions(sample, policy)
        steps = policy.room * np.abs(sample @ directions.T).max(axis=0) / LARGEST_CODE
        steps = np.maximum(steps, policy.smallest_step * steps.max())
        codes, radii = np.empty(n, np.uint64), np.empty(n)
        rounding = 8.0 * (d + 8.0) * UNIT_ROUNDOFF
        code_rows(problem.rows.compiled(), problem.y, _frame(directions, steps, means), rounding, codes, radii)
        vectors = np.vstack([directions, means[:, :d]])
        return cls(vectors, steps, codes, radii)


def _frame(directions: Array, steps: Array, means: Array) -> Frame:
    units = np.divide(1.0, steps, out=np.zeros_like(steps), where=steps > 0.0)
    origins = means[:, : directions.shape[1]] @ directions.T
    return Frame(np.ascontiguousarray(directions.T), units, means, origins, np.einsum("kj,kj->k", means, means))


def _centred_rows(problem: LinearProblem, means: Array, n_rows: int) -> Array:
    chosen = np.arange(0, problem.n_samples, max(1, problem.n_samples // n_rows))
    rows = problem.rows.matrix[chosen]
    rows = rows.toarray() if problem.rows.is_sparse else rows
    return np.asarray(rows - means[(problem.y[chosen] > 0).astype(np.intp)])


def _principal_directions(rows: Array, policy: CodingPolicy) -> Array:
    """Orthonormal lines, by subspace iteration; lines of zeros where there are fewer features than directions."""
    d = rows.shape[1]
    found = np.random.default_rng(0).normal(size=(d, min(d, DIRECTIONS + policy.extra_directions)))
    for _ in range(policy.rounds):
        found = np.linalg.qr(rows.T @ (rows @ np.linalg.qr(found)[0]))[0]
    values, turns = np.linalg.eigh((rows @ found).T @ (rows @ found))
    directions = np.zeros((DIRECTIONS, d))
    best = (found @ turns[:, np.argsort(-values)]).T[:DIRECTIONS]
    directions[: len(best)] = best
    return directions
