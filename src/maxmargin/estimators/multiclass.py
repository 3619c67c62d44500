"""From the decision values of binary problems to classes, and to a proof of them.

With two classes there is one binary problem, and a positive value means the second class. With more there are two schemes:
one problem for each class against the rest, or one for each pair of classes. ``codes`` gives the number of the class of each
sample, and ``proved`` where the exact optimum gives the same class (``certificate/predictions.py`` has the proofs).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.certificate.predictions import Decisions, proved_greatest, proved_votes
from maxmargin.data.rows import Array
from maxmargin.problem.class_pairs import votes


@dataclass(frozen=True)
class OneAgainstRest:
    """The class with the greatest decision value."""

    n_classes: int

    def codes(self, values: Array) -> Array:
        return second_of_two(values) if self.n_classes == 2 else values.argmax(axis=1)

    def proved(self, decisions: Decisions) -> Array:
        return decisions.is_proved[:, 0] if self.n_classes == 2 else proved_greatest(decisions)


@dataclass(frozen=True)
class OneAgainstOne:
    """The class with most votes of the pairs. A tie goes to the class that comes first."""

    n_classes: int
    ties_go_to_the_first: bool = True

    def codes(self, values: Array) -> Array:
        return second_of_two(values) if self.n_classes == 2 else votes(values > 0.0, self.n_classes).argmax(axis=1)

    def proved(self, decisions: Decisions) -> Array:
        if self.n_classes == 2:
            return decisions.is_proved[:, 0]
        return proved_votes(decisions, self.n_classes, ties_go_to_the_first=self.ties_go_to_the_first)


def second_of_two(values: Array) -> Array:
    """1 where the only decision value is positive, else 0."""
    return np.asarray(values[:, 0] > 0.0).astype(int)
