"""The peers of regression and of one class: LIBLINEAR (liblinear-official) and scikit-learn's copy of it.

Only the training of LIBLINEAR is timed, not its copy of the data; of scikit-learn a whole ``fit``."""

from __future__ import annotations

import ctypes
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from liblinear.liblinear import PRINT_STRING_FUN, liblinear, parameter, problem, toPyModel
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVR

from benchmarks.datasets import Data
from benchmarks.peers import Fit, _iterations
from maxmargin.data.rows import Array

SOLVERS = {"epsilon_insensitive": 13, "squared_epsilon_insensitive": 11}
"""LIBLINEAR's -s for each loss."""
ONE_CLASS = 21
SKLEARN_MAX_ITER = 1000
"""scikit-learn's default."""

_libc = ctypes.CDLL(None)


class Clock:
    """Wall-clock seconds; or those of the processor, all threads together, for a machine that does other things as well."""

    now: Callable[[], float] = staticmethod(time.perf_counter)

    @classmethod
    def use_processor_time(cls) -> None:
        cls.now = staticmethod(time.process_time)


class Prepared(NamedTuple):
    """LIBLINEAR's own copy of the data, with a constant feature if there is a bias."""

    problem: Any
    n_weights: int

    @classmethod
    def of(cls, data: Data, bias: float) -> Prepared:
        return cls(problem(data.y, data.X, bias), data.X.shape[1] + (bias >= 0))


class OneClassFit(NamedTuple):
    seconds: float
    w: Array
    rho: float
    hit_cap: bool


def liblinear_regression(prepared: Prepared, C: float, loss: str, epsilon: float, tolerance: float) -> Fit:
    """``train -s 13 or 11 -c C -p epsilon -e tolerance -B 1``, from the random state in which the program starts."""
    seconds, model, log = _train(prepared, f"-s {SOLVERS[loss]} -c {C!r} -p {epsilon!r} -e {tolerance!r} -q")
    w = np.array(np.ctypeslib.as_array(model.w, (prepared.n_weights,)))
    return Fit(seconds, w, *_iterations(log))


def liblinear_one_class(prepared: Prepared, nu: float, tolerance: float) -> OneClassFit:
    """``train -s 21 -n nu -e tolerance``."""
    seconds, model, log = _train(prepared, f"-s {ONE_CLASS} -n {nu!r} -e {tolerance!r} -q")
    w = np.array(np.ctypeslib.as_array(model.w, (prepared.n_weights,)))
    return OneClassFit(seconds, w, float(model.rho), _iterations(log)[1])


def _train(prepared: Prepared, options: str) -> tuple[float, Any, list[bytes]]:
    log: list[bytes] = []
    listener = PRINT_STRING_FUN(log.append)
    liblinear.set_print_string_function(listener)
    _libc.srand(1)
    settings = parameter(options)
    start = Clock.now()
    pointer = liblinear.train(prepared.problem, settings)
    return Clock.now() - start, toPyModel(pointer), log


def sklearn_regression(data: Data, C: float, loss: str, epsilon: float, tolerance: float) -> Fit:
    """scikit-learn's LinearSVR with its default limit of iterations."""
    model = LinearSVR(loss=loss, C=C, epsilon=epsilon, tol=tolerance, dual="auto", max_iter=SKLEARN_MAX_ITER, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = Clock.now()
        model.fit(data.X, data.y)
        seconds = Clock.now() - start
    hit_cap = int(np.max(model.n_iter_)) >= SKLEARN_MAX_ITER
    return Fit(seconds, np.append(model.coef_, model.intercept_), int(np.max(model.n_iter_)), hit_cap)
