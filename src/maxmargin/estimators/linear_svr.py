"""LinearSVR: linear support vector regression with a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from maxmargin.certificate.predictions import CertifiedValues
from maxmargin.data.rows import DTYPES, Array, sound
from maxmargin.estimators import checks
from maxmargin.estimators.jobs import warn_if_uncertified
from maxmargin.estimators.linear_regressor import LinearRegressor
from maxmargin.estimators.presentation import Presented, fit_task, with_callbacks
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class LinearSVR(RegressorMixin, Presented, LinearRegressor, BaseEstimator):
    r"""Linear support vector regression, trained to a certified optimum.

    Minimises :math:`\tfrac12 |w|^2 + \sum_i C_i \ell(y_i - w \cdot x_i - b)` with scikit-learn's parameters, defaults and
    attributes. In addition, ``tol`` is the relative duality gap, a fit continues until its certificate proves this gap, and
    every fit says how far from the optimum it can be.

    Parameters
    ----------
    epsilon : float, default 0.0
        Half the width of the tube in which a residual costs nothing. The quantile loss has no tube.
    tol : float, default 1e-4
        The relative duality gap to reach, ``gap / max(|primal|, |dual|)``.
    C : float, default 1.0
        Weight of the loss, which is a sum over the samples. ``np.inf`` asks that every residual stays within ``epsilon``: the
        shortest w that does it. Where none does, the fit raises an ``InseparableError``, whose ``ray`` proves it.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive", "quantile"}, default "epsilon_insensitive"
        max(0, \|r\| - epsilon), its square, or ``quantile`` r for r > 0 and (1 - ``quantile``) \|r\| for r < 0, of the
        residual r = y - prediction.
    fit_intercept : bool, default True
    intercept_scaling : float, default 1.0
        The intercept is the weight of a constant feature of this value. It is penalised like every weight; the larger this
        value, the weaker its penalty.
    dual : {"auto", True, False}, default "auto"
        For compatibility. Every fit solves the primal and the dual together: the gap between them is the certificate.
    verbose : int, default 0
        Print a line for each certificate.
    random_state : int, RandomState or None
        Seeds the order of the coordinates. None means 0, so the same call gives the same answer.
    max_iter : int, default -1
        Limit on epochs, each as many steps as there are samples; -1 for none.
    quantile : float, default 0.5
        The share of the targets to lie below the prediction, for ``loss="quantile"``. With ``penalize_intercept=False`` at
        most that share of the training targets lies below, and at least that share lies below or on, the prediction.
    penalize_intercept : bool, default True
        False leaves the intercept out of \|w\|^2, as ``SVR(kernel="linear")`` does. Use it for targets far from zero.
    solver : str or solver object, default "auto"
        "auto", "dcd", "avsf", "newton", or a solver object such as ``DCD(shrinking=None)``.
    max_seconds : float, optional
        Limit on the time of the fit, all outputs together. The fit stops within a second of it.
    warm_start : bool, default False
        Start from the last fit's dual variables when y has the same shape; they are scaled to the new C.
    n_jobs : int, optional
        Threads for the outputs of a two-dimensional y; they share one copy of X.
    callback : callable, optional
        Called with a :class:`maxmargin.Progress` at each certificate; returning True stops the fit.

    Attributes
    ----------
    coef_ : array of shape (n_features,), or (n_outputs, n_features) if y is two-dimensional
    intercept_ : array of shape (1,) or (n_outputs,)
    n_features_in_, feature_names_in_, n_iter_
        As in scikit-learn; ``n_iter_`` is the greatest number of epochs.
    certificate_ : Certificate, or a list with one for each output
    relative_gap_ : float
        The worst.
    status_ : Status, or a list with one for each output
    trace_ : tuple of Progress, or a list with one for each output
    offset_bound_ : float, or a list with one for each output
        How far ``intercept_`` can be from that of the exact optimum where it is free; zero where it is penalised, as
        ``certificate_.distance_bound`` then covers it.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import LinearSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearSVR(C=10.0, epsilon=5.0, tol=1e-6, penalize_intercept=False).fit(X, y)
    >>> values, radius = model.certified_predict(X)
    >>> bool((radius < 1.0).all())
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVR:
        """Fit to X of shape (n_samples, n_features), dense or sparse, and targets y, one column for each output."""
        solutions, limits = self._fit(X, y, sample_weight)
        warn_if_uncertified(solutions, limits, X)
        return self

    @with_callbacks
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[list[Solution], Limits]:
        with fit_task(self, X, y, sample_weight), checks.unchanged_on_error(self):
            limits = self._check_parameters()
            X, y = checks.validated_targets(self, X, y)
            return self._train(X, y, sample_weight, limits), limits

    def fit_blocks(self, blocks: Any, *, memory: Any = None, checkpoint: Any = None) -> LinearSVR:
        """Fit to blocks of rows on a disk, which need not fit in memory: see :meth:`maxmargin.LinearSVC.fit_blocks`."""
        from maxmargin.estimators.partitioned import fit_targets_in_blocks

        with checks.unchanged_on_error(self):
            solutions, limits = fit_targets_in_blocks(self, blocks, memory, checkpoint)
        warn_if_uncertified(solutions, limits)
        return self

    def regression_problem(self, X: Any, y: Any, sample_weight: Any = None) -> LinearProblem:
        """The problem of one target that ``fit`` solves, with the costs of C = 1: what :func:`maxmargin.path` takes."""
        self._check_parameters()
        X, y = check_X_y(sound(X), y, accept_sparse="csr", dtype=DTYPES, order="C", y_numeric=True)
        return self.problem(X, np.asarray(y, dtype=np.float64), sample_weight)

    def predict(self, X: Any) -> Array:
        """w . x + b: one value a sample, or one column for each output."""
        values = safe_sparse_dot(self._validated(X), np.atleast_2d(self.coef_).T, dense_output=True) + self.intercept_
        return np.asarray(values).ravel() if self.coef_.ndim == 1 else np.asarray(values)

    def certified_predict(self, X: Any) -> CertifiedValues:
        r"""Predictions, and for each a radius within which the prediction of the exact optimum is proved to lie.

        With :math:`|w - w^*| \le r`, the ``distance_bound`` of the certificate, the exact prediction for x is within
        :math:`r |x|` of the computed one; what rounding can have done to it is added. With the (default) penalised intercept,
        \|x\| is the norm of the row with ``intercept_scaling`` appended; with a free one, ``offset_bound_`` is added.
        The radius is about the training problem, not about future data. It shrinks with the square root of the gap.

        Returns
        -------
        values : array of shape (n_samples,) or (n_samples, n_outputs)
        radius : array of the same shape
        """
        return self._certified_values(self._validated(X))

    def _validated(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, sound(X), accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags
