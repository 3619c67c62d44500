"""All pairs of classes with few samples, in few compiled calls.

A pair of eighty samples is solved and judged in thirty microseconds, and the Python around that took four times as long: a
problem, a state, a verdict and a solution for each of 325 pairs. Here the samples of all classes lie in one piece of memory,
a compiled loop goes through the pairs (``maxmargin.solving.pair_batch_loops``), and Python makes the solutions of what the
judge has written. A pair that is not certified in this way is left to the solver for one problem."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.even import EvenSums, even_certificates, even_offset_bounds
from maxmargin.certificate.kernel import even_errors
from maxmargin.certificate.rounding import OUTWARDS
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.problem.class_pairs import class_pairs
from maxmargin.problem.class_row_loops import RowMemory
from maxmargin.problem.class_rows import ClassRows
from maxmargin.problem.held_values import ClassValues, RowFunction, padded_size
from maxmargin.problem.kernel_loops import ALPHA, OFFSET, REACH, TOTAL
from maxmargin.problem.kernels import Kernel
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.kernel.held_smo import HeldState
from maxmargin.solvers.kernel.held_smo_policy import HeldSMOPolicy
from maxmargin.solving.policy import BATCH
from maxmargin.solving.solution import Progress, Solution, Status

FIRST, SECOND, PLACE, MOST_STEPS, STEPS, ROWS = range(6)
"""The columns of the table of pairs: the two classes, where the alpha of the pair begins, the limit on its steps, its steps,
and the kernel rows that were made."""
NO_WEIGHTS = np.empty(0)


class BatchGoal(NamedTuple):
    """The target of all pairs, the limit on the steps of a pair by its number of samples, and, where the model is to predict by
    a rounded w, the rounding of w from the number of samples, sum_i alpha_i l_i and sum_i alpha_i."""

    tol: float
    most_steps: Callable[[int], int]
    rounding: Callable[[Array, Array, Array], Array] | None = None


@dataclass(frozen=True, eq=False)
class PairBatch:
    """The pairs of classes of a fit, and what solves them."""

    classes: ClassRows
    values: ClassValues
    function: RowFunction
    share: float
    C: float
    policy: HeldSMOPolicy
    is_uniform: bool

    @classmethod
    def of(cls, values: ClassValues, kernel: Kernel, C: float, policy: HeldSMOPolicy) -> PairBatch | None:
        """Prepare all pairs. None where kernel rows are not made on demand, the kernel is not positive semidefinite, or
        Python takes a small part of the time: there are few pairs, or large ones."""
        function, n = values.function, len(values.classes)
        is_small_part = n * (n - 1) // 2 < BATCH.fewest_pairs or values.largest > BATCH.most_samples
        if function is None or values.bounds is None or is_small_part or not (kernel.is_positive_semidefinite and C > 0.0):
            return None
        classes = ClassRows.of(values)
        share = values.bounds[0].share
        return None if classes is None else cls(classes, values, function, share, C, policy, kernel.is_gaussian)

    def solved(self, goal: BatchGoal, stop: Stop) -> list[Solution | None]:
        """The solutions of all pairs in their order. None where a pair is not certified, or no time is left. The seconds of a
        solution are the mean of those that were solved in the same call."""
        from maxmargin.solving.pair_batch_loops import solve_pairs

        table, n_samples = table_of(np.diff(self.classes.starts), goal)
        found, errors = EvenSums.empty(n_samples, self.share), np.empty((len(table), 2))
        errors[:, 0], errors[:, 1] = even_errors(self.share, n_samples)
        kind, rule, seconds = self._kind(), self._rule(goal.tol), np.zeros(len(table))
        for chunk in self._chunks(table, n_samples):
            if stop.is_due:
                break
            begun = time.perf_counter()
            solve_pairs(kind, self.classes, rule, table[chunk], errors[chunk], found.samples, found.numbers[chunk])
            seconds[chunk] = (time.perf_counter() - begun) / (chunk.stop - chunk.start)
        return solutions_of(goal, found, table, seconds, self.is_uniform)

    def _chunks(self, table: Array, n_samples: Array) -> Iterator[slice]:
        """The pairs of one call each."""
        most_steps = np.minimum(table[:, MOST_STEPS], self.policy.steps_a_sample * self.policy.most_rounds * n_samples)
        begin, work = 0, 0.0
        for k, of_pair in enumerate((most_steps * n_samples.astype(np.float64)).tolist()):
            if work + of_pair > BATCH.sample_steps_a_call and k > begin:
                yield slice(begin, k)
                begin, work = k, 0.0
            work += of_pair
        yield slice(begin, len(n_samples))

    def _kind(self) -> Any:
        """The memory of the loop. Its type says which loop."""
        from maxmargin.solving.pair_batch_loops import JUDGE_ROWS, MASKS, VECTORS, BatchMemory, Bent, Gaussian

        largest, most_free = self.values.largest, self.policy.most_free
        padded = padded_size(largest)
        memory = BatchMemory(
            RowMemory.of(padded, self.classes.samples.shape[1], self.function),
            np.empty(VECTORS * padded),
            np.empty(MASKS * padded),
            np.empty((most_free, most_free + 3)),
            np.empty(most_free, np.uint64),
            np.empty((JUDGE_ROWS + 1) * largest),
        )
        return Gaussian(memory) if self.function.is_gaussian else Bent(memory)

    def _rule(self, tol: float) -> Any:
        from maxmargin.solving.pair_batch_loops import BatchRule

        own = self.policy
        return BatchRule(
            tol=float(tol),
            C=self.C,
            first_violation=own.first_violation,
            greatest_violation=own.greatest_violation,
            gap_a_violation=own.gap_a_violation,
            next_violation=own.next_violation,
            share_of_goal=own.share_of_goal,
            steps_a_sample=own.steps_a_sample,
            most_rounds=own.climbing_round - 1 if own.climbs else own.most_rounds,
            most_idle=own.most_idle,
            few_samples=own.few_samples,
            easy_steps=own.easy_steps,
            insists=own.insists,
            noise=own.noise * UNIT_ROUNDOFF,
            safety=own.safety,
            ends_slow=own.climbs,
        )


def table_of(sizes: Array, goal: BatchGoal) -> tuple[Array, Array]:
    """The table of all pairs of classes of these sizes, and the samples of each pair."""
    pairs = np.array(list(class_pairs(len(sizes))), np.int64)
    n_samples = sizes[pairs].sum(axis=1)
    table = np.zeros((len(pairs), 6), np.int64)
    table[:, [FIRST, SECOND]], table[1:, PLACE] = pairs, np.cumsum(n_samples)[:-1]
    limits = {n: goal.most_steps(n) for n in set(n_samples.tolist())}
    table[:, MOST_STEPS] = [limits[n] for n in n_samples.tolist()]
    return table, n_samples


def solutions_of(goal: BatchGoal, found: EvenSums, table: Array, seconds: Array, is_uniform: bool) -> list[Solution | None]:
    """The solutions of all pairs from what the judge has added up. None where a certificate does not meet the target."""
    certificates = even_certificates(found)
    distances = np.array([math.inf if each is None else each.distance_bound for each in certificates])
    bounds = even_offset_bounds(found, distances, is_uniform)
    if goal.rounding is not None:
        n_samples = np.diff(found.edges)
        distances += goal.rounding(n_samples, found.numbers[:, REACH], found.numbers[:, TOTAL])
        distances *= OUTWARDS
    alpha, offsets = found.samples[ALPHA], found.numbers[:, OFFSET].tolist()
    edges, rows = found.edges.tolist(), zip(table.tolist(), seconds.tolist(), distances.tolist(), strict=True)
    return [
        None
        if certificate is None or not certificate.meets(goal.tol)
        else _solution(alpha[edges[k] : edges[k + 1]], offsets[k], bounds[k], certificate, row)
        for k, (certificate, row) in enumerate(zip(certificates, rows, strict=True))
    ]


def _solution(alpha: Array, b: float, offset_bound: float, certificate: Certificate, row: Any) -> Solution:
    """``row`` is the row of the table, the seconds, and the distance bound of what predicts."""
    table, seconds, distance = row
    n, steps, stage = len(alpha), table[STEPS], HeldState.stage
    values = certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap
    progress = Progress(seconds, steps / n, steps, *values, n, stage.solver, stage.reason)
    known = certificate if distance == certificate.distance_bound else farther(certificate, distance)
    evaluations, epochs = table[ROWS] * (n // 2), progress.epochs
    status, trace = Status.CERTIFIED, (progress,)
    return Solution(NO_WEIGHTS, alpha, b, known, status, trace, seconds, steps, epochs, evaluations, offset_bound)


def farther(certificate: Certificate, distance: float) -> Certificate:
    """The certificate with a larger distance bound: ``dataclasses.replace`` in a fifth of its time."""
    copy = object.__new__(Certificate)
    vars(copy).update(vars(certificate), distance_bound=distance)
    return copy
