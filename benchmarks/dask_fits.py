"""Fits on a Dask cluster of two workers on this machine, beside fits of the same data in memory.

Each worker is a process with one thread, and holds every second of the partitions. Both fits are certified, so that their
objectives must agree within the target; the table has their relative difference. Rounds are passes over all partitions. Bytes
are those that the client receives, counted by the executor. Of a round with Newton's method they are at most 4 d^2 from each
worker, with d weights: the table has what that model says beside what was counted. By default no row leaves its worker. With
``--memory`` and hinge loss or many features the client collects the rows in the first of three rounds, and fits them.

    python -m benchmarks.dask_fits                      # everything: ten minutes, most of them for news20_bigram
    python -m benchmarks.dask_fits --sets covtype.binary.scale mnist --losses hinge
    python -m benchmarks.dask_fits --sets news20_bigram --memory 3000000000

Each call adds what it measured to results/dask_fits.json, from which the tables are made.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from itertools import pairwise
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from scipy import sparse

from benchmarks.datasets import Data, load, write_text
from benchmarks.measure import Table, arguments, seconds_text, write_report
from maxmargin import LinearSVC
from maxmargin.estimators.dask_svc import LinearSVC as DaskLinearSVC
from maxmargin.scale_out.policy import PASSES

SETS = ("a9a", "mnist", "covtype.binary.scale", "news20_bigram")
COSTS = (0.01, 1.0, 100.0)
LOSSES = ("squared_hinge", "hinge")
TARGET = 1e-6
COLUMNS = (
    "set", "loss", "C", "status", "proved gap", "difference", "rounds", "kB a round", "kB by d^2", "Dask [s]", "in memory [s]",
    "ratio",
)  # fmt: skip
HOW = "Wall-clock seconds; each fit was made once, after a short one."


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


class Trial(NamedTuple):
    """What the fits of one set have in common: chunks on the workers, the same data here, the client, and options."""

    X: Any
    y: Any
    data: Data
    client: Client
    options: Any

    def row(self, loss: str, C: float) -> list[str]:
        """What the table says of one fit, from its status on."""
        data, options = self.data, self.options
        settings: Any = {"loss": loss, "C": C, "tol": TARGET, "max_seconds": options.seconds}
        workers: Any = {"client": self.client, "memory": options.memory}
        timed(DaskLinearSVC(**workers, **{**settings, "tol": 0.1}), self.X, self.y)
        timed(LinearSVC(**{**settings, "tol": 0.1}), data.X, data.y)
        ours = timed(DaskLinearSVC(**workers, **settings), self.X, self.y)
        plain = timed(LinearSVC(**settings), data.X, data.y)
        primal, other = ours.model.certificate_.primal, plain.model.certificate_.primal
        n_passes, (_, received), d = ours.model.n_passes_, ours.model.n_bytes_, data.X.shape[1] + 1
        return [
            ours.model.status_.name.lower().replace("_", " "),
            f"{ours.model.relative_gap_:.1e}",
            f"{abs(primal - other) / other:.1e}",
            str(n_passes),
            f"{received / n_passes / 1e3:.0f}",
            f"{2 * 4 * d * d / 1e3:.0f}" if d <= PASSES.narrow_weights else "-",
            seconds_text(ours.seconds),
            seconds_text(plain.seconds),
            f"{ours.seconds / plain.seconds:.2f}",
        ]


def tables(rows: dict[str, list[str]]) -> list[Any]:
    """One table for fits whose rows stay on the workers, and one for those that the client collects."""
    parts: list[Any] = []
    for kind, words in (("stays", "No row leaves its worker."), ("collected", "The client may collect the rows (`memory=`).")):
        table = Table(*COLUMNS, numbers_from=2)
        for key, values in sorted(rows.items()):
            if key.startswith(kind):
                table.add(*key.split()[1:], *values)
        parts += [words, table]
    return parts


def main() -> None:
    def own(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sets", nargs="+", default=[*SETS])
        parser.add_argument("--partitions", type=int, default=2)
        parser.add_argument("--memory", type=int, default=None, help="the client's memory for rows in bytes")
        parser.add_argument("--costs", nargs="+", type=float, default=[*COSTS])
        parser.add_argument("--losses", nargs="+", default=[*LOSSES])
        parser.add_argument("--seconds", type=float, default=60.0, help="the limit of a fit")
        parser.add_argument("--how", default="", help="a sentence for the table: what ran beside, on which cores")

    options = arguments(__doc__, own)
    path = options.results / "dask_fits.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rows": {}, "how": ""}
    record["how"] = options.how or record["how"]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        for name in options.sets[:1] if options.quick else options.sets:
            data = load(name)
            trial = Trial(*chunks_of(data, options.partitions, client), data, client, options)
            for loss in options.losses:
                for C in options.costs:
                    kind = "stays" if options.memory is None else "collected"
                    record["rows"][f"{kind} {name} {loss} {C:g}"] = trial.row(loss, C)
                    write_text(path, json.dumps(record, indent=1, sort_keys=True) + "\n")
    parts = [__doc__.partition("\n\n    python")[0], record["how"], *tables(record["rows"])]
    write_report(options.results / "dask_fits.md", "Two Dask workers", parts, options.quick, HOW)


if __name__ == "__main__":
    main()
