"""svmlight (LIBSVM) text files: ``label index:value index:value ... # comment``, one sample a line.

The file is cut into chunks of whole lines, which compiled code parses on all cores. Nothing is guessed: whatever is not a
well-formed line is a :class:`MalformedFile` that names the file, the line and the column. A first pass counts what each chunk
can hold, and a second one parses; a chunk that holds something else by then is refused, so that no file can make the parser
write beyond its arrays. Packed files, devices and pipes are parsed window by window.

The arrays need at most 24 bytes for each line and 12 for each colon of the text, and with those of the windows of a packed file
twice that. A file that would need more than ``MemoryPolicy.share_of_memory`` is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import DTYPES, Array
from maxmargin.data.threads import available_cores
from maxmargin.io import policy
from maxmargin.io.files import MalformedFile, is_packed, is_regular, lines_in, too_long, windows_of
from maxmargin.io.memory import check_room, check_width
from maxmargin.io.outputs import Output, written
from maxmargin.io.text import Changed, Text, TextInMemory, TextOnDisk

BYTES_A_ROW = 24
"""A label, the number of its elements and a query id."""


def read_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    dtype: Any = np.float64,
    query_id: bool = False,
) -> Any:
    """Read a file into a CSR matrix and an array of labels.

    Parameters
    ----------
    path : path
        Plain text, or compressed if it ends in .gz, .bz2, .xz or .zst.
    n_features : int, optional
        The width of X. Default: as many as the greatest index needs; a file with a greater index is refused.
    zero_based : bool or "auto"
        Whether the first feature is called 0. "auto": it is if an index 0 occurs, else the first is 1.
    dtype : float64 or float32
        The type of the values. Labels are float64.
    query_id : bool
        Return the numbers of ``qid:`` as a third array (0 where a line has none).

    Returns
    -------
    X : csr_matrix of shape (n_samples, n_features)
    y : array of shape (n_samples,)
    """
    path, dtype = Path(path), np.dtype(dtype)
    if dtype.type not in DTYPES:
        raise ValueError(f"dtype must be float64 or float32; got {dtype}.")
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based must be True, False or 'auto'; got {zero_based!r}.")
    if n_features is not None and n_features < 1:
        raise ValueError(f"n_features must be at least 1; got {n_features!r}.")
    parsed = _parse_file(path, dtype) if is_regular(path) and not is_packed(path) else _parse_stream(path, dtype)
    if not len(parsed.labels):
        raise MalformedFile(path, "it holds no samples")
    X = _matrix(path, parsed, n_features, zero_based)
    return (X, parsed.labels, parsed.queries) if query_id else (X, parsed.labels)


def stream_svmlight(
    path: str | os.PathLike[str], *, n_features: int | None, zero_based: bool = False, dtype: Any = np.float64
) -> Iterator[tuple[Any, Array]]:
    """Read a file of any size piece by piece: (X, y) of some tens of megabytes at a time, X always ``n_features`` wide; if that
    is None, each as wide as its greatest index."""
    windows = svmlight_windows(path, n_features=n_features, zero_based=zero_based, dtype=dtype)
    n_samples = 0
    for X, y in windows:
        if len(y):
            n_samples += len(y)
            yield X, y
    if not n_samples:
        raise MalformedFile(Path(path), "it holds no samples")


def svmlight_windows(
    path: str | os.PathLike[str], *, n_features: int | None, zero_based: bool, dtype: Any, skip: int = 0
) -> Iterator[tuple[Any, Array]]:
    """(X, y) of each window of a file after the first ``skip``, those without samples included."""
    path = Path(path)
    n_lines = 0
    for k, text in enumerate(windows_of(path, policy.READING.window_bytes)):
        if k >= skip:
            try:
                parsed = _parse(path, TextInMemory(text), np.dtype(dtype))
            except MalformedFile as error:
                raise error.after(n_lines) from None
            yield _matrix(path, parsed, n_features, zero_based), parsed.labels
        n_lines += lines_in(text)


def write_svmlight(X: Any, y: Any, path: str | os.PathLike[str] | Output, *, zero_based: bool = False) -> None:
    """Write X and y so that reading gives the same numbers; zeros are left out. The file appears whole or not at all."""
    X = sparse.csr_array(X)
    X.sum_duplicates()
    y = np.asarray(y)
    if y.shape != (X.shape[0],):
        raise ValueError(f"y must have one label for each of the {X.shape[0]} rows of X; its shape is {y.shape}.")
    for name, numbers in (("X", X.data), ("y", y)):
        if not np.isfinite(numbers).all():
            raise ValueError(f"{name} holds a value that is not finite.")
    with written(path) as file:
        file.writelines(svmlight_lines(X, y, zero_based=zero_based))


def svmlight_lines(X: Any, y: Array, *, zero_based: bool) -> Iterator[bytes]:
    """The lines of a CSR matrix without duplicates and its labels, all of them finite."""
    names = (X.indices + (0 if zero_based else 1)).tolist()
    values, starts = X.data.tolist(), X.indptr.tolist()
    for i, label in enumerate(y.tolist()):
        row = range(starts[i], starts[i + 1])
        features = "".join(f" {names[k]}:{_short(values[k], X.dtype)}" for k in row if values[k] != 0.0)
        yield f"{_short(label, y.dtype)}{features}\n".encode()


def _short(value: float, dtype: Any) -> str:
    """The shortest text that reads back as the same number of its type."""
    text = repr(value) if dtype != np.float32 else str(np.float32(value))
    return text.removesuffix(".0")


class _Parsed(NamedTuple):
    labels: Array
    queries: Array
    indptr: Array
    indices: Array
    values: Array
    least: int
    greatest: int

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self[:5])

    @classmethod
    def joined(cls, parts: list[_Parsed]) -> _Parsed:
        """One after the other. A list of arrays is given up as soon as it is one array."""
        columns = [[part[k] for part in parts] for k in range(5)]
        least, greatest = min(part.least for part in parts), max(part.greatest for part in parts)
        starts = np.cumsum([0, *(part.indptr[-1] for part in parts)])
        columns[2] = [part.indptr[:-1] + start for part, start in zip(parts, starts[:-1], strict=True)] + [starts[-1:]]
        parts.clear()
        labels, queries, indptr, indices, values = (np.concatenate(columns.pop(0)) for _ in range(5))
        return cls(labels, queries, indptr, indices, values, least, greatest)


class _Chunk(NamedTuple):
    """Bytes start:stop, where its first row and element have room in the arrays, and for how many."""

    start: int
    stop: int
    row: int
    element: int
    n_rows: int
    n_elements: int


class _Outcome(NamedTuple):
    rows: int
    elements: int
    least: int
    greatest: int


class Arrays(NamedTuple):
    """What the parser writes to: three arrays with an item a row, and two with an item an element."""

    labels: Array
    lengths: Array
    queries: Array
    indices: Array
    values: Array


def _parse_file(path: Path, dtype: Any) -> _Parsed:
    with TextOnDisk(path) as text:
        if not text.size:
            raise MalformedFile(path, "it is empty")
        parsed = _parse(path, text, dtype)
        text.check_unchanged()
    return parsed


def _parse_stream(path: Path, dtype: Any) -> _Parsed:
    """Window by window, and the parts put together."""
    parts: list[_Parsed] = []
    n_lines = n_bytes = 0
    for window in windows_of(path, policy.READING.window_bytes):
        try:
            parts.append(_parse(path, TextInMemory(window), dtype))
        except MalformedFile as error:
            raise error.after(n_lines) from None
        n_lines += int(np.count_nonzero(window == ord("\n")))
        n_bytes += 2 * parts[-1].nbytes  # once more when they are put together
        check_room(path, n_bytes, "its content")
    if not parts:
        raise MalformedFile(path, "it is empty")
    return parts[0] if len(parts) == 1 else _Parsed.joined(parts)


def _parse(path: Path, text: Text, dtype: Any) -> _Parsed:
    with _mapping(text.size) as mapped:
        chunks = _lay_out(path, text, mapped)
        n_rows, n_elements = chunks[-1].row + chunks[-1].n_rows, chunks[-1].element + chunks[-1].n_elements
        check_room(path, BYTES_A_ROW * n_rows + (4 + dtype.itemsize) * n_elements, "its content")
        arrays = Arrays(
            np.empty(n_rows),
            np.zeros(n_rows, np.int64),
            np.zeros(n_rows, np.int64),
            np.empty(n_elements, np.int32),
            np.empty(n_elements, dtype),
        )
        outcomes = list(mapped(lambda chunk: _parse_chunk(path, text, chunk, arrays), chunks))
    labels, lengths, queries, indices, values = _close_up(arrays, chunks, outcomes)
    indptr = np.zeros(len(labels) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    least = min(outcome.least for outcome in outcomes)
    return _Parsed(labels, queries, indptr, indices, values, least, max(outcome.greatest for outcome in outcomes))


@contextmanager
def _mapping(size: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """``map``, on all cores where there is more than one chunk: to start threads takes longer than to parse a small file."""
    if size <= policy.READING.chunk_bytes:
        yield map
        return
    with ThreadPoolExecutor(available_cores()) as pool:
        yield pool.map


def _lay_out(path: Path, text: Text, mapped: Callable[..., Iterator[Any]]) -> list[_Chunk]:
    """Cut the text at line ends and give each chunk room for all that it can hold."""
    edges = [0]
    while edges[-1] < text.size:
        edges.append(_line_end(path, text, edges[-1] + policy.READING.chunk_bytes))
    counts = list(mapped(lambda edge: _counted(text.piece(*edge)), pairwise(edges)))
    chunks, row, element = [], 0, 0
    for (start, stop), (n_rows, n_elements) in zip(pairwise(edges), counts, strict=True):
        chunks.append(_Chunk(start, stop, row, element, n_rows, n_elements))
        row, element = row + n_rows, element + n_elements
    return chunks


def _counted(piece: Array) -> tuple[int, int]:
    """Upper bounds for the rows and elements of a piece: one row more than it has line ends, and its colons."""
    return 1 + int(np.count_nonzero(piece == ord("\n"))), int(np.count_nonzero(piece == ord(":")))


def _line_end(path: Path, text: Text, at: int) -> int:
    """The first byte after the line that holds ``at``."""
    start = at
    while at < text.size:
        found = text.piece(at, min(at + policy.READING.search_bytes, text.size)).tobytes().find(b"\n")
        if found >= 0:
            return at + found + 1
        at += policy.READING.search_bytes
        if at - start > policy.READING.most_line_bytes:
            raise too_long(path)
    return text.size


def _parse_chunk(path: Path, text: Text, chunk: _Chunk, arrays: Arrays) -> _Outcome:
    from maxmargin.io.svmlight_loops import FINE, POWERS_OF_FIVE, UNDECIDED_FULL, parse

    piece = text.piece(chunk.start, chunk.stop)
    if _counted(piece) != (chunk.n_rows, chunk.n_elements):
        raise Changed(path)
    room = policy.READING.undecided_numbers
    while True:
        undecided = np.empty((room, 3), np.int64)
        problem, at, row, element, least, greatest, pending = parse(
            piece, arrays, chunk.row, chunk.element, POWERS_OF_FIVE, undecided
        )
        if problem != UNDECIDED_FULL:
            break
        room *= 8
    complaint = _complaint(path, piece, problem, at) if problem != FINE else _decide(path, piece, arrays, undecided[:pending])
    if complaint is not None:
        raise complaint.after(_lines_before(text, chunk.start))
    return _Outcome(row - chunk.row, element - chunk.element, least, greatest)


def _decide(path: Path, piece: Array, arrays: Arrays, undecided: Array) -> MalformedFile | None:
    """Round the numbers that the compiled parser leaves to Python's own. Returns what is wrong with one of them."""
    for place, start, stop in undecided:
        value = float(piece[start:stop].tobytes())
        if not np.isfinite(value):
            return MalformedFile.at(path, piece, int(start), "the number is too large for float64")
        if place < 0:
            arrays.labels[-1 - place] = value
        else:
            arrays.values[place] = value
    return None


