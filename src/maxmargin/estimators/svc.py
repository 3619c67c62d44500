"""SVC: support vector classification with kernels and a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted, check_X_y

from maxmargin.certificate.predictions import CertifiedLabels, Decisions, kernel_decisions
from maxmargin.certificate.rounding import OUTWARDS
from maxmargin.data.rows import DTYPES, Array, sound
from maxmargin.estimators import checks
from maxmargin.estimators.advice import with_cost
from maxmargin.estimators.fitted_kernel import FittedKernel
from maxmargin.estimators.jobs import warn_if_uncertified
from maxmargin.estimators.kernel_classifier import KernelClassifier
from maxmargin.estimators.kernel_machine import checked_diagonal
from maxmargin.estimators.multiclass import OneAgainstOne
from maxmargin.estimators.objects import ObjectKernel, are_objects, places
from maxmargin.estimators.pairs import pair_weights
from maxmargin.estimators.presentation import Presented, fit_task, with_callbacks
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Custom, Kernel
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class SVC(ClassifierMixin, Presented, FittedKernel, KernelClassifier, BaseEstimator):
    r"""Support vector classification with kernels, trained to a certified optimum.

    For each pair of classes it minimises :math:`\tfrac12 |w|^2 + \sum_i C_i \max(0, 1 - y_i (w \cdot \phi(x_i) + b))`, with
    scikit-learn's parameters, defaults and attributes. In addition, ``tol`` is the relative duality gap, a fit continues until
    its certificate proves this gap, and every fit says how far from the optimum it can be.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss, which is a sum over the samples. ``np.inf`` asks for the hard margin: the function with the
        greatest margin, for each pair of classes. Where there is none beyond rounding, the fit raises an
        ``InseparableError``, whose ``ray`` proves it. ``solver`` has no effect then, unless the kernel is linear.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default "rbf"
        "sigmoid" is not positive semidefinite: no optimum can be proved, and ``status_`` is at best STATIONARY. Then ``tol`` is
        LIBSVM's: the greatest violation of the conditions of optimality. A callable is called with two matrices, or with two
        lists if X is a list of other objects, such as strings; ``support_vectors_`` then holds their positions in X. A
        precomputed kernel may be sparse, which scikit-learn refuses: values that are not stored are zero.
    degree, gamma, coef0
        As in scikit-learn, except that the variance in ``gamma="scale"`` counts ``sample_weight``.
    shrinking : bool or a rule, default True
        True is the best rule of the solver; with ``solver="smo"`` also an object such as ``FSafe(0.1)``.
    tol : float, default 1e-3
        The relative duality gap to reach, ``gap / max(|primal|, |dual|)``.
    cache_size : float, default 500
        Megabytes for kernel values, for all threads and pairs of classes together. The fit stays within this budget.
    class_weight : dict or "balanced", optional
        C_i is C times the weight of the sample's class times its ``sample_weight``.
    verbose : int, default 0
        Print a line for each certificate.
    max_iter : int, default -1
        Limit on epochs, each as many steps as there are samples; -1 for none.
    decision_function_shape : {"ovr", "ovo"}, default "ovr"
    break_ties : bool, default False
        As in scikit-learn.
    random_state : int, RandomState or None
        Seeds the choice of working sets. None means 0, so the same call gives the same answer.
    solver : str or solver object, default "auto"
        "auto", "batched-smo", "smo", "irwls", or for example ``SMO(shrinking=FSafe(0.1))``. ``SMO(stop="paper")`` ends by
        LIBSVM's violation: ``tol`` is ignored then, and no warning is raised.
    fit_intercept : bool, default True
        False trains without the offset b.
    max_seconds : float, optional
        Limit on the time of the fit, all pairs of classes together.
    warm_start : bool, default False
        Start from the last fit's dual variables when the samples are as many; they are scaled to the new C.
    n_jobs : int, optional
        Threads for the pairs of a multiclass fit.
    callback : callable, optional
        Called with a :class:`maxmargin.Progress` at each certificate; returning True stops the fit.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_, coef_, n_iter_, fit_status_, shape_fit_
        As in scikit-learn; ``n_iter_`` counts epochs.
    certificate_ : Certificate, or a list with one for each pair of classes
    relative_gap_ : float
        The worst.
    status_ : Status, or a list with one for each pair
    trace_ : tuple of Progress, or a list with one for each pair
    offset_bound_ : float, or a list with one for each pair
        How far ``intercept_`` can be from that of the exact optimum.

    There is no parameter ``probability``, which scikit-learn deprecates: for probabilities, wrap the model in
    ``sklearn.calibration.CalibratedClassifierCV``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> model = SVC(tol=1e-6).fit(*load_iris(return_X_y=True))
    >>> bool(model.relative_gap_ <= 1e-6)
    True
    """

    _objects_: list[Any] | None = None
    """The training samples, if they are not rows of numbers."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVC:
        """Fit to X of shape (n_samples, n_features), dense or sparse, and labels y of any type; with ``kernel="precomputed"``
        X is the kernel matrix, with a callable kernel X may be a list of anything that the callable takes."""
        solutions, limits = self._fit(X, y, sample_weight)
        warn_if_uncertified(solutions, limits, self._columns(X), self._advice)
        return self

    def _advice(self, worst: Solution, X: Any) -> str:
        return with_cost(worst, X)

    @with_callbacks
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[list[Solution], Limits]:
        with fit_task(self, X, y, sample_weight), checks.unchanged_on_error(self):
            limits = self._check_parameters()
            X, y = checks.validated(self, self._rows_of(X), y)
            solutions = self._train(X, y, sample_weight, limits)
            self.class_weight_ = self._class_weights(y, sample_weight)
        return solutions, limits

    def binary_problem(self, X: Any, y: Any, sample_weight: Any = None) -> KernelProblem:
        """The problem of two classes that ``fit`` solves, with the costs of C = 1: what :func:`maxmargin.path` takes. The
        second class is the positive one."""
        self._check_parameters()
        if callable(self.kernel) and are_objects(X):
            raise ValueError("binary_problem takes rows of numbers; with other objects give their kernel matrix.")
        X, y = check_X_y(sound(X), y, accept_sparse="csr", dtype=DTYPES, order="C")
        classes = checks.two_classes_of(y)
        costs = checks.sample_costs(1.0, self.class_weight, sample_weight, X, classes, y)
        signs = np.where(y == classes[1], 1, -1)
        return KernelProblem.build(X, signs, costs, super()._kernel(X, sample_weight), self.fit_intercept)

    def _class_weights(self, y: Array, sample_weight: Any) -> Array:
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=y, sample_weight=sample_weight))

    def _linear_weights(self) -> Array:
        """A row for each pair of classes."""
        if self._feature_weights_ is not None or len(self.classes_) == 2:
            return super()._linear_weights()
        coefficients = pair_weights(self.dual_coef_, self.n_support_).T
        return np.asarray(safe_sparse_dot(coefficients, self.support_vectors_, dense_output=True))

    def decision_function(self, X: Any) -> Array:
        """One value a sample with two classes, positive for the second; else one column a class, or a pair of classes if
        ``decision_function_shape="ovo"``."""
        values = self._checked_pair_values(X)
        if len(self.classes_) == 2:
            return values.ravel()
        if self.decision_function_shape == "ovo":
            return values
        return np.asarray(_ovr_decision_function(values < 0, -values, len(self.classes_)))

    def predict(self, X: Any) -> Array:
        """The class with most votes of the pairs; with ``break_ties`` the one with the greatest decision value."""
        check_is_fitted(self)
        self._check_ties()
        return np.asarray(self.classes_[self._codes(X)])

    def certified_predict(self, X: Any, diagonal: Any = None) -> CertifiedLabels:
        r"""Labels, and a mask of those that are proved: the exact optima of the training problems give the same label.

        With :math:`|w - w^*| \le r`, the ``distance_bound`` of the certificate, the exact decision value of x is within
        :math:`r \sqrt{k(x, x)} + |b - b^*|` of the computed one, and ``offset_bound_`` bounds the last term. A pair's vote is
        proved where its decision value is greater in magnitude than that and than what rounding can have done to it. With
        more than two classes, a label is proved where no outcome of the votes that are not proved can change it (with
        ``break_ties``: where none can make a tie).

        The labels are those of ``predict``, from decision values in float64. With a kernel that is not positive semidefinite
        (sigmoid, or polynomial with a negative ``coef0``) nothing is proved. A precomputed kernel or a function is assumed to
        be positive semidefinite.

        Parameters
        ----------
        X : matrix of shape (n_samples, n_features)
        diagonal : array of shape (n_samples,)
            k(x, x), needed with ``kernel="precomputed"`` and with nothing else.

        Returns
        -------
        labels : array of shape (n_samples,)
        proved : array of bool of shape (n_samples,)
        """
        check_is_fitted(self)
        self._check_ties()
        decisions = self._checked_pair_decisions(X, diagonal)
        labels = self.classes_[self._codes_of(decisions.values)]
        scheme = OneAgainstOne(len(self.classes_), ties_go_to_the_first=not self.break_ties)
        return CertifiedLabels(labels, scheme.proved(decisions))

    def _check_ties(self) -> None:
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'.")

    def _codes(self, X: Any) -> Array:
        return self._codes_of(self._checked_pair_values(X))

    def _codes_of(self, values: Array) -> Array:
        n_classes = len(self.classes_)
        if self.break_ties and n_classes > 2:
            return np.asarray(_ovr_decision_function(values < 0, -values, n_classes).argmax(axis=1))
        return OneAgainstOne(n_classes).codes(values)

    def _rows_of(self, X: Any) -> Any:
        """X itself, or the positions of objects that are not rows of numbers. The objects are kept for the kernel."""
        self._objects_ = list(X) if callable(self.kernel) and are_objects(X) else None
        return X if self._objects_ is None else places(self._objects_)

    def _kernel(self, X: Any, sample_weight: Any) -> Kernel:
        if self._objects_ is None:
            return super()._kernel(X, sample_weight)
        return Custom(ObjectKernel(self.kernel, self._objects_))

    def _checked_pair_decisions(self, X: Any, diagonal: Any) -> Decisions:
        if self._objects_ is not None:
            return self._decisions_of_objects(X)
        X = self._validated(X)
        return self._pair_decisions(X, checked_diagonal(self.kernel, diagonal, X.shape[0]))

    def _object_kernel(self) -> ObjectKernel:
        kernel: Any = self._kernel_
        assert isinstance(kernel.function, ObjectKernel)
        return kernel.function

    def _decisions_of_objects(self, X: Any) -> Decisions:
        kernel, error = self._object_kernel(), 4.0 * UNIT_ROUNDOFF
        lengths = np.sqrt(np.maximum(kernel.diagonal(X) + error, 0.0)) * OUTWARDS
        weights = pair_weights(self.dual_coef_, self.n_support_)
        return kernel_decisions(kernel.values(X, self.support_), error, lengths, weights, self.intercept_, self._bounds())

    def _checked_pair_values(self, X: Any) -> Array:
        if self._objects_ is not None:
            weights = pair_weights(self.dual_coef_, self.n_support_)
            return self._object_kernel().values(X, self.support_) @ weights + self.intercept_
        return self._pair_values(self._validated(X))
