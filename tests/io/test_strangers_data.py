"""Data files from strangers: every finding of the fuzzing of version 0.1. One sentence each, and no memory harmed."""

from __future__ import annotations

import gzip
import io
import os
import struct
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import zstandard
from scipy import sparse

from maxmargin import SVC, LinearSVC
from maxmargin.io import MalformedFile, files, memory, policy, read_data, read_svmlight, stream_svmlight, text

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 5.0], [0.0, 6.0, 7.0]])
Y = np.array([1, -1, 1, -1])


def parts(form="csr"):
    matrix = sparse.coo_matrix(X) if form == "coo" else sparse.csr_matrix(X).asformat(form)
    names = ("row", "col") if form == "coo" else ("indices", "indptr")
    arrays = {name: getattr(matrix, name).copy() for name in ("data", *names)}
    return {**arrays, "shape": np.array(X.shape), "format": np.array(form.encode()), "y": Y.copy()}


def saved(path, arrays):
    np.savez(path, **arrays)
    return path


def spoiled(form, name, place, value, dtype=np.int64):
    arrays = parts(form)
    arrays[name] = arrays[name].astype(dtype)
    arrays[name][place] = value
    return arrays


def replaced(form="csr", **arrays):
    return {**parts(form), **arrays}


# Indices and pointers out of range

OUT_OF_RANGE = {
    "a column of csr": spoiled("csr", "indices", 0, 2**31 - 1, np.int32),
    "a column of csr just outside": spoiled("csr", "indices", 0, 3, np.int32),
    "a negative column": spoiled("csr", "indices", 0, -1),
    "a row of csc": spoiled("csc", "indices", 0, 2**31 - 1, np.int32),
    "a row of csc just outside": spoiled("csc", "indices", 0, 4, np.int32),
    "a row of coo": spoiled("coo", "row", 0, 2**31 - 1, np.int32),
    "a negative column of coo": spoiled("coo", "col", 0, -5),
    "a pointer": spoiled("csr", "indptr", 1, 2**40),
    "the last pointer": spoiled("csr", "indptr", -1, 2**40),
    "a first pointer": spoiled("csr", "indptr", 0, -1),
    "pointers whose differences overflow": replaced(indptr=np.array([0, 2**62, 2**63 - 1, -(2**63) + 9, 7])),
}


@pytest.mark.parametrize("case", OUT_OF_RANGE)
def test_an_index_or_a_pointer_out_of_range_is_refused_before_any_conversion(tmp_path, case):
    path = saved(tmp_path / "matrix.npz", OUT_OF_RANGE[case])
    with pytest.raises(MalformedFile, match=r"^.*matrix\.npz: "):
        read_data(path)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_a_sound_matrix_is_read_whatever_its_format(tmp_path, form):
    read, y = read_data(saved(tmp_path / "matrix.npz", parts(form)))
    assert read.format == "csr"
    assert np.array_equal(read.toarray(), X)
    assert np.array_equal(y, Y)


def broken(form, value):
    matrix = sparse.csr_matrix(X).asformat(form)
    matrix.indices = matrix.indices.copy()
    matrix.indices[0] = value
    return matrix


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("value", [2**31 - 1, 4, -1])
@pytest.mark.parametrize("model", [LinearSVC(), SVC()])
def test_a_broken_matrix_from_python_reaches_neither_a_fit_nor_a_prediction(model, form, value):
    with pytest.raises(ValueError, match="broken"):
        model.fit(broken(form, value), Y)
    model.fit(X, Y)
    for method in (model.predict, model.decision_function, model.certified_predict):
        with pytest.raises(ValueError, match="broken"):
            method(broken(form, value))


# What .npz files may not hold


