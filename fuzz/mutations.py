"""Accidents and attacks: to bytes, to tokens of a text, to a tree of JSON, to arrays, to members of an archive."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import numpy as np

from maxmargin.data.rows import Array

TOKENS = (
    *b"nan inf -inf : :: 1e999 qid: # \n \r \x00 \xff , 0: 99999999999:1 - + e . 2147483647:1 2147483648:1 1.0:1".split(b" "),
    *b"1e400 -1 1_000 0x10 '' \" ,, 1e-400 4294967296 18446744073709551616 infinity w SV label nr_class degree".split(b" "),
    b" ",
    b" " * 1000,
    b"\n" * 100,
    b"9" * 400,
)
NUMBERS = (0, 1, -1, 2, 10**9, -(10**9), 2**31, 2**63, 2**64, 10**400, 0.5, -0.0, 1e308, -1e308)
WORDS = (
    *("", "x", "1", "object", "<U500000000", "<U5", "O", "<c16", "i4,i4", "\x1b[2J", "\ud800", "x" * 20_000),
    *("rbf", "precomputed", "linear", "poly", "LinearSVC", "SVC", "hinge", "CERTIFIED", "scale"),
)
TREES: tuple[Any, ...] = (
    *([], [1], [[]], [None], {}, {"a": 1}, {"float": "inf"}, {"float": "nan"}, {"float": "-inf"}, {"float": []}),
    *({"pairs": []}, {"pairs": [[1]]}, {"pairs": [[0, -1.0]]}),
)
JUNK = (None, True, False, *NUMBERS, *WORDS, *TREES)
"""Values that are wrong almost everywhere in a header."""
NESTED, DEEP = "@nested@", "[" * 5000 + "]" * 5000
"""What stands in a tree for lists too deep for Python, and the text of those lists."""
TYPES = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u1", "b1", "c16", "U3", "S3", "f16", ">f8", ">i4", "M8[s]", "O")
PLACES = (-1, -2, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63), 5, 100, 10**6, 10**9)
"""Numbers that an index or a pointer must not be."""


def mutated_bytes(content: bytes, chance: random.Random) -> bytes:
    """One to four small accidents."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(7):
            case 0 if data:
                data[at % len(data)] = chance.randrange(256)
            case 1:
                data[at:at] = chance.choice(TOKENS)
            case 2:
                del data[at : at + chance.randint(1, 8)]
            case 3:
                data[at:at] = data[chance.randrange(len(data) + 1) :][: chance.randint(1, 20)]
            case 4:
                del data[at:]
            case 5 if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
            case _ if data:
                data[at % len(data)] = ord(chance.choice("0123456789.:-+eE \n"))
    return bytes(data)


def mutated_words(content: bytes, chance: random.Random) -> bytes:
    """Words of a text replaced by others of the same text or by tokens."""
    lines = [line.split(b" ") for line in content.split(b"\n")]
    for _ in range(chance.randint(1, 3)):
        line = chance.choice(lines)
        word = chance.choice(chance.choice(lines)) if chance.random() < 0.5 else chance.choice(TOKENS)
        line[chance.randrange(len(line))] = word
    if chance.random() < 0.2:
        chance.shuffle(lines)
    return b"\n".join(b" ".join(line) for line in lines)


def mutated_tree(tree: Any, chance: random.Random) -> Any:
    """A tree of JSON with one to three nodes replaced, dropped, doubled or buried."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        tree = _mutated_once(tree, chance)
    return tree


def _mutated_once(tree: Any, chance: random.Random) -> Any:
    nodes = list(_places(tree))
    if not nodes or chance.random() < 0.02:
        return _junk(chance)
    parent, key = chance.choice(nodes)
    match chance.randrange(6):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, list):
            parent.append(deepcopy(parent[key]))
        case 2:
            parent[key] = chance.choice(([[parent[key]]], NESTED))
        case 3 if isinstance(parent, dict):
            parent[str(chance.choice(JUNK))[:50]] = parent[key]
        case 4 if isinstance(parent[key], (int, float)) and not isinstance(parent[key], bool):
            parent[key] = chance.choice((-parent[key], parent[key] + 1, str(parent[key]), [parent[key]], parent[key] * 10**9))
        case _:
            parent[key] = _junk(chance)
    return tree


def _junk(chance: random.Random) -> Any:
    """A copy: what is put into one tree must not change the next case."""
    return deepcopy(chance.choice(JUNK))


def _places(tree: Any) -> Any:
    """Every (parent, key) of a tree."""
    if isinstance(tree, (dict, list)):
        for key in [*tree] if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def mutated_array(array: Array, chance: random.Random) -> Array:
    """Another type, shape, length, or one value that must not be there."""
    match chance.randrange(6):
        case 0:
            return _as_type(array, chance.choice(TYPES))
        case 1 if array.size:
            flat = array.reshape(-1).copy()
            at, value = chance.randrange(len(flat)), chance.choice(PLACES)
            if array.dtype.kind == "f":
                flat[at] = chance.choice((np.nan, np.inf, -np.inf, 1e308, -1.0, 0.0, 0.5))
            elif array.dtype.kind in "iu":
                info = np.iinfo(array.dtype)
                flat[at] = min(max(value, int(info.min)), int(info.max))
            return flat.reshape(array.shape)
        case 2:
            return array[: chance.randrange(len(array) + 1)] if array.ndim else array.reshape(1)
        case 3:
            return np.concatenate([array, array]) if array.ndim else array
        case 4:
            return array.reshape(chance.choice(((-1,), (1, -1), (-1, 1), (1, 1, -1))))
        case _:
            return np.asarray(array.reshape(-1)[:1].copy()).reshape(()) if array.size else array
    return array


def _as_type(array: Array, name: str) -> Array:
    if name == "O":
        return array.astype(object)
    try:
        with np.errstate(all="ignore"):
            return array.astype(name)
    except (ValueError, TypeError):
        return array
