"""What Newton directions cost by Cholesky's method and by conjugate gradients, for sparse rows."""

from __future__ import annotations

from typing import NamedTuple

from maxmargin.data.rows import OneValueRows
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.newton.policy import DEFAULT, NewtonPolicy


class DirectionCosts(NamedTuple):
    """Estimated nanoseconds on one core: for the sum of outer products over all rows, for a factorisation of that matrix, and
    for a product with it by way of the rows."""

    build: float
    factor: float
    product: float

    @classmethod
    def of(cls, problem: LinearProblem, policy: NewtonPolicy = DEFAULT) -> DirectionCosts:
        costs, d = policy.directions, problem.n_weights
        element = costs.near_outer_ns + costs.outer_ns_a_weight * d
        factor = costs.cholesky_ns * d**3 + costs.square_ns * d**2
        return cls(element * problem.rows.outer_elements, factor, costs.product_ns * problem.rows.n_stored)

    def products_prepaid(self, n_steps: int) -> float:
        """How many products cost as much as so many steps with the matrix."""
        return (self.build + n_steps * self.factor) / self.product


def begins_with_products(problem: LinearProblem, policy: NewtonPolicy = DEFAULT) -> bool:
    """Whether directions come from conjugate gradients. Up to ``most_matrix_weights`` weights that is so for a smooth loss on
    short rows, as of one-hot columns, whose outer products and factorisation would cost more."""
    if problem.n_weights > policy.matrix.most_matrix_weights:
        return True
    enough = policy.directions.samples_a_weight * problem.n_weights
    if not (problem.rows.is_sparse and problem.penalizes_intercept and problem.n_samples >= enough):
        return False
    if problem.n_samples * problem.n_weights <= policy.matrix.small_elements or not problem.loss.is_smooth:
        return False
    costs, prepaid = policy.directions, DirectionCosts.of(problem, policy).products_prepaid(policy.directions.steps)
    if costs.steps * costs.products_a_step >= prepaid:
        return False
    if isinstance(problem.rows.compact(), OneValueRows):
        return True
    return costs.steps * costs.products_beside_numbers < prepaid and problem.rows.greatest <= costs.most_spread
