"""A dual point for a primal method, from the slopes of the loss that it has met."""

from __future__ import annotations

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem


def dual_point(problem: LinearProblem, slopes: Array) -> Array:
    """alpha_i = C_i s_i for slopes s_i = -l'(m_i) or means of them, balanced where the intercept has no penalty, and times the
    factor in [0, 1] at which D is greatest: D(t alpha) = a t sum_i alpha_i - t^2 (|w(alpha)|^2 + sum_i D_ii alpha_i^2) / 2."""
    box = problem.box
    alpha = np.minimum(problem.C * slopes, box.U)
    if not problem.penalizes_intercept:
        alpha = problem.balanced(alpha)
    rise = float(box.p @ alpha)
    curvature = problem.sqnorm(problem.weights(alpha)) + float(np.sum(box.D * np.square(alpha)))
    return alpha if rise >= curvature else alpha * (rise / curvature)


def slopes_from(problem: LinearProblem, alpha: Array) -> Array:
    """The slopes that would give this alpha: zero for a sample without cost."""
    return np.divide(alpha, problem.C, out=np.zeros(len(alpha)), where=problem.C > 0.0)
