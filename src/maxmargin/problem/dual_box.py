r"""What a loss is, and the terms and bounds that it gives the dual: see :mod:`maxmargin.problem.losses`."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from maxmargin.data.rows import Array

UNIT_ROUNDOFF = 2.0**-53

Targets = Array | float
"""One target for all samples (1, for two classes), or one for each."""


class DualBox(NamedTuple):
    """The dual's terms p alpha - e |alpha| - D alpha^2 / 2 and bounds L <= alpha <= U, one value a sample but for ``e``."""

    L: Array
    U: Array
    D: Array
    p: Array
    e: float = 0.0

    def terms(self, alpha: Array) -> Array:
        """p_i alpha_i - e |alpha_i| - D_ii alpha_i^2 / 2"""
        linear = self.p * alpha - self.e * np.abs(alpha) if self.e else self.p * alpha
        return linear - 0.5 * self.D * np.square(alpha)


class Kinks(NamedTuple):
    """The kinks of a piecewise linear loss, as offsets: the b at which the residuals t - f - b of ``samples`` reach a kink. The
    slope of C l rises by ``rises`` there. ``level`` is minus the sum of the slopes far to the left."""

    offsets: Array
    rises: Array
    level: float


class Pieces(NamedTuple):
    """A loss of the margin m by its pieces: 1 - m (or 1, if it is a step) for m <= ``low``, zero for m >= ``high``, and
    curvature (high - m)^2 / 2 between. A two-sided loss has no zero piece: it is quadratic beyond ``high`` too."""

    low: float
    high: float
    curvature: float = 0.0
    is_step: bool = False
    is_two_sided: bool = False

    @property
    def has_kink(self) -> bool:
        """Whether the slope jumps at the margin 1, so that the loss has no gradient there."""
        return self.low == self.high and not self.is_step

    @property
    def has_bounded_slope(self) -> bool:
        """Whether the loss is linear for small margins: one sample then pulls at w by no more than C_i |x_i|."""
        return self.low > -np.inf

    @property
    def leaves_samples_out(self) -> bool:
        """Whether the loss is zero on some piece, so that a solver may leave samples out."""
        return not self.is_two_sided


class ResidualPieces(NamedTuple):
    """A loss of the residual r: ``up`` (r - epsilon)_+ + ``down`` (-r - epsilon)_+, or with the squares of both."""

    epsilon: float
    up: float
    down: float
    is_squared: bool = False


class Loss(Protocol):
    """``is_regression``: the targets are real numbers, and not labels. ``is_smooth``: it has a derivative everywhere.
    ``has_ellipsoid``: it has the four methods ``held_...`` of :class:`maxmargin.problem.losses.Hinge`."""

    is_regression: ClassVar[bool]
    is_smooth: ClassVar[bool]
    has_ellipsoid: ClassVar[bool]

    def value(self, output: Array, target: Targets = 1.0) -> Array:
        """The loss, without C."""

    def slope(self, output: Array, target: Targets = 1.0) -> Array:
        """Minus the derivative of the loss by the output (one of several at a kink). The alpha that answers an output is C
        times this."""

    def margin_pieces(self) -> Pieces:
        """The loss of two classes as a piecewise linear and quadratic function of the margin, for the compiled loops."""

    def dual(self, C: Array, target: Targets = 1.0) -> DualBox:
        """The terms and bounds of the dual problem."""

    def gap_terms(self, output: Array, alpha: Array, C: Array, target: Targets = 1.0) -> Array:
        """C l + l*(alpha) + alpha f for each sample: zero at the optimum, never negative."""

    def gap_sensitivity(self, output: Array, alpha: Array, C: Array, error: Array, target: Targets = 1.0) -> Array:
        """How wrong a gap term can be when its residual is wrong by ``error``, beyond a few units of its own last place."""


def repeated(value: Targets, n: int) -> Array:
    """A value for all samples that takes the memory of one and cannot be written to; and an array as it is. For one number this
    is ``np.broadcast_to`` in a tenth of its time, which counts in small fits."""
    if isinstance(value, np.ndarray) and value.shape == (n,):
        return value
    repeats = np.ndarray((n,), np.float64, np.array(value, np.float64), 0, (0,))
    repeats.flags.writeable = False
    return repeats


def summed(values: Array) -> float:
    """Their sum, at once where one number stands for all samples."""
    return float(values[0]) * len(values) if values.strides == (0,) else float(values.sum())


def one_or_all(C: Array) -> Array:
    """One number where all samples have the same, else the array."""
    return C[:1] if C.strides == (0,) else C


def half_inverse(C: Array) -> Array:
    """1 / (2C), and 0 for absent samples."""
    if C.strides == (0,):
        value = float(C[0])
        return repeated(0.5 / value if value > 0.0 else 0.0, len(C))
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(C > 0.0, 0.5 / C, 0.0)


def quadratic_box(C: Array, target: Targets) -> DualBox:
    """The terms of a loss that grows quadratically on both sides; absent samples get the box [0, 0]."""
    return DualBox(infinite_where_present(C, -1.0), infinite_where_present(C), half_inverse(C), repeated(target, len(C)))


def infinite_where_present(C: Array, sign: float = 1.0) -> Array:
    """Infinity with this sign, and 0 for absent samples."""
    if C.strides == (0,):
        return repeated(sign * np.inf if C[0] > 0.0 else 0.0, len(C))
    return np.where(C > 0.0, sign * np.inf, 0.0)


def residual_rounding(alpha: Array, C: Array) -> Array:
    """The rounding error of ``r - alpha D`` without that of r itself: of D, of the product and of the subtraction."""
    return 4.0 * UNIT_ROUNDOFF * np.abs(alpha * half_inverse(C))
