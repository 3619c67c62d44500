"""The sizes and limits of fits by passes, each with its unit. Tests replace a policy as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockPolicy:
    """How rows are kept on a disk."""

    block_bytes: int = 1 << 24
    """Approximate size of a block in bytes. 16 MB are read in about 10 ms, and two blocks are in memory at a time."""
    blocks_a_budget: int = 50
    """Blocks that a budget of memory would hold, at least, where blocks are written for one fit. Fits with many features mix
    the rows of many blocks, and a tenth to a half of the budget is for them."""
    least_bytes: int = 1 << 14
    """The least size in bytes of blocks that are written for one fit. A smaller budget is too little for any fit, which the fit
    says; blocks of a row each would be written for minutes before."""
    most_classes: int = 10_000
    """Distinct labels up to which they are listed. Beyond that they are the targets of a regression."""


@dataclass(frozen=True)
class PassPolicy:
    """How a fit by passes chooses its methods, and when it ends."""

    narrow_weights: int = 2000
    """Weights up to which Newton's method is used. Its matrix has one row for each weight."""
    most_passes: int = 500
    """Passes after which a fit ends, certified or not."""
    certificate_share: float = 0.7
    """Share of the target that the solver's own gap must reach before a certificate is computed."""
    judged_share: float = 0.01
    """Share of the gap at the last certificate at which coordinate descent asks for another one, for the trace. An estimate."""
    judged_passes: int = 20
    """Passes after which it asks for one in any case."""
    nearly_done: float = 10.0
    """Multiple of the target below which it asks for the last one only. A look follows every round then, and judges."""
    line_points: int = 6
    """Step lengths that one pass of a line search tries. Each takes 3 ns per sample, as much as two stored elements of its
    row. Nearly all roots are within the first six."""
    line_passes: int = 8
    """Passes of a line search. Nearly all take one. Two more reach lengths of 1e-43, which unscaled columns can ask for, and
    two or three bring the ends of a wide bracket together."""
    shorter: float = 0.45
    """The ratio of one length of the first such pass to the next longer one. At w = 0 no sample may be free, and the first
    step is then a gradient, far too long."""
    grid_shares: int = 12
    """Points between two w that a look for a better primal point tries."""
    light_weights: int = 200
    """Weights up to which the matrix comes with every answer. Beyond, partitions in memory send it only when a direction is
    computed: with 785 weights it is 2.5 MB, and 10 ms."""
    near_reach: float = 4.0
    """A sample is near a kink if its residual is within this many times 1 / penalty of it. The free ones are within one."""
    near_share: float = 0.25
    """Share of the samples of a partition up to which those near a kink are copied and visited alone."""
    nearly_full: float = 0.9
    """If a step was at least this long, the next step is tried in full, without a line search."""
    good_slope: float = 0.5
    """A full step is accepted if the slope at its end, with the other sign, is at most this share of the slope at its
    beginning."""
    sweeps_a_visit: int = 2
    """Sweeps of coordinate descent on a partition at each visit. Where few rows can still move, more sweeps over these are as
    much work. On 0.3 GB made from news20_bigram, C = 1, to 1e-3, fits with 1, 2, 3 and 5 took 13, 8, 7 and 9 passes with
    squared hinge, and 21, 13, 12 and 18 with hinge loss; 2 took the least time."""
    told_share: float = 0.5
    """Share of the target that the gap must be expected to reach before a look. On 2 GB made from news20_bigram, C = 1, the
    gaps at looks were 0.7 to 2.5 times the expected ones."""
    told_rounds: int = 8
    """Rounds without a look, at least, where the visits of the rounds tell the gap. A look is as dear as a round."""
    sweeps_side_by_side: int = 2
    """Sweeps of a visit where all partitions descend from one w at the same time."""
    first_rounds: int = 1
    """Rounds of coordinate descent that give Newton's method its first alpha, where the loss is piecewise linear, the weights
    are more than ``light_weights`` and the rows too few for a guess. From w = 0 all samples are free at first: on mnist (8
    against the rest, C = 1) about 120,000 outer products are then added, after one round 45,000, after two to ten rounds
    48,000 to 100,000 (in part inferred from times)."""
    most_sweeps: int = 100
    """The same where all samples that can move are in one hand: it is solved to the end."""
    multiples: int = 12
    """Multiples of w above one that a look for a better primal point tries."""
    lower_multiples: int = 4
    """Below one, every so many of these are tried."""
    finest_multiple: float = 1e-6
    """The least difference of such a multiple from one. Beyond a relative gap of about 1e-6 multiples gain nothing."""
    far: float = 5.0
    """A sample at a bound is left out of hands when it is farther from a kink than this many times the root-mean-square
    violation of the samples that can move. On 2 GB made from news20_bigram, C = 1, to 1e-3, fits with 3, 5 and 10 took 8.5,
    8.9 and 11.5 s with squared hinge, and 14.3, 15.4 and 14.5 s with hinge loss, beside other work."""
    near: float = 3.0
    """The same where this brings all samples that can move into one hand."""
    kept_share: float = 0.25
    """Share k of a hand for the samples that are most wrong: they stay for the next hand, so that a round is 1 / (1 - k) times
    the work. On 0.3 GB made from news20_bigram, C = 1, to 1e-3, fits with 0, 0.25 and 0.5 took 8 passes with squared hinge,
    and 15, 13 and 12 with hinge loss; 0.25 took the least time."""
    fast_share: float = 0.5
    """A round of coordinate descent that leaves more than this share of the gap counts as slow."""
    remainder_gap: float = 1e-3
    """Relative gap from which the rows near a kink are tried in memory. On covtype with 4% of the rows in memory they settle
    the fit from about 1e-4 on."""
    remainder_share: float = 0.3
    """Share of the target to which the problem of the rows in memory is solved. The rest is for rows that were not settled."""
    sample_tol: float = 1e-4
    """Relative gap to which the problem of a random sample of rows is solved. The solution for 3% of the rows differs from the
    solution for all rows by more than that."""
    first_tol: float = 1e-2
    """Relative gap to which partitions with many features solve their own samples in the first round, where they work side by
    side. On news20_bigram in two partitions 0.1, 0.01 and 0.001 lead to 7 to 14 rounds in all; 0.01 took the least work in two
    of four cells, 0.1 in the others."""
    guess_share: float = 0.1
    """Share of all rows that the samples of the partitions take, where rows do not leave their workers."""
    guess_rows: int = 20
    """Rows for each weight that the sample of a partition has, at least. With fewer the guess says little."""
    guess_tol: float = 1e-3
    """Relative gap to which these samples are solved."""
    idle_passes: int = 60
    """Passes in a row, none of which lowered the gap to ``idle_share`` of the least so far, that end a fit."""
    last_passes: float = 5.0
    """Passes for which there must be time left, or the fit ends with a certificate. A Newton step takes up to four, and the
    certificate one more."""
    checkpoint_seconds: float = 5.0
    """Seconds between two times that a checkpoint is written."""
    idle_share: float = 0.9
    """See ``idle_passes``."""


