"""The other libraries, each as a function of (data, C, loss, tolerance) that returns the seconds and w.

LIBLINEAR is the authors' own package (liblinear-official); scikit-learn's LinearSVC holds a modified copy of it; ReHLine
and Snap ML have coordinate methods of their own. All train without an intercept. Only training is timed; LIBLINEAR's copy
of the data is timed by ``liblinear_problem``.

``PEERS`` has them as solvers of the hinge problem, and ``PeerProcess`` runs one where it can be ended: none of them can be
asked to stop.
"""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import time
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import psutil
from liblinear.liblinear import PRINT_STRING_FUN, liblinear, parameter, problem, toPyModel
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmarks.datasets import Data, load
from maxmargin.data.rows import Array

DUAL_SOLVERS = {"hinge": 3, "squared_hinge": 1}
"""LIBLINEAR's -s for dual coordinate descent."""
TRON = 2
"""LIBLINEAR's -s for its Newton method on the primal of the squared hinge (the paper's TRON; no longer a trust region)."""
SKLEARN_MAX_ITER = 10_000
UNLIMITED_ITERATIONS = 1_000_000
"""For the peers whose fits a process ends."""

_libc = ctypes.CDLL(None)


class Fit(NamedTuple):
    """What a peer's training took and gave. ``hit_cap`` says that it ended at its limit of iterations."""

    seconds: float
    w: Array
    iterations: int = 0
    hit_cap: bool = False


class LiblinearProblem(NamedTuple):
    """LIBLINEAR's own copy of the data, and how long it took to make."""

    problem: Any
    n_features: int
    seconds: float


def liblinear_problem(data: Data) -> LiblinearProblem:
    problem(data.y[:2], data.X[:2])  # compiles the package's own conversion
    start = time.perf_counter()
    built = problem(data.y, data.X)
    return LiblinearProblem(built, data.X.shape[1], time.perf_counter() - start)


def liblinear_fit(prepared: LiblinearProblem, C: float, solver: int, tolerance: float) -> Fit:
    """``train -s solver -c C -e tolerance -B -1``, from the random state in which the program starts."""
    log: list[bytes] = []
    options = parameter(f"-s {solver} -c {C!r} -e {tolerance!r} -B -1 -q")
    listener = PRINT_STRING_FUN(log.append)
    liblinear.set_print_string_function(listener)  # a few lines a fit: the count of iterations is only printed
    _libc.srand(1)
    start = time.perf_counter()
    pointer = liblinear.train(prepared.problem, options)
    seconds = time.perf_counter() - start
    model = toPyModel(pointer)
    w = np.ctypeslib.as_array(model.w, (prepared.n_features,)) * float(np.sign(model.get_labels()[0]))
    return Fit(seconds, w, *_iterations(log))