def _lines_before(text: Text, stop: int) -> int:
    size = policy.READING.chunk_bytes
    pieces = (text.piece(start, min(start + size, stop)) for start in range(0, stop, size))
    return sum(int(np.count_nonzero(piece == ord("\n"))) for piece in pieces)


def _close_up(arrays: Arrays, chunks: list[_Chunk], outcomes: list[_Outcome]) -> Arrays:
    """Move the rows and elements together over the room that blank lines, comments and query ids left unused."""
    row = element = 0
    for chunk, outcome in zip(chunks, outcomes, strict=True):
        for array in arrays[:3]:
            _move(array, chunk.row, row, outcome.rows)
        for array in arrays[3:]:
            _move(array, chunk.element, element, outcome.elements)
        row, element = row + outcome.rows, element + outcome.elements
    return Arrays(*(array[:row] for array in arrays[:3]), *(array[:element] for array in arrays[3:]))


def _move(array: Array, source: int, target: int, length: int) -> None:
    if source != target:
        array[target : target + length] = array[source : source + length]


def _matrix(path: Path, parsed: _Parsed, n_features: int | None, zero_based: bool | str) -> Any:
    if zero_based == "auto":
        zero_based = parsed.least == 0
    elif not zero_based and parsed.least == 0:
        raise MalformedFile(path, "index 0 in a file whose first index is 1", *_place_of_index(path, 0))
    first = 0 if zero_based else 1
    needed = max(1, parsed.greatest + 1 - first)
    if n_features is not None and needed > n_features:
        sentence = f"index {parsed.greatest} is beyond the {n_features} features that were announced"
        raise MalformedFile(path, sentence, *_place_of_index(path, parsed.greatest))
    try:
        check_width(path, n_features or needed)
    except MalformedFile as error:
        raise MalformedFile(path, error.sentence, *_place_of_index(path, parsed.greatest)) from None
    if first:
        np.subtract(parsed.indices, first, out=parsed.indices)
    small = len(parsed.values) < 2**31
    indices = parsed.indices if small else parsed.indices.astype(np.int64)
    indptr = parsed.indptr.astype(np.int32) if small else parsed.indptr
    X = sparse.csr_matrix((parsed.values, indices, indptr), shape=(len(parsed.labels), n_features or needed), copy=False)
    X.has_canonical_format = True  # the parser has seen that the indices of every line increase
    return X


