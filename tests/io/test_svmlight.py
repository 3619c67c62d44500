"""svmlight files: what is read is what is there, and whatever is malformed is named with file, line and column."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from maxmargin.io import MalformedFile, policy, read_svmlight, write_svmlight


@pytest.fixture
def file(tmp_path):
    def make(text, name="data"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make


def dense(path, **options):
    X, y, *rest = read_svmlight(path, **options)
    return X.toarray().tolist(), y.tolist(), *(extra.tolist() for extra in rest)


def random_data(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.csr_array(sparse.random(n, d, density=0.1, random_state=rng))
    X.data = rng.normal(size=X.nnz) * 10.0 ** rng.integers(-12, 12, size=X.nnz)
    return X, rng.integers(-3, 4, size=n).astype(float)


@pytest.mark.parametrize(
    "text",
    [
        "1 1:0.5 3:2\n-1 2:1\n",
        "+1 1:0.5 3:2\n-1 2:1",
        "1 1:0.5 3:2\r\n-1 2:1\r\n",
        "1\t1:.5  3:2.  \n\n  -1 2:1e0 # a comment with 7:8 in it\n# 5 6:7\n\n",
        "1.0 1:5E-1 3:+2\n-1.000 2:0.01e2\n",
        "1 qid:3 1:0.5 3:2\n-1 qid:4 2:1\n",
        "1 1:0.50000000000000000000000001 3:2\n-1 2:1\n",
    ],
)
def test_the_ways_of_writing_the_same_data(file, text):
    assert dense(file(text)) == ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1.0, -1.0])


def test_query_ids_are_returned_on_demand(file):
    path = file("1 qid:3 1:0.5\n-1 2:1\n")
    assert dense(path, query_id=True) == ([[0.5, 0.0], [0.0, 1.0]], [1.0, -1.0], [3, 0])


def test_zero_and_one_based_indices(file):
    zero, one = file("1 0:5 2:6\n", "zero"), file("1 1:5 3:6\n", "one")
    assert dense(zero) == dense(one) == ([[5.0, 0.0, 6.0]], [1.0])
    assert dense(one, zero_based=True) == ([[0.0, 5.0, 0.0, 6.0]], [1.0])
    with pytest.raises(MalformedFile, match=r"zero, line 1, column 3: index 0 in a file whose first index is 1"):
        read_svmlight(zero, zero_based=False)


def test_a_sample_without_features_is_a_zero_row(file):
    assert dense(file("1\n-1 2:1\n0.5\n")) == ([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [1.0, -1.0, 0.5])
    assert dense(file("3\n4")) == ([[0.0], [0.0]], [3.0, 4.0])


def test_the_number_of_features_can_be_announced(file):
    path = file("1 2:1\n")
    assert read_svmlight(path, n_features=9)[0].shape == (1, 9)
    with pytest.raises(MalformedFile, match=r"line 1, column 3: index 2 is beyond the 1 features"):
        read_svmlight(path, n_features=1)


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("1 1:2\nx 1:2\n", "line 2, column 1", "the label is not a number"),
        ("1,2 1:2\n", "line 1, column 2", "several labels"),
        ("1 1:2\n1 1:2 a:3\n", "line 2, column 7", "a feature index must be a whole number"),
        ("1 1.5:2\n", "line 1, column 4", "a feature index must be a whole number"),
        ("1 -1:2\n", "line 1, column 3", "a feature index must be a whole number"),
        ("1 1:2 3\n", "line 1, column 8", "without a colon"),
        ("1 1 :2\n", "line 1, column 4", "without a colon"),
        ("1 3:1 2:1\n", "line 1, column 7", "must increase"),
        ("1 3:1 3:1\n", "line 1, column 7", "the same index twice"),
        ("1 99999999999999999999:1\n", "line 1, column 3", "greater than 2147483647"),
        ("1 2147483648:1\n", "line 1, column 3", "greater than 2147483647"),
        ("1 1:\n", "line 1, column 5", "the value is not a number"),
        ("1 1: 2\n", "line 1, column 5", "the value is not a number"),
        ("1 1:2x\n", "line 1, column 6", "the value is not a number"),
        ("1 1:1e\n", "line 1, column 6", "the value is not a number"),
        ("1 1:--2\n", "line 1, column 5", "the value is not a number"),
        ("1 1:1_000\n", "line 1, column 6", "the value is not a number"),
        ("1 1:nan\n", "line 1, column 5", "NaN and infinity"),
        ("nan 1:1\n", "line 1, column 1", "NaN and infinity"),
        ("1 1:-Inf\n", "line 1, column 5", "NaN and infinity"),
        ("1 1:1e999\n", "line 1, column 5", "too large"),
        ("1e309 1:1\n", "line 1, column 1", "too large"),
        (b"1 1:2\n\x00\x01\x02\n", "line 2, column 1", "no text"),
        (b"\x89PNG\r\n", "line 1, column 1", "no text"),
        ("1 qid:x 1:1\n", "line 1, column 3", "query id"),
        ("1 1:1 qid:3\n", "line 1, column 7", "query id"),
    ],
)
def test_every_malformed_line_is_named(file, text, where, what):
    path = file(text)
    with pytest.raises(MalformedFile) as caught:
        read_svmlight(path)
    assert str(caught.value).startswith(f"{path}, {where}: ")
    assert what in str(caught.value)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "   "])
def test_a_file_without_samples_is_refused(file, text):
    with pytest.raises(MalformedFile, match=r"empty|no samples"):
        read_svmlight(file(text))


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_svmlight(tmp_path / "nowhere")


@pytest.mark.parametrize(("option", "value"), [("dtype", np.int32), ("zero_based", "perhaps"), ("n_features", 0)])
def test_options_that_make_no_sense_are_named(file, option, value):
    with pytest.raises(ValueError, match=option):
        read_svmlight(file("1 1:1\n"), **{option: value})


COMPRESSORS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compressed_files_are_read_and_damaged_ones_named(file, suffix):
    text = b"1 1:0.5 3:2\n-1 2:1\n" * 500
    packed = COMPRESSORS[suffix](text)
    X, _ = read_svmlight(file(packed, "data" + suffix))
    assert X.shape == (1000, 3)
    for broken in (packed[:-9], packed[: len(packed) // 2], b"1 1:1\n"):
        with pytest.raises(MalformedFile, match="truncated or damaged"):
            read_svmlight(file(broken, "broken" + suffix))


def test_zstandard_files_are_read_and_damaged_ones_named(file):
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.compress(b"1 1:0.5 3:2\n-1 2:1\n" * 500)
    assert read_svmlight(file(packed, "data.zst"))[0].shape == (1000, 3)
    for broken in (packed[:-9], b"1 1:1\n"):
        with pytest.raises(MalformedFile, match="truncated or damaged"):
            read_svmlight(file(broken, "broken.zst"))


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 22])
def test_chunks_do_not_change_what_is_read(file, monkeypatch, chunk):
    X, y = random_data(200, 30)
    path = file("")
    dump_svmlight_file(X, y, str(path), zero_based=False, comment="two\nlines")
    monkeypatch.setattr(policy, "READING", replace(policy.READING, chunk_bytes=chunk))
    expected, labels = load_svmlight_file(str(path), n_features=30, zero_based=False)
    found, found_labels = read_svmlight(path, n_features=30)
    assert np.array_equal(found.toarray(), expected.toarray())
    assert np.array_equal(found_labels, labels)
    assert found.has_sorted_indices
    assert found.indices.dtype == found.indptr.dtype == np.int32


def test_single_precision_values_are_rounded_once(file):
    X, _ = read_svmlight(file("1 1:0.1 2:16777217\n"), dtype=np.float32)
    assert X.dtype == np.float32
    assert X.data.tolist() == [np.float32(0.1), np.float32(16777217)]


@settings(max_examples=400, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["{!r}", "{:.17g}", "{:.25e}", "{:.3f}", "{:.20f}"]))
def test_numbers_are_rounded_as_python_rounds_them(tmp_path_factory, number, style):
    text = style.format(number)
    path = tmp_path_factory.getbasetemp() / "number"
    path.write_text(f"{text} 1:{text}\n")
    X, y = read_svmlight(path)
    assert X.toarray()[0, 0] == y[0] == float(text)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**24), st.integers(-360, 330))
def test_numbers_near_the_limits_of_float64_are_right_or_refused(tmp_path_factory, digits, power):
    text = f"{digits}e{power}"
    path = tmp_path_factory.getbasetemp() / "number"
    path.write_text(f"1 1:{text}\n")
    if np.isinf(float(text)):
        with pytest.raises(MalformedFile, match="too large"):
            read_svmlight(path)
    else:
        assert read_svmlight(path)[0].toarray()[0, 0] == float(text)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("zero_based", [True, False])
def test_what_is_written_is_read_back_exactly(tmp_path, dtype, zero_based):
    X, y = random_data(100, 40, seed=1)
    X = X.astype(dtype)
    write_svmlight(X, y / 3.0, tmp_path / "data", zero_based=zero_based)
    found, labels = read_svmlight(tmp_path / "data", n_features=40, zero_based=zero_based, dtype=dtype)
    assert np.array_equal(found.toarray(), X.toarray())
    assert np.array_equal(labels, y / 3.0)
    theirs, _ = load_svmlight_file(str(tmp_path / "data"), n_features=40, zero_based=zero_based, dtype=dtype)
    assert np.array_equal(theirs.toarray(), X.toarray())


def test_whole_labels_are_written_short(tmp_path):
    write_svmlight(np.array([[0.0, 0.25], [3.0, 0.0]]), [1, -1], tmp_path / "data")
    assert (tmp_path / "data").read_text() == "1 2:0.25\n-1 1:3\n"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    write_svmlight(np.eye(2), [1, 2], tmp_path / "data")
    before = (tmp_path / "data").read_bytes()
    with pytest.raises(ValueError, match="not finite"):
        write_svmlight(np.array([[np.nan]]), [1], tmp_path / "data")
    with pytest.raises(ValueError, match="one label for each of the 2 rows"):
        write_svmlight(np.eye(2), [1], tmp_path / "data")
    assert (tmp_path / "data").read_bytes() == before
    assert os.listdir(tmp_path) == ["data"]


def test_a_written_file_has_ordinary_permissions(tmp_path):
    write_svmlight(np.eye(2), [1, 2], tmp_path / "data")
    (tmp_path / "other").touch()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_whatever_the_bytes_the_answer_is_a_matrix_or_a_malformed_file(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(content)
    try:
        X, y = read_svmlight(path)
    except MalformedFile as error:
        complaint = str(error)
    else:
        assert X.shape[0] == len(y) > 0
        return
    assert complaint.startswith(str(path))
