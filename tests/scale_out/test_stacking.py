"""Pieces of rows, wherever they come from, are put together into the rows that they were cut from."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from scipy import sparse

from maxmargin.scale_out.blocks import Block, arrays_of
from maxmargin.scale_out.stacking import Piece, Size, Stack, portions_of, rows_between


def blocks(kinds, has_weights=False):
    """Partitions of unequal length, the second of them empty."""
    random = np.random.default_rng(0)
    found = []
    for n, kind in zip((40, 0, 7, 25), kinds, strict=True):
        X = np.round(random.normal(size=(n, 6)), 1) * (random.random((n, 6)) < 0.5)
        matrix = sparse.csr_matrix(X.astype(np.float32 if kind == "float32" else np.float64)) if kind != "dense" else X
        found.append(Block(matrix, random.integers(0, 3, n), random.random(n) if has_weights and n != 7 else None))
    return found


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def collected(parts, n_bytes=300):
    """What a client makes of the portions that it asks for."""
    sizes = [Size.of(block.X) for block in parts]
    size = reduce(Size.plus, sizes)
    stack, at = Stack(size), size.less_rows()
    for number, start, stop in portions_of(sizes, n_bytes):
        at = stack.write(Piece(number, start, rows_between(parts[number], start, stop)), at)
    assert at == size
    return stack.collected()


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("kinds", [["dense"] * 4, ["csr"] * 4, ["float32"] * 3 + ["csr"], ["dense", "csr", "csr", "csr"]])
def test_portions_are_all_rows_with_their_labels_weights_and_places(kinds, has_weights):
    parts = blocks(kinds, has_weights)
    found = collected(parts)
    assert len(found.places) > 4
    assert np.array_equal(dense(found.block.X), np.concatenate([dense(part.X) for part in parts]))
    assert sparse.issparse(found.block.X) == (kinds != ["dense"] * 4)
    assert np.array_equal(found.block.y, np.concatenate([part.y for part in parts]))
    assert (found.block.sample_weight is None) != has_weights
    if has_weights:
        weights = [np.ones(len(part.y)) if part.sample_weight is None else part.sample_weight for part in parts]
        assert np.array_equal(found.block.sample_weight, np.concatenate(weights))
    rows = np.concatenate([dense(parts[number].X)[places] for number, places in found.places])
    assert np.array_equal(rows, dense(found.block.X))


def test_a_portion_has_at_most_about_the_bytes_that_were_asked_for_and_at_least_a_row():
    sizes = [Size.of(block.X) for block in blocks(["dense"] * 4)]
    assert [stop - start for _, start, stop in portions_of(sizes, 480)] == [10] * 4 + [7] + [8, 8, 9]
    assert {stop - start for _, start, stop in portions_of(sizes, 1)} == {1}


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_piece_may_be_overwritten_once_it_is_written(kind):
    """Blocks are read from a disk into the same buffer, one after the other."""
    block = blocks([kind] * 4, has_weights=True)[0]
    stack = Stack(Size.of(block.X))
    piece = Block(block.X.copy(), block.y.copy(), block.sample_weight.copy())
    stack.write(Piece(0, 0, piece), Size.of(block.X).less_rows())
    for array in arrays_of(piece).values():
        array[...] = 0
    found = stack.collected().block
    assert np.array_equal(dense(found.X), dense(block.X))
    assert np.array_equal(found.y, block.y)
    assert np.array_equal(found.sample_weight, block.sample_weight)


def test_collected_rows_that_claim_to_be_canonical_are():
    X = collected(blocks(["csr"] * 4)).block.X
    assert sparse.csr_matrix((X.data, X.indices, X.indptr), X.shape).has_canonical_format


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_most_rows_of_a_block_are_no_copies(kind):
    """SciPy copies less than half of an array, so that the rest can be freed."""
    block = blocks([kind] * 4, has_weights=True)[0]
    some = rows_between(block, 5, 38)
    assert np.array_equal(dense(some.X), dense(block.X)[5:38])
    assert np.array_equal(some.y, block.y[5:38])
    assert np.shares_memory(some.X.data if kind == "csr" else some.X, block.X.data if kind == "csr" else block.X)