def _complaint(path: Path, text: Array, problem: int, at: int) -> MalformedFile:
    from maxmargin.io import svmlight_loops as parser

    sentences = {
        parser.BAD_LABEL: "the label is not a number",
        parser.SEVERAL_LABELS: "several labels on one line: multi-label files are not supported",
        parser.BAD_INDEX: "a feature index must be a whole number",
        parser.NO_COLON: "an index without a colon and a value",
        parser.NOT_INCREASING: "the indices of a line must increase",
        parser.DUPLICATE: "the same index twice on one line",
        parser.INDEX_TOO_LARGE: f"the index is greater than {parser.LARGEST_INDEX}",
        parser.BAD_VALUE: "the value is not a number",
        parser.NOT_FINITE: "NaN and infinity are not accepted",
        parser.TOO_LARGE: "the number is too large for float64",
        parser.NOT_TEXT: "a byte that is no text",
        parser.BAD_QUERY: "a query id must be a whole number, written qid:5, before the features",
    }
    return MalformedFile.at(path, text, at, sentences[problem])


def _place_of_index(path: Path, index: int) -> tuple[int, int] | tuple[()]:
    """Line and column of the first feature that is called ``index``; nothing where the file cannot be read a second time."""
    if not is_regular(path):
        return ()
    n_lines = 0
    for window in windows_of(path, policy.READING.window_bytes):
        content = window.tobytes()
        found = re.search(rb"(?<=[ \t])0*%d:" % index, content)
        if found:
            place = MalformedFile.at(path, window, found.start(), "")
            return n_lines + int(place.line or 0), int(place.column or 0)
        n_lines += content.count(b"\n")
    return ()
