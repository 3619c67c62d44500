"""Passes over partitions: what a solver asks for, and what an executor gives.

A solver is a generator. It yields a :class:`Pass` and is sent a :class:`Reply`: the results of the task on all partitions,
added up. The binary problems of a fit run side by side, and one visit of a partition serves all of them
(:func:`run_together`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy import sparse

from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.dual_box import Loss
from maxmargin.problem.linear import LinearProblem, costs_of
from maxmargin.scale_out.blocks import Block

T = TypeVar("T")


@dataclass(frozen=True)
class Framing:
    """How rows and labels become a problem: ``positive`` is the label of the positive class, and None in regression."""

    loss: Loss
    intercept_scaling: float
    C: float
    n_features: int
    positive: Any = None
    class_costs: tuple[Array, Array] | None = None
    """The classes, and what multiplies the cost of the samples of each."""

    @property
    def n_weights(self) -> int:
        return self.n_features + (self.intercept_scaling != 0.0)

    def problem(self, block: Block) -> LinearProblem:
        rows = Rows.from_matrix(_wide(block.X, self.n_features), check=False)
        y = np.asarray(block.y)
        costs: Any = self.C if block.sample_weight is None else self.C * np.asarray(block.sample_weight, dtype=np.float64)
        if self.class_costs is not None:
            classes, weights = self.class_costs
            costs = costs * weights[np.searchsorted(classes, y)]
        targets = y.astype(np.float64) if self.positive is None else np.where(y == self.positive, np.int8(1), np.int8(-1))
        C = costs_of(costs, rows) if np.any(costs) else np.zeros(rows.n_samples)
        return LinearProblem(rows, targets, C, self.loss, self.intercept_scaling)


def _wide(X: Any, n_features: int) -> Any:
    """A sparse block may be narrower than the data."""
    if not sparse.issparse(X) or X.shape[1] == n_features:
        return X
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))


@dataclass
class Memory:
    """What a partition remembers of one problem between two passes. It stays where the partition is."""

    alpha: Array
    anchor: Array | None = None
    free: Array | None = None
    before: Array | None = None
    """alpha before the last visit, where the length of the step is not known yet."""
    distance: Array | None = None
    """In float32: how far each sample was from a kink at its last visit, or at a look after that. Where its alpha could move:
    minus what its residual was wrong by, in the same unit."""
    gaps: Array | None = None
    """In float32: what each sample added to the duality gap when its partition last began a visit."""
    norms: Array | None = None
    """In float32: the |x_i|, where they are needed often and rows are read from a disk."""
    margins: Array | None = None
    """Two rows: the margins of w(alpha) and of the best w at the last look."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What is worth keeping where the rows stay in memory, too."""

    @classmethod
    def empty(cls, n_samples: int) -> Memory:
        return cls(np.zeros(n_samples))

    @property
    def arrays(self) -> dict[str, Array]:
        named = {"alpha": self.alpha, "anchor": self.anchor, "before": self.before}
        return {name: array for name, array in named.items() if array is not None}


class Part(NamedTuple):
    """A partition in the hands of a task: its samples as a problem, and what it remembers. ``stays`` says that the rows are
    there at the next pass, too."""

    problem: LinearProblem
    memory: Memory
    number: int
    stays: bool


class Deal(NamedTuple):
    """How an executor that visits partitions one after the other puts several into one hand: at most ``n_bytes`` of rows, from
    partitions in an order that ``seed`` makes random, and of each only the samples within ``reach`` of a kink. Samples that are
    wrong by more than ``keep`` stay for the next hand. Passes of one ``kind`` go on with the hand of the last one."""

    n_bytes: float
    seed: int
    reach: float = math.inf
    keep: float = math.inf
    kind: str = "all"


class Pass(NamedTuple):
    """``task(part, *arguments)`` for every partition, or for every hand of them. Results have a method ``plus``, or are
    None."""

    task: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    deal: Deal | None = None


