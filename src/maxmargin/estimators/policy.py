"""The sizes and limits of the estimators, each with its unit. Tests replace a policy as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobPolicy:
    """How the binary problems of a fit are shared among threads."""

    hear_seconds: float = 0.2
    """Seconds between two moments at which the main thread hears Ctrl-C."""
    second_share: float = 2.0
    """Seconds that a problem must be able to have in a second run, as a multiple of those of its first run, which ended at its
    share of the time. A second run repeats the first, so that with two at least half of it is new work."""
    large_value: float = 1e4
    """The greatest absolute value in X from which a fit that ends at the limit of float64 advises to standardise. The objective
    has products of two such values. An estimate, not measured."""
    short_pair: int = 512
    """Samples in the largest pair of classes up to which one thread solves all pairs. Such pairs take a millisecond each, most
    of it in Python, where threads wait for each other: with 360 samples a pair, two threads took twice as long as one."""


@dataclass(frozen=True)
class FeaturePolicy:
    """When the pairs of a kernel with a finite feature map are solved as linear problems."""

    kept_share: float = 1.0 - 2.0**-7
    """Share of tol that the linear problem is solved to. The rest is for the rounding of the features."""
    few_weights: int = 256
    """Monomials up to which their number may exceed that of the samples. A step then takes 0.2 ms, by the model of ``auto``."""
    stiff: float = 1e13
    """C k(x, x) from which monomials are used whatever their number is, up to the limit of the map. Kernel values have a
    relative error of 1e-15, and the sums of a thousand of them one of 1e-13, which is then a margin."""
    kernel_passes: float = 40.0
    """Cost of a fit by SMO, in computations of the whole kernel matrix. An estimate, not measured by itself: with it and
    ``preference`` the cost model sends the dense sets of a trial on generated data to Newton and the long sparse ones to
    SMO."""
    preference: float = 4.0
    """Times the estimated cost of SMO that Newton's method may take. SMO makes no progress on columns of very different
    scales."""
    trial_share: float = 1.0
    """Share of the estimated cost of Newton's method that SMO on a held kernel matrix may take before it, the matrix included.
    With one, a fit takes at most twice as long as by the better of the two methods, as far as the estimates hold."""
    newton_steps: int = 40
    """Newton steps with hinge loss and a free offset. Measured: 30 on generated rows with duplicates, 38 on pairs of letter, 49
    on iris."""
    ns_a_step_and_sample: float = 1.0
    """Nanoseconds of a step of SMO for each sample. Measured: 0.7 to 1.3 with 64 to 1,000 samples."""
    ns_a_step_of_one: float = 1500.0
    """Nanoseconds of a step besides, divided by the number of samples. A round has ten steps for each sample, and takes 15
    microseconds more than its steps: with 8 samples a step took 210 ns, and a trial of 6 ms by the line above took 160."""
    ns_a_feature: float = 0.1
    """Nanoseconds for one feature of one value of that matrix. Measured: 0.06 to 0.12."""
    negligible_rounding: float = 1e-9
    """Share of the objective that the rounding of w(alpha) may cost before w(alpha) is summed in long double. An estimate, not
    measured."""


@dataclass(frozen=True)
class OneClassPolicy:
    """Which samples are inside the region of a one-class machine."""

    border: float = 1e-10
    """Share of rho by which w . phi(x) of an inlier may be below rho. Samples on the border are that close, by rounding."""


@dataclass(frozen=True)
class SearchPolicy:
    """How the estimators with cross-validation search."""

    least_C: float = 1e-3
    """The first value of the list where ``Cs`` is the number of its values."""
    greatest_C: float = 1e3
    """The last value of that list."""
    coarse_factor: float = 100.0
    """The first tolerance of a fold, in multiples of ``tol``, where its neighbour proved all labels. An estimate, not
    measured."""
    coarsest: float = 1e-2
    """The greatest first tolerance of a fold: a relative gap. An estimate, not measured."""
    races_a_list: float = 3.0
    """The time that is left, over that for the list of values by which the races over a range are ordered. An estimate."""
    time_share: float = 0.7
    """Share of ``max_seconds`` that the folds may take. The rest is for the fit on all samples."""
    open_share: float = 0.2
    """Share of validation labels without a proof, by fast kernel values, above which no exact values are computed. Exact values
    took as long as the fit itself on 2,000 rows."""
    fast_digits: float = 1e-5
    """Distance from zero, in multiples of the sum of the coefficients, below which a fast decision value is computed again in
    float64."""


@dataclass(frozen=True)
class NuPolicy:
    """When a problem with nu and a linear kernel is solved as a linear one."""

    epochs_before_pair: float = 2000.0
    """Epochs of SMO before that is tried. A table of 12 rows took 2.8 s of SMO alone, and 0.1 to 0.3 s with this limit. The
    number itself is an estimate."""
    small_targets: float = 1e-3
    """Share of the sum of all variables that the targets of a regression may add up to, so that the regression without a tube
    is tried before SMO for many samples. An estimate: where it is not an answer, it has cost one regression."""
    monomials_a_sample: float = 4.0
    """Monomials of a polynomial kernel, for each sample, up to which they are searched for a machine. With 7 to 14 a search
    found nothing in 21 of 21 pairs of a raw table, with 2 it found the machines."""
    share_of_pairs: float = -0.5
    """Each pair of classes may take the number of pairs to this power of the work that a pair alone may take by its
    features: most pairs take little of theirs."""
    most_exact_numbers: int = 800_000
    """Samples times monomials of a polynomial kernel up to which sums are exact: 0.2 s a sum. Of a raw table with 291,200 the
    rounding of other sums was twice the value, and one with 652,800 takes as long either way."""
    no_margin: float = 1e-10
    """Share of the greatest |w|^2, that of all support vectors in one place, up to which the margin of a fit without a
    certificate counts as zero. On raw tables it was 1e-20 to 1e-14 with RBF and polynomial kernels."""
    steps_before_pair: int = 20
    """Steps of the solver for few samples before that, per variable. On iris, wine, breast cancer and two generated tables so
    many were enough in 37 of 60 fits; 17 of the others had no answer when the solver gave up after 1,364."""


JOBS = JobPolicy()
FEATURES = FeaturePolicy()
ONE_CLASS = OneClassPolicy()
SEARCH = SearchPolicy()
NU = NuPolicy()
