"""The numbers that tune ``maxmargin.solvers.kernel.auto``."""

from __future__ import annotations

from dataclasses import dataclass, field

from maxmargin.solvers.kernel.held_smo_policy import HeldSMOPolicy


@dataclass(frozen=True)
class KernelAutoPolicy:
    """When ``KernelAuto`` changes from one method to another."""

    merge_saving: float = 0.05
    """The share of samples that must be equal to others for merging them to be worth a copy of X."""
    row_share: float = 0.6
    """The share of the budget for kernel values that rows may take. The rest is for the block of least squares and its
    factor."""
    small_gap: float = 1e-3
    """The relative gap above which least squares are too early, unless they cost little."""
    early_gap: float = 1e-2
    """The relative gap above which least squares are too early even for ``early_near`` samples."""
    early_near: int = 256
    """Samples near the margin for which least squares take as long as a working set."""
    near: float = 0.05
    """A sample is near when its margin is within this of one, or within the violation."""
    near_the_tube: float = 0.1
    """In regression: within this many half-widths of the tube of its edge, if that is less. With epsilon = 0.1 and C = 100
    half of cpu_act lay within 0.05 of an edge, which was too many for least squares."""
    few_near: int = 1000
    """Samples near the margin, besides ``near_a_free`` for each free one, up to which least squares are worth it."""
    near_a_free: float = 2.0
    """Samples near the margin, for each free one, up to which least squares are worth it."""
    block_room: float = 0.9
    """The free variables may take this share of the block of least squares. The rest is for samples near the margin."""
    enough: float = 0.1
    """Least squares paid off if the gap fell to this share. If not, SMO must reduce the gap to this share before the next
    try."""
    most_systems: int = 200
    """The most linear systems of a run of least squares."""
    few_samples: int = 256
    """Problems with at most this many samples are solved to rounding error, whatever ``tol`` is: that costs next to nothing,
    and equal problems get equal answers."""
    many_epochs: int = 50
    """Steps of SMO for each sample after which least squares are tried on such a problem, however large the gap is."""
    ns_a_step_and_sample: float = 1.0
    """Nanoseconds of a step of SMO for each sample of its working set. An estimate, not measured."""
    ns_a_flop: float = 0.15
    """Nanoseconds of a multiplication of Newton's method and of the factorisation. An estimate, not measured."""
    ns_a_value: float = 1.0
    """Nanoseconds of a kernel value of SMO. Measured: 0.5 with 8 features, 1.0 with 33."""
    ns_a_pair: float = 100.0
    """Nanoseconds of least squares for each pair of samples near the margin. Measured in regression: 74 to 134."""
    ns_a_pair_of_classes: float = 15.0
    """The same with classes, and without computing the value of the pair: half of the values are computed, in float64, which
    takes as long as all of them in float32. Measured with the values, on one core, 400 to 2,400 samples: 15 to 20 with 20
    features, 29 to 35 with 500 features."""
    ns_a_value_read: float = 0.75
    """Nanoseconds for each kernel value that SMO reads from a held matrix. Measured: 0.4 to 1.2."""
    exact_outputs: int = 16
    """Samples near the margin whose exact outputs tell how wrong float32 values are."""
    sure_of_pace: float = 0.75
    """SMO goes on where the estimate of its time is at most this share of that of least squares. Its pace may fall, and least
    squares end at rounding error."""
    least_target_of_smo: float = 1e-7
    """The least relative gap for which SMO may go on instead of least squares: below it float32 values take several
    certificates."""
    ns_a_pair_of_all: float = 1250.0
    """Nanoseconds of least squares with all samples for each pair of them, where SMO is slow: 5 s with 2,000 samples, RBF and
    C = 1e6, from the point that SMO had found in half a second. SMO itself did not get there in a minute."""
    most_columns: int = 1000
    """The most columns of a factor of the kernel matrix."""
    newton_steps: int = 40
    """The steps that Newton's method is taken to need with a factor."""
    held: HeldSMOPolicy = field(default_factory=HeldSMOPolicy)
    trial: HeldSMOPolicy = field(
        default_factory=lambda: HeldSMOPolicy(climbs=False, insists=False, steps_a_sample=10, most_rounds=1 << 20)
    )
    """The same where another method is waiting. The limit of the trial ends it, not a number of rounds. Rounds are short: each
    looks whether the gap is small enough, which takes less than a tenth of its steps."""
