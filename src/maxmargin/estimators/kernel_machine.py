"""What the estimators with kernels other than ``SVC`` do alike, without scikit-learn: the fitted attributes, and the outputs of
machines that share their support vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxmargin.certificate.predictions import Decisions
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.estimators.jobs import run_jobs
from maxmargin.estimators.kernel_settings import KernelSettings
from maxmargin.estimators.linear_classifier import bounds_of
from maxmargin.estimators.linear_fit import keep_proofs
from maxmargin.kernel_matrix.outputs import OutputMachines
from maxmargin.problem.kernels import Kernel
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class KernelMachine(KernelSettings):
    """The part of a fit that does not depend on the loss."""

    def _run(self, jobs: Sequence[Callable[[Stop], Solution]], limits: Limits) -> list[Solution]:
        with single_threaded_blas():
            return run_jobs(jobs, getattr(self, "n_jobs", None), limits.seconds_left)

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
        return self._exact_decisions(X, diagonal, np.ascontiguousarray(self.dual_coef_.T), bounds)


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
