"""What every estimator with a kernel does alike, without scikit-learn: read the parameters of the kernel and of the fit, and
compute the decision values of a fitted machine by the definition of its kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.predictions import Bounds, Decisions, kernel_decisions, kernel_lengths
from maxmargin.certificate.rounding import OUTWARDS
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.estimators import checks
from maxmargin.estimators.jobs import Watched
from maxmargin.estimators.pair_features import FeatureWeights
from maxmargin.kernel_matrix.outputs import PredictionPolicy, given_values
from maxmargin.problem.kernels import RBF, Custom, Kernel, Linear, Points, Polynomial, Precomputed, Sigmoid
from maxmargin.screening.shrinking import DEFAULT_RULE, NoShrinking
from maxmargin.solvers.base import KernelSolver
from maxmargin.solvers.registry import kernel_solver_named
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Status

KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")


class KernelSettings(checks.PickledByName, Watched):
    """The parameters of ``SVC`` that belong to the kernel, to its values and to the fit. A subclass has the same
    names."""

    kernel: Any
    degree: int
    gamma: Any
    coef0: float
    tol: float
    shrinking: Any
    cache_size: float
    verbose: int
    max_iter: int
    solver: Any
    max_seconds: float | None
    warm_start: bool
    callback: Any
    support_: Array
    support_vectors_: Any
    dual_coef_: Array
    intercept_: Array
    certificate_: Certificate | list[Certificate]
    status_: Status | list[Status]
    _kernel_: Kernel
    _is_one_: bool
    """Whether a regressor was fitted to an array of targets, and not to a matrix with a column for each output."""
    _feature_weights_: FeatureWeights | None = None
    """The w of each machine where the kernel has a short feature map: what predicts, then."""

    def _columns(self, X: Any) -> Any:
        """X, where its columns are features. None where X holds kernel values, or what a function of the user takes."""
        return None if callable(self.kernel) or self.kernel == "precomputed" else X

    def _checked_limits(self) -> Limits:
        """Check the parameters of the kernel and of the fit, and read the limits from them."""
        if not callable(self.kernel):
            checks.one_of("kernel", self.kernel, KERNELS)
        checks.number("tol", self.tol, at_least=0.0)
        checks.number("coef0", self.coef0)
        checks.number("cache_size", self.cache_size, above=0.0)
        checks.flag("warm_start", self.warm_start)
        checks.thread_count(getattr(self, "n_jobs", None))
        if isinstance(self.gamma, str):
            checks.one_of("gamma", self.gamma, ("scale", "auto"))
        else:
            checks.number("gamma", self.gamma, above=0.0)
        self._solver()
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be callable; got {self.callback!r}.")
        return Limits(float(self.tol), checks.epochs_from(self.max_iter), checks.seconds_from(self.max_seconds))

    def _solver(self) -> KernelSolver:
        """``solver`` with ``shrinking`` and ``cache_size``, unless it is an object with settings of its own."""
        return kernel_solver(self.solver, self.shrinking, self.cache_size)

    def _kernel(self, X: Any, sample_weight: Any) -> Kernel:
        if callable(self.kernel):
            return Custom(self.kernel)
        gamma = None if self.kernel in ("linear", "precomputed") else width(self.gamma, X, sample_weight)
        kernel = kernel_named(self.kernel, gamma, self.coef0, self.degree)
        return kernel if kernel.is_given else kernel.suited_to(Points.of(X))

    def _exact_decisions(self, X: Any, diagonal: Array | None, weights: Array, bounds: Bounds) -> Decisions:
        """Compute the decision values of X in float64 by the definition of the kernel, and how far the exact optimum's can be
        from them. ``weights`` has a column of coefficients for each machine."""
        if not self._kernel_.is_positive_semidefinite:  # then no ball holds w*
            bounds = Bounds(np.full_like(bounds.distance, np.inf), bounds.offset)
        size = PredictionPolicy().rows_within(len(weights))
        blocks = [slice(start, start + size) for start in range(0, X.shape[0], size)]
        given = (None if diagonal is None else diagonal[block] for block in blocks)
        parts = [
            kernel_decisions(*self._exact_values(X[block], own), weights, self.intercept_, bounds)
            for block, own in zip(blocks, given, strict=True)
        ]
        return Decisions(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _exact_values(self, X: Any, diagonal: Array | None) -> tuple[Array, float, Array]:
        """k(x, support vector), its rounding error, and sqrt(k(x, x))."""
        check_point()
        kernel = self._kernel_
        if kernel.is_given:
            assert diagonal is not None
            return given_values(X, self.support_), 0.0, np.sqrt(diagonal) * OUTWARDS
        points, vectors = Points.of(X), Points.of(self.support_vectors_)
        kernel = kernel.suited_to(points, vectors)
        return kernel.block(points, vectors), kernel.rounding_error(points, vectors), kernel_lengths(kernel, points)


def kernel_named(name: str, gamma: Any, coef0: float, degree: int) -> Kernel:
    """The kernel with this name. ``gamma`` is a number; "linear" and "precomputed" do not use it."""
    if name == "linear":
        return Linear()
    if name == "precomputed":
        return Precomputed()
    if name == "rbf":
        return RBF(gamma)
    if name == "sigmoid":
        return Sigmoid(gamma, float(coef0))
    checks.one_of("kernel", name, KERNELS)
    return Polynomial(gamma, float(coef0), degree)


def kernel_solver(solver: Any, shrinking: Any, cache_mb: float) -> KernelSolver:
    """A solver by name with these settings, or the object itself, which has settings of its own."""
    made: Any = kernel_solver_named(solver)
    if not isinstance(solver, str):
        return made
    is_flag = isinstance(shrinking, (bool, np.bool_))
    if not is_flag and not hasattr(made, "shrinking"):
        raise ValueError(f"shrinking must be True or False, or with solver='smo' a rule; got {shrinking!r}.")
    rule = (DEFAULT_RULE if shrinking else NoShrinking()) if is_flag else shrinking
    settings = {"cache_mb": float(cache_mb), "shrinking": rule, "shrinks": not isinstance(rule, NoShrinking)}
    made = replace(made, **{name: value for name, value in settings.items() if hasattr(made, name)})
    return made


def width(gamma: Any, X: Any, sample_weight: Any = None) -> float:
    """The number that ``gamma`` means: "scale" is 1 / (n_features var(X)) and "auto" is 1 / n_features, as in scikit-learn. The
    variance is that of the weighted samples, so that a sample of weight two equals two samples."""
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma != "scale":
        return float(gamma)
    if sample_weight is None and not sparse.issparse(X):
        variance = float(X.var(dtype=np.float64))
    else:
        weights = np.broadcast_to(np.asarray(1.0 if sample_weight is None else sample_weight, np.float64), X.shape[0])
        squares = X.multiply(X) if sparse.issparse(X) else np.square(X, dtype=np.float64)
        mean, square = (float(np.average(np.ravel(part.mean(axis=1)), weights=weights)) for part in (X, squares))
        variance = square - mean**2
    return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0
