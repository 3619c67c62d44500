"""Plain readings of the formats, slow and short, to compare the readers with."""

from __future__ import annotations

import csv
import io
import re

import numpy as np

from maxmargin.data.rows import Array

NUMBER = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
FEATURE = re.compile(rb"(\d+):(" + NUMBER.pattern + rb")")
QUERY = re.compile(rb"qid:(\d+)")
BLANK = re.compile(rb"[ \t\r]+")


def svmlight_reading(content: bytes) -> tuple[list[float], list[dict[int, float]]] | None:
    """The labels and features of a file by regular expressions and ``float``, or None where it is malformed."""
    labels, rows = [], []
    for line in content.split(b"\n"):
        words = BLANK.sub(b" ", line.split(b"#")[0]).strip(b" ").split(b" ")
        if words == [b""]:
            continue
        if not NUMBER.fullmatch(words[0]) or not np.isfinite(float(words[0])):
            return None
        row: dict[int, float] = {}
        for word in words[1:]:
            query, feature = QUERY.fullmatch(word), FEATURE.fullmatch(word)
            if query and not row and _whole(query[1]) < 2**31:
                continue
            if not feature or _whole(feature[1]) >= 2**31 or (row and _whole(feature[1]) <= max(row)):
                return None
            if not np.isfinite(float(feature[2])):
                return None
            row[_whole(feature[1])] = float(feature[2])
        labels.append(float(words[0]))
        rows.append(row)
    return (labels, rows) if labels else None


def _whole(digits: bytes) -> int:
    """Python refuses to read more than 4300 digits."""
    return int(digits) if len(digits.lstrip(b"0")) < 20 else 2**63


def fields_of_lines(content: bytes) -> list[int] | None:
    """How many fields each line of a table has, by the module ``csv``, one that is empty after the last comma not counted; None
    where that cannot read it."""
    try:
        text = content.decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        return [len(row) - (k > 0 and len(row) == len(rows[0]) + 1 and not row[-1]) for k, row in enumerate(rows)]
    except (UnicodeDecodeError, csv.Error):
        return None


def dense_from_parts(parts: dict[str, Array]) -> Array:
    """The matrix of an .npz file, entry by entry; for parts whose indices are in range."""
    dense = np.zeros(tuple(parts["shape"].tolist()))
    values = parts["data"].tolist()
    if "row" in parts:
        for i, j, value in zip(parts["row"].tolist(), parts["col"].tolist(), values, strict=True):
            dense[i, j] += value
        return dense
    starts, indices = parts["indptr"].tolist(), parts["indices"].tolist()
    for major in range(len(starts) - 1):
        for k in range(starts[major], starts[major + 1]):
            place = (major, indices[k]) if parts["format"].item() in (b"csr", "csr") else (indices[k], major)
            dense[place] += values[k]
    return dense
