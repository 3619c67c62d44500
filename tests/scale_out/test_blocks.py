"""Blocks on a disk hold what was written, say clearly when they do not, and lose nothing when writing is interrupted."""

from __future__ import annotations

import errno
import json
import zlib

import numpy as np
import pytest
from scipy import sparse

from maxmargin.io import Blocks, MalformedFile, to_blocks, write_svmlight
from maxmargin.scale_out import policy, writing
from maxmargin.scale_out.block_fit import block_bytes_for
from maxmargin.scale_out.block_list import ALIGNMENT, LIST
from maxmargin.scale_out.blocks import DamagedBlock, remove_blocks


def data(n=200, d=7, seed=0):
    random = np.random.default_rng(seed)
    X = sparse.random(n, d, 0.5, format="csr", random_state=seed)
    X[0, d - 1] = 1.0
    return X.tocsr(), random.choice([-1.0, 1.0], n)


def whole(blocks):
    parts = list(blocks)
    X = np.vstack([part.X.toarray() if sparse.issparse(part.X) else part.X for part in parts])
    return X, np.concatenate([part.y for part in parts])


def written_by(kind, X, y, folder):
    if kind == "text":
        write_svmlight(X, y, folder / "data.txt")
        return to_blocks(folder / "data.txt", folder / "b", block_bytes=2000)
    if kind == "npz":
        np.savez(folder / "data.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, format=b"csr", y=y)
        return to_blocks(folder / "data.npz", folder / "b", block_bytes=2000)
    if kind == "npy":
        np.save(folder / "X.npy", X.toarray())
        np.save(folder / "y.npy", y)
        return to_blocks(folder / "X.npy", folder / "b", y=folder / "y.npy", block_bytes=2000)
    if kind in ("parquet", "csv"):
        import pandas as pd

        table, path = pd.DataFrame(X.toarray(), columns=list("abcdefg")).assign(label=y), folder / f"data.{kind}"
        table.to_parquet(path) if kind == "parquet" else table.to_csv(path, index=False)
        return to_blocks(path, folder / "b", label_column="label", block_bytes=2000)
    pieces = ((X[start : start + 30], y[start : start + 30]) for start in range(0, X.shape[0], 30))
    return to_blocks(pieces, folder / "b", block_bytes=2000)


def test_a_word_in_a_late_piece_of_a_table_is_named_with_its_line(tmp_path):
    lines = ["a,b,label", *(f"{k},{0.5 * k},{k % 2}" for k in range(400))]
    lines[300] = "1,n/a?,0"
    (tmp_path / "data.csv").write_text("\n".join(lines))
    with pytest.raises(MalformedFile, match=r"data\.csv, line 301: column 'b' holds 'n/a\?', which is not a number"):
        to_blocks(tmp_path / "data.csv", tmp_path / "b", label_column="label", block_bytes=1000)


def test_a_column_of_labels_is_for_tables(tmp_path):
    (tmp_path / "data.txt").write_text("1 1:2\n-1 1:3\n")
    with pytest.raises(ValueError, match="label_column does not belong to"):
        to_blocks(tmp_path / "data.txt", tmp_path / "b", label_column="label")


def test_a_tiny_budget_does_not_mean_a_block_for_each_row():
    assert block_bytes_for(1000) == policy.BLOCKS.least_bytes
    assert block_bytes_for("100M") == 2_000_000


@pytest.mark.parametrize("kind", ["text", "npz", "npy", "parquet", "csv", "generator"])
def test_blocks_of_every_source_hold_its_rows_in_order(kind, tmp_path):
    X, y = data()
    blocks = written_by(kind, X, y, tmp_path)
    assert len(blocks) > 1
    assert (blocks.n_samples, blocks.n_features) == X.shape
    found, labels = whole(Blocks(tmp_path / "b"))
    assert np.array_equal(found, X.toarray())
    assert np.array_equal(labels, y)
    assert np.array_equal(blocks.classes, [-1.0, 1.0])
    assert np.array_equal(blocks.class_sums, [np.sum(y < 0), np.sum(y > 0)])


def test_arrays_of_a_block_are_aligned(tmp_path):
    X, y = data()
    block = to_blocks(X, tmp_path, y=y)[0]
    for array in (block.X.data, block.X.indices, block.X.indptr, block.y):
        assert array.ctypes.data % ALIGNMENT == 0


def test_weights_of_samples_are_kept_and_added_up_by_class(tmp_path):
    X, y = data()
    weights = np.random.default_rng(1).random(len(y))
    blocks = to_blocks(X, tmp_path, y=y, sample_weight=weights, block_bytes=1000)
    assert np.array_equal(np.concatenate([block.sample_weight for block in blocks]), weights)
    assert np.allclose(blocks.class_sums, [weights[y < 0].sum(), weights[y > 0].sum()], rtol=1e-12)


def test_a_block_that_was_altered_is_refused(tmp_path):
    X, y = data()
    blocks = to_blocks(X, tmp_path, y=y, block_bytes=1000)
    path = tmp_path / blocks.entries[1].file
    content = bytearray(path.read_bytes())
    content[10] ^= 1
    path.write_bytes(content)
    blocks[0]
    with pytest.raises(MalformedFile, match=r"000001\.block: the block has changed"):
        Blocks(tmp_path)[1]


def test_a_block_that_is_altered_between_two_reads_is_refused(tmp_path):
    X, y = data()
    blocks = to_blocks(X, tmp_path, y=y, block_bytes=1000)
    blocks[1]
    path = tmp_path / blocks.entries[1].file
    path.write_bytes(bytes(blocks.entries[1].n_bytes))
    with pytest.raises(MalformedFile, match="altered"):
        blocks[1]


@pytest.mark.parametrize(("change", "sentence"), [(None, "missing"), (b"short", "has 5 bytes")])
def test_a_block_that_is_missing_or_cut_short_is_refused(change, sentence, tmp_path):
    X, y = data()
    blocks = to_blocks(X, tmp_path, y=y, block_bytes=1000)
    path = tmp_path / blocks.entries[0].file
    path.unlink()
    if change is not None:
        path.write_bytes(change)
    with pytest.raises(MalformedFile, match=sentence):
        blocks[0]


def test_a_full_disk_loses_nothing_and_the_same_call_goes_on(tmp_path, monkeypatch):
    X, y = data(400)
    write_svmlight(X, y, tmp_path / "data.txt")
    monkeypatch.setattr("maxmargin.io.policy.READING", _small_windows())
    real, done = writing._Writer._write_block, []

    def full(self, block, n_pieces):
        if len(done) == 3:
            raise OSError(errno.ENOSPC, "No space left on device", str(self.folder))
        done.append(n_pieces)
        return real(self, block, n_pieces)

    monkeypatch.setattr(writing._Writer, "_write_block", full)
    with pytest.raises(OSError, match="No space left"):
        to_blocks(tmp_path / "data.txt", tmp_path / "b")
    with pytest.raises(MalformedFile, match="the blocks are incomplete"):
        Blocks(tmp_path / "b")
    stamps = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "b").glob("*.block")}
    assert len(stamps) == 3
    monkeypatch.setattr(writing._Writer, "_write_block", real)
    blocks = to_blocks(tmp_path / "data.txt", tmp_path / "b")
    found, labels = whole(blocks)
    assert np.array_equal(found, X.toarray())
    assert np.array_equal(labels, y)
    assert np.array_equal(blocks.class_sums, [np.sum(y < 0), np.sum(y > 0)])
    assert all((tmp_path / "b" / name).stat().st_mtime_ns == stamp for name, stamp in stamps.items())


