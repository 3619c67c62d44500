"""The settings of Newton's method on the proximal dual of Crammer and Singer's machine: see ``class_newton``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.problem.crammer_singer import CrammerSingerProblem


@dataclass(frozen=True)
class ClassNewtonPolicy:
    """When Newton's method takes over, and how exactly it solves each system."""

    sweeps: int = 25
    """Sweeps of the dual descent before. On usps 40 instead of 10 saved a quarter of the time, 150 nothing more."""
    sweeps_of_assembled: int = 4
    """The same where the whole Hessian may be factored, and the samples are too few to start from a part of them."""
    sweeps_of_few: int = 500
    """The same for problems that the dual descent solves to rounding: most are done by then. Where columns have different
    scales, 50,000 sweeps were not enough: wine at C = 1, iris at C = 1000."""
    part_share: float = 4.0
    """Samples of the part from whose W Newton's method starts, a weight. On letter 2, 4 and 6 cost equally much, and two parts,
    one greater than the other, no less."""
    least_parts: float = 4.0
    """How many such parts there must be. Else a few sweeps of the dual descent come before."""
    part_sigma: float = 3.0
    """The sigma of that start, as a multiple of what ``first_sigma`` gives. On letter 3 took nine Newton steps to 1e-3, 1 ten.
    There were eleven after four sweeps, which cost as much as five Newton steps."""
    part_inner_share: float = 1.0
    """The ``inner_share`` of that start."""
    most_weights: int = 10_000
    """Features times classes up to which it is tried: more were not measured."""
    dense_share: float = 0.3
    """Share of stored elements from which X is kept dense for it."""
    dense_share_at_work: float = 0.1
    """The same for the samples at work, which are fewer."""
    growth: float = 1.3
    """What multiplies sigma after a proximal step. With 3 the next one took twenty Newton steps on mnist, with 1.3 three: usps
    4.9 and 2.8 s to 1e-6. mnist took 91 s with 1.3; with 3 it was cut off after 78 s, far from done."""
    growth_of_assembled: float = 2.5
    """The same where the whole Hessian may be factored, and Newton steps are cheap. On letter 2.5 and 3 take equally long."""
    first_sigma: float = 30.0
    """The first sigma times the mean of |x_i|^2, at most. It is at most the mean of C too: slacks are near one, b at most C."""
    inner_share: float = 0.5
    """A proximal step is done where half the squared gradient is at most this share of what the step cost. With 0.5, and
    ``cg_share`` 0.3, mnist took 20 s to 1e-3, with 0.1 and 0.1 45 s; usps 1.8 and 2.1 s."""
    target_share: float = 0.5
    """The same of the requested gap, times ``inner_share``, where that is greater."""
    most_inner: int = 30
    """Newton steps after which a proximal step ends anyway, with the same sigma for the next."""
    cg_share: float = 0.3
    """Share of its first residual to which conjugate gradients solve a Newton system."""
    least_cg: int = 10
    """Iterations expected of the next system, at least, where its cost is compared with that of a factor."""
    most_cg: int = 100
    """Iterations of conjugate gradients for one Newton system."""
    most_block: int = 1000
    """Features up to which the preconditioner has a block for each class, and not the diagonal alone."""
    block_work: float = 1.0
    """New blocks are made when the iterations beyond those that new blocks took have cost this share of making them."""
    most_single_bytes: int = 2**30
    """Size of X, dense and in float32, up to which conjugate gradients work with it: on mnist 188 MB."""
    most_assembled: int = 1000
    """Features times classes up to which a Newton system may be solved by a Cholesky factor of the whole Hessian."""
    reach: float = 1.5
    """A sample with all of C_i on one class, or none, is left out while the change of outputs that would free another class is
    greater than this many times the root-mean-square change since the last pass over all samples."""
    most_at_work: float = 0.7
    """Share of the samples from which none is left out."""
    most_direct: int = 4500
    """Free coefficients up to which a Newton system may be solved by a Cholesky factor in them."""
    factor_speed: float = 4.0
    """How many operations of a factor take as long as one of conjugate gradients, which wait for memory: an estimate."""
    slope_share: float = 0.2
    """Share of the first slope at which a line search ends."""
    slope_share_of_assembled: float = 0.4
    """The same where the whole Hessian may be factored, and a trial costs a quarter of a Newton step."""
    memory_bytes: int = 1 << 25
    """Memory for outputs and coefficients that is asked for at a time. In pieces of some megabytes it took a sixth of the time
    of letter, to which the system gives small pages; large ones are given in large pages."""
    most_trials: int = 12
    """Trials of one line search."""

    def is_assembled(self, problem: CrammerSingerProblem) -> bool:
        return problem.n_weights * problem.n_classes <= self.most_assembled

    def part_of(self, problem: CrammerSingerProblem) -> int:
        """Samples of the part to start from; zero where there are too few samples for that."""
        size = int(self.part_share * problem.n_weights * problem.n_classes)
        return size if self.is_assembled(problem) and problem.n_samples >= self.least_parts * size else 0

    def slope_share_for(self, problem: CrammerSingerProblem) -> float:
        return self.slope_share_of_assembled if self.is_assembled(problem) else self.slope_share

    def growth_for(self, problem: CrammerSingerProblem) -> float:
        return self.growth_of_assembled if self.is_assembled(problem) else self.growth

    def sweeps_before(self, problem: CrammerSingerProblem, few_coefficients: int) -> int:
        """How many sweeps of the dual descent come before Newton's method."""
        if problem.n_samples * problem.n_classes <= few_coefficients:
            return self.sweeps_of_few
        if self.part_of(problem) > 0:
            return 0
        return self.sweeps_of_assembled if self.is_assembled(problem) else self.sweeps

    def in_single(self, X: Any, n_classes: int) -> Array | None:
        """X in float32 and dense, for conjugate gradients; None where they are not used, or X is mostly zero or too large."""
        n, d = X.shape
        is_full = not sparse.issparse(X) or X.nnz > self.dense_share_at_work * n * d
        if not is_full or d * n_classes <= self.most_assembled or d > self.most_block or 4 * n * d > self.most_single_bytes:
            return None
        single = X.astype(np.float32)
        return np.asarray(single.toarray() if sparse.issparse(single) else single)


