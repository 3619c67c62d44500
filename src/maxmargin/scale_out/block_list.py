"""The list of blocks (``blocks.json``): what it may say. Every field is checked before any of them is used.

A list may come from a stranger. A place outside a file, a shape that the file does not have, or the name of a file in another
folder would make the reader read, and the compiled loops write, where they must not.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.io import policy
from maxmargin.io.files import MalformedFile, explained
from maxmargin.io.memory import check_room, check_width
from maxmargin.io.schema import Rule, either, flag, list_of, number, one_of, record, row_of, text, whole

FORMAT_KEY, FORMAT, LIST = "maxmargin", "blocks 1", "blocks.json"
ALIGNMENT = 64
"""Bytes: a cache line, and what vector instructions like best."""
MOST_ROWS, MOST_FEATURES = 2**48, 2**31 - 1
"""What the indices of rows and columns can hold."""
NAME_OF_FILE = re.compile(r"\d{6,9}\.block")
NATIVE = np.dtype(np.int64).str[0]
"""How NumPy writes the order of bytes of this machine."""
TYPES = {
    "values": rf"{NATIVE}f[48]",
    "indices": rf"{NATIVE}i[48]",
    "indptr": rf"{NATIVE}i[48]",
    "y": r"[<>|][biufU][0-9]{1,5}",
    "sample_weight": rf"{NATIVE}f8",
}
"""What an array may hold, in NumPy's words. Labels may be words."""
KINDS_OF_LABELS = "biufU"

Place = tuple[int, str, tuple[int, ...]]
"""The first byte of an array in its file, its type in NumPy's words, and its shape."""


class Entry(NamedTuple):
    """One block, as the list knows it. ``arrays`` has the place of each array by its name. With this block ``n_pieces`` pieces
    of the source are written, or it is zero where the block does not end a piece."""

    file: str
    n_rows: int
    n_stored: int
    n_bytes: int
    checksum: int
    arrays: dict[str, Place]
    n_pieces: int

    @classmethod
    def of(cls, content: dict[str, Any]) -> Entry:
        arrays = {name: (at, kind, tuple(shape)) for name, (at, kind, shape) in content["arrays"].items()}
        return cls(**{**content, "arrays": arrays})


def _anything(name: str, value: Any) -> None:
    """The rule that holds always: the source is compared and never used otherwise."""


def _place() -> Rule:
    return row_of(whole(0), text(20), list_of(whole(0), most=2))


BLOCK = record(
    {
        "file": text(20),
        "n_rows": whole(0, MOST_ROWS),
        "n_stored": whole(0),
        "n_bytes": whole(0),
        "checksum": whole(0, 2**32 - 1),
        "arrays": record(
            {"values": _place(), "y": _place()}, {name: _place() for name in ("indices", "indptr", "sample_weight")}
        ),
        "n_pieces": whole(0),
    }
)
NOTHING = one_of(None)
LABEL = either(flag(), whole(-(2**63), 2**64 - 1), number(), text())
CLASSES = record({"labels": list_of(LABEL), "dtype": either(NOTHING, text(20)), "sums": list_of(number(0.0))})
CONTENT = record(
    {
        FORMAT_KEY: one_of(FORMAT),
        "source": _anything,
        "is_complete": flag(),
        "n_features": whole(1, MOST_FEATURES),
        "is_sparse": either(NOTHING, flag()),
        "has_weights": either(NOTHING, flag()),
        "classes": either(NOTHING, CLASSES),
        "blocks": list_of(BLOCK),
    }
)


def read_list(folder: Path) -> dict[str, Any]:
    """The content of a list, if all of it can be used."""
    path = folder / LIST
    with explained(path, "it is no list of blocks, or it is damaged"):
        n_bytes = path.stat().st_size
        check_room(path, policy.HEADERS.bytes_a_character * n_bytes, "the list of blocks")
        content = json.loads(path.read_text())
        if not isinstance(content, dict) or content.get(FORMAT_KEY) != FORMAT:
            raise MalformedFile(path, "it is not a list of maxmargin's blocks")
        complaint = CONTENT("the list", content) or _complaint_about_blocks(content)
        if complaint is not None:
            raise MalformedFile(path, complaint)
        labels_of(content)
        check_width(path, content["n_features"])
    return content


def labels_of(content: dict[str, Any]) -> Array | None:
    """The labels that occur, or None where they are too many. The length of words is that of the longest one, whatever the
    list says."""
    classes = content["classes"]
    if classes is None or classes["dtype"] is None:
        return None if classes is None else np.zeros(0)
    kind = np.dtype(classes["dtype"]).kind
    if kind not in KINDS_OF_LABELS:
        raise ValueError(f"labels cannot be of the type {classes['dtype']!r}")
    if len(classes["labels"]) != len(classes["sums"]):
        raise ValueError("each label must have one sum of weights")
    if any(isinstance(label, str) != (kind == "U") for label in classes["labels"]):
        raise ValueError(f"labels of the type {classes['dtype']!r} are something else")
    return np.array(classes["labels"], dtype="U" if kind == "U" else classes["dtype"])


def _complaint_about_blocks(content: dict[str, Any]) -> str | None:
    """What is wrong with the places of the arrays, or None."""
    if content["is_complete"] and not any(block["n_rows"] for block in content["blocks"]):
        return "it lists no rows"
    files = [block["file"] for block in content["blocks"]]
    if len(set(files)) < len(files):
        return "it names a file twice"
    entries = (Entry.of(block) for block in content["blocks"])
    return next((complaint for entry in entries if (complaint := _complaint_about(entry, content))), None)


def _complaint_about(entry: Entry, content: dict[str, Any]) -> str | None:
    if not NAME_OF_FILE.fullmatch(entry.file):
        return f"the name of a block must be a number and '.block'; it is {entry.file!r}"
    shapes = _shapes(entry, content)
    if list(entry.arrays) != list(shapes):
        return f"{entry.file} must hold {', '.join(shapes)}; it holds {', '.join(entry.arrays)}"
    end = 0
    for name, (at, kind, shape) in entry.arrays.items():
        if not re.fullmatch(TYPES[name], kind):
            return f"{name} of {entry.file} cannot be of the type {kind!r}"
        if shape != shapes[name]:
            return f"{name} of {entry.file} must have the shape {shapes[name]}; it has {shape}"
        if at != end:
            return f"{name} of {entry.file} must begin at byte {end}; it begins at {at}"
        n_values = shape[0] * (shape[1] if len(shape) == 2 else 1)
        end += aligned(n_values * np.dtype(kind).itemsize)
    return None if end == entry.n_bytes else f"{entry.file} must have {end} bytes; it has {entry.n_bytes}"


def _shapes(entry: Entry, content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The arrays of a block in the order of its file, and what their shapes must be."""
    n, d = entry.n_rows, content["n_features"]
    shapes: dict[str, tuple[int, ...]] = {"values": (n, d)}
    if content["is_sparse"]:
        shapes = {"values": (entry.n_stored,), "indices": (entry.n_stored,), "indptr": (n + 1,)}
    shapes["y"] = (n,)
    return shapes | ({"sample_weight": (n,)} if content["has_weights"] else {})


def aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT
