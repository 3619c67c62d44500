"""What the estimators with kernels other than ``SVC`` do alike, without scikit-learn: the parameters of a kernel, the fitted
attributes, and the outputs of machines that share their support vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxmargin.certificate.predictions import Bounds, Decisions, kernel_decisions, kernel_lengths
from maxmargin.certificate.rounding import OUTWARDS
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.estimators import checks
from maxmargin.estimators.jobs import run_jobs
from maxmargin.estimators.kernel_classifier import KERNELS, kernel_named, kernel_solver, width
from maxmargin.estimators.linear_classifier import bounds_of
from maxmargin.estimators.linear_fit import keep_proofs
from maxmargin.estimators.pair_features import FeatureWeights
from maxmargin.kernel_matrix.outputs import OutputMachines, PredictionPolicy, given_values
from maxmargin.problem.kernels import Custom, Kernel, Points
from maxmargin.solvers.base import KernelSolver
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class KernelMachine:
    """The part that does not depend on the loss. A subclass has the parameters of ``SVC`` that belong to the kernel, to its
    values and to the fit, by the same names."""

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
    _kernel_: Kernel
    _feature_weights_: FeatureWeights | None = None
    """The w of each output where the kernel has a short feature map: what predicts, then."""

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        return checks.named_statuses(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        parent: Any = super()
        state = checks.with_statuses(state)
        if hasattr(parent, "__setstate__"):  # of scikit-learn: looks at the version that wrote it
            parent.__setstate__(state)
        else:
            vars(self).update(state)

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
        return kernel_named(self.kernel, gamma, self.coef0, self.degree)

    def _run(self, jobs: Sequence[Callable[[Stop], Solution]], limits: Limits) -> list[Solution]:
        with single_threaded_blas():
            return run_jobs(jobs, getattr(self, "n_jobs", None), limits.max_seconds)

    def _keep(self, X: Any, kernel: Kernel, signed: Array, solutions: list[Solution]) -> None:
        """scikit-learn's attributes. ``signed`` has a row of coefficients for each output."""
        self.support_ = np.flatnonzero(np.any(signed != 0.0, axis=0)).astype(np.int32)
        self.n_support_ = np.array([len(self.support_)], np.int32)
        self.dual_coef_ = np.ascontiguousarray(signed[:, self.support_])
        self.intercept_ = np.array([solution.b for solution in solutions])
        self.support_vectors_ = X[self.support_] if not kernel.is_given else np.empty((0, 0))
        self.n_features_in_ = X.shape[1]
        self.shape_fit_ = X.shape
        self.fit_status_ = int(not all(solution.status.is_as_asked for solution in solutions))
        self._kernel_ = kernel
        keep_proofs(self, solutions)

    def _values(self, X: Any) -> Array:
        """A column for each output."""
        if self._feature_weights_ is not None:
            return self._feature_weights_.values(X, self.intercept_)
        vectors = self.support_ if self._kernel_.is_given else self.support_vectors_
        n_support = np.array([self.dual_coef_.shape[1]])
        return OutputMachines(self._kernel_, vectors, self.dual_coef_, n_support, self.intercept_).values(X)

    def _decisions(self, X: Any, diagonal: Array | None) -> Decisions:
        """``_values`` in float64 by the definition of the kernel, and how far the exact optimum's can be from them."""
        bounds = bounds_of(self)
        if self._feature_weights_ is not None:
            return self._feature_weights_.decisions(X, self.intercept_, bounds)
        if not self._kernel_.is_positive_semidefinite:  # no ball
            bounds = Bounds(np.full_like(bounds.distance, np.inf), bounds.offset)
        size, weights = PredictionPolicy().rows_a_block, np.ascontiguousarray(self.dual_coef_.T)
        blocks = [slice(start, start + size) for start in range(0, X.shape[0], size)]
        given = (None if diagonal is None else diagonal[block] for block in blocks)
        parts = [
            kernel_decisions(*self._exact_values(X[block], own), weights, self.intercept_, bounds)
            for block, own in zip(blocks, given, strict=True)
        ]
        return Decisions(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _exact_values(self, X: Any, diagonal: Array | None) -> tuple[Array, float, Array]:
        """k(x, support vector), its rounding error, and sqrt(k(x, x))."""
        kernel = self._kernel_
        if kernel.is_given:
            assert diagonal is not None
            return given_values(X, self.support_), 0.0, np.sqrt(diagonal) * OUTWARDS
        points, vectors = Points.of(X), Points.of(self.support_vectors_)
        return kernel.block(points, vectors), kernel.rounding_error(points, vectors), kernel_lengths(kernel, points)


def checked_diagonal(kernel: Any, diagonal: Any, n_samples: int) -> Array | None:
    """k(x, x) of the samples to predict, which is needed with a precomputed kernel and with no other."""
    if (kernel == "precomputed") != (diagonal is not None):
        raise ValueError("diagonal, k(x, x) of each sample, is needed with kernel='precomputed', and with no other kernel.")
    if diagonal is None:
        return None
    diagonal = np.asarray(diagonal, dtype=np.float64)
    if diagonal.shape != (n_samples,):
        raise ValueError(f"diagonal must hold k(x, x) for each of {n_samples} samples; its shape is {diagonal.shape}.")
    wrong = np.flatnonzero(~(np.isfinite(diagonal) & (diagonal >= 0.0)))
    if wrong.size:
        raise ValueError(f"diagonal must be finite and not negative; it holds {diagonal[wrong[0]]}.")
    return diagonal
