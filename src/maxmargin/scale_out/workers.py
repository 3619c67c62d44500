"""The executor of a Dask cluster: each worker keeps its partitions and what they remember, and answers passes.

A partition stays on the worker that holds it. Each worker has a :class:`Keeper`, a Dask actor with the partitions of that
worker and what they remember. A pass sends one message to each keeper; the keeper visits all of its partitions, adds their
results up, and sends the sum back. A message to an actor does not pass through the scheduler's queues: a round of two workers
takes 2.5 ms where the same round made of tasks takes 13 ms (one core, empty passes). Where this process can reach the workers,
messages go to them directly and not by way of the scheduler: a matrix of 2.5 MB from each of two workers then takes 6 ms
instead of 18 ms. A keeper uses as many threads as its worker has.

When a worker dies, Dask computes its chunks again elsewhere, and those partitions restart with an alpha of zero. The
``generation`` of the reply tells the solver, which continues from there. A certificate stays valid, because it judges the
current alpha."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.limits import check_point
from maxmargin.data.threads import at_most_cores, single_threaded_blas
from maxmargin.scale_out.blocks import Block
from maxmargin.scale_out.collecting import Crowd
from maxmargin.scale_out.passes import Framing, Given, Memory, Pass, Reply, added, give_part, visit
from maxmargin.scale_out.policy import WORKERS
from maxmargin.scale_out.stacking import Collected, Piece, Portion, Size, Stack, portions_of, rows_between


class Answered(NamedTuple):
    """What a worker says: the sums of each pass, and their size in bytes."""

    sums: dict[int, Any]
    n_bytes: int


class Keeper:
    """Partitions on a worker, by their numbers, with what each of them remembers of every problem."""

    def __init__(self, numbers: list[int], blocks: list[Block], framings: list[Framing]) -> None:
        self.partitions, self.framings = dict(zip(numbers, blocks, strict=True)), framings
        self.memories = {number: [Memory.empty(len(block.y)) for _ in framings] for number, block in self.partitions.items()}
        self.n_threads = threads_of_worker()

    def answer(self, passes: dict[int, Pass]) -> Answered:
        """All passes on all partitions, added up."""
        with single_threaded_blas(), at_most_cores(self.n_threads):
            sums = {which: added(self._visits(which, passed)) for which, passed in passes.items()}
        return Answered(sums, size_of(sums))

    def rows(self, portion: Portion) -> Block:
        """Some rows, for a client that collects all of them."""
        return rows_between(self.partitions[portion.number], portion.start, portion.stop)

    def _visits(self, which: int, passed: Pass) -> list[Any]:
        framing, memories = self.framings[which], self.memories
        blocks = self.partitions.items()
        return [visit(block, (framing, memories[number][which], number, True), passed) for number, block in blocks]


def threads_of_worker() -> int:
    """The threads of the worker that calls this."""
    from distributed import get_worker

    return max(1, int(get_worker().state.nthreads))


def size_of(content: Any) -> int:
    """About how many bytes a message with this content has: those of its arrays, and eight for every number."""
    if isinstance(content, dict):
        return sum(map(size_of, content.values()))
    if isinstance(content, (list, tuple)):
        return sum(map(size_of, content))
    if sparse.issparse(content):
        return int(content.data.nbytes + content.indices.nbytes + content.indptr.nbytes)
    return int(content.nbytes) if isinstance(content, np.ndarray) else 8


@dataclass
class Post:
    """A keeper as the client knows it: its worker, its partitions, the future of the actor, and the actor once it is there."""

    worker: str
    numbers: list[int]
    future: Any
    actor: Any = None


@dataclass
class OnWorkers:
    """Partitions on the workers of a Dask cluster. ``chunks`` are futures of :class:`Block`, in the order of the rows,
    and ``sizes`` are theirs."""

    client: Any
    chunks: list[Any]
    sizes: list[Size]
    framings: Sequence[Framing]
    is_sequential: bool = False
    homes: dict[int, str] = field(default_factory=dict)
    posts: list[Post] = field(default_factory=list)
    generation: int = 0
    n_passes: int = 0
    n_bytes_sent: int = 0
    n_bytes_received: int = 0
    was_direct: bool | None = None
    """What the client's ``direct_to_workers`` is set back to at the end."""

    def __post_init__(self) -> None:
        self.was_direct = self.client.direct_to_workers
        if not self.was_direct and reaches_workers(self.client):
            self.client.direct_to_workers = True

    @property
    def crowd(self) -> Crowd:
        cores = self.client.nthreads()
        return Crowd(max(1, len(cores)), max(1, sum(cores.values())))

    @property
    def n_samples(self) -> int:
        return sum(size.n_rows for size in self.sizes)

    def run(self, passes: dict[int, Pass]) -> dict[int, Reply]:
        """One message for each keeper. The partitions of a worker that died are asked again, wherever their chunks are then."""
        self.n_passes += 1
        results: list[Answered] = []
        left = set(range(len(self.chunks)))
        while left:
            check_point()
            posts = self._posts_of(left)
            asked = [self._ask(post, "answer", passes) for post in posts]
            for post, future in zip(posts, asked, strict=True):
                result: Answered | None = self._outcome(post, future)
                if result is None:
                    self._lose(post)
                else:
                    results.append(result)
                    left -= set(post.numbers)
        self._count(passes, results)
        return {which: Reply(added([each.sums[which] for each in results]), self.generation) for which in passes}

    def recall(self, which: int) -> None:
        """The partitions are elsewhere: only a look can tell."""

    def give(self, which: int, alphas: Sequence[Given]) -> None:
        """One more round: alpha travels to the workers."""
        self.run({which: Pass(give_part, (list(alphas),))})

    def collected(self) -> Reply:
        """All rows of all workers. If a worker dies on the way, the collection begins anew."""
        self.n_passes += 1
        found: Collected | None = None
        while found is None:
            check_point()
            found = self._stacked()
        self.n_bytes_received += found.block.nbytes
        return Reply(found, self.generation)

    def _stacked(self) -> Collected | None:
        """All rows in the order of the partitions; None if a worker was lost on the way. One portion is under way at a time:
        two at a time take as long on one machine, and more memory."""
        posts = {number: post for post in self._posts_of(set(range(len(self.chunks)))) for number in post.numbers}
        size = reduce(Size.plus, self.sizes)
        stack, at = Stack(size), size.less_rows()

        for portion in portions_of(self.sizes, WORKERS.portion_bytes):
            post = posts[portion.number]
            rows: Block | None = self._outcome(post, self._ask(post, "rows", portion))
            if rows is None:
                self._lose(post)
                return None
            at = stack.write(Piece(portion.number, portion.start, rows), at)
        return stack.collected()

    def _ask(self, post: Post, method: str, argument: Any) -> Any:
        """What will be the answer of a keeper; None if it is gone."""
        if post.actor is None:
            post.actor = self._outcome(post, post.future)
        try:
            return None if post.actor is None else getattr(post.actor, method)(argument)
        except RuntimeError:  # the worker of this actor was lost
            return None

    def _outcome(self, post: Post, future: Any) -> Any:
        """The result of a future on the worker of a keeper; None if that is gone."""
        from asyncio import CancelledError

        from distributed import TimeoutError as TimedOut

        while future is not None:
            try:
                return future.result(timeout=1.0)
            except TimedOut:
                check_point()
            except (OSError, CancelledError):
                return None
            except Exception:
                if self._is_there(post.worker) and post.future.status in ("finished", "error"):
                    raise
            if not self._is_there(post.worker):
                return None
        return None

    def _is_there(self, worker: str) -> bool:
        return worker in self.client.scheduler_info(n_workers=-1)["workers"]

    def _posts_of(self, numbers: set[int]) -> list[Post]:
        """The keepers of these partitions, appointed where there are none."""
        unknown = sorted(numbers - set(self.homes))
        if unknown:
            self._settle(unknown)
            self._appoint(unknown)
        return [post for post in self.posts if numbers.intersection(post.numbers)]

    def _appoint(self, numbers: list[int]) -> None:
        """Make an actor on each worker that holds some of these chunks."""
        found: dict[str, list[int]] = {}
        for number in numbers:
            found.setdefault(self.homes[number], []).append(number)
        self.posts += [Post(worker, mine, self._keeper(worker, mine)) for worker, mine in found.items()]

    def _keeper(self, worker: str, numbers: list[int]) -> Any:
        chunks = [self.chunks[number] for number in numbers]
        where: Any = {"workers": [worker], "allow_other_workers": False, "pure": False}
        return self.client.submit(Keeper, numbers, chunks, list(self.framings), actor=True, **where)

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

    def _lose(self, post: Post) -> None:
        """A worker is gone, and with it what its partitions remembered. If it is only out of reach, messages go by way of the
        scheduler from now on."""
        if self._is_there(post.worker):
            self.client.direct_to_workers = self.was_direct
        self.generation += 1
        self.posts.remove(post)
        self.homes = {number: home for number, home in self.homes.items() if number not in post.numbers}

    def _count(self, passes: dict[int, Pass], results: list[Answered]) -> None:
        self.n_bytes_sent += len(results) * size_of([each.arguments for each in passes.values()])
        self.n_bytes_received += sum(each.n_bytes for each in results)

    def close(self) -> None:
        """Let the workers forget this fit: an actor without a reference is released."""
        self.posts.clear()
        self.client.direct_to_workers = self.was_direct


def reaches_workers(client: Any) -> bool:
    """Whether this process can open a connection to every worker."""
    import asyncio

    async def greet(worker: str) -> bool:
        try:
            await asyncio.wait_for(client.rpc(worker).identity(), WORKERS.greeting_seconds)
        except (TimeoutError, OSError):
            return False
        return True

    async def greet_all() -> bool:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        return all(await asyncio.gather(*(greet(worker) for worker in workers)))

    return bool(client.sync(greet_all))
