"""The sizes and limits of the certificate, each with its unit. Tests replace a policy as a whole.

No number here decides whether a certificate holds. They decide how much work is done at a time, and when a sharper bound is
worth its price. Numbers that belong to a proof (unit roundoff, counts of roundings, errors of a series) stand beside the proof.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LinearJudgePolicy:
    """How the gap of a linear problem is summed."""

    rows_a_block: int = 1 << 13
    """Rows that a pass takes at a time, so that their outputs stay in the caches. With classes a certificate of a9a takes 1.6
    ms with 2^13 rows and 2.5 ms with 2^15, whose temporary arrays are new pages of memory each time."""
    rows_of_residuals: int = 1 << 15
    """The same in regression, whose pass makes no temporary arrays. A certificate of cal_housing, a9a and covtype takes 0.35,
    0.73 and 11.5 ms with 2^13 rows, 0.31, 0.66 and 10.8 ms with 2^14, 0.28, 0.61 and 10.9 ms with 2^15."""
    short_row: int = 64
    """Stored elements of a row in the mean, up to which ``LANES`` rows of one class are judged together, and not
    ``LONG_ROWS_A_COLUMN``. Certificates of cal_housing, magic, cpu_act, a9a, ijcnn1 and covtype, with 8 to 21 elements a row,
    take 0.87 to 0.95 of the time, of 50 elements 0.97; of mnist, with 150, they would take 1.15."""
    many_rows: int = 1 << 13
    """Rows from which margins are judged by a compiled pass, too: of 32,768 margins it takes 0.17 ms, NumPy 1 ms. With fewer
    rows a certificate takes well below a millisecond, and compiling would take longer than it saves."""
    precise_share: float = 0.1
    """Share of the gap that the bound on rounding must exceed for the second, precise pass. That pass costs about three of the
    first."""
    precise_scale: float = 1e-11
    """Share of the objective that the bound on rounding must exceed for the precise pass. An estimate, not measured."""
    exact_elements: int = 1 << 18
    """Elements of X, zeros counted, up to which residuals are computed exactly where nothing else is enough. 300,000 elements
    take 65 ms, 1,000 take 0.3 ms."""
    lost_share: float = 0.1
    """With an L1 penalty alpha is scaled down by what rounding might hide of the sums v. The share of alpha that this takes, as
    a share of the relative gap, from which the precise pass is made: on covtype at C = 1e4 it was all of a gap of 0.15."""


@dataclass(frozen=True)
class WeightBoundsPolicy:
    """When single weights are bounded, and how often."""

    wide_scale: float = 1e-12
    """Share of the objective that the last digits of alpha may cost in a column before its weight is bounded. An estimate, not
    measured."""
    share: float = 0.1
    """Share of the gap that these columns must have."""
    most_elements: int = 1 << 22
    """Elements of X, zeros counted, up to which weights are bounded: it takes dense copies of X, 32 MB each."""
    elements_a_block: int = 1 << 18
    """Elements of the dual points that are tested together: 2 MB, so that the temporary arrays of their gap terms are no new
    pages of memory. An estimate, not measured."""
    most_weights: int = 1024
    """Weights up to which they are bounded: it takes a factorisation."""
    ridge: float = 2.0**-36
    """What is added to the diagonal of G, scaled to one: it keeps the factorisation positive where columns depend on each
    other."""
    most_centring: float = 0.9
    """Share of the room that is used to bring the v of alpha / 2 to zero. An estimate, not measured."""
    most_columns: int = 12
    """Columns, those that cost most first, whose weights are bounded: four passes over X for each. An estimate, not
    measured."""
    most_rounds: int = 40
    """How often all intervals are made shorter with the help of the others. With a free intercept the second round ends far
    below the first, and the third hardly changes anything; with a penalised one a round may gain one digit."""
    shrinking: float = 0.5
    """Share of its length to which a round must shorten some interval for another round."""


@dataclass(frozen=True)
class KernelJudgePolicy:
    """How the gap of a kernel problem is summed."""

    vectors_a_tile: int = 512
    """Support vectors in a tile of kernel values. An estimate, not measured."""
    samples_a_tile: int = 256
    """Samples in a tile of kernel values: with 512 vectors a tile takes 1 MB. An estimate, not measured."""
    vectors_a_part: int = 256
    """The same where many models are judged together. Models without any of these vectors are left out, so that fewer are
    better: 512 took 1.16 times as long on banana, and 1.03 times on ijcnn1; 128 took as long as 256."""
    samples_of_many: int = 1024
    """Samples in such a tile. 256 took 1.09 times as long on ijcnn1, 1.06 on banana and 1.03 on usps."""
    samples_a_task: int = 1024
    """Samples in a task of a thread. A task is some milliseconds of work, so that all cores end together and Ctrl-C is
    heard."""
    values_a_task: int = 1 << 21
    """Kernel values that a task of compiled code makes, where that is fewer samples: 2 to 20 ms, whatever the number of support
    vectors. With 20,000 of them 1,024 samples took 0.2 s, and eight tasks come between two check points."""
    strips_a_turn: int = 16
    """Strips of tiles whose sums are held at a time before they are added up."""
    evaluations_to_prepare: int = 1 << 24
    """Kernel values from which it pays to look for equal rows, and for zeros in a dense X. An estimate, not measured."""
    most_distinct: float = 0.9
    """Share of distinct rows up to which equal rows are counted once."""
    most_nonzero: float = 0.3
    """Share of nonzero elements up to which a large dense X is made sparse."""
    few_elements: int = 1 << 19
    """Elements, zeros counted, up to which a sparse X is judged as a dense one. The loops for a sparse X take 1.5 s to compile,
    and save milliseconds."""
    few_features: int = 60
    """Features up to which the sums over a dense X are made by compiled code, and not from tiles of matrix products. Measured
    on 4,000 samples with 1,600 support vectors, ms: 8 features 7 and 26, 30 features 13 and 32, 54 features 23 and 38. With
    3,600: 10 and 36, 21 and 45, 32 and 39."""
    symmetric_share: float = 0.25
    """Share of the samples that must be support vectors for the values among them to be computed once, for both of their
    sides. With fewer, the copy of the other samples costs what it saves. Measured with 40%: one eighth is saved; with 90% a
    third. The share itself is an estimate."""
    values_to_halve: int = 1 << 22
    """Values among the support vectors up to which they are computed twice: the loop takes half a second to compile, and saves
    milliseconds."""
    long_rows: int = 64
    """Samples that are judged in long double between two check points."""
    negligible: float = 0.1
    """Share of a tolerance that the samples whose outputs are not made again may use up by rounding."""


@dataclass(frozen=True)
class PredictionProofPolicy:
    """How the bounds on predictions, and on the intercept, are computed."""

    elements_a_block: int = 1 << 20
    """Stored elements in a copy of some rows: 8 MB, which the next block uses again. Copies of whole matrices are new pages
    each time, and took ten times as long on a first call."""
    sharpness: float = 0.01
    """Share of its distance from b to which an end of the interval of the intercept is enclosed."""
    most_doublings: int = 200
    """Doublings of a distance before it counts as infinite."""
    most_halvings: int = 60
    """Halvings of an interval: more than float64 has digits."""


@dataclass(frozen=True)
class InterceptPolicy:
    """How the bound on the intercept of a linear fit is computed."""

    few_elements: int = 1 << 18
    """Elements of a dense X, zeros counted, up to which NumPy computes its lengths: the compiled loop saves less than a
    millisecond there, and takes 0.1 s to compile. An estimate, not measured."""


@dataclass(frozen=True)
class EllipsoidPolicy:
    """How much work an ellipsoid may take."""

    most_weights: int = 4096
    """Weights up to which there is an ellipsoid: its matrix takes 134 MB there."""
    elements_a_block: int = 1 << 22
    """Elements of a dense copy of some rows: 32 MB. An estimate, not measured."""
    kink_rounds: int = 5
    """How often an ellipsoid's bound on the margins makes the next one smaller, where the loss has a kink."""
    smooth_rounds: int = 2
    """The same for a smooth loss."""


