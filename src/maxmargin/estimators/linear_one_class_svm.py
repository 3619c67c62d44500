"""LinearOneClassSVM: outliers of large data by a half-space, with a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin.certificate.predictions import CertifiedLabels
from maxmargin.data.rows import DTYPES, Array, NotFiniteError, sound
from maxmargin.estimators import checks
from maxmargin.estimators.advice import without_cost
from maxmargin.estimators.jobs import warn_if_uncertified
from maxmargin.estimators.linear_one_class import LinearOneClass
from maxmargin.estimators.presentation import Presented, fit_task, with_callbacks
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class LinearOneClassSVM(OutlierMixin, Presented, LinearOneClass, BaseEstimator):
    r"""Linear one-class support vector machine, trained to a certified optimum.

    Minimises :math:`\tfrac12 |w|^2 - \nu S \rho + \sum_i s_i \max(0, \rho - w \cdot x_i)` over w and :math:`\rho`, with the
    sample weights s_i and their sum S: the problem of ``OneClassSVM(kernel="linear")`` and of LIBLINEAR -s 21. The time of a
    fit grows with the number of stored elements of X, not with the square of the number of samples.

    The half-space :math:`w \cdot x \ge \rho` is as far from the origin as it can be. So the origin matters: do not centre the
    columns. If the origin lies among the samples, w = 0 is optimal and nothing is learned.

    Parameters
    ----------
    nu : float in (0, 1], default 0.5
        At most this share of the samples (of their weight) lies outside, and at least this share lies outside or on the border.
    tol : float, default 1e-4
        The relative duality gap to reach, ``gap / max(|primal|, |dual|)``.
    verbose : int, default 0
        Print a line for each certificate.
    random_state : int, RandomState or None
        For solvers that draw at random.
    max_iter : int, default -1
        Limit on epochs; -1 for none.
    solver : str or solver object, default "auto"
        "auto", "pair-descent" or "newton".
    max_seconds : float, optional
        Limit on the time of the fit. The fit stops within a second of it.
    warm_start : bool, default False
        Start from the last fit's dual variables when the number of samples is the same.
    callback : callable, optional
        Called with a :class:`maxmargin.Progress` at each certificate; returning True stops the fit.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
    offset_ : array of shape (1,)
        rho; ``intercept_`` is -rho. With nu = 1 every rho from the greatest :math:`w \cdot x_i` on is optimal, and this is the
        least.
    n_features_in_, feature_names_in_, n_iter_
        As in scikit-learn; ``n_iter_`` is the number of epochs.
    certificate_ : Certificate
    relative_gap_ : float
    status_ : Status
    trace_ : tuple of Progress
    offset_bound_ : float
        How far ``offset_`` can be from that of the exact optimum; infinite with nu = 1.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import LinearOneClassSVM
    >>> X = np.random.default_rng(0).normal(5.0, 1.0, size=(1000, 3))
    >>> model = LinearOneClassSVM(nu=0.1).fit(X)
    >>> print(model.predict([[5.0, 5.0, 5.0], [0.0, 0.0, 0.0]]))
    [ 1 -1]
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearOneClassSVM:
        """Fit to X of shape (n_samples, n_features), dense or sparse; y is not looked at."""
        solutions, limits = self._fit(X, sample_weight)
        warn_if_uncertified(solutions, limits, X, without_cost)
        return self

    @with_callbacks
    def _fit(self, X: Any, sample_weight: Any) -> tuple[list[Solution], Limits]:
        with fit_task(self, X, None, sample_weight), checks.unchanged_on_error(self):
            limits = self._check_parameters()
            try:
                return self._train(checks.rows_to_check(self, X), sample_weight, limits), limits
            except NotFiniteError:
                checks.validated_rows(self, X)  # raises the error in scikit-learn's words
                raise

    def score_samples(self, X: Any) -> Array:
        """w . x: the greater, the more typical the sample."""
        return np.asarray(safe_sparse_dot(self._validated(X), self.coef_.T, dense_output=True)).ravel()

    def decision_function(self, X: Any) -> Array:
        """w . x - rho: negative for outliers."""
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> Array:
        """+1 for inliers, the border included, and -1 for outliers."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def certified_predict(self, X: Any) -> CertifiedLabels:
        r"""Labels, and a mask of those that are proved: the exact optimum of the training problem gives the same label.

        With :math:`|w - w^*| \le r`, the ``distance_bound`` of the certificate, a label is proved where the decision value is
        greater in magnitude than :math:`r |x|` plus ``offset_bound_`` plus what rounding can have done to it.

        Returns
        -------
        labels : array of +1 and -1 of shape (n_samples,)
        proved : array of bool of shape (n_samples,)
        """
        return self._certified_labels(self._validated(X))

    def _validated(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, sound(X), accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
