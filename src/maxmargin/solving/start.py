"""Where a solve starts, from what the caller gives as ``warm_start``."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.solution import Solution


def start_of(warm_start: Array | Solution | None, problem: Any) -> Array | None:
    """The alpha of a solution or an array; a w where the penalty has a kink, since w does not follow from alpha there."""
    if warm_start is None:
        return None
    is_w = isinstance(problem, LinearProblem) and problem.penalty.has_kink
    if isinstance(warm_start, Solution):
        warm_start = warm_start.w if is_w else warm_start.alpha
    start = np.asarray(warm_start, dtype=np.float64)
    if isinstance(problem, CrammerSingerProblem):
        shape: tuple[int, ...] = (problem.n_samples, problem.n_classes)
        words = f"alpha for each of {problem.n_samples} samples and {problem.n_classes} classes"
    else:
        length, thing = (problem.n_weights, "weights") if is_w else (problem.n_samples, "samples")
        shape, words = (length,), f"{'w' if is_w else 'alpha'} for each of {length} {thing}"
    if start.shape != shape:
        raise ValueError(f"warm_start must hold one {words}; its shape is {start.shape}.")
    if not np.isfinite(start).all():
        raise ValueError("warm_start holds a value that is not finite.")
    return start
