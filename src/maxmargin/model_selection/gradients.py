r"""Between two fits with a squared loss: how long the gradient is at the mixtures of w.

P is strongly convex, so that the optimum at any C is in the ball with a diameter from w to w minus the gradient of P. Let
:math:`w_\theta` be the mixture of two fits at :math:`C_\theta = (1 - \theta) C_1 + \theta C_2`, with margins m and losses
:math:`\ell = \max(0, 1 - m)`, and let :math:`h = \sum_i c_i \ell_i y_i x_i` and :math:`e = w - 2 C h`, the gradient at a fit.
Then

.. math:: \nabla P_\theta(w_\theta) = \theta (1 - \theta) \, G + J(\theta)
          + C_\theta \left[ \tfrac{1 - \theta}{C_1} e_1 + \tfrac{\theta}{C_2} e_2 \right],
          \qquad G = (C_2 - C_1) \left( \tfrac{w_2}{C_2} - \tfrac{w_1}{C_1} \right),

.. math:: J(\theta) = 2 C_\theta \sum_i c_i d_i(\theta) y_i x_i, \qquad
          d_i(\theta) = (1 - \theta) \ell_{1i} + \theta \ell_{2i} - \ell_{\theta i} \ge 0 .

d_i is zero unless the sample crosses the margin between the fits. Both G and d_i are small, so that the bound falls like the
square of the length of the interval. (The interpolated alpha of :mod:`maxmargin.model_selection.transfer` gives a radius that
falls like the length itself.) An interval is cut into parts. On each part :math:`\theta(1 - \theta)`, :math:`C_\theta` and the
d_i are replaced by their chords, whose errors are bounded, and the norm of a chord is greatest at an end.

**Positions in 1/C.** Where w hardly changes with C, the same mixtures are better answers at other values of C: those with
:math:`1 / C_\tau = (1 - \tau) / C_1 + \tau / C_2`. There the first term of the gradient is

.. math:: \tau (1 - \tau) \, C_\tau \left( \tfrac1{C_1} - \tfrac1{C_2} \right) (w_2 - w_1) ,

and the others stay as they are. If |w| grows like :math:`C^s`, the first term is about s times what it is for s = 1, and G is
about 1 - s times what it is for s = 0. Between two ends a and b of a part, the chord of the gradient is wrong by at most a
quarter of :math:`(C_b / C_a - 1)` times the distance of the two gradients, besides the errors of the chords of
:math:`\tau (1 - \tau)` and d_i.

**A sharper norm.** The gradient at w* is zero, so that :math:`\nabla P_\theta(w_\theta) = M (w_\theta - w^*)` with a mean M of
Hessians between the two points. A sample whose margin is below one at both of them counts fully in M. Let B be the identity
plus :math:`2 C_1 \sum_i c_i x_i x_i'` over the samples that the ball keeps below the margin on the whole interval. Then M - B
is positive semidefinite, and

.. math:: |x \cdot (w_\theta - \tfrac12 B^{-1} g - w^*)| \le \tfrac12 |x|_{B^{-1}} \, |g|_{B^{-1}},
          \qquad g = \nabla P_\theta(w_\theta),

because :math:`|M^{-1} g - \tfrac12 B^{-1} g|_B^2 = g' (M^{-1} B M^{-1} - M^{-1}) g + \tfrac14 |g|_{B^{-1}}^2`, and the first
term is not positive. With B = I that is the ball.

**Regression.** The squared epsilon-insensitive loss has two such losses for each sample, :math:`\max(0, r - \epsilon)` with
the sign 1 and :math:`\max(0, -r - \epsilon)` with the sign -1 in the place of y. With :math:`\epsilon = 0` they are one
straight line: no sample crosses anything, all J are zero, and B is the Hessian itself."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.ellipsoid import Ellipsoid, curved_norm
from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, gamma
from maxmargin.data.rows import Array
from maxmargin.model_selection import policy
from maxmargin.model_selection.points import Weights
from maxmargin.model_selection.transfer import Fit
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem


def has_gradients(problem: LinearProblem) -> bool:
    """Squared hinge and squared epsilon-insensitive loss, with an intercept that is penalised or none."""
    loss = problem.loss
    if not problem.penalizes_intercept:
        return False
    if loss.is_regression:
        return bool(loss.residual_pieces().is_squared)  # type: ignore[attr-defined]
    pieces = loss.margin_pieces()
    return not (pieces.has_kink or pieces.has_bounded_slope or pieces.is_two_sided)


class Bends(NamedTuple):
    """What the losses of a fit are the positive parts of, a row for each kind of loss, and the signs of their rows."""

    values: Array
    signs: Array
    is_straight: bool = False
    """Whether the two losses of a sample are one straight line."""

    @classmethod
    def of(cls, fit: Fit) -> Bends:
        problem = fit.problem
        residuals = problem.targets - fit.outputs
        if not problem.loss.is_regression:
            return cls(residuals[None, :], problem.signs[None, :])
        epsilon = problem.loss.residual_pieces().epsilon  # type: ignore[attr-defined]
        signs = np.repeat([[1.0], [-1.0]], len(residuals), axis=1)
        return cls(signs * residuals - epsilon, signs, epsilon == 0.0)


class Slope(NamedTuple):
    """A fit: its w, how wrong its losses can be, and |e| at most."""

    C: float
    w: Array
    error: float
    """At most sum_i c_i |x_i| times the error of loss i, with the rounding of such a sum."""
    residual: float

    @classmethod
    def of(cls, fit: Fit) -> Slope:
        problem = fit.problem
        assert isinstance(problem, LinearProblem)
        assert isinstance(fit.w, Weights)
        costs, losses = problem.C / fit.C, 0.5 * problem.loss.slope(fit.outputs, problem.targets)
        h = problem.weights(costs * losses)
        sizes = costs * fit.lengths
        rounding = gamma(problem.n_samples + PAIRWISE_ROUNDINGS) * float(sizes @ np.abs(losses))
        own = 2.0 * UNIT_ROUNDOFF * (np.abs(problem.targets) + np.abs(fit.outputs))  # epsilon is at most the residual here
        error = (float(sizes @ (fit.output_errors + own)) + rounding) * OUTWARDS
        residual = float(np.linalg.norm(fit.w.values - 2.0 * fit.C * h)) + 8.0 * UNIT_ROUNDOFF * fit.w.greatest_norm
        return cls(fit.C, fit.w.values, error, (residual + 2.0 * fit.C * error) * OUTWARDS)


def lift(one: Slope, two: Slope, is_inverse: bool) -> Array:
    """G, or what tau (1 - tau) C_tau multiplies in positions of 1/C."""
    if is_inverse:
        return (1.0 / one.C - 1.0 / two.C) * (two.w - one.w)
    return (two.C - one.C) * (two.w / two.C - one.w / one.C)


def lift_length(one: Slope, two: Slope, is_inverse: bool) -> float:
    """How long the first term of the gradient is, up to tau (1 - tau)."""
    length = float(np.linalg.norm(lift(one, two, is_inverse)))
    return length * float(np.sqrt(one.C * two.C)) if is_inverse else length


class Crossing(NamedTuple):
    """The samples that cross the margin, or an edge of the tube: their numbers and signs, at which position, and the change of
    slope of d_i there."""

    samples: Array
    signs: Array
    positions: Array
    bends: Array

    @classmethod
    def of(cls, first: Fit, second: Fit) -> Crossing:
        (one, signs, is_straight), (two, _, _) = Bends.of(first), Bends.of(second)
        kinds, samples = np.nonzero((one * two < 0.0) & (not is_straight))
        one, two = one[kinds, samples], two[kinds, samples]
        return cls(samples, signs[kinds, samples], one / (one - two), np.abs(two - one))

    def lifts(self, positions: Array) -> Array:
        """d_i at some positions: a tent with its top at the crossing. One row for each position."""
        below, above = np.minimum(positions[:, None], self.positions), np.maximum(positions[:, None], self.positions)
        return np.asarray(self.bends * below * (1.0 - above))


class Enclosure(NamedTuple):
    """An enclosure of the optimum. At the ends of the parts: what to subtract from w for the centre, which moves along a line
    between them. On each part: the radius around it."""

    shifts: Array
    radii: Array


def _on_parts(at_ends: Array) -> Array:
    return np.asarray(np.maximum(at_ends[:-1], at_ends[1:]) * OUTWARDS)


class Gradients:
    """Two fits, the first at the smaller C."""

    def __init__(self, fits: tuple[Fit, Fit], slopes: tuple[Slope, Slope], n_parts: int, is_inverse: bool) -> None:
        """Positions are in C, or in 1/C where ``is_inverse``."""
        self.fits, self.slopes, self.is_inverse = fits, slopes, is_inverse
        self.ends = np.linspace(0.0, 1.0, n_parts + 1)

    @cached_property
    def ball(self) -> Enclosure:
        at_ends, rests = self._chords
        lengths = np.linalg.norm(at_ends, axis=1) * (1.0 + gamma(at_ends.shape[1] + 8.0))
        return Enclosure(0.5 * at_ends, _on_parts(0.5 * lengths) + (rests + self._errors) * OUTWARDS)

    @cached_property
    def sharper_norm(self) -> Ellipsoid | None:
        """The norm of B; None where no sample is sure to stay below the margin, or rounding allows no proof."""
        candidates, room, is_straight = self._below_margin
        farthest = 2.0 * float(self.ball.radii.max())  # the gradient is no longer, so that w* is no farther from w
        by_ball = is_straight | (room > farthest * self.fits[0].lengths * OUTWARDS)
        is_large = self.fits[0].problem.n_samples * len(self.slopes[0].w) > policy.GRADIENTS.most_elements
        if is_large or np.count_nonzero(by_ball) >= policy.GRADIENTS.enough_by_ball * np.count_nonzero(candidates):
            return self._norm_of(by_ball)
        return self._settled_norm(candidates, room, is_straight)

    @cached_property
    def _below_margin(self) -> tuple[Array, Array, Array]:
        """The samples that are below the margin, or outside of the tube, at both fits; how far at least, with room for
        rounding; and whether the loss is curved everywhere."""
        one, two = self.fits
        (at_one, _, is_straight), (at_two, _, _) = Bends.of(one), Bends.of(two)
        rounding = 8.0 * UNIT_ROUNDOFF * (np.abs(one.problem.targets) + np.maximum(np.abs(one.outputs), np.abs(two.outputs)))
        room = np.minimum(at_one, at_two).max(axis=0) - np.maximum(one.output_errors, two.output_errors) - rounding
        straight = np.full(len(room), bool(is_straight))
        return straight | (room > 0.0), room, straight

    def _norm_of(self, is_curved: Array) -> Ellipsoid | None:
        one, chosen = self.fits[0], np.flatnonzero(is_curved)
        assert isinstance(one.problem, LinearProblem)
        return curved_norm(one.problem, chosen, 2.0 * one.problem.C[chosen], one.lengths[chosen]) if len(chosen) else None

    def _settled_norm(self, is_curved: Array, room: Array, is_straight: Array) -> Ellipsoid | None:
        """The norm of B over samples that B itself proves to be below the margin. Let them be so within the distance rho of w
        in that norm. The objective is then strongly convex there, so that its minimum there is no farther from w than the
        length of the gradient. If that is less than rho, the minimum is inside, and hence it is w*. On raw columns the ball is
        far too large to tell."""
        rows = self.fits[0].problem.rows.matrix
        for _ in range(policy.GRADIENTS.rounds):
            norm = self._norm_of(is_curved)
            if norm is None:
                return None
            chosen = np.flatnonzero(is_curved & ~is_straight)
            reach = 2.0 * float(self.sharper(norm).radii.max()) * norm.reach(rows[chosen]) * OUTWARDS
            if np.all(room[chosen] > reach * (1.0 + 1e-9)):
                return norm
            is_curved = is_curved.copy()
            is_curved[chosen] = room[chosen] > policy.GRADIENTS.farther * reach
        return None

    def sharper(self, norm: Ellipsoid) -> Enclosure:
        """The enclosure in the norm of B. In the dual norm the other terms are at most |L^-1| times their length."""
        at_ends, rests = self._chords
        found, others = norm.solve(at_ends), (rests + self._errors) * norm.inverse_norm
        return Enclosure(0.5 * found.solutions, _on_parts((0.5 + found.error) * found.lengths) + others * OUTWARDS)

    @cached_property
    def _chords(self) -> tuple[Array, Array]:
        """theta (1 - theta) G + J at the ends of the parts, and how far the gradient can be from the chord between them."""
        one, two = self.slopes
        problem, crossing, ends = self.fits[0].problem, Crossing.of(*self.fits), self.ends
        assert isinstance(problem, LinearProblem)
        costs = (problem.C / self.fits[0].C)[crossing.samples]
        sums = self._sums(problem, crossing, costs * crossing.lifts(ends))
        width = 1.0 / (len(ends) - 1)
        inside = np.minimum((crossing.positions * (len(ends) - 1)).astype(np.intp), len(ends) - 2)
        sizes = costs * crossing.bends * self.fits[0].lengths[crossing.samples]
        kinks = 0.25 * width * np.bincount(inside, sizes, len(ends) - 1)
        if self.is_inverse:
            return self._inverse_chords(sums, kinks, width)
        G, C = lift(one, two, False), (1.0 - ends) * one.C + ends * two.C
        tilts = 0.25 * (two.C - one.C) * width * np.linalg.norm(np.diff(sums, axis=0), axis=1)
        rests = 0.25 * width**2 * float(np.linalg.norm(G)) + 2.0 * two.C * kinks + 2.0 * tilts
        return (ends * (1.0 - ends))[:, None] * G + 2.0 * C[:, None] * sums, rests * OUTWARDS

    def _inverse_chords(self, sums: Array, kinks: Array, width: float) -> tuple[Array, Array]:
        one, two = self.slopes
        ends, H = self.ends, lift(one, two, True)
        C = 1.0 / ((1.0 - ends) / one.C + ends / two.C)
        at_ends = 2.0 * sums
        at_ends += (ends * (1.0 - ends))[:, None] * H
        at_ends *= C[:, None]
        tilts = 0.25 * (C[1:] / C[:-1] - 1.0) * np.linalg.norm(np.diff(at_ends, axis=0), axis=1)
        rests = C[1:] * (0.25 * width**2 * float(np.linalg.norm(H)) + 2.0 * kinks) + tilts
        return at_ends, rests * OUTWARDS

    def _sums(self, problem: LinearProblem, crossing: Crossing, scales: Array) -> Array:
        """sum_i scales_i y_i x_i, one row for each row of ``scales``."""
        rows, signed = problem.rows.matrix[crossing.samples], scales * crossing.signs
        sums = np.empty((len(scales), problem.n_weights))
        sums[:, : rows.shape[1]] = signed @ rows
        if problem.intercept_scaling != 0.0:
            sums[:, -1] = problem.intercept_scaling * signed.sum(axis=1)
        return sums

    @property
    def fitted_share(self) -> float:
        """The share of the greatest radius that comes from the gradients at the fits."""
        one, two = self.slopes
        return two.C / one.C * max(one.residual, two.residual) / float(self.ball.radii.max())

    @property
    def _errors(self) -> float:
        """The gradients at the fits, and the rounding of the margins, which is that of h at both fits and in between."""
        one, two = self.slopes
        rounding = 16.0 * UNIT_ROUNDOFF * (two.C / one.C) * float(np.linalg.norm(one.w) + np.linalg.norm(two.w))
        at_fits = two.C / one.C * max(one.residual, two.residual)
        return at_fits + 8.0 * two.C * (one.error + two.error) + rounding
