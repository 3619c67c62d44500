r"""Where active-set Newton begins with a working set of which little is known: the sets of F. Perez-Cruz et al., "Fast training
of support vector classifiers", Table 1, with one weight for all samples that fades away. (Table 1 as it is printed is
``maxmargin.solvers.kernel.irwls.table_1``.)

Each iteration solves

.. math:: \begin{bmatrix} K_{11} + D & 1 \\ 1' & 0 \end{bmatrix} \begin{bmatrix} s_1 \\ b \end{bmatrix} =
          \begin{bmatrix} y - f_{out} - K_{13} s_3 \\ \text{sum} - 1' s_3 \end{bmatrix}

and moves every variable to the set where the answer puts it, many at a time. The paper has D_ii = 1/a_i = e_i y_i / (2C) with
the errors of the iteration before, and a sample that leaves S3 goes to S2. On kernels of low rank the sets then never settle.
With D_ii = delta / (2C), one delta for all, that falls to a quarter or a half when the sets settle, and samples that leave S3
for S1, the sets follow in 6 to 15 iterations, 30 to 50 where the rank is low. The end is the optimum of the SVM with a hinge
that is rounded off over a width of delta / 2, so that no condition is violated by more than delta. If the sets do not settle,
only time is lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.solvers.kernel.irwls.free_factor import FreeFactor


class FadingPace(NamedTuple):
    """The factor by which delta falls, and the share of the variables that may change sets when the sets count as settled."""

    factor: float
    few: float


@dataclass(frozen=True)
class FadingPolicy:
    """How delta falls. It is a difference of margins."""

    first_width: float = 1.0
    """The greatest first delta: the paper's when all errors are 1."""
    last_width: float = 1e-3
    """The least last delta."""
    brisk: FadingPace = field(default_factory=lambda: FadingPace(0.25, 0.1))
    """How fast delta falls at first. It is enough for most problems, and fails after a few iterations where it is not."""
    careful: FadingPace = field(default_factory=lambda: FadingPace(0.5, 0.02))
    """How fast delta falls after that has failed."""
    slowest: float = 0.9
    """The factor of delta at which the start is given up."""
    wider: float = 8.0
    """The factor by which delta grows when the sets do not even settle at first."""
    patience: int = 5
    """The most iterations with one delta."""
    most_iterations: int = 50
    """The most iterations at one pace."""


class FadingTask(NamedTuple):
    """``right`` is y - f_out; ``total`` the sum of s, or None without an offset."""

    K: Array
    right: Array
    lower: Array
    upper: Array
    total: float | None


class Fading:
    """``s`` is in the box with the sum asked for, where ``has_settled``."""

    def __init__(
        self,
        task: FadingTask,
        side: Array,
        widths: tuple[float, float] | None = None,
        policy: FadingPolicy | None = None,
    ) -> None:
        """``side`` says where to begin: 0 for S1, -1 and 1 for the lower and the upper bound; ``widths`` are the first and the
        last delta."""
        self.K, self.right, self.lower, self.upper, self.total = task
        self.policy = policy = policy or FadingPolicy()
        self.factor = FreeFactor(task.K)
        first, last = widths or (policy.first_width, policy.last_width)
        self.last_width = max(last, policy.last_width)
        self.first_side, self.first_width = side.astype(np.int8), max(min(first, policy.first_width), self.last_width)
        self.side = self.first_side.copy()
        self.s = np.zeros(len(task.right))
        self.has_settled = False
        self.iterations = 0

    def run(self) -> None:
        self._follow(self.policy.brisk, may_go_back=False)
        if not self.has_settled:
            self.side = self.first_side.copy()
            self._follow(self.policy.careful, may_go_back=True)

    def _follow(self, pace: FadingPace, may_go_back: bool) -> None:
        """Reduce delta as fast as the sets can follow. If they cannot, return to the last delta at which they settled, and
        reduce it more slowly."""
        delta, factor, waited = self.first_width, pace.factor, 0
        settled: tuple[float, Array] | None = None
        for _ in range(self.policy.most_iterations):
            changes = self._iterate(delta / (2.0 * (self.upper - self.lower)))
            waited += 1
            if changes == 0 and delta <= self.last_width:
                self.has_settled = True
                return
            if changes is not None and changes <= pace.few * len(self.s) and delta > self.last_width:
                settled = delta, self.side.copy()
                factor = max(pace.factor, factor * factor) if waited <= 2 else factor
                delta, waited = max(self.last_width, delta * factor), 0
            elif changes is None or waited >= self.policy.patience:
                waited, factor = 0, factor**0.5
                if factor > self.policy.slowest or not may_go_back:
                    return
                if settled is None:
                    delta, self.side = delta * self.policy.wider, self.first_side.copy()
                else:
                    delta, self.side = max(self.last_width, settled[0] * factor), settled[1].copy()

    def _iterate(self, ridge: Array) -> int | None:
        """Steps 1, 2 and 4. Returns how many variables change sets, or None if there is no system or it has no solution."""
        self.iterations += 1
        check_point()
        in_S1 = self.side == 0
        fixed = np.where(in_S1, 0.0, np.where(self.side < 0, self.lower, self.upper))
        if not in_S1.any() or not self.factor.follow(in_S1, ridge):
            return None
        order = self.factor.order
        right = np.ones((len(order), 2), order="F")
        right[:, 0] = (self.right - self.K @ fixed)[order]
        found = self.factor.solve(right)
        b = 0.0 if self.total is None else (found[:, 0].sum() - (self.total - fixed.sum())) / found[:, 1].sum()
        self.s = fixed
        self.s[order] = found[:, 0] - b * found[:, 1]
        error = self.right - self.K @ self.s - b - ridge * self.s
        side = self.side.copy()
        side[in_S1 & (self.s <= self.lower)] = -1
        side[in_S1 & (self.s >= self.upper)] = 1
        side[(self.side < 0) & (error > 0.0)] = 0
        side[(self.side > 0) & (error < 0.0)] = 0
        changes = int(np.count_nonzero(side != self.side))
        self.side = side
        return changes if np.isfinite(self.s).all() else None