def _small_windows():
    from maxmargin.io.policy import ReadingPolicy

    return ReadingPolicy(window_bytes=2000, block_bytes=500)


def test_blocks_that_are_complete_are_not_written_again(tmp_path):
    X, y = data()
    np.save(tmp_path / "X.npy", X.toarray())
    first = to_blocks(tmp_path / "X.npy", tmp_path / "b", y=y)
    stamp = (tmp_path / "b" / LIST).stat().st_mtime_ns
    assert to_blocks(tmp_path / "X.npy", tmp_path / "b", y=y).fingerprint == first.fingerprint
    assert (tmp_path / "b" / LIST).stat().st_mtime_ns == stamp


def test_a_folder_with_blocks_of_another_source_is_left_as_it_is(tmp_path):
    X, y = data()
    np.save(tmp_path / "X.npy", X.toarray())
    to_blocks(X, tmp_path / "b", y=y)
    with pytest.raises(ValueError, match="another source"):
        to_blocks(tmp_path / "X.npy", tmp_path / "b", y=y)
    with pytest.raises(ValueError, match="cannot be checked"):
        to_blocks(X, tmp_path / "b", y=y)


def test_malformed_text_is_refused_with_its_line(tmp_path):
    (tmp_path / "data.txt").write_text("1 1:2\n-1 2:3\n1 x\n")
    with pytest.raises(MalformedFile, match="line 3"):
        to_blocks(tmp_path / "data.txt", tmp_path / "b")


