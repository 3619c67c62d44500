"""LinearSVC on Dask collections: training on the workers that hold the chunks, prediction when its result is asked for.

Public as ``maxmargin.dask``."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.limits import Stop
from maxmargin.data.threads import single_threaded_blas
from maxmargin.estimators import checks, linear_svc
from maxmargin.estimators.jobs import serialised, warn_if_uncertified
from maxmargin.estimators.partitioned import framings_of_classes, keep_classes
from maxmargin.scale_out import policy
from maxmargin.scale_out.block_fit import classes_from, client_bytes, refuse_out_of_core
from maxmargin.scale_out.fitting import PassesRun, Plan
from maxmargin.scale_out.passes import run_together
from maxmargin.scale_out.remainder import ROW_OVERHEAD
from maxmargin.scale_out.workers import OnWorkers
from maxmargin.solving.driver import Limits, seed_from
from maxmargin.solving.solution import Solution

__all__ = ["LinearSVC"]


class LinearSVC(linear_svc.LinearSVC):
    r"""Linear support vector classification on a Dask cluster, trained to a certified optimum.

    The problem, the parameters and the attributes are those of :class:`maxmargin.LinearSVC`. X is a Dask array with chunks of
    rows, dense or sparse (SciPy's CSR), or a Dask data frame; y and ``sample_weight`` are Dask collections with the same
    partitions, or arrays. Each worker trains on the chunks that it holds. With few features the fit is Newton's method: every
    pass is a sum over the workers. With many features it is coordinate descent on each partition, and the step along the sum of
    all changes has the length that is best for the dual. If all rows fit into ``memory``, and collecting them takes less time
    than rounds of messages, the client collects them and fits them itself. With many features it collects at least the rows
    that can still move, once these fit. The certificate is one more pass over the workers. A worker that dies costs progress,
    never correctness.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster. By default the client of this process.
    memory : int or str, optional
        How much memory this process may use for rows, in bytes or as "2G". By default half of the memory of its machine. With
        ``memory=0`` no row and no alpha leaves its worker; a fit with many features and a large C may then end uncertified.
    **parameters
        Those of :class:`maxmargin.LinearSVC`. The intercept is penalised, and ``solver`` is "auto".

    Attributes
    ----------
    n_passes_ : int
        Rounds of messages that the fit took.
    n_bytes_ : tuple of int
        Bytes that the client sent to workers and received from them, without Dask's own.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from distributed import Client, LocalCluster
    >>> from maxmargin.dask import LinearSVC
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> y = np.where(X @ np.arange(5) > 0.5, 1, -1)
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address=':0') as cluster, Client(cluster) as client:
    ...     model = LinearSVC(client=client).fit(da.from_array(X, chunks=(300, 5)), da.from_array(y, chunks=300))
    >>> model.relative_gap_ <= 1e-4
    True
    """

    def __init__(self, *, client: Any = None, memory: Any = None, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.client = client
        self.memory = memory

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted([*linear_svc.LinearSVC._get_param_names(), "client", "memory"])

    def __getstate__(self) -> Any:
        """A client belongs to its process."""
        return {**super().__getstate__(), "client": None}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVC:
        """Fit to Dask collections."""
        with checks.unchanged_on_error(self):
            limits = self._check_parameters()
            refuse_out_of_core(self)
            solutions = self._fit_partitions(X, y, sample_weight, limits)
        warn_if_uncertified(solutions, limits)
        return self

    def _fit_partitions(self, X: Any, y: Any, sample_weight: Any, limits: Limits) -> list[Solution]:
        from maxmargin.estimators.dask_data import gathered_labels, partitions_of

        client = self._client()
        data = partitions_of(X, y, sample_weight)
        chunks = client.compute(data.blocks, sync=False)
        sizes, labels = gathered_labels(client, chunks)
        classes = classes_from(labels)
        framings = framings_of_classes(self, classes, labels.sums, data.n_features)
        executor = OnWorkers(client, chunks, sizes, framings)
        try:
            solutions = self._solved(executor, labels.n_bytes, limits)
        finally:
            executor.close()
        keep_classes(self, data.n_features, classes, solutions)
        if data.names is not None:
            self.feature_names_in_ = np.asarray(data.names, dtype=object)
        self.n_passes_, self.n_bytes_ = executor.n_passes, (executor.n_bytes_sent, executor.n_bytes_received)
        return solutions

    def _solved(self, executor: OnWorkers, n_bytes: int, limits: Limits) -> list[Solution]:
        stop, n_problems = Stop.after(limits.max_seconds), len(executor.framings)
        callback = serialised(self._watcher(), self.verbose)
        room, total = policy.SHARES.rows * client_bytes(self.memory) / n_problems, n_bytes + ROW_OVERHEAD * executor.n_samples
        plan = Plan(limits, stop, seed_from(self.random_state), callback, room, total, crowd=executor.crowd)
        with single_threaded_blas():
            return run_together(executor, [PassesRun(executor, k, plan).solve() for k in range(n_problems)], stop)

    def _client(self) -> Any:
        from distributed import get_client

        if self.client is not None:
            return self.client
        try:
            return get_client()
        except ValueError:
            raise ValueError("There is no Dask client: make one with distributed.Client(...), or pass client=.") from None

    def to_local(self) -> linear_svc.LinearSVC:
        """The same model as a plain :class:`maxmargin.LinearSVC`, with its certificate."""
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in ("client", "memory")}
        local: Any = linear_svc.LinearSVC(**parameters)
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")}
        vars(local).update({name: value for name, value in fitted.items() if name not in ("n_passes_", "n_bytes_")})
        plain: linear_svc.LinearSVC = local
        return plain

    def _local_for(self, X: Any) -> Any:
        """The model that predicts chunks of X. Chunks of a data frame have no names, so that the names are compared here."""
        local: Any = self.to_local()
        names = vars(local).pop("feature_names_in_", None) if hasattr(X, "to_dask_array") else None
        if names is not None and [str(name) for name in X.columns] != names.tolist():
            raise ValueError(f"The columns of X must be those of fit, in the same order: {', '.join(map(repr, names[:8]))}.")
        return local

    def decision_function(self, X: Any) -> Any:
        """w . x + b; of a Dask collection a Dask array, which is computed when it is asked for."""
        from maxmargin.estimators.dask_data import is_dask, mapped

        local = self._local_for(X)
        n_columns = len(np.atleast_1d(self.intercept_))
        return mapped(X, local.decision_function, np.float64, n_columns) if is_dask(X) else local.decision_function(X)

    def predict(self, X: Any) -> Any:
        """The class with the greatest decision value; of a Dask collection a Dask array, computed when it is asked for."""
        from maxmargin.estimators.dask_data import is_dask, mapped

        local = self._local_for(X)
        return mapped(X, local.predict, self.classes_.dtype, 1) if is_dask(X) else local.predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the samples whose class is predicted, or of their weights."""
        from maxmargin.estimators.dask_data import computed

        predicted, labels, weights = computed(self.predict(X), y, sample_weight)
        return float(np.average(np.asarray(predicted) == np.asarray(labels), weights=weights))

    def certified_predict(self, X: Any) -> Any:
        """Labels and which of them are proved, of an array in memory: see :meth:`maxmargin.LinearSVC.certified_predict`."""
        return self.to_local().certified_predict(X)
