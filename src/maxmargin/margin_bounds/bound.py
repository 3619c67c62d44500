r"""The bound on the change in the margin: A. Guillory, J. Bilmes, "Practical Methods for Exploiting Bounds on Change in the
Margin", 2007, eq. (2), and the losses that it prunes.

When w' moves to w, the margin of sample i moves by :math:`y_i (w - w') \cdot x_i`, and by Cauchy and Schwarz, for any centre c,

.. math:: \left| y_i (w - w') \cdot x_i - y_i (w - w') \cdot c \right| \le |w - w'| \, |x_i - c| .

With c = 0 that is the paper's (2); another c is its "sphere with a different center" (section 5), and a centre for each cluster
of the data its "separate bounds". The product with c, the *shift*, is one number for all samples of one class and one
cluster: these form a *list*. Where there is an intercept, every centre has the constant feature that every row has: the move of
b is then in the shift, exactly and apart for each class (the two lists of section 3), and :math:`|w - w'|` and
:math:`|x_i - c|` are over the other features alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array, CsrRows
from maxmargin.margin_bounds.pruned_loss_loops import Samples
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber, Loss, Pieces, SquaredHinge

ROUNDED_UP = 1.0 + 1e-12
"""The factor on a computed distance. It exceeds what rounding can take from the distance."""

HINGE, SQUARED_HINGE = Hinge().margin_pieces(), SquaredHinge().margin_pieces()
ZERO_ONE = Pieces(0.0, 0.0, is_step=True)


def huber(width: float) -> Pieces:
    """(5): a knee at the distance ``width`` to either side of 1."""
    return Huber(width).margin_pieces()


def pieces_of(loss: Loss) -> Pieces:
    """The pieces of a loss that leaves samples out."""
    pieces = None if loss.is_regression else loss.margin_pieces()
    if pieces is None or not pieces.leaves_samples_out:
        raise ValueError(
            f"{loss!r} has no piece on which a sample need not be looked at: use hinge, Huber or squared hinge loss."
        )
    return pieces


def margin_bounds(margins: Array, distance: float, radii: Array | float, shift: Array | float = 0.0) -> tuple[Array, Array]:
    """(2): the least and the greatest margin that each sample can have at w. ``margins`` are those at w', ``distance`` is
    |w - w'|, ``radii`` are the norms |x_i| or their maximum; or, with ``shift`` = y_i (w - w') . c, the |x_i - c|."""
    if not distance >= 0.0:
        raise ValueError(f"A distance is not negative; got {distance!r}.")
    middle, reach = margins + shift, distance * np.asarray(radii)
    return middle - reach, middle + reach


class LossAt(NamedTuple):
    """The loss at one w: sum_i C_i loss(m_i); ``weights`` = sum_i C_i s_i y_i x_i, which is minus its (sub)gradient, and
    w(alpha) for alpha_i = C_i s_i; ``slopes`` = sum_i C_i s_i; and how many margins had to be computed. ``weights`` is a view
    that the next evaluation changes."""

    loss: float
    weights: Array
    slopes: float
    examined: int


@dataclass
class Tally:
    """Counts of the work so far."""

    evaluations: int = 0
    plain: int = 0
    stored: int = 0
    sorted: int = 0
    examined: int = 0


def samples_of(problem: LinearProblem) -> Samples:
    """The data for the loops. C is one value if it is the same for all, and the stride to read it with is zero then."""
    C = problem.C
    if C.strides == (0,) or (C == C[0]).all():
        C, stride = C[:1], np.uint64(0)
    else:
        stride = np.uint64(1)
    return Samples(problem.compiled_rows, problem.y, np.ascontiguousarray(C), stride)


def longest_row(problem: LinearProblem) -> int:
    """The most elements that a product with a row adds up."""
    rows = problem.compiled_rows
    return int(np.diff(rows.indptr).max()) if isinstance(rows, CsrRows) else problem.rows.n_features + 1