@pytest.mark.parametrize(
    ("piece", "sentence"),
    [
        ((np.array([[np.nan]]), np.array([1])), "not finite, in the rows 2 to 2"),
        ((np.ones((1, 1)), np.array([np.inf])), "that of row 2"),
        ((np.ones((1, 2)), np.array([1])), "one width"),
        ((np.ones((1, 1)), np.array([1, 1])), "one label for each of 1 rows, from row 2 on"),
    ],
)
def test_a_bad_piece_is_named(piece, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        to_blocks([(np.ones((2, 1)), np.array([0, 1])), piece], tmp_path, block_bytes=8)


def test_a_list_that_is_damaged_is_refused(tmp_path):
    X, y = data()
    to_blocks(X, tmp_path, y=y)
    (tmp_path / LIST).write_text(json.dumps({"maxmargin": "something else"}))
    with pytest.raises(MalformedFile, match=r"not a list of maxmargin's blocks"):
        Blocks(tmp_path)


def test_labels_may_be_words_and_far_many_are_targets(tmp_path, monkeypatch):
    monkeypatch.setattr("maxmargin.scale_out.policy.BLOCKS", writing.policy.BlockPolicy(most_classes=5))
    X = np.ones((6, 1))
    assert to_blocks(X, tmp_path / "a", y=np.array(["b", "a", "a", "b", "a", "b"])).classes.tolist() == ["a", "b"]
    assert to_blocks(X, tmp_path / "b", y=np.arange(6) / 2).classes is None


def test_a_block_with_an_index_out_of_range_is_refused_even_if_its_checksum_is_right(tmp_path):
    X, y = data()
    blocks = to_blocks(X, tmp_path, y=y)
    entry = blocks.entries[0]
    content = bytearray((tmp_path / entry.file).read_bytes())
    at = entry.arrays["indices"][0]
    content[at : at + 4] = np.int32(2**31 - 1).tobytes()
    (tmp_path / entry.file).write_bytes(content)
    description = json.loads((tmp_path / LIST).read_text())
    description["blocks"][0]["checksum"] = zlib.crc32(content)
    (tmp_path / LIST).write_text(json.dumps(description))
    with pytest.raises(DamagedBlock, match="sparse X is broken"):
        Blocks(tmp_path)[0]


def _rewritten(folder, change):
    """The list with a change, for a reader who trusts nothing."""
    description = json.loads((folder / LIST).read_text())
    change(description, description["blocks"][0])
    (folder / LIST).write_text(json.dumps(description))


LIES = {
    "a file of another folder": (lambda _, block: block.update(file="../other.block"), "the name of a block"),
    "a file twice": (lambda lists, block: lists["blocks"].append(block), "names a file twice"),
    "more bytes than the machine has": (lambda _, block: block.update(n_bytes=2**62), r"must have \d+ bytes"),
    "a place outside the file": (lambda _, block: block["arrays"]["y"].__setitem__(0, 2**40), "must begin at byte"),
    "more rows than there are": (lambda _, block: block.update(n_rows=10**9), "must have the shape"),
    "rows that are no number": (lambda _, block: block.update(n_rows="many"), "must be a whole number"),
    "objects of Python": (lambda _, block: block["arrays"]["y"].__setitem__(1, "|O8"), "cannot be of the type"),
    "long words": (lambda lists, _: lists["classes"].update(dtype="<U500000000"), "are something else"),
    "classes that are a text": (lambda lists, _: lists.update(classes="two"), "the list.classes must be"),
    "a width beyond memory": (lambda lists, _: lists.update(n_features=2**31 - 1), "would need"),
    "an unknown field": (lambda lists, _: lists.update(code="x"), "does not know"),
    "no blocks": (lambda lists, _: lists.pop("blocks"), "has no 'blocks'"),
    "another order of arrays": (lambda lists, _: lists.update(is_sparse=False), "must hold values, y"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_list_that_lies_is_refused_in_one_sentence(lie, tmp_path):
    X, y = data()
    to_blocks(X, tmp_path, y=y)
    change, sentence = LIES[lie]
    _rewritten(tmp_path, change)
    with pytest.raises(MalformedFile, match=sentence):
        Blocks(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [("values", np.nan, "not finite"), ("y", 7.0, "a label that the list"), ("y", np.inf, "label is not finite")],
)
def test_numbers_that_no_writer_writes_are_refused_even_if_the_checksum_is_right(name, value, sentence, tmp_path):
    X, y = data()
    entry = to_blocks(X, tmp_path, y=y).entries[0]
    content = bytearray((tmp_path / entry.file).read_bytes())
    at = entry.arrays[name][0]
    content[at : at + 8] = np.float64(value).tobytes()
    (tmp_path / entry.file).write_bytes(content)
    _rewritten(tmp_path, lambda _, block: block.update(checksum=zlib.crc32(content)))
    with pytest.raises(DamagedBlock, match=sentence):
        Blocks(tmp_path)[0]


def test_removing_blocks_leaves_what_is_not_theirs(tmp_path):
    X, y = data()
    to_blocks(X, tmp_path / "mine", y=y, block_bytes=1000)
    to_blocks(X, tmp_path / "shared", y=y, block_bytes=1000)
    (tmp_path / "shared" / "diary.txt").write_text("mine")
    for name in ("mine", "shared"):
        remove_blocks(tmp_path / name)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["shared", "shared/diary.txt"]
