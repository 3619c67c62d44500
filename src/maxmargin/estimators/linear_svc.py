"""LinearSVC: linear support vector classification with a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from maxmargin.certificate.predictions import CertifiedLabels
from maxmargin.data.rows import DTYPES, Array, sound
from maxmargin.estimators import checks
from maxmargin.estimators.jobs import warn_if_uncertified
from maxmargin.estimators.linear_classifier import LOSSES, LinearClassifier
from maxmargin.estimators.multiclass import OneAgainstRest
from maxmargin.estimators.penalties import penalty_of_model
from maxmargin.estimators.presentation import Presented, fit_task, with_callbacks
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class LinearSVC(ClassifierMixin, Presented, LinearClassifier, BaseEstimator):
    r"""Linear support vector classification, trained to a certified optimum.

    Minimises :math:`\tfrac12 |w|^2 + \sum_i C_i \ell(y_i (w \cdot x_i + b))` for each class against the rest, with
    scikit-learn's parameters, defaults and attributes. In addition, ``tol`` is the relative duality gap, a fit continues until
    its certificate proves this gap, and every fit says how far from the optimum it can be.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"}, default "l2"
        "l1" replaces :math:`\tfrac12 |w|^2` by :math:`|w|_1`, so that most weights are exactly zero; "elasticnet" by
        :math:`r |w|_1 + \tfrac{1 - r}{2} |w|^2` with r = ``l1_ratio``. Both need squared hinge loss, as in scikit-learn. With
        an L1 penalty the gap proves the objective, but does not bound the distance of the weights from the optimal ones.
    loss : {"squared_hinge", "hinge"}, default "squared_hinge"
    dual : {"auto", True, False}, default "auto"
        For compatibility. Every fit solves the primal and the dual together: the gap between them is the certificate.
    tol : float, default 1e-4
        The relative duality gap to reach, ``gap / max(|primal|, |dual|)``.
    C : float, default 1.0
        Weight of the loss, which is a sum over the samples. ``np.inf`` asks for the hard margin: the separating hyperplane
        with the greatest margin. Where the classes cannot be separated, the fit raises an ``InseparableError``, whose
        ``ray`` proves it.
    multi_class : {"ovr", "crammer_singer"}, default "ovr"
        One problem for each class against the rest, or one for all classes together (Crammer and Singer, 2001). The second
        ignores ``penalty``, ``loss`` and ``dual``, as in scikit-learn, and has one certificate.
    fit_intercept : bool, default True
    penalize_intercept : bool, default True
        False leaves the intercept out of |w|^2, as a kernel SVM does: the model is then that of ``SVC(kernel="linear")``.
    intercept_scaling : float, default 1.0
        The intercept is the weight of a constant feature of this value. It is penalised like every weight; the larger this
        value, the weaker its penalty.
    l1_ratio : float, default 0.5
        The share of the L1 norm in the penalty "elasticnet", between 0 and 1.
    sharp_proofs : bool, default False
        Keep an ellipsoid around the exact optimum after a fit. With it ``certified_predict`` proves far more labels at the same
        gap. It takes a matrix of n_features x n_features for each binary problem; up to 4,096 features.
    class_weight : dict or "balanced", optional
        C_i is C times the weight of the sample's own class times its ``sample_weight``, in every binary problem: exactly a
        sample weight. (LIBLINEAR, with more than two classes, weights only the positive class of each binary problem.)
    verbose : int, default 0
        Print a line for each certificate.
    random_state : int, RandomState or None
        Seeds the order of the coordinates. None means 0, so the same call gives the same answer.
    max_iter : int, default -1
        Limit on epochs, each as many steps as there are samples; -1 for none.
    solver : str or solver object, default "auto"
        "auto", "dcd", "avsf", "newton", "sparse-newton" (for the penalties "l1" and "elasticnet"), "pruned-gradient",
        "pegasos" (the last two are first-order methods: ask for a ``tol`` of 1e-2 or 1e-3), or for example
        ``DCD(shrinking=None)``. ``DCD(stop="paper")`` ends by the stopping rule of its paper: ``tol`` is ignored then, and no
        warning is raised.
    max_seconds : float, optional
        Limit on the time of the fit, all classes together. The fit stops within a second of it. Each class gets an equal share
        of the time that is left when it begins; a class for which no time is left has weights of zero.
    warm_start : bool, default False
        Start from the last fit's dual variables when the number of samples and the classes are the same; they are
        scaled to the new C.
    n_jobs : int, optional
        Threads for the binary problems of a multiclass fit; they share one copy of X.
    callback : callable, optional
        Called with a :class:`maxmargin.Progress` at each certificate; returning True stops the fit.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    classes_, n_features_in_, feature_names_in_, n_iter_
        As in scikit-learn; ``n_iter_`` is the greatest number of epochs.
    certificate_ : Certificate, or a list with one for each class
    relative_gap_ : float
        The worst.
    status_ : Status, or a list with one for each class
    trace_ : tuple of Progress, or a list with one for each class
    offset_bound_ : float, or a list with one for each class
        How far ``intercept_`` can be from that of the exact optimum where it is free; zero where it is penalised, as
        ``certificate_.distance_bound`` then covers it.
    ellipsoid_ : Ellipsoid or None, or a list with one for each class
        With ``sharp_proofs``.

    A fit that ends before ``tol`` raises a ConvergenceWarning with the gap asked and the gap reached. Ctrl-C ends a fit
    in the same way, with the best answer so far. A fit that fails leaves the estimator as it was.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC(tol=1e-6).fit(StandardScaler().fit_transform(X), y)
    >>> model.relative_gap_ <= 1e-6
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVC:
        """Fit to X of shape (n_samples, n_features), dense or sparse, and labels y of any type."""
        solutions, limits = self._fit(X, y, sample_weight)
        warn_if_uncertified(solutions, limits, X)
        return self

    @with_callbacks
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[list[Solution], Limits]:
        with fit_task(self, X, y, sample_weight), checks.unchanged_on_error(self):
            limits = self._check_parameters()
            X, y = checks.validated(self, X, y, takes_indicator=True, makes_rows=True)
            return self._train(X, y, sample_weight, limits), limits

    def fit_blocks(self, blocks: Any, *, memory: Any = None, checkpoint: Any = None) -> LinearSVC:
        """Fit to blocks of rows on a disk, which need not fit in memory.

        Parameters
        ----------
        blocks : Blocks or path
            What :func:`maxmargin.io.to_blocks` wrote, or its folder. Weights of samples are in the blocks.
        memory : int or str, optional
            The memory that the fit may use: a number of bytes, or a text such as ``"2G"``. By default half of the machine's
            memory.
        checkpoint : path, optional
            A file that the state of the fit is saved to every few seconds. The same call resumes from it. It is removed when
            the fit is certified.

        The certificate is computed over all rows, as by ``fit``. The intercept is penalised; ``solver`` is "auto". ``n_iter_``
        and the epochs of ``trace_`` count passes over the blocks.
        """
        from maxmargin.estimators.partitioned import fit_classes_in_blocks

        with checks.unchanged_on_error(self):
            solutions, limits = fit_classes_in_blocks(self, blocks, memory, checkpoint)
        warn_if_uncertified(solutions, limits)
        return self

    def decision_function(self, X: Any) -> Array:
        """w . x + b: one column a class, or one value a sample when there are two classes."""
        check_is_fitted(self)
        X = validate_data(self, sound(X), accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, reset=False)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return np.asarray(scores).ravel() if scores.shape[1] == 1 else np.asarray(scores)

    def predict(self, X: Any) -> Array:
        """The class with the greatest decision value."""
        scores = self.decision_function(X)
        if getattr(self, "multilabel_", False):
            return (scores.reshape(len(scores), -1) > 0.0).astype(int)
        codes = OneAgainstRest(len(self.classes_)).codes(scores.reshape(len(scores), -1))
        predicted: Array = self.classes_[codes]
        return predicted

    def certified_predict(self, X: Any) -> CertifiedLabels:
        r"""Labels, and a mask of those that are proved: the exact optimum of the training problem gives the same label.

        With :math:`|w - w^*| \le r`, the ``distance_bound`` of the certificate, the exact decision value of x is within
        :math:`r |x|` of the computed one. Without an intercept a label is proved where the decision value is greater in
        magnitude than that, and than what rounding can have done to it. With the (default) penalised intercept, |x| is the
        norm of the row with ``intercept_scaling`` appended; with a free one, ``offset_bound_`` is added to the right hand
        side. With several classes the lower end of the greatest value must be above the upper ends of all others.

        The labels are those of ``predict``. The smaller the gap, the more are proved: r is of the size of its square root. With
        ``sharp_proofs`` the labels that this leaves open are tried again with an ellipsoid instead of the ball
        (:mod:`maxmargin.certificate.ellipsoid`), which proves at a gap of 1e-6 about what the ball proves at 1e-8 and below.

        Returns
        -------
        labels : array of shape (n_samples,)
        proved : array of bool of shape (n_samples,)
        """
        check_is_fitted(self)
        X = validate_data(self, sound(X), accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, reset=False)
        return self._certified_labels(X)

    def binary_problem(self, X: Any, y: Any, sample_weight: Any = None) -> LinearProblem:
        """The problem of two classes that ``fit`` solves, with the costs of C = 1: what :func:`maxmargin.path` takes."""
        self._check_parameters()
        if self.multi_class == "crammer_singer":
            raise ValueError(
                f"A path over C and leave-one-out are proved for multi_class='ovr'; got multi_class={self.multi_class!r}."
            )
        X, y = check_X_y(sound(X), y, accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, order="C")
        classes = checks.two_classes_of(y)
        costs = checks.sample_costs(1.0, self.class_weight, sample_weight, X, classes, y)
        scaling = float(self.intercept_scaling) if self.fit_intercept else 0.0
        signs = np.where(y == classes[1], 1, -1)
        penalty = penalty_of_model(self)
        return LinearProblem.build(X, signs, costs, LOSSES[self.loss], scaling, self.penalize_intercept, penalty)

    def sparsify(self) -> LinearSVC:
        """Keep ``coef_`` as a sparse matrix, for models most of whose weights are zero."""
        check_is_fitted(self)
        self.coef_ = sparse.csr_matrix(self.coef_)
        return self

    def densify(self) -> LinearSVC:
        """Undo ``sparsify``."""
        check_is_fitted(self)
        if sparse.issparse(self.coef_):
            self.coef_ = sparse.csr_matrix(self.coef_).toarray()
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self.multi_class != "crammer_singer"
        return tags
