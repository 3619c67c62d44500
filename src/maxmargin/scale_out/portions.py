"""The rows of a worker in portions, for a client that collects all rows.

A worker cuts its partitions into portions. The client asks for the next portion while it copies this one to its place, so that
of large data only a few portions are in memory twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from maxmargin.scale_out.blocks import Block
from maxmargin.scale_out.policy import WORKERS
from maxmargin.scale_out.stacking import NOTHING, Collected, Piece, Size, Stack, rows_between


class Portion(NamedTuple):
    """Some rows of a worker: how many portions it has, what all of them take together, and the rows. A worker whose partitions
    are empty has none."""

    n_portions: int
    size: Size
    piece: Piece | None = None


def portion_of(partitions: dict[int, Block], k: int) -> Portion:
    """Portion k of the rows of these partitions."""
    filled = {number: block for number, block in partitions.items() if len(block.y)}
    size = reduce(Size.plus, (Size.of(block.X) for block in filled.values()), NOTHING)
    if not filled:
        return Portion(0, size)
    cuts = [(number, *cut) for number, block in filled.items() for cut in _cuts(block, WORKERS.portion_bytes)]
    number, start, stop = cuts[k]
    return Portion(len(cuts), size, Piece(number, start, rows_between(filled[number], start, stop)))


def _cuts(block: Block, n_bytes: int) -> list[tuple[int, int]]:
    """Where pieces of about so many bytes begin and end."""
    n_pieces = min(len(block.y), -(-block.nbytes // n_bytes))
    return list(pairwise(np.linspace(0, len(block.y), n_pieces + 1).astype(int).tolist()))


class Stream:
    """The portions of one worker, asked for ahead. ``ask`` begins to ask for portion k, and ``wait`` waits for what came of
    that: None if the worker is gone."""

    def __init__(self, ask: Callable[[int], Any], wait: Callable[[Any], Portion | None]) -> None:
        self.ask, self.wait = ask, wait
        self.waiting = deque([ask(0)])
        self.next, self.n_portions = 1, 1

    def take(self) -> Portion | None:
        """The next portion. The one after the last that is on its way is asked for."""
        portion = self.wait(self.waiting.popleft())
        if portion is not None:
            self.n_portions = portion.n_portions
            self._ask_ahead()
        return portion

    def _ask_ahead(self) -> None:
        while self.next < self.n_portions and len(self.waiting) < WORKERS.portions_ahead:
            self.waiting.append(self.ask(self.next))
            self.next += 1


def stacked_portions(streams: Sequence[Stream]) -> Collected | None:
    """All rows, worker by worker; None if a worker was lost on the way. The first portions tell how much memory the rows
    take."""
    firsts = [portion for portion in (stream.take() for stream in streams) if portion is not None]
    if len(firsts) < len(streams):
        return None
    size = reduce(Size.plus, (portion.size for portion in firsts))
    stack = Stack(size)
    ends = list(accumulate((portion.size for portion in firsts), Size.plus, initial=size.less_rows()))
    for k, portion in _in_turns(streams, firsts):
        if portion is None:
            return None
        if portion.piece is not None:
            ends[k] = stack.write(portion.piece, ends[k])
    return stack.collected()


def _in_turns(streams: Sequence[Stream], firsts: list[Portion]) -> Iterator[tuple[int, Portion | None]]:
    """The portions of all workers, one of each in turn, with the number of the worker."""
    yield from enumerate(firsts)
    left = [k for k, stream in enumerate(streams) if stream.waiting]
    while left:
        for k in left:
            yield k, streams[k].take()
        left = [k for k in left if streams[k].waiting]