@dataclass(frozen=True)
class ClassInteriorPolicy:
    """When the interior-point method for several classes solves a problem, how far its steps go, and how a is mended."""

    spread: float = 30.0
    """It is taken where the root-mean-square of a column is this many times that of another, or a column is far from zero for
    its spread."""
    most_columns: int = 128
    """Columns up to which it is taken: they are turned by Jacobi's rotations, which take 0.1 s for 33 columns. Where there are
    fewer rows, singular vectors take their place, and this is no limit."""
    most_elements: float = 1e7
    """Elements of X up to which it is taken: X is dense there."""
    most_weights: int = 1000
    """Features, or samples where they are fewer, times classes up to which it is taken: the matrix of a step has as many
    rows."""
    most_work: float = 2e9
    """Samples times the square of features, or of samples where they are fewer, times classes up to which it is taken. With
    9e8, 5,000 samples of 60 columns and 7 classes, a solve took 1.1 to 1.7 s."""
    greatest: float = 1e100
    """The greatest number of X times the greatest C up to which it is taken: squares of more overflow."""
    newton_steps: int = 100
    """Steps of Newton's method after which it is tried although columns are of one size. An estimate, not measured."""
    sweeps: int = 1000
    """Sweeps of the dual descent after which the same holds, where Newton's method is not tried. An estimate, not measured."""
    rows_to_turn: int = 512
    """About how many rows tell the rotations: only their directions matter."""
    first_loss: float = 2.0
    """xi at the beginning, where W is zero and slacks are at most one."""
    least_share: float = 1e-3
    """What is added to the share of a class, for the first a."""
    to_border: float = 0.99
    """Share of the way to the border that a step goes at most."""
    to_zero: float = 0.9
    """The same of a move of a alone."""
    first_moves: int = 2
    """Moves of a before the first step."""
    last_moves: int = 3
    """Moves of a before its digits are mended."""
    most_steps: int = 100
    """Steps after which it has failed. Raw tables took 5 to 42."""
    most_offers: int = 4
    """Points that are offered to the judge. After that it has failed."""
    share: float = 0.2
    """Share of the requested gap at which a point is offered to the judge."""
    fall_of_cost: float = 0.5
    """Share of what the distance of W(a) from W cost before a step, to which a step must bring it for another to follow."""
    roundings: float = 8.0
    """Units of roundoff times the root of the sum of squares that a sum of W(a) may be wrong by, where it counts as right."""
    next_share: float = 0.1
    """Factor on that after each certificate that found the gap too large."""
    beyond_one: float = 1e-3
    """How far beyond one the margins are brought where all of them are nearly one, as a share of the requested gap."""
    room_for_a: float = 100.0
    """C at most, as a multiple of the greatest sum of a, where C is lowered because the steps fail."""
    price: float = 1.0
    """What it counts to move every a by its own size, where W(a) is brought to W: a multiple of what the distance may cost."""
    least_added: float = 1e-15
    """What is added to the diagonal of a matrix whose diagonal is one, before it is factored."""
    added_growth: float = 30.0
    """Factor on that where there is no factor."""
    most_added: float = 1e-3
    """The most that is added."""
    falls: tuple[float, ...] = (2.0**-40, 2.0**-34, 2.0**-24)
    """The ratio of the values of one level to those of the level before."""
    most_levels: int = 2
    """Levels of tiny values."""
    coefficients_a_weight: int = 4
    """Coefficients of a level, for each weight."""
    least_a_weight: float = 1.5
    """The same where few are nearly zero."""
    room_to_grow: float = 16.0
    """What the own class of a sample is left, as a multiple of its tiny values. Without it they left their bounds."""
    rounds: int = 12
    """Rounds of least squares at a level, at most."""
    progress: float = 0.9
    """Share of what W(a) lacks that a round must leave at most for another to follow."""
    tiny: float = 1e-4
    """Share of C_i up to which an a may get a tiny value."""
    negligible: float = 0.05
    """Share of the requested gap that the distance of W(a) from W may cost."""
