"""The other libraries, each as a function of (data, C, loss, tolerance) that returns the seconds and w.

LIBLINEAR is the authors' own package (liblinear-official); scikit-learn's LinearSVC holds a modified copy of it. All
train without an intercept. Only training is timed; LIBLINEAR's copy of the data is timed by ``liblinear_problem``.
"""

from __future__ import annotations

import ctypes
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from liblinear.liblinear import PRINT_STRING_FUN, liblinear, parameter, problem, toPyModel
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmarks.datasets import Data
from maxmargin.data import Array

DUAL_SOLVERS = {"hinge": 3, "squared_hinge": 1}
"""LIBLINEAR's -s for dual coordinate descent."""
TRON = 2
"""LIBLINEAR's -s for its Newton method on the primal of the squared hinge (the paper's TRON; no longer a trust region)."""
SKLEARN_MAX_ITER = 10_000

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


def _iterations(log: list[bytes]) -> tuple[int, bool]:
    """How many, and whether the cap ended them, from LIBLINEAR's own messages.

    The dual solvers say "optimization finished, #iter = 12", Newton's prints a line for each. With -s 1 the cap of
    the dual solver is not the end: LIBLINEAR goes on with -s 2.
    """
    text = b"".join(log).decode()
    _, found, rest = text.partition("#iter = ")
    iterations = int(rest.split()[0]) if found else sum(line.startswith("iter") for line in text.splitlines())
    return iterations, "reaching max number of" in text and "Switching to use" not in text
