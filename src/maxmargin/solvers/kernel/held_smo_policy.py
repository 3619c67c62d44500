"""The constants of ``held_smo.py``, each with its unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HeldSMOPolicy:
    """How far SMO and least squares go where the whole kernel matrix is held."""

    first_violation: float = 1e-3
    """Violation, as a difference of margins, at which SMO ends in the first round."""
    greatest_violation: float = 1e-2
    """The same where the problem is not easy, at first. SMO goes on to the violation at which it expects the gap to be small
    enough, if that is not less than ``first_violation``. On nine raw tables 3e-2 takes 0.86 of the seconds of 1e-2, but on
    scaled rows its certificate can be refused, and a first fit then compiles one more function, which takes a second."""
    gap_a_violation: float = 3.0
    """The gap to expect, in multiples of the violation times C. Measured on the pairs of five tables with C = 1 and 1000, at
    violations of 1e-2 and 1e-3: medians of 0.01 to 4 in nine of ten cases, and 17 in the tenth."""
    next_violation: float = 1.0 / 30.0
    """The least factor on that violation in every round after the first."""
    share_of_goal: float = 0.5
    """Share of the target that the gap is to fall to in the next round, if a greater violation than that is enough."""
    steps_a_sample: int = 240
    """SMO steps in a round, per sample, after which SMO is slow. Milliseconds with 30, 60, 120 and 240: breast_cancer with
    C = 1e4 18, 10, 10, 10; seven classes of 1,155 samples and C = 1000 259, 208, 153, 153; make_moons with 240 samples and
    C = 1e4 25, 23, 9, 10, with 800 samples 67, 84, 84, 84. Of 30 fits of raw and generated tables, C = 1e3 and 1e4, 120 was
    slower than 30 by over a tenth in three, and faster by over a tenth in seventeen. On twelve tables of 500 rows in seven
    classes, as they come and scaled, all fits with C = 1000 took 2.95 s with 240 and 3.13 s with 120."""
    settled: float = 1e-11
    """Relative gap at which an easy problem counts as solved to rounding error, where its free variables have their optimum. On
    rows that hardly resemble each other no variable is free, and 1e-12 was left, for which active-set Newton took as long as
    all else."""
    most_rounds: int = 4
    """Rounds before the solver for many samples takes over."""
    most_idle: int = 4
    """Rounds without a step of SMO after which the solver gives up. Each asks for a smaller violation than the one before, so
    that four of them show that rounding stops SMO."""
    most_systems: int = 200
    """Limit on the linear systems if the solution of the first one is outside the box."""
    low_rank: float = 1.0 / 3.0
    """Columns of a factor of the kernel matrix, for each sample, up to which Newton's method on them is the first to be tried
    where SMO is slow. On make_moons with 1,000 samples and C = 1e4 (157 columns) both take 43 ms, where active-set Newton took
    800. A factor of 333 columns takes 11."""
    few_columns: int = 192
    """The same, whatever the number of samples is: such a factor takes 2 ms for 300 samples."""
    climbing_round: int = 3
    """The first round in which active-set Newton takes over where the solution of the first system is outside the box. Before
    that, more steps of SMO mostly lead to a face that holds the solution, and cost less. Where SMO has made all the steps of a
    round, active-set Newton takes over at once."""
    almost: float = 10.0
    """Gap after a slow first round, in multiples of the target, up to which SMO has a second round before another method takes
    over. On pairs of 143 raw rows with C = 1000 (polynomial kernel) a round takes 3 ms, and the other methods 9 to 22."""
    sure_face: float = 4.0
    """Near samples, for each free one, up to which a short run of active-set Newton is tried first where SMO is slow and the
    samples are few: there it needs few systems. Where it ends, it takes a fifth of the time of Newton's method (make_moons with
    240 samples, C = 1000: 4 ms, not 25). With ten near samples for each free one it did not end in 32 systems."""
    systems_of_a_try: int = 16
    """Limit on the linear systems of that run. With 8 half of the runs that end in 16 did not."""
    climbs: bool = True
    """Whether active-set Newton may take over at all. Not where another method is waiting."""
    near: float = 0.05
    """A sample is near when its margin is within this of one, or within the violation. The near ones take part in those
    systems."""
    few_samples: int = 256
    """Problems with at most this many samples are solved to rounding error, whatever ``tol`` is, if they are easy: that costs
    little, and equal problems get equal answers."""
    easy_steps: int = 10
    """SMO steps a sample up to which a problem is easy: to ``first_violation``, and then to rounding error. For 200 samples
    they take 0.4 ms, about what a pair of classes takes besides. On pairs of 140 to 200 raw rows with C = 1000, which take 30
    to 220 steps a sample, rounding error takes as long again as ``tol`` = 1e-3. On two flags beside a number, 700 rows, seven
    classes, C = 1, it took five times as long."""
    insists: bool = True
    """Whether SMO goes on where such a problem is within ``tol``, but least squares have not led to rounding error. Not where
    another method is waiting: on collinear columns SMO then took three times as long."""
    most_free: int = 128
    """Free variables up to which compiled code solves their system. LAPACK is faster with more."""
    noise: float = 4.0
    """Units in the last place by which a margin may be wrong. A gap that such errors can explain counts as rounding error."""
    stationary_share: float = 0.95
    """Share of tol that is the violation at which SMO ends where the kernel is not positive semidefinite. The certificate
    computes the violation again, with other rounding errors."""
    safety: float = 0.5
    """The solver's own gap must fall to this share of the target, because the certificate adds its rounding error."""

    def most_columns(self, n: int) -> int:
        """Columns up to which the rank of the kernel matrix of n samples is low."""
        return min(n, max(self.few_columns, int(self.low_rank * n)))
