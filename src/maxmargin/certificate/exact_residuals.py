r"""Residuals without rounding error, for the few regressions whose objective is below the rounding of a target.

One row with a time in milliseconds, x = 1.6e12, and the target 1 has the optimum w = 6e-13, and the objective 2e-25. The
residual is zero, but a residual that is only known to the last digit of the target may be 1e-16, and may cost C times as much.
So the sum :math:`t_i - w \cdot x_i - b` is made exactly, from products and the rounding errors of products, and rounded once.
A residual of 1e-40 is then known to sixteen digits. What is left of the error of a gap term is the rounding of its formula."""

from __future__ import annotations

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.linear_sums import PartSums, residual_totals
from maxmargin.certificate.rounding import exact_sums, two_product
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem


def can_be_exact(problem: LinearProblem) -> bool:
    """Whether the problem is a regression with a target for each sample, and not too large."""
    is_regression = problem.loss.is_regression and problem.offset_prices is None
    return is_regression and problem.n_samples * problem.rows.n_features <= policy.LINEAR.exact_elements


def exact_residuals(problem: LinearProblem, w: Array) -> Array | None:
    """t_i - w . x_i - b, rounded once. None where a product overflows."""
    d = problem.rows.n_features
    X = np.asarray(problem.rows.dense(), dtype=np.float64)
    offset = two_product(w[d:], np.full(len(w) - d, problem.intercept_scaling))
    try:
        constants = [np.full(len(X), -float(part[0])) for part in offset if len(part)]
        return exact_sums(X, -w[:d], terms=[problem.targets, *constants])
    except (OverflowError, ValueError):
        return None


def with_exact_residuals(problem: LinearProblem, w: Array, alpha: Array, sums: PartSums) -> PartSums | None:
    """The sums with gap terms of exact residuals; the rest of them stays. The loop takes a residual as an output whose target
    is zero, so that what it adds up of the dual lacks the targets."""
    residuals = exact_residuals(problem, w)
    if residuals is None:
        return None
    found = residual_totals(problem, -residuals, np.zeros(len(residuals)), alpha, (problem.C, 0.0, 0.0, 0.0), is_precise=True)
    conjugate = found.conjugate + float(np.sum(problem.targets * alpha))
    return sums._replace(rows=found._replace(conjugate=conjugate, weights_scale=sums.rows.weights_scale))
