"""Steps to w = 0 inside of the box, for :mod:`maxmargin.solvers.interior_point`."""

from __future__ import annotations

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.interior_program import InteriorPolicy, Program


def shortened(program: Program, x: Array, policy: InteriorPolicy) -> list[Array]:
    """Points with w zero in those directions in which short steps inside of the box make it so. In the others no x is long, or
    w = 0 is not optimal: they are left as they are. A point where every weight is nothing but rounding is the last."""
    found: list[Array] = []
    for share in policy.least_directions:
        moved, step = x, np.zeros(1)
        for _ in range(policy.short_steps):
            size = np.minimum(moved, program.c - moved)
            step = _to_zero(program, moved, size, share)
            if not np.abs(step).max() < 1.0:
                break
            moved = program.with_sums(moved + step * size)
        if moved is not x and np.abs(step).max() < 1.0:
            found.append(moved)
            if is_rounding(program, moved):
                break
    return found


def is_rounding(program: Program, x: Array) -> bool:
    """Whether each weight is no longer than the rounding of its own terms, and so is what each sum lacks."""
    terms = np.concatenate([np.abs(program.w0) + np.abs(program.M).T @ x, program.totals])
    left = np.concatenate([program.weights(x), program.groups.T @ x - program.totals])
    return bool(np.all(np.abs(left) <= len(x) * UNIT_ROUNDOFF * terms))


def _to_zero(program: Program, x: Array, size: Array, share: float) -> Array:
    """The shortest step to w = 0, in units of ``size``, without the directions below a share of the longest. Whether w is zero
    does not depend on the scales of its columns, so these are made equal."""
    columns = np.hstack([program.M, program.groups]) * size[:, None]
    missing = np.concatenate([-program.weights(x), program.totals - program.groups.T @ x])
    lengths = np.linalg.norm(columns, axis=0)
    lengths = np.where(lengths > 0.0, lengths, 1.0)
    return np.asarray(np.linalg.lstsq((columns / lengths).T, missing / lengths, rcond=share)[0])
