"""The executors of one machine: threads over partitions in memory, and a reader over blocks on a disk."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import available_cores
from maxmargin.scale_out.block_list import ALIGNMENT
from maxmargin.scale_out.blocks import Block, Blocks
from maxmargin.scale_out.passes import Framing, Memory, Pass, Reply, added, visit


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
        self.n_passes = self.n_bytes_read = 0

    @property
    def n_samples(self) -> int:
        return self.blocks.n_samples

    def run(self, passes: dict[int, Pass]) -> dict[int, Reply]:
        """Every second pass goes backwards, so that it begins with what the system may still have in memory."""
        order = list(range(len(self.blocks)))
        if self.n_passes % 2:
            order.reverse()
        self.n_passes += 1
        totals: dict[int, Any] = dict.fromkeys(passes)
        for k, block in self._read(order):
            check_point()
            for which, passed in passes.items():
                result = visit(block, (self.framings[which], self.memories[which][k], k, False), passed)
                totals[which] = added([totals[which], result])
        return {which: Reply(total, 0) for which, total in totals.items()}

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
