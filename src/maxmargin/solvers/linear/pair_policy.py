"""The sizes of pair descent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PairPolicy:
    """The sizes of pair descent. They were chosen on magic, cpu_act, a9a, ijcnn1, sector and mnist; cal_housing, w7a, covtype
    and news20_bigram were looked at afterwards."""

    sweeps: int = 10
    """How often a violator is paired before outputs are computed anew. Rows read on four sets: 2 sweeps 35, 4 sweeps 31, 10
    sweeps 30 epochs."""
    wide_sweeps: int = 1
    """The same where X has more features than samples, so that an output depends on few other samples: on sector.scale 2 sweeps
    take half the time of 10, and 1 takes 0.8 to 1.0 of the time of 2. Computing the outputs anew is a seventh of a sweep."""
    halvings: int = 10
    """Halvings of the interval that holds rho. A rough rho is enough to tell the two sides apart, and every rho gives a bound.
    Few halvings leave samples on both sides, down to the last digits of their outputs. An estimate, not measured."""
    most_read: float = 2.0
    """Rows read on a working set, as a share of all rows, before all samples are looked at, or another method is considered."""
    least_read: int = 100_000
    """Rows read, if that is more: some milliseconds."""
    aim: float = 0.3
    """Relative gap of the working set, as a share of the target: the other samples add to the gap."""
    fall: float = 1e-2
    """Relative gap of a working set, as a share of the relative gap of all samples when it was chosen, if that is more, where
    the first set comes from the mean of X: not all that matter are in a set then, so that its last digits would be lost. Whole
    fits on sector.scale with 1e-1, 3e-2, 1e-2, 3e-3: the same within 10%; with the last digits at once they take up to twice as
    long. A set that comes from a sample is a good guess: on w7a shares took 1.3 times as long."""
    leap: float = 10.0
    """How many times the last relative gap that share may be for a set to be solved to the last gap at once: a digit costs less
    than another look at all samples."""
    small_elements: int = 1 << 15
    """Elements n d up to which a problem is solved to rounding error whatever the target is, if ``least_read`` rows suffice."""
    product_elements: int = 1_000_000
    """Stored elements of X up to which the first mean is a product with all of X, which takes about a millisecond and compiles
    nothing."""
    small_spread: float = 1e-13
    """Difference of two outputs that counts as rounding, as a share of |w| |x|."""
    near_share: float = 0.1
    """The greatest share of the samples in a working set: those nearest to rho."""
    near_errors: float = 8.0
    """The share in a large set, if that is less: so many standard errors of a share on each side of rho. In m samples drawn at
    random the share of weight below rho is known to a standard error of at most 1 / (2 sqrt(m)), and their w is not that of all
    samples either. On covtype, as it is and scaled, a band of 0.042 of the samples takes 0.8 to 0.9 of the time of one of 0.1
    in ten of twelve fits; in one a sample that matters is outside, which costs a second certificate."""
    least_near: int = 500
    """Samples in a working set, if that is more. A problem with no more samples is one working set."""
    sample_every: int = 16
    """One sample out of so many is solved first, and fewer in large sets: see ``large_sample``."""
    large_sample: float = 4.0
    """The sample of a large set has (``large_sample`` n)^(2/3) rows. A row of the sample takes about as long as one of the
    band, whose size is ``near_errors`` n / sqrt(m) with m rows in the sample: their sum is least where m^(3/2) is
    ``near_errors`` n / 2, a cost model and not a measurement. From 65,000 rows on this is less than one out of 16."""
    sample_a_feature: float = 4.0
    """Samples for each feature that the first problem must have, or else it says little about w: text has fewer, and begins at
    the mean of X."""
    sample_gap: float = 3e-3
    """Relative gap of the first problem. With 1e-2 five of 36 fits on mnist, ijcnn1, a9a and w7a took 1.2 to 1.8 times as long,
    because samples that matter were not in the band, and one took 0.85 of the time; 1e-3 is no better."""
    sample_spread: float = 1e-4
    """Difference of two outputs at which the first problem ends instead, where it is small, as a share of |w| |x|. Outputs that
    differ by less then count as equal, as many are in one-hot columns: 288 fits of these need 541 certificates (529 with 1e-6),
    against 715 if the first problem ends at its gap. On magic and cpu_act 1e-4 takes 0.94 of the time of 1e-6."""
    mean_every: int = 4
    """One sample out of so many is in that mean."""
    quantile_every: int = 16
    """One output out of so many tells where the band around rho begins and ends."""
    near_elements: int = 500_000
    """Stored elements of X up to which its rows stay in the second-level cache."""
    short_row: int = 32
    """Stored elements of a row in the mean, up to which rows are copied that are read many times. On covtype (12 elements a
    row) rows one after the other take 30 ns each, and rows here and there 100 ns."""
    chunk_elements: int = 10_000_000
    """Stored elements of X between two check points."""
    rows_together: int = 64
    """Rows whose outputs are computed before those below the band are added to w: they stay in the first-level cache."""
    slow: float = 0.5
    """Share of its last gap above which the gap of a working set falls slowly, so that all samples are looked at."""
    still_iterations: int = 4
    """Looks at all samples in a row without a smaller gap that end the descent."""
    most_refusals: int = 3
    """Refused certificates after which the descent looks at all samples itself before it asks for one."""
