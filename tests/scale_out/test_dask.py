"""Fits on a Dask cluster give the certified optimum of a fit in memory, and outlive a worker."""

from __future__ import annotations

import os
import pickle
import signal

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("distributed")

import dask
import dask.array as da
from distributed import Client, LocalCluster

import maxmargin
from maxmargin.dask import LinearSVC
from maxmargin.scale_out.stacking import Stack

SETTINGS = {"distributed.comm.timeouts.connect": "60s", "distributed.worker.daemon": True, "distributed.admin.tick.limit": "1h"}


@pytest.fixture(scope="module")
def client():
    """Two workers, each a process with one thread."""
    with (
        dask.config.set(SETTINGS),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        yield client


def data(n=600, d=8, n_classes=2, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    scores = X @ random.normal(size=(d, n_classes)) + random.normal(size=(n, n_classes))
    return X, scores.argmax(axis=1)


def agrees(model, X, y, weights=None, tol=1e-6, **parameters):
    """Both are certified, and their distances cover the difference."""
    expected = maxmargin.LinearSVC(tol=1e-8, **parameters).fit(X, y, weights)
    assert model.relative_gap_ <= tol
    found = np.atleast_1d(np.array(model.certificate_, dtype=object))
    others = np.atleast_1d(np.array(expected.certificate_, dtype=object))
    for k, (one, other) in enumerate(zip(found, others, strict=True)):
        assert np.linalg.norm(model.coef_[k] - expected.coef_[k]) <= one.distance_bound + other.distance_bound
        assert one.primal == pytest.approx(other.primal, rel=2e-6)


@pytest.mark.parametrize(("loss", "memory"), [("hinge", "1G"), ("hinge", None), ("hinge", 0), ("squared_hinge", 0)])
def test_unequal_partitions_one_of_them_empty_and_one_of_one_class_give_the_optimum(client, loss, memory):
    X, y = data()
    X, y = X[np.argsort(y, kind="stable")], np.sort(y)
    cut = (50, 0, 7, 543)
    model = LinearSVC(client=client, loss=loss, memory=memory, tol=1e-6).fit(
        da.from_array(X, chunks=(cut, 8)), da.from_array(y, chunks=(cut,))
    )
    assert model.status_ is maxmargin.Status.CERTIFIED
    agrees(model, X, y, loss=loss)
    assert 2 <= model.n_passes_ <= 3 if memory != 0 else model.n_passes_ > 3
    assert model.n_bytes_[1] > 0


def test_rows_that_are_damaged_on_their_way_to_the_client_do_not_change_the_answer(client, monkeypatch):
    X, y = data()
    whole = Stack.collected

    def damaged(stack):
        found = whole(stack)
        found.block.X[:30] *= -1.0
        return found

    monkeypatch.setattr(Stack, "collected", damaged)
    model = LinearSVC(client=client, memory="1G", tol=1e-6).fit(da.from_array(X, chunks=(200, 8)), da.from_array(y, chunks=200))
    assert model.n_passes_ > 3  # the workers refused what the client had found
    agrees(model, X, y)


def test_several_classes_sample_weights_and_class_weights(client):
    X, y = data(n_classes=3)
    weights = np.random.default_rng(1).random(600)
    names = np.array(["a", "b", "c"])[y]
    settings = {"class_weight": "balanced", "C": 0.5}
    model = LinearSVC(client=client, tol=1e-6, **settings).fit(da.from_array(X, chunks=(200, 8)), names, weights)
    agrees(model, X, names, weights, **settings)
    assert model.classes_.tolist() == ["a", "b", "c"]


def test_sparse_chunks_and_lazy_predictions(client):
    X, y = data()
    X[np.abs(X) < 0.5] = 0.0
    chunks = da.from_array(X, chunks=(250, 8)).map_blocks(sparse.csr_matrix)
    model = LinearSVC(client=client, tol=1e-6).fit(chunks, da.from_array(y, chunks=250))
    agrees(model, X, y)
    local = model.to_local()
    assert type(local) is maxmargin.LinearSVC
    assert local.certificate_ == model.certificate_
    predicted = model.predict(chunks)
    assert dask.is_dask_collection(predicted)
    assert np.array_equal(predicted.compute(), local.predict(X))
    assert np.allclose(model.decision_function(chunks).compute(), local.decision_function(X))
    assert model.score(chunks, da.from_array(y, chunks=250)) == local.score(X, y)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), local.predict(X))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_many_features_end_with_the_rows_that_can_move_in_the_memory_of_the_client(client, loss):
    """Nine tenths of the rows fit: a client with this memory cannot collect all of them."""
    random = np.random.default_rng(3)
    first = random.normal(size=(800, 10))
    X = sparse.hstack([first, sparse.random(800, 2490, 0.001, "csr", random_state=3)]).tocsr()
    y = np.where(first @ np.arange(10.0) > 0.0, 1, -1)
    chunks = [da.from_delayed(dask.delayed(X[a : a + 400]), (400, 2500), meta=X[:0]) for a in (0, 400)]
    room = 0.9 * (12 * X.nnz + 96 * 800)
    settings = {"loss": loss, "C": 10.0}
    model = LinearSVC(client=client, memory=room / 0.4, tol=1e-6, **settings).fit(da.concatenate(chunks), da.from_array(y, 400))
    agrees(model, X, y, **settings)
    assert "auto" in {row.solver for row in model.trace_}
    assert not client.direct_to_workers


def test_data_frames(client):
    import dask.dataframe as dd
    import pandas as pd

    X, y = data()
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdefgh")), npartitions=3)
    labels = dd.from_pandas(pd.Series(y), npartitions=3)
    model = LinearSVC(client=client, tol=1e-6).fit(frame, labels)
    agrees(model, X, y)
    assert model.feature_names_in_.tolist() == list("abcdefgh")


def test_what_a_data_frame_has_besides_numbers_is_named_with_its_column(client):
    import dask.dataframe as dd
    import pandas as pd

    X, y = data()
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    labels = pd.Series(np.array(["no", "yes"])[(y > 0).astype(int)])
    for column in (pd.Series(["Bob"] * 600), pd.Series(pd.date_range("2026-01-01", periods=600))):
        other = dd.from_pandas(frame.assign(c=column), npartitions=2)
        with pytest.raises(ValueError, match=r"Partition . of X and y: column 'c' does not hold numbers"):
            LinearSVC(client=client).fit(other, dd.from_pandas(labels, npartitions=2))
    missing = dd.from_pandas(labels.where(labels.index != 450), npartitions=2)
    with pytest.raises(ValueError, match="Partition 1 of X and y: A label is missing"):
        LinearSVC(client=client).fit(dd.from_pandas(frame, npartitions=2), missing)


def test_a_data_frame_is_predicted_by_the_names_of_its_columns(client):
    import dask.dataframe as dd
    import pandas as pd

    X, y = data()
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdefgh")), npartitions=2)
    labels = dd.from_pandas(pd.Series(y), npartitions=2)
    model = LinearSVC(client=client).fit(frame, labels)
    assert model.score(frame, labels) == model.to_local().score(frame.compute(), y)
    with pytest.raises(ValueError, match="The columns of X must be those of fit, in the same order: 'a', 'b'"):
        model.predict(frame[list("bacdefgh")])


def test_a_bad_value_is_named_with_its_partition(client):
    X, y = data()
    X[450, 3] = np.nan
    with pytest.raises(ValueError, match="Partition 2 of X and y: X holds a value that is not finite"):
        LinearSVC(client=client).fit(da.from_array(X, chunks=(200, 8)), y)
    with pytest.raises(ValueError, match="penalize_intercept=False"):
        LinearSVC(client=client, penalize_intercept=False).fit(da.from_array(X, chunks=(200, 8)), y)
    with pytest.raises(TypeError, match="Dask array or data frame"):
        LinearSVC(client=client).fit(X, y)


@pytest.mark.parametrize(("loss", "memory", "at"), [("hinge", 0, 4), ("squared_hinge", 0, 4), ("hinge", None, 1)])
def test_a_worker_that_is_killed_costs_progress_and_not_the_answer(loss, memory, at):
    """The nanny starts another worker, or the other one takes over: either way the certificate is that of the optimum."""
    X, y = data(900, 10)
    killed = []

    with (
        dask.config.set(SETTINGS),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        processes = client.run(os.getpid)

        def kill(executor, ask):
            def wrapped(*arguments):
                if executor.n_passes == at and not killed:
                    killed.append(executor.homes[0])
                    os.kill(processes[executor.homes[0]], signal.SIGKILL)
                return ask(*arguments)

            return wrapped

        model = LinearSVC(client=client, loss=loss, memory=memory, tol=1e-6)
        original = model._solved

        def solved(executor, n_bytes, limits):
            executor._ask = kill(executor, executor._ask)
            solutions = original(executor, n_bytes, limits)
            assert executor.generation >= 1
            return solutions

        model._solved = solved
        model.fit(da.from_array(X, chunks=(300, 10)), da.from_array(y, chunks=300))
        del model._solved
    assert killed
    agrees(model, X, y, loss=loss)
