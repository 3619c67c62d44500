"""The executor of a Dask cluster: each worker keeps its partitions and what they remember, and answers passes.

A partition is pinned to the worker that holds it. A pass sends each worker one task, which visits all of its partitions, adds
their results up, and sends the sum back: two messages a worker and pass, whatever the number of partitions. What a partition
remembers never leaves its worker. When a worker dies, Dask computes its chunks again elsewhere, and those partitions restart
with an alpha of zero. The ``generation`` of the reply tells the solver, which continues from there. A certificate stays valid,
because it judges the current alpha."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.limits import check_point
from maxmargin.data.threads import single_threaded_blas
from maxmargin.scale_out.blocks import Block
from maxmargin.scale_out.passes import Framing, Given, Memory, Pass, Reply, added, give_part, visit

_remembered: dict[str, dict[int, list[Memory]]] = {}
"""On a worker: for each fit, what each of its partitions remembers of every problem."""
_lock = threading.Lock()


class Answered(NamedTuple):
    """What a worker says: the sums of each pass, which partitions it had to begin anew, and the size of the sums in bytes."""

    sums: dict[int, Any]
    begun: list[int]
    n_bytes: int


def answer(fit: str, numbers: list[int], blocks: list[Block], framings: list[Framing], passes: dict[int, Pass]) -> Answered:
    """What a worker runs: all passes on all of its partitions."""
    with _lock:
        memories = _remembered.setdefault(fit, {})
    begun = [number for number in numbers if number not in memories]
    for number, block in zip(numbers, blocks, strict=True):
        if number not in memories:
            memories[number] = [Memory.empty(len(block.y)) for _ in framings]
    sums = {}
    with single_threaded_blas():
        for which, passed in passes.items():
            parts = [(framings[which], memories[number][which], number, True) for number in numbers]
            sums[which] = added([visit(block, part, passed) for block, part in zip(blocks, parts, strict=True)])
    return Answered(sums, begun, size_of(sums))


def size_of(content: Any) -> int:
    """About how many bytes a message with this content has: those of its arrays, and eight for every number."""
    if isinstance(content, dict):
        return sum(map(size_of, content.values()))
    if isinstance(content, (list, tuple)):
        return sum(map(size_of, content))
    if sparse.issparse(content):
        return int(content.data.nbytes + content.indices.nbytes + content.indptr.nbytes)
    return int(content.nbytes) if isinstance(content, np.ndarray) else 8


def forget(fit: str) -> None:
    """What a worker runs after a fit."""
    with _lock:
        _remembered.pop(fit, None)


@dataclass
class OnWorkers:
    """Partitions on the workers of a Dask cluster. ``chunks`` are futures of :class:`Block`, in the order of the rows."""

    client: Any
    chunks: list[Any]
    n_rows: list[int]
    framings: Sequence[Framing]
    is_sequential: bool = False
    fit: str = field(default_factory=lambda: f"maxmargin-{uuid.uuid4().hex}")
    homes: dict[int, str] = field(default_factory=dict)
    generation: int = 0
    n_passes: int = 0
    n_bytes_sent: int = 0
    n_bytes_received: int = 0

    @property
    def n_samples(self) -> int:
        return sum(self.n_rows)

    def run(self, passes: dict[int, Pass]) -> dict[int, Reply]:
        """One task for each worker. What fails because a worker died is asked again, of whoever has its chunks then."""
        self.n_passes += 1
        results: list[Answered] = []
        left = list(range(len(self.chunks)))
        while left:
            check_point()
            futures = {worker: self._ask(worker, numbers, passes) for worker, numbers in self._homes_of(left).items()}
            left = []
            for worker, (numbers, future) in futures.items():
                result = self._result(future)
                if result is None:
                    left += numbers
                    self._lose(worker)
                else:
                    results.append(result)
        self._count(passes, results)
        return {which: Reply(added([each.sums[which] for each in results]), self.generation) for which in passes}

    def give(self, which: int, alphas: Sequence[Given]) -> None:
        """One more round: alpha travels to the workers."""
        self.run({which: Pass(give_part, (list(alphas),))})

    def _ask(self, worker: str, numbers: list[int], passes: dict[int, Pass]) -> tuple[list[int], Any]:
        future = self.client.submit(
            answer,
            self.fit,
            numbers,
            [self.chunks[number] for number in numbers],
            list(self.framings),
            passes,
            workers=[worker],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        return numbers, future

    def _result(self, future: Any) -> Answered | None:
        """What a worker says; None if it is gone."""
        from distributed import CancelledError, KilledWorker, wait
        from distributed.client import FutureCancelledError

        while True:
            try:
                wait([future], timeout=1.0)
                break
            except TimeoutError:
                check_point()
                if not self._is_alive(future):
                    future.cancel()
                    return None
        try:
            result: Answered = future.result()
        except (CancelledError, FutureCancelledError, KilledWorker):
            return None
        return result

    def _is_alive(self, future: Any) -> bool:
        """Whether the worker that a task is pinned to is still there. Without it the task would wait forever."""
        return set(self.homes.values()) <= set(self.client.scheduler_info(n_workers=-1)["workers"])

    def _homes_of(self, numbers: list[int]) -> dict[str, list[int]]:
        """The partitions of each worker: where their chunks are, or spread evenly over all workers."""
        unknown = [number for number in numbers if number not in self.homes]
        if unknown:
            self._settle(unknown)
        found: dict[str, list[int]] = {}
        for number in numbers:
            found.setdefault(self.homes[number], []).append(number)
        return found

    def _settle(self, numbers: list[int]) -> None:
        """Find the workers that hold these chunks. Chunks that were lost are computed again meanwhile."""
        from distributed import wait

        while True:
            workers = list(self.client.scheduler_info(n_workers=-1)["workers"])
            if workers:
                wait([self.chunks[number] for number in numbers])
                holders = self.client.who_has([self.chunks[number] for number in numbers])
                places = [holders.get(self.chunks[number].key) or () for number in numbers]
                if all(any(worker in workers for worker in place) for place in places):
                    break
            check_point()
            time.sleep(0.05)
        load = dict.fromkeys(workers, 0)
        for home in self.homes.values():
            load[home] = load.get(home, 0) + 1
        for number, place in zip(numbers, places, strict=True):
            home = min((worker for worker in place if worker in workers), key=lambda worker: load[worker])
            self.homes[number] = home
            load[home] += 1

    def _lose(self, worker: str) -> None:
        """A worker is gone, and with it what its partitions remembered."""
        self.generation += 1
        self.homes = {number: home for number, home in self.homes.items() if home != worker}

    def _count(self, passes: dict[int, Pass], results: list[Answered]) -> None:
        self.n_bytes_sent += len(results) * size_of([each.arguments for each in passes.values()])
        self.n_bytes_received += sum(each.n_bytes for each in results)
        if self.n_passes > 1 and any(each.begun for each in results) and self.generation == 0:
            self.generation += 1  # a worker came back under its old name without its memory

    def close(self) -> None:
        """Let the workers forget this fit."""
        self.client.run(forget, self.fit)