def sklearn_fit(data: Data, C: float, loss: str, tolerance: float) -> Fit:
    """A whole ``fit`` of scikit-learn's LinearSVC on the dual, with a limit of 10,000 iterations instead of 1,000."""
    model = LinearSVC(loss=loss, dual=True, C=C, tol=tolerance, fit_intercept=False, max_iter=SKLEARN_MAX_ITER, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        model.fit(data.X, data.y)
        seconds = time.perf_counter() - start
    return Fit(seconds, model.coef_[0], int(model.n_iter_), int(model.n_iter_) >= SKLEARN_MAX_ITER)


def rehline_fit(data: Data, C: float, tolerance: float) -> Fit:
    """ReHLine's regularised piecewise linear problem with the hinge. Its tolerance is the relative gap that it computes."""
    from rehline import plqERM_Ridge

    model = plqERM_Ridge(loss={"name": "svm"}, C=C, tol=tolerance, max_iter=UNLIMITED_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model.fit(data.X, data.y)
        seconds = time.perf_counter() - start
    return Fit(seconds, np.ascontiguousarray(model.coef_, dtype=np.float64), int(model.n_iter_), not model.converged_)


def snapml_fit(data: Data, C: float, tolerance: float) -> Fit:
    """Snap ML's SupportVectorMachine, on one thread (two are no faster on these sets). It works in float32."""
    from snapml import SupportVectorMachine

    settings = {"loss": "hinge", "regularizer": 1.0 / C, "tol": tolerance, "max_iter": UNLIMITED_ITERATIONS}
    model = SupportVectorMachine(**settings, random_state=0)
    start = time.perf_counter()
    model.fit(data.X, data.y)
    seconds = time.perf_counter() - start
    return Fit(seconds, np.ravel(np.asarray(model.coef_, dtype=np.float64)))


def _iterations(log: list[bytes]) -> tuple[int, bool]:
    """How many, and whether the cap ended them, from LIBLINEAR's own messages.

    The dual solvers say "optimization finished, #iter = 12", Newton's prints a line for each. With -s 1 the cap of
    the dual solver is not the end: LIBLINEAR goes on with -s 2.
    """
    text = b"".join(log).decode()
    _, found, rest = text.partition("#iter = ")
    iterations = int(rest.split()[0]) if found else sum(line.startswith("iter") for line in text.splitlines())
    return iterations, "reaching max number of" in text and "Switching to use" not in text


class Peer(NamedTuple):
    """A solver of the hinge problem without intercept: ``fit(prepare(data), C, tolerance)``."""

    name: str
    package: str
    module: str
    prepare: Callable[[Data], Any]
    fit: Callable[[Any, float, float], Fit]
    tolerances: tuple[float, ...]
    max_seconds: float
    """Of processor time for one fit, after which it is ended."""
    is_bounded: bool = False
    """Its cap of iterations is short enough to need no clock, even in a quick run."""

    @property
    def version(self) -> str:
        """Empty if it is not installed."""
        try:
            return version(self.package) if find_spec(self.module) else ""
        except PackageNotFoundError:
            return ""


def _as_it_is(data: Data) -> Data:
    return data


def _liblinear_hinge(prepared: LiblinearProblem, C: float, tolerance: float) -> Fit:
    return liblinear_fit(prepared, C, DUAL_SOLVERS["hinge"], tolerance)


def _sklearn_hinge(data: Data, C: float, tolerance: float) -> Fit:
    return sklearn_fit(data, C, "hinge", tolerance)


def _grid(loosest: float, factor: float, tightest: float) -> tuple[float, ...]:
    return tuple(loosest * factor**-k for k in range(1 + math.ceil(math.log(loosest / tightest, factor))))


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            *("LIBLINEAR", "liblinear-official", "liblinear", liblinear_problem, _liblinear_hinge),
            *(_grid(10.0, 2.0, 1e-8), 200.0, True),
        ),
        Peer("scikit-learn", "scikit-learn", "sklearn", _as_it_is, _sklearn_hinge, _grid(10.0, 2.0, 1e-8), 60.0),
        Peer("ReHLine", "rehline", "rehline", _as_it_is, rehline_fit, _grid(0.25, 2.0, 1e-8), 60.0),
        Peer("Snap ML", "snapml", "snapml", _as_it_is, snapml_fit, _grid(1.0, 4.0, 1e-12), 60.0),
    )
}


class PeerProcess:
    """A peer with one data set in a process of its own, which is ended when a fit takes too long and then begun anew."""

    def __init__(self, peer: Peer, set_name: str) -> None:
        self.peer, self.set_name = peer, set_name
        self._process: Any = None
        self._connection: Any = None

    def fit(self, C: float, tolerance: float, max_seconds: float) -> Fit | None:
        """None if it took longer, in seconds of processor time: they count the same on a busy machine."""
        if self._process is None:
            self._begin()
        process = psutil.Process(self._process.pid)
        end = _processor_seconds(process) + max_seconds
        self._connection.send((C, tolerance))
        while not self._connection.poll(0.1):
            if _processor_seconds(process) > end:
                self.close()
                return None
        fit: Fit = self._connection.recv()
        return fit

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.peer.name, self.set_name), daemon=True)
        self._process.start()
        theirs.close()
        self._connection.recv()  # the data is loaded


def _serve(connection: Connection, peer_name: str, set_name: str) -> None:
    peer = PEERS[peer_name]
    prepared = peer.prepare(load(set_name))
    connection.send("ready")
    while True:
        connection.send(peer.fit(prepared, *connection.recv()))


def _processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
