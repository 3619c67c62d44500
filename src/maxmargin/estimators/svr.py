"""SVR: support vector regression with kernels and a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_X_y, validate_data

from maxmargin.certificate.predictions import CertifiedValues
from maxmargin.data.rows import DTYPES, Array, sound
from maxmargin.estimators import checks
from maxmargin.estimators.fitted_kernel import FittedKernel
from maxmargin.estimators.jobs import warn_if_uncertified
from maxmargin.estimators.kernel_machine import checked_diagonal
from maxmargin.estimators.kernel_regressor import KernelRegressor
from maxmargin.estimators.presentation import Presented, fit_task, with_callbacks
from maxmargin.problem.kernel import KernelProblem
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class SVR(RegressorMixin, Presented, FittedKernel, KernelRegressor, BaseEstimator):
    r"""Support vector regression with kernels, trained to a certified optimum.

    Minimises :math:`\tfrac12 |w|^2 + \sum_i C_i \ell(y_i - w \cdot \phi(x_i) - b)` with scikit-learn's parameters, defaults and
    attributes. In addition, ``tol`` is the relative duality gap, a fit continues until its certificate proves this gap, and
    every fit says how far from the optimum it can be.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default "rbf"
        "sigmoid" is not positive semidefinite: no optimum can be proved, and ``status_`` is at best STATIONARY.
    degree, gamma, coef0
        As in scikit-learn, except that the variance in ``gamma="scale"`` counts ``sample_weight``.
    tol : float, default 1e-3
        The relative duality gap to reach, ``gap / max(|primal|, |dual|)``.
    C : float, default 1.0
        Weight of the loss, which is a sum over the samples. ``np.inf`` asks that every residual stays within ``epsilon``: the
        shortest w that does it. Where none does, the fit raises an ``InseparableError``, whose ``ray`` proves it.
    epsilon : float, default 0.1
        Half the width of the tube in which a residual costs nothing, in units of y. The quantile loss has no tube.
    shrinking : bool, default True
        Whether the solver may set samples aside for a while.
    cache_size : float, default 500
        Megabytes for kernel values, for all threads and outputs together. The fit stays within this budget.
    verbose : int, default 0
        Print a line for each certificate.
    max_iter : int, default -1
        Limit on epochs, each as many steps as there are samples; -1 for none.
    loss : {"epsilon_insensitive", "quantile"}, default "epsilon_insensitive"
        max(0, \|r\| - epsilon), or ``quantile`` r for r > 0 and (1 - ``quantile``) \|r\| for r < 0, of the residual r =
        y - prediction.
    quantile : float, default 0.5
        The share of the targets to lie below the prediction, for ``loss="quantile"``: at most that share of the training
        targets lies below, and at least that share lies below or on, the prediction.
    solver : str or solver object, default "auto"
        "auto", "batched-smo", or for example ``BatchedSMO(dtype="float64")``.
    max_seconds : float, optional
        Limit on the time of the fit, all outputs together.
    warm_start : bool, default False
        Start from the last fit's dual variables when y has the same shape; they are scaled to the new C.
    n_jobs : int, optional
        Threads for the outputs of a two-dimensional y.
    callback : callable, optional
        Called with a :class:`maxmargin.Progress` at each certificate; returning True stops the fit.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, fit_status_, shape_fit_
        As in scikit-learn. With a two-dimensional y, ``dual_coef_`` has a row, and ``intercept_`` an element, for each output.
    n_features_in_, feature_names_in_, n_iter_
        As in scikit-learn; ``n_iter_`` is the greatest number of epochs.
    certificate_ : Certificate, or a list with one for each output
    relative_gap_ : float
        The worst.
    status_ : Status, or a list with one for each output
    trace_ : tuple of Progress, or a list with one for each output
    offset_bound_ : float, or a list with one for each output
        How far ``intercept_`` can be from that of the exact optimum.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import SVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SVR(C=100.0, epsilon=5.0, tol=1e-6).fit(X, y)
    >>> bool(model.relative_gap_ <= 1e-6)
    True
    >>> values, radius = model.certified_predict(X)
    >>> bool((radius < 1.0).all())
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVR:
        """Fit to X of shape (n_samples, n_features), dense or sparse, and targets y, one column for each output; with
        ``kernel="precomputed"`` X is the kernel matrix."""
        solutions, limits = self._fit(X, y, sample_weight)
        warn_if_uncertified(solutions, limits, self._columns(X))
        return self

    @with_callbacks
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[list[Solution], Limits]:
        with fit_task(self, X, y, sample_weight), checks.unchanged_on_error(self):
            limits = self._check_parameters()
            options: dict[str, Any] = {"multi_output": True, "y_numeric": True, "order": "C", "dtype": DTYPES}
            X, y = validate_data(self, sound(X), y, accept_sparse="csr", **options)
            return self._train(X, y, sample_weight, limits), limits

    def regression_problem(self, X: Any, y: Any, sample_weight: Any = None) -> KernelProblem:
        """The problem of one target that ``fit`` solves, with the costs of C = 1: what :func:`maxmargin.path` takes."""
        self._check_parameters()
        X, y = check_X_y(sound(X), y, accept_sparse="csr", dtype=DTYPES, order="C", y_numeric=True)
        return self.problem(X, np.asarray(y, dtype=np.float64), sample_weight)

    def predict(self, X: Any) -> Array:
        """One value a sample, or one column for each output."""
        return self._shaped(self._values(self._validated(X)))

    def certified_predict(self, X: Any, diagonal: Any = None) -> CertifiedValues:
        r"""Predictions, and for each a radius within which the prediction of the exact optimum is proved to lie.

        With :math:`|w - w^*| \le r`, the ``distance_bound`` of the certificate, the exact prediction for x is within
        :math:`r \sqrt{k(x, x)} + |b - b^*|` of the computed one; ``offset_bound_`` bounds the last term, and what rounding can
        have done is added. The radius is about the training problem, not about future data. It shrinks with the square root of
        the gap, and is infinite with a kernel that is not positive semidefinite.

        Parameters
        ----------
        X : matrix of shape (n_samples, n_features)
        diagonal : array of shape (n_samples,)
            k(x, x), needed with ``kernel="precomputed"`` and with nothing else.

        Returns
        -------
        values : array of shape (n_samples,) or (n_samples, n_outputs)
        radius : array of the same shape
        """
        X = self._validated(X)
        return self._certified_values(X, checked_diagonal(self.kernel, diagonal, X.shape[0]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags
