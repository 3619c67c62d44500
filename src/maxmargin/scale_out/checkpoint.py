"""What a fit by passes resumes from after an interruption: w and alpha of each problem, in one file, written whole or not at
all."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from safetensors.numpy import load as load_tensors

from maxmargin.data.rows import Array
from maxmargin.io.files import MalformedFile, explained
from maxmargin.io.outputs import written
from maxmargin.scale_out import policy
from maxmargin.scale_out.executors import OnDisk

KEY_TENSOR = "fit"
"""The name of the tensor that tells one fit from another."""
MOST_HEADER_BYTES = 1 << 20
"""The names and shapes of the tensors of a checkpoint take fewer bytes."""


class SavedTo(NamedTuple):
    """Where a checkpoint goes, and the seconds between two times that it is written."""

    path: Path
    seconds: float

    @classmethod
    def of(cls, checkpoint: Any) -> SavedTo:
        """The user's path, or path and seconds."""
        return checkpoint if isinstance(checkpoint, cls) else cls(Path(checkpoint), policy.PASSES.checkpoint_seconds)


@dataclass
class PassesCheckpoint:
    """``key`` names the data and the settings: a file of another fit is refused, and left as it is."""

    path: Path
    key: str
    seconds: float
    saved_at: float = field(default_factory=time.monotonic)
    starts: dict[int, Array] = field(default_factory=dict)

    @classmethod
    def open(cls, saved_to: SavedTo, key: str, executor: OnDisk) -> PassesCheckpoint:
        """A new one, or what an interrupted fit left: its alpha goes to the partitions."""
        checkpoint = cls(saved_to.path, key, saved_to.seconds)
        if checkpoint.path.exists():
            checkpoint._restore(executor)
        return checkpoint

    def _restore(self, executor: OnDisk) -> None:
        with explained(self.path, "it is not a checkpoint of a fit by blocks, or it is damaged"):
            shapes = _shapes(executor)
            if self.path.stat().st_size > sum(8 * length for length in shapes.values()) + len(self.key) + MOST_HEADER_BYTES:
                raise MalformedFile(self.path, "it is larger than a checkpoint of this fit, and it is left as it is")
            tensors = load_tensors(self.path.read_bytes())
            if bytes(tensors[KEY_TENSOR]).decode() != self.key:
                raise MalformedFile(self.path, "it is the checkpoint of another fit, and it is left as it is")
            for name, length in shapes.items():
                _check_vector(name, tensors[name], length)
        for which, memories in enumerate(executor.memories):
            alpha, edges = tensors[f"alpha {which}"], np.cumsum([len(memory.alpha) for memory in memories])
            for memory, part in zip(memories, np.split(alpha, edges[:-1]), strict=True):
                memory.alpha = np.array(part)
            self.starts[which] = tensors[f"w {which}"]

    def save(self, executor: OnDisk, weights: dict[int, Array]) -> None:
        """Write all, if some time has passed since the last time. Where that fails the fit goes on, and the failure is said."""
        if time.monotonic() - self.saved_at < self.seconds:
            return
        pieces: dict[str, list[Array]] = {}
        for which, memories in enumerate(executor.memories):
            pieces[f"alpha {which}"] = [memory.alpha for memory in memories]
            pieces[f"w {which}"] = [weights.get(which, self.starts.get(which, np.zeros(0)))]
        pieces[KEY_TENSOR] = [np.frombuffer(self.key.encode(), np.uint8)]
        try:
            with written(self.path) as file:
                _write_tensors(file, pieces)
        except OSError as error:
            sentence = f"The checkpoint could not be saved, and the fit continues without it: {error}."
            warnings.warn(sentence, RuntimeWarning, stacklevel=2)
        self.saved_at = time.monotonic()

    def remove(self) -> None:
        """After the fit."""
        self.path.unlink(missing_ok=True)


def _write_tensors(file: IO[bytes], pieces: dict[str, list[Array]]) -> None:
    """Write vectors, each given in pieces, as a file of safetensors. (``safetensors.numpy.save`` wants each vector in one
    array, and makes the file in memory: with many samples that takes a large part of a budget.)"""
    header: dict[str, Any] = {}
    at = 0
    for name, parts in pieces.items():
        end = at + sum(part.nbytes for part in parts)
        kind = {"f": "F64", "u": "U8"}[parts[0].dtype.kind]
        header[name] = {"dtype": kind, "shape": [sum(len(part) for part in parts)], "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for parts in pieces.values():
        for part in parts:
            file.write(np.ascontiguousarray(part).data)


def _shapes(executor: OnDisk) -> dict[str, int]:
    """The names and the lengths of the vectors in the checkpoint of a fit."""
    lengths = {f"alpha {which}": sum(len(memory.alpha) for memory in each) for which, each in enumerate(executor.memories)}
    return lengths | {f"w {which}": framing.n_weights for which, framing in enumerate(executor.framings)}


def _check_vector(name: str, vector: Array, length: int) -> None:
    """The loops trust the lengths. A problem on which no work was done yet has no w."""
    is_right = vector.dtype == np.float64 and vector.shape in ((length,), (0,) if name.startswith("w ") else (length,))
    if not (is_right and np.isfinite(vector).all()):
        raise ValueError(f"{name} is not a vector of {length} finite numbers")
