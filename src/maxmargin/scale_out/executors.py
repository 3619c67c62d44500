"""The executors of one machine: threads over partitions in memory, and a reader over blocks on a disk."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import available_cores
from maxmargin.scale_out.block_list import ALIGNMENT
from maxmargin.scale_out.blocks import Block, Blocks
from maxmargin.scale_out.hands import Hand
from maxmargin.scale_out.passes import Framing, Given, Memory, Pass, Reply, added, visit
from maxmargin.scale_out.remainder import ROW_OVERHEAD, Recalled, recalled
from maxmargin.scale_out.stacking import Collected, Piece, Size, Stack


class InMemory:
    """Partitions in memory, each visited by a thread."""

    is_sequential = False

    def __init__(self, partitions: Sequence[Block], framings: Sequence[Framing]) -> None:
        self.partitions, self.framings = list(partitions), list(framings)
        self.memories = [[Memory.empty(len(block.y)) for block in self.partitions] for _ in framings]
        self.n_passes = 0

    @property
    def n_samples(self) -> int:
        return sum(len(block.y) for block in self.partitions)

    def run(self, passes: dict[int, Pass]) -> dict[int, Reply]:
        self.n_passes += 1
        with ThreadPoolExecutor(available_cores()) as pool:
            contexts = [contextvars.copy_context() for _ in self.partitions]
            results = list(pool.map(lambda k: contexts[k].run(self._visit, k, passes), range(len(self.partitions))))
        return {which: Reply(added([result[which] for result in results]), 0) for which in passes}

    def collected(self) -> Reply:
        self.n_passes += 1
        return Reply(stacked(enumerate(self.partitions), [Size.of(block.X) for block in self.partitions]), 0)

    def give(self, which: int, alphas: Sequence[Given]) -> None:
        _give(self.memories[which], alphas)

    def recall(self, which: int) -> None:
        """The partitions are elsewhere, or on other threads: only a look can tell."""

    def _visit(self, k: int, passes: dict[int, Pass]) -> dict[int, Any]:
        check_point()
        block = self.partitions[k]
        return {
            which: visit(block, (self.framings[which], self.memories[which][k], k, True), passed)
            for which, passed in passes.items()
        }


class OnDisk:
    """Blocks on a disk, one after the other, with a thread that reads one block ahead. The dual variables of the partitions
    stay in memory; the rows do not."""

    is_sequential = True

    def __init__(self, blocks: Blocks, framings: Sequence[Framing]) -> None:
        self.blocks, self.framings = blocks, list(framings)
        self.memories = [[Memory.empty(entry.n_rows) for entry in blocks.entries] for _ in framings]
        self.hands: dict[int, Hand] = {}
        self.n_passes = self.n_bytes_read = 0

    @property
    def n_samples(self) -> int:
        return self.blocks.n_samples

    def run(self, passes: dict[int, Pass]) -> dict[int, Reply]:
        """One pass over the disk for all problems."""
        order = self._order(passes)
        self.n_passes += 1
        hands = self.hands = {which: self._hand(which, passed) for which, passed in passes.items() if passed.deal is not None}
        totals: dict[int, Any] = dict.fromkeys(passes)
        for k, block in self._read(order):
            check_point()
            for which, passed in passes.items():
                memory, hand = self.memories[which][k], hands.get(which)
                part = self.framings[which], memory, k, False
                result = visit(block, part, passed) if hand is None else hand.take(block, memory)
                totals[which] = added([totals[which], result])
        for which, hand in hands.items():
            totals[which] = added([totals[which], hand.play()])
        return {which: Reply(total, 0) for which, total in totals.items()}

    def collected(self) -> Reply:
        """One pass over the disk."""
        self.n_passes += 1
        order = range(len(self.blocks))
        return Reply(stacked(self._read(list(order)), [Size.listed(self.blocks, k) for k in order]), 0)

    def give(self, which: int, alphas: Sequence[Given]) -> None:
        _give(self.memories[which], alphas)

    def recall(self, which: int) -> Recalled | None:
        """What the samples remember of their last visits; None where one of them had none. Gap terms are those since the last
        call. The size of a row is the mean of its block."""
        memories = self.memories[which]
        if any(memory.distance is None or memory.gaps is None for memory in memories):
            return None
        distance, gaps = (np.concatenate([getattr(memory, name) for memory in memories]) for name in ("distance", "gaps"))
        for memory in memories:
            memory.gaps = np.zeros_like(memory.gaps)
        sizes = [ROW_OVERHEAD + entry.n_bytes / max(1, entry.n_rows) for entry in self.blocks.entries]
        return recalled(distance, gaps, np.repeat(sizes, [entry.n_rows for entry in self.blocks.entries]))

    def _hand(self, which: int, passed: Pass) -> Hand:
        """The hand of the last pass, where its rows are to stay; else a new one."""
        hand = self.hands.get(which)
        return hand.begin(passed) if hand is not None and hand.serves(passed) else Hand(self.framings[which], passed)

    def _order(self, passes: dict[int, Pass]) -> list[int]:
        """Every second pass goes backwards, so that it begins with what the system may still have in memory. Hands are dealt
        at random."""
        order = list(range(len(self.blocks)))
        seeds = [passed.deal.seed for passed in passes.values() if passed.deal is not None]
        if seeds:
            return [int(k) for k in np.random.default_rng(seeds).permutation(len(order))]
        return order[::-1] if self.n_passes % 2 else order

    def _read(self, order: list[int]) -> Iterator[tuple[int, Block]]:
        """The blocks in this order. Each is in a buffer that is filled anew when the next but one is asked for."""
        buffers = [np.empty(self.blocks.most_bytes + ALIGNMENT, np.uint8) for _ in range(2)]
        with ThreadPoolExecutor(1) as reader:
            ahead = reader.submit(self.blocks.read, order[0], buffers[0])
            for place, k in enumerate(order):
                block = ahead.result()
                if place + 1 < len(order):
                    ahead = reader.submit(self.blocks.read, order[place + 1], buffers[(place + 1) % 2])
                self.n_bytes_read += self.blocks.entries[k].n_bytes
                yield k, block

    def alpha(self, which: int) -> Array:
        """The dual variables of one problem, in the order of the rows."""
        return np.concatenate([memory.alpha for memory in self.memories[which]])


def stacked(blocks: Iterable[tuple[int, Block]], sizes: Sequence[Size]) -> Collected:
    """The rows of numbered blocks in their order. ``sizes`` are those of the blocks."""
    size = reduce(Size.plus, sizes)
    stack, at = Stack(size), size.less_rows()
    for number, block in blocks:
        check_point()
        at = stack.write(Piece(number, 0, block), at)
    return stack.collected()


def _give(memories: list[Memory], alphas: Sequence[Given]) -> None:
    """The memories are in this process: no pass over the rows is needed."""
    for number, places, alpha in alphas:
        memories[number].alpha[places] = alpha
