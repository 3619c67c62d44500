"""Fits on a Dask cluster of two workers on this machine, beside fits of the same data in memory.

Each worker is a process with one thread, and holds every second of the partitions. Both fits are certified, so that their
objectives must agree within the target; the table has their relative difference. Rounds are passes over all partitions. Bytes
are those that the client receives, counted by the executor. Of a round with Newton's method they are at most 4 d^2 from each
worker, with d weights: the table has what that model says beside what was counted. By default the client may use half of the
memory of its machine for rows. It collects them in the first of three rounds where they are many features wide, or where a
model of the costs says that this takes less time than rounds of Newton's method. With ``--memory 0`` no row leaves its worker.

    python -m benchmarks.dask_fits                      # everything but --memory 0: five minutes
    python -m benchmarks.dask_fits --sets covtype.binary.scale mnist --losses hinge
    python -m benchmarks.dask_fits --sets a9a mnist covtype.binary.scale --memory 0

Both fits are made once without a clock, and then in turns ``--repeats`` times. Seconds are medians, and all ratios are listed.
Each call adds what it measured to results/dask_fits.json, from which the tables are made.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from scipy import sparse

from benchmarks.datasets import Data, load, write_text
from benchmarks.measure import Table, arguments, provenance, seconds_text, write_report
from maxmargin import LinearSVC
from maxmargin.estimators.dask_svc import LinearSVC as DaskLinearSVC
from maxmargin.scale_out.policy import PASSES

SETS = ("a9a", "mnist", "covtype.binary.scale", "news20_bigram")
COSTS = (0.01, 1.0, 100.0)
LOSSES = ("squared_hinge", "hinge")
TARGET = 1e-6
COLUMNS = (
    "set", "loss", "C", "status", "proved gap", "difference", "rounds", "kB a round", "kB by d^2", "Dask [s]", "in memory [s]",
    "ratio", "all ratios", "measured",
)  # fmt: skip
HOW = "Wall-clock seconds, medians of repeats in turns."
KINDS = {"default": "The client may collect the rows (the default).", "stays": "No row leaves its worker (`memory=0`)."}


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
        both: Any = (DaskLinearSVC, workers, self.X, self.y), (LinearSVC, {}, data.X, data.y)
        rounds = [[timed(kind(**own, **settings), X, y) for kind, own, X, y in both] for _ in range(options.repeats + 1)]
        ours, plain = rounds[-1]
        times, others = (np.array([each[k].seconds for each in rounds[1:]]) for k in (0, 1))
        primal, other = ours.model.certificate_.primal, plain.model.certificate_.primal
        n_passes, (_, received), d = ours.model.n_passes_, ours.model.n_bytes_, data.X.shape[1] + 1
        return [
            ours.model.status_.name.lower().replace("_", " "),
            f"{ours.model.relative_gap_:.1e}",
            f"{abs(primal - other) / other:.1e}",
            str(n_passes),
            f"{received / n_passes / 1e3:.0f}",
            f"{2 * 4 * d * d / 1e3:.0f}" if d <= PASSES.narrow_weights else "-",
            seconds_text(float(np.median(times))),
            seconds_text(float(np.median(others))),
            f"{np.median(times) / np.median(others):.2f}",
            ", ".join(f"{ratio:.2f}" for ratio in times / others),
            f"{date.today()}. {provenance(options.how)}",
        ]


def tables(rows: dict[str, list[str]]) -> list[Any]:
    """One table for fits whose rows the client may collect, and one for those whose rows stay on the workers."""
    parts: list[Any] = []
    for kind, words in KINDS.items():
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
        parser.add_argument("--repeats", type=int, default=3, help="fits of each kind that are timed")
        parser.add_argument("--how", default="", help="a sentence for the table: what ran beside, on which cores")

    options = arguments(__doc__, own)
    path = options.results / "dask_fits.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rows": {}}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        for name in options.sets[:1] if options.quick else options.sets:
            data = load(name)
            trial = Trial(*chunks_of(data, options.partitions, client), data, client, options)
            for loss in options.losses:
                for C in options.costs:
                    kind = "stays" if options.memory == 0 else "default"
                    record["rows"][f"{kind} {name} {loss} {C:g}"] = trial.row(loss, C)
                    write_text(path, json.dumps(record, indent=1, sort_keys=True) + "\n")
    parts = [__doc__.partition("\n\n    python")[0], *tables(record["rows"])]
    write_report(options.results / "dask_fits.md", "Two Dask workers", parts, options.quick, HOW)


if __name__ == "__main__":
    main()
