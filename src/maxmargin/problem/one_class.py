r"""The one-class problem: a half-space that holds all samples but a share nu, as far from the origin as can be.

.. math:: P(w, \rho) = \tfrac12 |w|^2 - \nu S \rho + \sum_i s_i \max(0, \rho - w \cdot x_i), \qquad
          D(\alpha) = -\tfrac12 |w(\alpha)|^2, \quad 0 \le \alpha_i \le s_i, \quad \sum_i \alpha_i = \nu S ,

with S the sum of the s_i. It is a :class:`LinearProblem` whose free offset b = -rho has a price. LIBSVM's -s 2 with a linear
kernel and LIBLINEAR's -s 21 solve it (H.-Y. Chou, P.-Y. Lin, C.-J. Lin, "Dual coordinate-descent methods for linear one-class
SVM and SVDD", SDM 2020). Where a mean of the samples with weights of at most 1 / (nu S) is the origin, w = 0 is optimal."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from maxmargin.data.rows import Array, Rows
from maxmargin.problem.dual_box import Kinks, ResidualPieces, repeated, summed
from maxmargin.problem.linear import LinearProblem, costs_of
from maxmargin.problem.losses import Hinge
from maxmargin.problem.regression_losses import Rescaled


@dataclass(frozen=True)
class Shortfall(Hinge):
    """max(0, r): by how much an output is below its target. It is the hinge of one class, with a target for each sample in
    place of 1, and no label that turns an output round."""

    is_regression: ClassVar[bool] = True
    has_ellipsoid: ClassVar[bool] = False

    def rescaled(self, size: float) -> Rescaled:
        return Rescaled(self, 1.0 / size)

    def residual_pieces(self) -> ResidualPieces:
        return ResidualPieces(0.0, 1.0, 0.0)

    def kinks(self, output: Array, C: Array, target: Array) -> Kinks:
        """One a sample, at t - f."""
        return Kinks(target - output, C, summed(C))


def one_class_problem(X: Any, nu: float, weights: Any = 1.0) -> LinearProblem:
    """The one-class problem of the rows of X, with one weight for all of them or one for each."""
    if not (isinstance(nu, Real) and 0.0 < nu <= 1.0):
        raise ValueError(f"nu must be greater than 0 and at most 1; got {nu!r}.")
    rows = Rows.from_matrix(X)
    s = costs_of(weights, rows)
    prices = repeated(nu * float(s[0]), len(s)) if s.strides == (0,) else nu * s
    return LinearProblem(
        rows, repeated(0.0, rows.n_samples), s, Shortfall(), 1.0, penalizes_intercept=False, offset_prices=prices
    )
