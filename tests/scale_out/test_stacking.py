"""Pieces of rows, wherever they come from, are put together into the rows that they were cut from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.scale_out import policy, portions
from maxmargin.scale_out.blocks import Block
from maxmargin.scale_out.portions import Stream, portion_of, stacked_portions
from maxmargin.scale_out.stacking import rows_between


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


def streams(workers, lost=None):
    """Workers, each with numbered partitions. The ``lost`` one says nothing from its second portion on."""

    def wait(asked):
        which, k = asked
        return None if which == lost and k == 1 else portion_of(workers[which], k)

    return [Stream(lambda k, which=which: (which, k), wait) for which in range(len(workers))]


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("kinds", [["dense"] * 4, ["csr"] * 4, ["float32"] * 3 + ["csr"], ["dense", "csr", "csr", "csr"]])
def test_portions_of_workers_are_all_rows_with_their_labels_weights_and_places(kinds, has_weights, monkeypatch):
    monkeypatch.setattr(portions, "WORKERS", policy.WorkerPolicy(portion_bytes=300))
    parts = blocks(kinds, has_weights)
    found = stacked_portions(streams([{3: parts[3], 0: parts[0]}, {1: parts[1]}, {2: parts[2]}]))
    order = [3, 0, 2]
    assert len(found.places) > 6
    assert np.array_equal(dense(found.block.X), np.concatenate([dense(parts[k].X) for k in order]))
    assert sparse.issparse(found.block.X) == (kinds != ["dense"] * 4)
    assert np.array_equal(found.block.y, np.concatenate([parts[k].y for k in order]))
    weights = [np.ones(len(parts[k].y)) if parts[k].sample_weight is None else parts[k].sample_weight for k in order]
    assert np.array_equal(found.block.sample_weight, np.concatenate(weights)) if has_weights else True
    assert (found.block.sample_weight is None) != has_weights
    rows = np.concatenate([dense(parts[number].X)[places] for number, places in found.places])
    assert np.array_equal(rows, dense(found.block.X))


def test_a_worker_that_is_lost_on_the_way_leaves_nothing_half_collected(monkeypatch):
    monkeypatch.setattr(portions, "WORKERS", policy.WorkerPolicy(portion_bytes=300))
    parts = blocks(["csr"] * 4)
    workers = [{0: parts[0]}, {3: parts[3]}]
    assert stacked_portions(streams(workers, lost=1)) is None
    assert stacked_portions(streams(workers)) is not None


def test_collected_rows_that_claim_to_be_canonical_are():
    parts = blocks(["csr"] * 4)
    X = stacked_portions(streams([dict(enumerate(parts))])).block.X
    assert sparse.csr_matrix((X.data, X.indices, X.indptr), X.shape).has_canonical_format


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_most_rows_of_a_block_are_no_copies(kind):
    """SciPy copies less than half of an array, so that the rest can be freed."""
    block = blocks([kind] * 4, has_weights=True)[0]
    some = rows_between(block, 5, 38)
    assert np.array_equal(dense(some.X), dense(block.X)[5:38])
    assert np.array_equal(some.y, block.y[5:38])
    assert np.shares_memory(some.X.data if kind == "csr" else some.X, block.X.data if kind == "csr" else block.X)
