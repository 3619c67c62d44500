"""The samples of a partition that are near a kink, as a partition of their own.

Between two moves of the anchor the margins change little. A sample that is far from a kink, with its alpha at the bound that
belongs to its side, stays there, and what it adds to the sums of a pass is known: its alpha does not change, and its loss is
linear in w. So the passes between two moves visit the rows near a kink only, of which a partition in memory keeps a copy. A
sample that is far and crosses a kink all the same is found at the next move of the anchor, which visits all samples. The dual
value of the sums is that of the present alpha in any case."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.data.row_loops import add_rows
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.linear import LinearProblem
from maxmargin.scale_out.passes import Memory, Part
from maxmargin.scale_out.remainder import kink_distance
from maxmargin.solvers.linear.newton.passes import Changes


@dataclass
class Nearby:
    """The near samples as a part, and their places. Of the others, ``linear`` is sum_i p_i alpha_i - e |alpha_i|, and ``w`` is
    sum_i alpha_i sigma_i x_i."""

    part: Part
    places: Array
    linear: float
    w: Array

    @classmethod
    def of(cls, part: Part, margin: Array, reach: float, w_alpha: Array, most_share: float) -> Nearby | None:
        """The samples within ``reach`` of a kink; None where these are most. ``w_alpha`` is that of all samples of the part."""
        problem, memory = part.problem, part.memory
        answer = np.clip(problem.C * problem.loss.slope(margin, problem.targets), problem.box.L, problem.box.U)
        is_far = (kink_distance(problem.loss, problem.targets - margin) > reach) & (memory.alpha == answer)
        places = np.flatnonzero(~is_far)
        if not 0 < len(places) <= most_share * problem.n_samples or not problem.C[places].any():
            return None
        near = _chosen(problem, places)
        w = w_alpha.copy()
        add_rows(near.compiled_rows, -memory.alpha[places] * near.signs, w, 0, len(places))
        own = Memory(memory.alpha[places], memory.anchor[places], memory.free[places])  # type: ignore[index]
        linear = float(np.sum(problem.box.terms(np.where(is_far, memory.alpha, 0.0))))
        return cls(Part(near, own, part.number, True), places, linear, w)

    def completed(self, changes: Changes, w: Array) -> Changes:
        """What changes among the near samples, with the sums of all."""
        linear, gap_terms, loss, n_free = changes.sums.tolist()
        far_loss = self.linear - float(self.w @ w)
        return changes._replace(sums=np.array([linear + self.linear, gap_terms, loss + far_loss, n_free]))

    def write_to(self, memory: Memory) -> None:
        """Give the whole partition the alpha of these samples."""
        memory.alpha[self.places] = self.part.memory.alpha
        memory.free[self.places] = self.part.memory.free  # type: ignore[index]


def _chosen(problem: LinearProblem, places: Array) -> LinearProblem:
    rows = Rows.from_matrix(problem.rows.matrix[places], check=False)
    y, C = np.array(problem.y[places]), np.array(problem.C[places])
    return LinearProblem(rows, y, C, problem.loss, problem.intercept_scaling)