@dataclass(frozen=True)
class MemoryShares:
    """How a budget of memory is spent."""

    rows: float = 0.4
    """Share of the free memory for rows that are kept: first a random sample, later the rows near a kink. While they are
    concatenated they are in memory twice, and the solver's copies take as much again."""
    hands: float = 0.8
    """The same for rows that coordinate descent visits together. They are in memory once."""
    sample: float = 0.2
    """The same for the sample that the first weights come from."""
    narrow_sample_bytes: int = 18
    """Bytes that a fit with few features keeps for each sample: alpha, its anchor, whether it is free, and one to spare."""
    wide_sample_bytes: int = 40
    """The same with many features: alpha and two margins; in float32 its distance from a kink, its gap term and its norm; and
    half of a number to spare."""
    vectors: int = 6
    """Vectors as long as w that a fit with many features holds: w(alpha), the best w and the certified one, the certificate's
    vectors, and those that arithmetic takes. On 2 GB made from news20_bigram, with a budget of 201 MB, fits with 9 in place of
    this number used 131 to 145 MB: about five vectors."""


@dataclass(frozen=True)
class WorkerPolicy:
    """How a client speaks with the workers of a Dask cluster."""

    portion_bytes: int = 1 << 26
    """About how many bytes of rows a message has at most, where a client collects all rows. While it is copied to its place it
    is in memory twice. A message takes about 7 ms besides its bytes: 128 MB from two workers took 0.08 s in portions of 64 MB,
    0.10 s in portions of 32 MB, 0.14 s in portions of 16 MB, and 0.3 s in portions of 2 MB."""
    greeting_seconds: float = 2.0
    """How long a worker may take to answer a first direct message. After that, all messages go by way of the scheduler."""


@dataclass(frozen=True)
class CollectingPolicy:
    """What rounds and messages cost, for the choice whether a client collects all rows. Measured on two cores with two workers:
    a9a, covtype.binary.scale and mnist, to 1e-6."""

    rounds: float = 100.0
    """Rounds of Newton's method with a piecewise linear loss: 24 to 240 were counted."""
    smooth_rounds: float = 30.0
    """Rounds with a smooth loss: 6 to 52 were counted. The first of them are dear, as they make the matrix from nothing."""
    round_seconds: float = 3e-3
    """Seconds of a round with little work."""
    bytes_a_second: float = 5e8
    """Bytes of a round's matrices that are packed, sent and added in a second: two of 2.5 MB take 10 ms."""
    collected_a_second: float = 4e8
    """Bytes of rows that are sent and put together in a second. On one machine 128 MB take 0.08 s, and 0.2 to 0.4 s where the
    client uses memory for the first time; with 10 Gbit/s the message alone takes 0.1 s."""
    passes: float = 16.0
    """Passes over all rows that are as much work as a fit: 6 to 28 in memory."""
    seconds_a_byte: float = 6e-10
    """Seconds of one core for a byte of rows in a pass: 6 ns for a stored element."""


BLOCKS = BlockPolicy()
PASSES = PassPolicy()
SHARES = MemoryShares()
WORKERS = WorkerPolicy()
COLLECTING = CollectingPolicy()
