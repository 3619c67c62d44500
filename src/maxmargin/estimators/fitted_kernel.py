"""What scikit-learn asks of every fitted estimator with a kernel: the samples to predict in a checked form, the weights of the
linear kernel, and tags."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin.data.rows import DTYPES, Array, sound


class FittedKernel:
    """Stands before the class that has the kernel among the ancestors of an estimator, and after scikit-learn's mixins."""

    kernel: Any
    dual_coef_: Array
    support_vectors_: Any
    _feature_weights_: Any

    @property
    def coef_(self) -> Array:
        """The weights of the features, for the linear kernel only."""
        if self.kernel != "linear":
            raise AttributeError("coef_ exists for kernel='linear' only.")
        weights = np.asarray(self._linear_weights()).view()
        weights.flags.writeable = False  # as in scikit-learn: writing to it would change no prediction
        return weights

    def _linear_weights(self) -> Array:
        """A row of weights for each row of ``dual_coef_``."""
        if self._feature_weights_ is not None:
            weights: Array = self._feature_weights_.weights
            return weights
        return np.asarray(safe_sparse_dot(self.dual_coef_, self.support_vectors_, dense_output=True))

    def _validated(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, sound(X), accept_sparse="csr", dtype=DTYPES, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
