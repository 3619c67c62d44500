"""When the driver asks for a certificate, how long it lets a solver work, and when it gives up."""

from __future__ import annotations

from dataclasses import dataclass, field

from maxmargin.solvers.patience import StallRule


@dataclass(frozen=True)
class DrivingPolicy:
    """The settings of the driver. Work is counted in stored elements of X, so that no decision depends on the clock; the two
    fields in nanoseconds only plan the last certificate before a deadline."""

    chunk_elements: float = 10_000_000
    """Elements that one call of ``advance`` may touch, so that Ctrl-C is heard: 0.05 s on mnist, 0.25 s on covtype, whose short
    rows miss the caches."""
    certificate_epochs: float = 24
    """Epochs between two certificates. One costs at most about an epoch, mostly a third, so they stay well under a tenth of the
    time."""
    certificate_growth: float = 0.5
    """Steps between two certificates, as a share of the steps so far. The greater of this and ``certificate_epochs`` counts."""
    certificate_elements: float = 4_000_000
    """Elements of work between two certificates, if that is more: on small problems the fixed cost of a certificate counts."""
    step_elements: float = 8.0
    """Elements that a step on a linear problem costs besides those of its row."""
    sweep_elements: float = 10_000
    """Elements that a sweep over the samples costs besides its steps: 50 microseconds of Python. Without it a limit on seconds
    was heard after 15 s on a problem with seven samples."""
    kernel_step_elements: float = 256.0
    """Elements that a step on a kernel problem costs: it is made on a block of a thousand rows, but in a cache."""
    certificate_element_ns: float = 30.0
    """Nanoseconds that a linear certificate takes for each element, at most: 5 on mnist, 15 to 30 on news20_bigram, whose w is
    long. The driver leaves that much time before a deadline until it has measured a certificate."""
    kernel_value_ns: float = 3.0
    """Nanoseconds on one core for a kernel value of a certificate: an estimate, not measured."""
    kernel_element_ns: float = 0.1
    """Further nanoseconds for each element of a sample: an estimate, not measured."""
    certificate_share: float = 0.3
    """Share of the time until the deadline that is set aside for a certificate before one was measured, at most."""
    stall_epochs: float = 100_000
    """Epochs before which a solve is not judged by its progress. Dual coordinate descent needs 50,000 epochs on some of the
    forty-row problems of the tests."""
    stall_elements: float = 10_000_000_000
    """Elements of work before which a solve is not judged by its progress, if that comes first: some ten seconds."""
    stall: StallRule = field(default_factory=StallRule)
    """The rule by which a solve has stalled, after those epochs or elements."""
    still_certificates: int = 32
    """Certificates in a row without a step between them, after which the solve ends."""
    stretch: float = 0.125
    """Share of tol by which the least margin of a kernel machine may fall short of one, for alpha to be stretched until none
    does. The objective grows by twice that share of tol."""
    tie: float = 1e-12
    """Relative difference of two primal values that counts as none."""

    def elements_a_step(self, n_stored: int, n_samples: int) -> float:
        """Stored elements that a step on a linear problem touches, and what it costs besides, in elements."""
        return (n_stored + self.sweep_elements) / n_samples + self.step_elements


@dataclass(frozen=True)
class SmallerCostPolicy:
    """When two classes with the hinge loss are solved with a smaller C, whose answer may be that of C itself."""

    shares: tuple[float, ...] = (1e-2, 1e-4, 1e-6)
    """Shares of C, in turn. On a generated table of 60 columns and 500 rows, seven classes and C = 1e6, 4, 5 and 11 of the 20
    pairs that were refused before were certified by the first, second and third."""
    most_wrong: float = 0.1
    """Share of the samples that the refused w may have on the wrong side. On five generated tables it was at most 0.06 where
    the classes can be separated, and at least 0.16 elsewhere."""


@dataclass(frozen=True)
class BatchPolicy:
    """Which pairs of classes are solved many in one compiled call, and how many."""

    most_samples: int = 512
    """Samples of the largest pair. Such a pair takes a millisecond at most, and the Python around a pair takes 0.14 ms."""
    fewest_pairs: int = 190
    """Pairs from which on there is such a call: those of twenty classes. It saves 0.11 ms a pair, and adds to what the first
    fit of a process compiles: digits took 6.7 s with it and 3.0 s without it on the same day."""
    sample_steps_a_call: float = 2e8
    """Steps of SMO times samples that the pairs of one call can take at most, so that a limit is heard in between: 0.2 s by 0.8
    to 1.3 ns for a step and sample, measured with 64 to 1,000 samples. Most pairs take a hundredth of their most steps."""


@dataclass(frozen=True)
class RunPolicy:
    """Which pairs of few classes are solved from one kernel matrix of all samples."""

    saved_ns_a_pair: float = 150_000.0
    """Nanoseconds that this saves for a pair. Measured with seven classes of 71 samples: 190,000."""
    ns_a_value: float = 1.0
    """Nanoseconds for a value of that matrix, beside those of its features. Measured: 1 to 1.5."""
    ns_a_feature: float = 0.05
    """Nanoseconds for a feature of a value. A value serves for its mirror image, too."""


DEFAULT = DrivingPolicy()
SMALLER_COST = SmallerCostPolicy()
BATCH = BatchPolicy()
RUN = RunPolicy()
