"""The sizes and limits of model selection, each with its unit. Tests replace a policy as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PathPolicy:
    """How a path of solutions over C is made."""

    first_ratio: float = 2.0
    """Ratio of neighbouring knots before any interval is divided. An estimate, not measured."""
    share_of_fits: float = 0.125
    """Share of ``tol`` that the fits at the knots may use. The rest is left for the intervals. An estimate, not measured."""
    closest: float = 1.0 + 1e-6
    """Ratio of two knots below which their interval is not divided: rounding limits its gap there."""
    divided_below: float = 0.5
    """Share of ``tol`` that the gaps of two fits may take for their interval to be divided. Beyond it rounding limits the gap,
    and no division helps."""
    held_megabytes: float = 500.0
    """Size of a kernel matrix up to which it is computed once and held for all fits."""


@dataclass(frozen=True)
class TransferPolicy:
    """How a proof is moved."""

    loose: float = 1e-7
    """The rounding error of w(alpha), as a share of |w(alpha)|, from which on its sums are made in long double: half the square
    of that error is a part of the gap. Sums over raw columns, such as times in seconds since 1970, are in need of it."""


@dataclass(frozen=True)
class LeaveOneOutPolicy:
    """How leave-one-out refits."""

    tolerances: tuple[float, ...] = (1e-3, 1e-5, 1e-7, 1e-9, 1e-11)
    """Relative gaps of a refit, one after the other, until the sign of its sample is proved."""


@dataclass(frozen=True)
class TrackPolicy:
    """When the state of Newton's method is moved from C to C."""

    sweeps_a_step: float = 3.0
    """Sweeps of coordinate descent that one step of Newton's method may cost, by the cost model. From the state of another C a
    smooth loss takes 1 to 3 steps, and coordinate descent some ten sweeps. Not measured by itself."""
    call_elements: int = 1 << 19
    """Elements n d of dense rows up to which a solve with hinge loss is one compiled call. A pass over so many takes as long as
    what a step takes in Python, about 0.15 ms; rows of more are left to a method whose passes skip samples."""


@dataclass(frozen=True)
class RaceFoldPolicy:
    """How a fold of a race over a range of C is held."""

    dense_bytes: int = 1 << 22
    """Bytes of the training samples as a dense matrix up to which sparse ones are made dense."""


@dataclass(frozen=True)
class RulerPolicy:
    """Which samples are rulers between two fits with hinge loss."""

    parts: int = 4
    """Parts of an interval, each with rulers of its own. On 2,000 rows of banana four took 101 values of C, one 146."""
    steady_share: float = 0.75
    """Share of the rulers that serve the whole interval from which on it is one part. On a1a, where nearly all do, one part
    took 91 values of C and four took 89."""
    least_share: float = 1e-6
    """The least price of a ruler, as a share of its cost. Prices of less are rounding."""
    most: int = 600
    """The most rulers of an interval: a matrix of that size takes 6 ms to factor. An estimate, not measured."""
    most_a_dimension: int = 8
    """The most rulers for each coordinate of a sample: as many as there are coordinates can measure any direction."""
    noise: float = 1e-11
    """What is added to the diagonal, as a share of its mean, so that equal samples can be factored."""


@dataclass(frozen=True)
class GradientPolicy:
    """Which samples are sure to stay below the margin between two fits with a squared loss."""

    enough_by_ball: float = 0.5
    """Share of the samples below the margin at both fits that the ball has to prove for the ellipsoid not to be asked: that
    takes a factorisation and a solve for each round."""
    most_elements: int = 1 << 19
    """Elements n d up to which the ellipsoid is asked. On a9a and ijcnn1 it would take 17 values of C where the ball takes 27
    and 24, in as much time; on w7a 33 instead of 44, in 15 times the time."""
    rounds: int = 6
    """Rounds in which samples that the ellipsoid does not prove are left out. An estimate, not measured."""
    farther: float = 1.5
    """How many times its reach a sample has to be below the margin to be kept for the next round, whose reach is larger."""


PATH = PathPolicy()
TRANSFER = TransferPolicy()
LEAVE_ONE_OUT = LeaveOneOutPolicy()
TRACK = TrackPolicy()
RACE_FOLD = RaceFoldPolicy()
RULERS = RulerPolicy()
GRADIENTS = GradientPolicy()