def _all_rows(part: Part) -> None:
    """No task: executors have a method for it."""


COLLECT = Pass(_all_rows)
"""All rows, as one :class:`~maxmargin.scale_out.stacking.Collected`, the same for all problems."""


class Reply(NamedTuple):
    """The sum of the results. ``generation`` rises when a partition has lost what it remembered."""

    value: Any
    generation: int


class Given(NamedTuple):
    """New alpha for some samples of one partition: its number, and their places in it."""

    number: int
    places: Array
    alpha: Array


Solving = Generator[Pass, Reply, T]
"""A solver, or a part of one, that ends with a T."""


class Interrupted(Exception):
    """Thrown into solvers when time is up or the user wants to stop: they end with the best they have."""


class Executor(Protocol):
    """Who runs passes. Memories belong to one of the ``framings``, by its place."""

    is_sequential: bool
    """Whether partitions are visited one after the other in this process: a task may change an argument for the next."""

    @property
    def framings(self) -> Sequence[Framing]: ...

    @property
    def n_samples(self) -> int: ...

    def run(self, passes: dict[int, Pass]) -> dict[int, Reply]:
        """One visit of every partition, for one pass of each problem."""

    def collected(self) -> Reply:
        """One visit of every partition, which copies all rows into this process: a ``Collected``."""

    def give(self, which: int, alphas: Sequence[Given]) -> None:
        """Let partitions take over the alpha of some of their samples."""

    def recall(self, which: int) -> Any:
        """What samples remember of their last visits (``remainder.Recalled``); None where only a look can tell."""


def run_together(executor: Executor, solvers: Sequence[Solving[T]], stop: Stop) -> list[T]:
    """Run the solvers of all problems side by side to their ends."""
    ended: dict[int, T] = {}
    waiting: dict[int, Pass] = {}
    replies: dict[int, Reply | None] = dict.fromkeys(range(len(solvers)))
    while len(ended) < len(solvers):
        for k, reply in replies.items():
            try:
                waiting[k] = solvers[k].send(reply)  # type: ignore[arg-type]
            except StopIteration as end:
                ended[k] = end.value
        try:
            with stop.heard():
                replies = dict(_replies(executor, waiting))
        except (OutOfTimeError, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt):
                stop.set()
            return [ended[k] if k in ended else _end_of(solver) for k, solver in enumerate(solvers)]
        waiting = {}
    return [ended[k] for k in range(len(solvers))]


def _replies(executor: Executor, waiting: dict[int, Pass]) -> dict[int, Reply]:
    """What the partitions say. Rows are collected once for all problems that want them."""
    passes = {k: passed for k, passed in waiting.items() if passed is not COLLECT}
    replies = executor.run(passes) if passes else {}
    if len(passes) == len(waiting):
        return replies
    collected = executor.collected()
    return {**replies, **{k: collected for k in waiting if k not in passes}}


def _end_of(solver: Solving[T]) -> T:
    """What an interrupted solver has."""
    try:
        solver.throw(Interrupted())
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError("A solver went on after it was interrupted.")


def added(results: Sequence[Any]) -> Any:
    """The sum of results, without those that are None."""
    total = None
    for result in results:
        if result is not None:
            total = result if total is None else total.plus(result)
    return total


def give_part(part: Part, alphas: Sequence[Given]) -> None:
    """The task: take over the alpha that is meant for this partition."""
    for number, places, alpha in alphas:
        if number == part.number:
            part.memory.alpha[places] = alpha


def visit(block: Block, part: tuple[Framing, Memory, int, bool], passed: Pass) -> Any:
    """Run one task on one partition. An empty partition has nothing to say."""
    framing, memory, number, stays = part
    if len(block.y) == 0:
        return None
    problem = memory.kept.get("problem") or framing.problem(block)
    if stays:
        memory.kept["problem"] = problem
    return passed.task(Part(problem, memory, number, stays), *passed.arguments)
