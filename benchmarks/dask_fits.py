"""Fits on a Dask cluster of two workers on this machine, beside fits of the same data in memory.

Each worker is a process with one thread, and holds every second of the partitions. Both fits are certified, so that their
objectives must agree within the target; the table has their relative difference. Rounds are passes over all partitions. Bytes
are those that the client receives, counted by the executor: of a round with Newton's method they are 8 d^2 from each worker,
with d weights, and the table has what that model says beside what was counted. With ``--memory`` and hinge loss or many
features the client collects the rows in the first of three rounds, and fits them.

    python -m benchmarks.dask_fits                      # covtype, a9a, mnist: three minutes
    python -m benchmarks.dask_fits --sets a9a --partitions 4
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import pairwise
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from scipy import sparse

from benchmarks.datasets import Data, load
from benchmarks.measure import Table, arguments, seconds_text, write_report
from maxmargin import LinearSVC
from maxmargin.estimators.dask_svc import LinearSVC as DaskLinearSVC

SETS = ("a9a", "mnist", "covtype.binary.scale", "news20_bigram")
COSTS = (0.01, 1.0, 100.0)
LOSSES = ("squared_hinge", "hinge")
TARGET = 1e-6
MOST_SECONDS = 60.0


class Fitted(NamedTuple):
    seconds: float
    model: Any


def timed(model: Any, X: Any, y: Any) -> Fitted:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.perf_counter()
        model.fit(X, y)
    return Fitted(time.perf_counter() - begun, model)


def chunks_of(data: Data, n_partitions: int, client: Client) -> tuple[Any, Any]:
    """Rows in a random order, as chunks on the workers."""
    order = np.random.default_rng(0).permutation(len(data.y))
    X, y = sparse.csr_matrix(data.X)[order], data.y[order]
    edges = np.linspace(0, len(y), n_partitions + 1).astype(int)
    rows = []
    for a, b in pairwise(edges.tolist()):
        part = client.scatter(X[a:b], hash=False)
        rows.append(da.from_delayed(part, (b - a, X.shape[1]), dtype=float, meta=sparse.csr_matrix((0, 0))))
    return da.concatenate(rows), da.from_array(y, chunks=(tuple(np.diff(edges).tolist()),))


def add_row(table: Table, name: str, loss: str, C: float, prepared: tuple[Any, Any, Data, Client, Any]) -> None:
    X, y, data, client, memory = prepared
    settings: Any = {"loss": loss, "C": C, "tol": TARGET, "max_seconds": MOST_SECONDS}
    timed(DaskLinearSVC(client=client, memory=memory, **{**settings, "tol": 0.1}), X, y)
    timed(LinearSVC(**{**settings, "tol": 0.1}), data.X, data.y)
    ours = timed(DaskLinearSVC(client=client, memory=memory, **settings), X, y)
    plain = timed(LinearSVC(**settings), data.X, data.y)
    primal, other = ours.model.certificate_.primal, plain.model.certificate_.primal
    n_passes, (_, received), d = ours.model.n_passes_, ours.model.n_bytes_, data.X.shape[1] + 1
    table.add(
        name,
        loss,
        f"{C:g}",
        f"{ours.model.relative_gap_:.1e}",
        f"{abs(primal - other) / other:.1e}",
        str(n_passes),
        f"{received / n_passes / 1e3:.0f}",
        f"{2 * 8 * d * d / 1e3:.0f}",
        seconds_text(ours.seconds),
        seconds_text(plain.seconds),
        f"{ours.seconds / plain.seconds:.2f}",
    )


def main() -> None:
    def own(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sets", nargs="+", default=[*SETS])
        parser.add_argument("--partitions", type=int, default=2)
        parser.add_argument("--memory", type=int, default=None, help="the client's memory for rows in bytes")
        parser.add_argument("--costs", nargs="+", type=float, default=[*COSTS])
        parser.add_argument("--losses", nargs="+", default=[*LOSSES])
        parser.add_argument("--busy", action="store_true", help="say in the table that other work ran beside")

    options = arguments(__doc__, own)
    table = Table(
        "set", "loss", "C", "proved gap", "difference", "rounds", "kB a round", "kB by d^2", "Dask [s]", "in memory [s]",
        "ratio", numbers_from=2,
    )  # fmt: skip
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        for name in options.sets[:1] if options.quick else options.sets:
            data = load(name)
            X, y = chunks_of(data, options.partitions, client)
            for loss in options.losses:
                for C in options.costs:
                    add_row(table, name, loss, C, (X, y, data, client, options.memory))
    words = "Each fit was made once, after a short one." + (
        " **Other work ran on the machine at the same time.**" if options.busy else ""
    )
    parts = [__doc__.partition("\n\n    python")[0], table, words]
    write_report(options.results / "dask_fits.md", "Two Dask workers", parts, options.quick)


if __name__ == "__main__":
    main()