@dataclass(frozen=True)
class ZeroPolicy:
    """How much work the question takes whether w = 0 is optimal."""

    most_columns: int = 1024
    """Columns up to which a point with w = 0 is looked for, by a singular value decomposition. An estimate, not measured."""
    rows_together: int = 1024
    """Rows of the matrix of a polynomial kernel that are in memory at once. An estimate, not measured."""


@dataclass(frozen=True)
class HardJudgePolicy:
    """How an answer without slack is judged."""

    times_greatest_alpha: float = 2.0
    """The C of the judged problem, in multiples of the greatest alpha. Any value above one gives a proof. Two keeps every alpha
    away from the end of its box."""
    most_scalings: int = 12
    """How often w is made longer until rounding leaves no margin below one: once or twice where the columns are of one size."""
    scaling_growth: float = 8.0
    """What the relative excess of a step is multiplied by after each: the last one is 2^-19, a relative gap of 4e-6. Beside
    columns of 1e5 with means of 1e6 the rounding of a margin is 2^-40."""


@dataclass(frozen=True)
class ClassesJudgePolicy:
    """How the gap of Crammer and Singer's machine is summed."""

    outputs_a_block: int = 1 << 15
    """Outputs, samples times classes, that are taken at a time: 256 kB, so that their temporary arrays are no new pages of
    memory. A certificate of letter takes 5 ms so, and 9 ms with all samples at once."""


@dataclass(frozen=True)
class EvenJudgePolicy:
    """How many small problems are judged together."""

    many_problems: int = 190
    """Problems from which on one compiled call finds all bounds on offsets. It takes 0.3 s to compile, and saves 4 microseconds
    a problem."""


LINEAR = LinearJudgePolicy()
WEIGHTS = WeightBoundsPolicy()
KERNEL = KernelJudgePolicy()
PREDICTIONS = PredictionProofPolicy()
INTERCEPT = InterceptPolicy()
ELLIPSOID = EllipsoidPolicy()
ZERO = ZeroPolicy()
HARD_MARGIN = HardJudgePolicy()
CLASSES = ClassesJudgePolicy()
EVEN = EvenJudgePolicy()
