"""safetensors files, read no farther than their header allows: for models and for checkpoints.

The format is eight bytes with the length of a header, the header as JSON, and the arrays, whose places the header says.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any, NamedTuple

from safetensors.numpy import load as load_tensors

from maxmargin.data.rows import Array
from maxmargin.io.files import MalformedFile, explained
from maxmargin.io.memory import check_room
from maxmargin.models import policy


class Content(NamedTuple):
    metadata: dict[str, str]
    tensors: dict[str, Array]


def read_tensors(path: Path, what: str) -> Content:
    """The texts and arrays of a file that should be ``what``. A file that is no such thing is left after eight bytes."""
    with open(path, "rb") as file, explained(path, f"it is not a {what}, or it is truncated or damaged"):
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or not 0 < length <= policy.LIMITS.most_header_bytes:
            raise MalformedFile(path, f"it is not a {what}, or it is truncated or damaged (its first bytes are not a length)")
        text = file.read(length)
        header = json.loads(text)
        n_bytes = _length_of_arrays(header)
        check_room(path, policy.LIMITS.copies * n_bytes, "its content")
        tensors = load_tensors(start + text + _exactly(path, file, n_bytes))
        return Content(dict(header.get("__metadata__") or {}), tensors)


def _length_of_arrays(header: Any) -> int:
    """Where the last array ends; the library checks that the arrays lie one after the other."""
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    if not all(type(end) is int and end >= 0 for end in ends):
        raise ValueError("an array has no place")
    return max(ends, default=0)


def _exactly(path: Path, file: IO[bytes], n_bytes: int) -> bytes:
    content = file.read(n_bytes + 1)
    if len(content) != n_bytes:
        sentence = "it is truncated" if len(content) < n_bytes else "something follows its last array"
        raise MalformedFile(path, sentence)
    return content
