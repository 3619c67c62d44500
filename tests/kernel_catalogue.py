"""Named kernels, rules of shrinking, solvers and problems, of which every combination is tested.

The solvers are those that the registry names: one that is added there is tested without a line here. What it refuses, it
must refuse with a sentence about the offset; everything else must be solved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import laplacian_kernel

from maxmargin.data.rows import Array
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Custom, Kernel, Linear, Points, Polynomial, Precomputed, Sigmoid
from maxmargin.screening.shrinking import FSafe, Joachims, NoShrinking, Safe, ShrinkingRule
from maxmargin.solvers.registry import KERNEL_SOLVERS, kernel_solver_named
from tests.catalogue import labelled

KERNELS: dict[str, Kernel] = {
    "linear": Linear(),
    "rbf": RBF(0.4),
    "polynomial": Polynomial(0.3, 1.0, 3),
    "sigmoid": Sigmoid(0.02, -1.0),
    "precomputed": Precomputed(),
    "callable": Custom(lambda A, B: laplacian_kernel(A, B, gamma=0.3)),
}
LIBSVM: dict[str, dict[str, Any]] = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf", "gamma": 0.4},
    "polynomial": {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 3},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.02, "coef0": -1.0},
    "precomputed": {"kernel": "precomputed"},
    "callable": {"kernel": lambda A, B: laplacian_kernel(A, B, gamma=0.3)},
}
"""The same kernels, as scikit-learn's SVC calls them."""

RULES: dict[str, ShrinkingRule] = {
    "none": NoShrinking(),
    "joachims": Joachims(every=10),
    "safe": Safe(every=7),
    "f-safe": FSafe(every=5),
}
"""They look often, as the problems are small."""

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "smo": [{"working_set": 1}, {"working_set": 2}],
    "irwls": [{"working_set": 16}],
    "batched-smo": [{"working_set": 16}, {"working_set": 16, "dtype": "float64"}],
}
"""With which a solver is tested besides its defaults: a working set of a thousand would hold a whole problem of these."""


def _variants() -> Iterator[tuple[str, Any]]:
    for name in KERNEL_SOLVERS:
        plain: Any = kernel_solver_named(name)
        for settings in [{}, *SETTINGS.get(name, [])]:
            solver = replace(plain, **settings)
            words = ", ".join([name, *(f"{key} {value}" for key, value in settings.items())])
            if hasattr(plain, "shrinking"):
                yield from ((f"{words}, {rule}", replace(solver, shrinking=RULES[rule])) for rule in RULES)
            else:
                yield words, solver


VARIANTS: dict[str, Any] = dict(_variants())


def accepts(solver: Any, problem: KernelProblem) -> bool:
    """Whether the solver takes problems with, or without, an offset."""
    try:
        solver.init(problem, None, 0)
    except ValueError as error:
        if "offset" not in str(error):
            raise
        return False
    return True


def samples() -> tuple[Array, Array]:
    return labelled(60, 4, 1.0, 3)


def problem_of(kernel: str, has_offset: bool, C: float = 2.0) -> KernelProblem:
    """The samples with this kernel; the precomputed one is that of rbf."""
    X, y = samples()
    return KernelProblem.build(matrix_of(kernel, X), y, C, KERNELS[kernel], has_offset)


def matrix_of(kernel: str, X: Array) -> Array:
    points = Points.of(X)
    return KERNELS["rbf"].block(points, points) if kernel == "precomputed" else X


def _contradictions(has_offset: bool) -> KernelProblem:
    """Every row three times, once with the other label, and rows of zeros."""
    X, y = labelled(20, 2, 0.5, 11)
    X = np.vstack([X, X, X, np.zeros((3, 2))])
    return KernelProblem.build(X, np.concatenate([y, -y, y, [1, -1, 1]]), 1.5, RBF(0.5), has_offset)


def _weighted(has_offset: bool) -> KernelProblem:
    X, y = labelled(60, 3, 1.0, 9)
    C = np.random.default_rng(9).exponential(size=60)
    C[::5] = 0.0
    return KernelProblem.build(X, y, C, RBF(0.5), has_offset)


def _unbalanced(has_offset: bool) -> KernelProblem:
    X, _ = labelled(60, 3, 1.0, 10)
    return KernelProblem.build(X, np.where(np.arange(60) < 3, 1, -1), 5.0, RBF(0.5), has_offset)


def _sparse_float32(has_offset: bool) -> KernelProblem:
    X, y = labelled(60, 12, 0.5, 5)
    X[np.random.default_rng(5).random(X.shape) < 0.7] = 0.0
    return KernelProblem.build(sparse.csr_array(X.astype(np.float32)), y, 1.0, Polynomial(0.2, 1.0, 2), has_offset)


def _same_rows(has_offset: bool) -> KernelProblem:
    X = np.ones((30, 3))
    return KernelProblem.build(X, np.where(np.arange(30) % 3 == 0, -1, 1), 0.5, RBF(0.5), has_offset)


def _plain(kernel: Kernel, C: float, noise: float, d: int) -> Callable[[bool], KernelProblem]:
    return lambda has_offset: KernelProblem.build(*labelled(60, d, noise, 12), C, kernel, has_offset)


PROBLEMS: dict[str, Callable[[bool], KernelProblem]] = {
    "separable, large C": _plain(RBF(0.4), 1e4, 0.0, 4),
    "overlapping, large C": _plain(RBF(0.4), 1e3, 2.0, 4),
    "small C": _plain(RBF(0.4), 1e-6, 1.0, 4),
    "kernel almost constant": _plain(RBF(1e-6), 1.0, 1.0, 4),
    "kernel almost the identity": _plain(RBF(1e3), 1.0, 1.0, 4),
    "kernel of great values": _plain(Polynomial(1.0, 1.0, 5), 1e-3, 1.0, 3),
    "one feature": _plain(Linear(), 1.0, 0.5, 1),
    "contradictions": _contradictions,
    "weighted": _weighted,
    "unbalanced": _unbalanced,
    "sparse float32": _sparse_float32,
    "same rows": _same_rows,
}
