"""The settings of Newton's method on working sets of features, each with its unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InsidePolicy:
    """How far the steps of the interior-point method go, and when they end."""

    most_steps: int = 100
    """Steps of one round. On 840 problems of seven raw tables, with C from 1e-4 to 1e6, the usual number is 10 to 70."""
    idle_steps: int = 8
    """Steps, one after the other, that do not make the gap smaller: rounding is reached."""
    feasible_gap: float = 0.5
    """The relative gap below which idle steps count. Before a point has all margins near one, the gap says nothing."""
    first_room: float = 1.0
    """The first t, in margins. With 10 there are 4% fewer steps, and one problem of 91 ends at a gap of 4e-4."""
    to_the_bound: float = 0.995
    """Share of the way to the next bound that a step may go."""
    hidden: float = 0.03
    """Share of the limit of a slope that rounding may be, before the weight takes part without a penalty. With 0.001 there are
    18% more steps, because of more rounds."""
    most_rounds: int = 4
    """Rounds, each with more weights without a penalty."""
    face_steps: int = 2
    """Newton steps on a face. The second makes up for the rounding of the first."""
    least_pivot: float = 1e-15
    """The least pivot of a QR factorisation of columns of length one: a smaller one is rounding."""


@dataclass(frozen=True)
class SparseNewtonPolicy:
    """When a working set grows, how well its problem is solved, and when a linear system takes over from coordinates."""

    first_features: int = 64
    """Features that the first working set may hold."""
    growth: float = 1.0
    """Features that are added at most, as a multiple of those that are not zero."""
    whole_passes: float = 32.0
    """The first working set holds all features where their inner products cost at most this many passes over X: choosing a
    set, and copying its columns, would cost more."""
    whole_features: int = 1024
    """Features up to which that may be so."""
    most_features: int = 4096
    """Features of a working set up to which their inner products are held: 134 MB."""
    keep_share: float = 0.9
    """A feature of weight zero stays in the working set where |v_j| is above this share of its limit."""
    gap_share: float = 0.3
    """Share of the whole gap to which the problem of a working set is solved before the other features are looked at."""
    target_share: float = 0.5
    """Share of the gap that is asked for at which the solver asks for a certificate."""
    forcing: float = 1e-3
    """The longest coordinate step at the end of a Newton step, relative to that at its beginning."""
    rough_forcing: float = 0.1
    """The same while the set of active samples changes: the model is that of other samples after the step."""
    rough_share: float = 0.01
    """Share of the active samples that must enter or leave for that."""
    most_turns: int = 40
    """Turns of coordinate descent and linear system in one Newton step."""
    least_sweeps: int = 5
    """Sweeps of coordinate descent before a linear system is tried."""
    factor_share: float = 0.05
    """Multiply-adds of a coordinate step that take the time of one of a factorisation. An estimate, not measured."""
    factor_overhead: float = 2e5
    """Fixed time of a linear system, in the same unit: 0.1 ms of Python."""
    step_overhead: float = 20.0
    """Fixed time of a coordinate step, in the same unit."""
    rows_a_slice: int = 1 << 15
    """Rows whose inner products are added between two check points, so that limits and Ctrl-C are heard."""
    rebuild_share: float = 0.5
    """Share of the active samples that may change before the inner products are made anew."""
    most_halvings: int = 40
    """Halvings of an interval in the search along a direction."""
    short_step: float = 1e-6
    """A step that changes no margin by more than this is taken as it is: the slope along it is mostly rounding."""
    ramp_from: float = 100.0
    """Where a working set has more features than there are samples, or after ``ramp_after`` steps, and C is at least this many
    times the least one whose answer is not zero, the problem is solved for smaller C first."""
    ramp_after: int = 60
    """Newton steps and passes after which that is so. Raw digits at C = 1e4 and nearly collinear columns took 1.3 to 2.2 s so,
    and were at a gap of one after 5 s without. With 30 they took 0.8 to 1.7 s, but mnist at C = 1 and 10, which ends after 32
    and 44 steps, took 6 s instead of 2."""
    first_ramp: float = 10.0
    """The first of them, as a multiple of that least C."""
    ramp_growth: float = 10.0
    """From one C to the next. The table ``wide`` with C = 100 took 1.7 s so; without, it was at a gap of 0.99 after 9 s."""
    ramp_gap: float = 0.3
    """The relative gap to which they are solved."""
    ramp_steps: int = 100
    """Passes and Newton steps for one of them, at most."""
    mend_margin: float = 8.0
    """How far below its limit a mended v_j is, in roundings of alpha, taken as independent of each other."""
    least_limit: float = 0.5
    """Alpha is mended where every v_j may be at least this large then."""
    most_mendings: int = 4
    """Changes of alpha in one mending: a change is rounded itself."""
    inside_limit: float = 2.0**-24
    """How far inside of its limit a v_j is that is mended by tiny alphas, relative to the limit: a gap of 6e-8."""
    most_limits: int = 4
    """How often that is done: where digits of alpha leave a v_j beyond its limit, the next limit is as far inside."""
    negligible_excess: float = 2.0**-27
    """How far from what is wanted such v_j may be."""
    most_mended: int = 1 << 22
    """Elements of the dense columns up to which alpha is mended."""
    inside: InsidePolicy = InsidePolicy()
    """The settings of the interior-point method."""
    inside_after: int = 40
    """Turns of coordinate descent and linear system after which it takes over, where the problem is so small that its steps
    take as long as these turns: 0.3 ms. On seven raw tables with C from 1e-4 to 1e6, most problems take at most 37 turns. A
    quarter of those with 60 samples and C = 1000 or 1e6 take more than 130, and 20 of 112 were not done after 0.3 s."""
    inside_unit: float = 4e5
    """Elements of the columns, times their number, whose factorisation takes as long as a turn. With 800 samples in 33 columns
    a step takes about 1 ms."""
    inside_elements: float = 3e6
    """The same number up to which the method is tried at once where there are more features than samples, or Newton's method
    is stuck: 50 steps take 0.15 s. An estimate."""
    inside_target: float = 1e-4
    """Share of the gap that is asked for to which it goes. The last steps are quick, and show which weights are zero: with 0.01
    half of the faces of the raw tables were wrong."""
    most_idle: int = 3
    """Steps in a row that may bring nothing before the working set counts as solved."""