def packed(arrays, change=None, **options):
    """The bytes of an archive, each member after ``change(name, content)``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=True)
            content = member.getvalue()
            archive.writestr(f"{name}.npy", change(name, content) if change else content)
    return buffer.getvalue()


def flagged(offset, value):
    """Every header of the archive with another byte."""
    data = bytearray(packed(parts()))
    for mark, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        at = data.find(mark)
        while at >= 0:
            data[at + offset + shift] = value
            at = data.find(mark, at + 4)
    return bytes(data)


def announcing(shape):
    """An array whose header announces another shape than there are bytes."""

    def change(name, content):
        if name != "data":
            return content
        text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
        return content[:8] + struct.pack("<H", len(text)) + text + content[content.index(b"\n") + 1 :]

    return packed(parts(), change)


REFUSED_ARCHIVES = {
    "encrypted": (flagged(6, 1), "encrypted"),
    "packed by an unknown method": (flagged(8, 99), "compression method"),
    "an unknown format": (packed(replaced(format=np.array(b"dia"))), "'dia' is not read"),
    "a format that is a number": (packed(replaced(format=np.array(3))), "'format' is of type int64"),
    "objects": (packed(replaced(data=np.array([1.0, "two"] * 3 + [None], dtype=object))), "'data' is of type object"),
    "complex values": (packed(replaced(data=parts()["data"] * 1j)), "'data' is of type complex128"),
    "fractional indices": (packed(replaced(indices=parts()["indices"] + 0.5)), "'indices' is of type float64"),
    "a fractional shape": (packed(replaced(shape=np.array([4.0, 3.0]))), "'shape' is of type float64"),
    "values that are not finite": (packed(replaced(data=parts()["data"] * np.nan)), "not finite"),
    "whole numbers beyond float64": (packed(replaced(data=np.full(7, 2**60 + 1))), "does not hold exactly"),
    "labels in two columns": (packed(replaced(y=np.column_stack([Y, Y]))), "'y' has 2 dimensions where 1 belong"),
    "one label": (packed(replaced(y=np.array(1))), "'y' has 0 dimensions"),
    "labels too few": (packed(replaced(y=Y[:-1])), "y has 3 labels for 4 rows"),
    "complex labels": (packed(replaced(y=Y * 1j)), "'y' is of type complex128"),
    "no labels": (packed({name: array for name, array in parts().items() if name != "y"}), "no array 'y'"),
    "values too few": (packed(replaced(data=parts()["data"][:-1])), "differ in length"),
    "pointers too few": (packed(replaced(indptr=parts()["indptr"][:-1])), "indptr has 4 numbers"),
    "a shape of three": (packed(replaced(shape=np.array([4, 3, 1]))), "shape must be two positive numbers"),
    "a negative shape": (packed(replaced(shape=np.array([4, -3]))), "shape must be two positive numbers"),
    "an array of terabytes that is not there": (announcing("(1000000000000,)"), "do not fit its shape"),
    "a header that is nested": (announcing("(" * 900), "damaged"),
    "no archive": (b"PK nonsense", "no sparse matrix"),
}


@pytest.mark.parametrize("case", REFUSED_ARCHIVES)
def test_an_archive_that_is_not_what_it_should_be_is_refused_in_a_sentence(tmp_path, case):
    content, sentence = REFUSED_ARCHIVES[case]
    (tmp_path / "matrix.npz").write_bytes(content)
    with pytest.raises(MalformedFile, match=rf"^.*matrix\.npz: .*{sentence}"):
        read_data(tmp_path / "matrix.npz")


def test_a_matrix_wider_than_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "memory_bytes", lambda: 16 << 30)
    with pytest.raises(MalformedFile, match=r"1000000000000 features would need 32000\.0 GB"):
        read_data(saved(tmp_path / "matrix.npz", replaced(shape=np.array([4, 10**12]))))


# Tables

REFUSED_TABLES = {
    "more fields than names": ("a,kind\n1,2,x\n3,4,y\n", "Length of header"),
    "more fields than names later": ("a,b,kind\n1,2,x\n3,4,y,5\n", "Expected 3 fields in line 3, saw 4"),
    "a missing value": ("a,b,kind\n1,2,x\n3,,y\n", r"line 3: column 'b' holds a value that is missing"),
    "a word": ("a,b,kind\n1,2,x\n3,?,y\n", r"line 3: column 'b' holds '\?', which is not a number"),
    "infinity": ("a,b,kind\n1,2,x\n3,inf,y\n", "line 3: column 'b' holds a value that is missing or not finite"),
    "a missing label": ("a,b,kind\n1,2,x\n3,4,\n", "none may be missing"),
    "a complex number": ("a,b,kind\n1,2j,x\n3,4,y\n", "line 2: column 'b' holds '2j', which is not a number"),
    "whole numbers beyond float64": ("a,b,kind\n1,9007199254740993,x\n3,4,y\n", "float64 would round"),
    "nothing": ("", "cannot be read as a table"),
}


@pytest.mark.parametrize("case", REFUSED_TABLES)
def test_a_table_that_pandas_would_convert_or_shift_in_silence_is_refused(tmp_path, case):
    content, sentence = REFUSED_TABLES[case]
    (tmp_path / "table.csv").write_text(content)
    with pytest.raises(MalformedFile, match=sentence):
        read_data(tmp_path / "table.csv", label_column="kind")


@pytest.mark.parametrize("column", [[[1.0], [2.0]], ["x", "y"], [1.0, None], ["1j", "2j"]])
def test_a_parquet_file_of_other_things_than_numbers_is_refused(tmp_path, column):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"a": column, "kind": [1, 2]}), path)
    with pytest.raises(MalformedFile, match=r"^.*table\.parquet: "):
        read_data(path, label_column="kind")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(MalformedFile, match=r"cannot be read as a table"):
        read_data(path, label_column="kind")


# Text: bounded, and safe from whoever changes it


@pytest.fixture
def short_lines(monkeypatch):
    small = {"most_line_bytes": 1 << 16, "window_bytes": 1 << 12, "chunk_bytes": 1 << 12, "block_bytes": 1 << 12}
    monkeypatch.setattr(policy, "READING", replace(policy.READING, **small))


PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("blank", [b" ", b"\0", b"1"])
def test_a_file_without_line_ends_is_left_where_a_line_would_be_too_long(tmp_path, short_lines, suffix, blank):
    path = tmp_path / f"data{suffix}"
    path.write_bytes(PACK[suffix](b"1 1:1\n" + blank * (1 << 20)))
    for read in (read_svmlight, lambda path: list(stream_svmlight(path, n_features=3))):
        with pytest.raises(MalformedFile, match=r"longer than 65536 bytes"):
            read(path)


def test_a_device_that_never_ends_is_left_after_one_line(short_lines, monkeypatch):
    n_read = 0

    def counted(path):
        nonlocal n_read
        for block in blocks(path):
            n_read += len(block)
            yield block

    blocks = files.blocks_of
    monkeypatch.setattr(files, "blocks_of", counted)
    with pytest.raises(MalformedFile, match=r"/dev/zero, line 1: a line is longer"):
        read_svmlight("/dev/zero")
    assert n_read <= (1 << 16) + (1 << 12)


def test_a_frame_that_unpacks_to_more_than_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "memory_bytes", lambda: 1 << 20)
    monkeypatch.setattr(policy, "READING", replace(policy.READING, window_bytes=1 << 16))
    path = tmp_path / "data.zst"
    path.write_bytes(zstandard.compress(b"1 1:1\n" * 100_000))
    assert path.stat().st_size < 1000
    with pytest.raises(MalformedFile, match=r"its content would need .* GB; .* may be used here"):
        read_svmlight(path)


def test_an_index_that_no_memory_could_hold_is_named_with_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "memory_bytes", lambda: 16 << 30)
    (tmp_path / "data").write_text("1 1:1\n-1 2:2 2147483647:1\n")
    with pytest.raises(MalformedFile, match=r"line 2, column 8: a fit with 2147483647 features would need 68\.7 GB"):
        read_svmlight(tmp_path / "data")


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: path.write_bytes(b":" * path.stat().st_size),
        lambda path: path.write_bytes(b"\n" * path.stat().st_size),
        lambda path: path.write_bytes(path.read_bytes().replace(b"0.5", b"0.7")),
    ],
    ids=["emptied", "truncated", "more elements", "more rows", "other values"],
)
@pytest.mark.parametrize("moment", [1, 5, 8, 10])
def test_a_file_that_changes_while_it_is_read_is_refused_and_no_memory_is_harmed(tmp_path, monkeypatch, change, moment):
    """The change comes before one of the readings of a piece: of those that count, or of those that parse."""
    path = tmp_path / "data"
    path.write_bytes(b"1 1:0.5 3:2\n" * 1300)
    os.utime(path, (1, 1))  # the clock of a file system may be coarse
    monkeypatch.setattr(policy, "READING", replace(policy.READING, chunk_bytes=1 << 12))
    n_pieces, piece = 0, text.TextOnDisk.piece

    def changing(self, start, stop):
        nonlocal n_pieces
        n_pieces += 1
        if n_pieces == moment:
            change(path)
        return piece(self, start, stop)

    monkeypatch.setattr(text.TextOnDisk, "piece", changing)
    with pytest.raises(MalformedFile, match=r"data(, line \d+, column \d+)?: "):
        read_svmlight(path)
    assert n_pieces >= moment


def test_a_line_without_an_end_costs_one_search_of_its_bytes(monkeypatch, tmp_path):
    """Quadratic work would search the same bytes again for every block."""
    monkeypatch.setattr(policy, "READING", replace(policy.READING, block_bytes=1 << 10))
    n_searched = 0

    class Counted(bytearray):
        def rfind(self, what, start=0):
            nonlocal n_searched
            n_searched += len(self) - start
            return super().rfind(what, start)

    monkeypatch.setattr(files, "bytearray", Counted, raising=False)
    path = tmp_path / "data"
    path.write_bytes(b" " * (1 << 20))
    assert sum(map(len, files.windows_of(path, 1 << 12))) == 1 << 20
    assert 0 < n_searched <= 1 << 20
