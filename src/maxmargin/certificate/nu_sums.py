r"""What the judge of the problems with nu adds up over a group of variables, and what a wrong sum of alpha costs.

Where the sum of a group is wrong by r, a point alpha' with the right sum has moved by :math:`|r| q_i`, where the :math:`q_i`
add up to one: what is too much is taken in proportion to :math:`\alpha_i`, what is lacking is added in proportion to
:math:`c_i - \alpha_i`. The gap of alpha' is greater by at most
:math:`|r| \sum_i q_i |h_i| + (|r| \sum_i q_i \sqrt{k(x_i, x_i)})^2`, for two groups too. That is charged."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.certificate import Imbalance
from maxmargin.certificate.rounding import PAIRWISE_ROUNDINGS, gamma
from maxmargin.data.rows import Array

ROUNDINGS = gamma(float(PAIRWISE_ROUNDINGS))
"""The relative error of a sum by pairs."""


class GroupSums(NamedTuple):
    """Sums over the variables of a group: of alpha_i and of c_i - alpha_i, each alone, times |h_i|, and times the root of
    k(x_i, x_i), or more. ``costs`` is the sum of c_i. ``is_full``: every variable has to be at its bound, and is."""

    taken: float
    left: float
    taken_h: float
    left_h: float
    taken_reach: float
    left_reach: float
    costs: float
    greatest_h: float
    greatest_root: float
    is_full: bool

    @classmethod
    def of(cls, alpha: Array, C: Array, h: Array, roots: Array, is_full: bool) -> GroupSums:
        """``h`` are magnitudes."""
        room = C - alpha
        sums = alpha.sum(), room.sum(), alpha @ h, room @ h, alpha @ roots, room @ roots, C.sum()
        greatest = float(h.max(initial=0.0)), float(roots.max(initial=0.0))
        return cls._make([*map(float, sums), *greatest, is_full and bool(np.all(alpha == C))])

    def charge(self, total: float) -> Imbalance:
        """What it costs that the sum is not ``total``."""
        if self.is_full:
            return Imbalance()
        excess = self.taken - total
        is_over = excess > 0.0
        room = self.taken if is_over else self.left
        if not room > abs(excess):
            return Imbalance(fall=math.inf)
        slope = (self.taken_h if is_over else self.left_h) / room
        reach = (self.taken_reach if is_over else self.left_reach) / room
        # The sum and the total are known to a few units in the last place; near zero the other direction may be the right one.
        hidden = ROUNDINGS * self.costs
        steepest, farthest = max(slope, self.greatest_h), max(reach, self.greatest_root)
        move, most = abs(excess) * reach, hidden * farthest
        return Imbalance(0.0, abs(excess) * slope + move**2, hidden * steepest + most**2, move + most)


def joined_charges(groups: list[GroupSums], totals: Array) -> Imbalance:
    """The imbalance of all groups together."""
    charges = [group.charge(total) for group, total in zip(groups, totals.tolist(), strict=True)]
    return charges[0] if len(charges) == 1 else Imbalance(*map(sum, zip(*charges, strict=True)))
