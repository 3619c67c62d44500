"""Headline figures over commits, for asv (``pip install asv``, then ``asv run`` and ``asv publish``).

Generated data, so that any machine can make a trend. The times mean something beside other times of the same machine only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import make_moons

from maxmargin import SVC, LinearSVC


def wide(n: int = 4000, d: int = 3000) -> tuple[Any, Any]:
    """Sparse rows such as text has, and a noisy label."""
    rng = np.random.default_rng(0)
    X = sparse.random(n, d, density=0.01, format="csr", random_state=0)
    return X, X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0


class Linear:
    """Whole fits of LinearSVC to a gap of 1e-4."""

    params = ([0.1, 10.0], ["hinge", "squared_hinge"])
    param_names = ("C", "loss")

    def setup(self, C: float, loss: Any) -> None:
        self.X, self.y = wide()
        self.model = LinearSVC(C=C, loss=loss).fit(self.X, self.y)

    def time_fit(self, C: float, loss: str) -> None:
        self.model.fit(self.X, self.y)

    def track_epochs(self, C: float, loss: str) -> float:
        return float(self.model.n_iter_)

    def peakmem_fit(self, C: float, loss: str) -> None:
        self.model.fit(self.X, self.y)


class Kernel:
    """Whole fits and predictions of SVC with the RBF kernel."""

    params = ([1e-3, 1e-8],)
    param_names = ("tol",)

    def setup(self, tol: float) -> None:
        self.X, self.y = make_moons(3000, noise=0.3, random_state=0)
        self.model = SVC(C=10.0, tol=tol).fit(self.X, self.y)

    def time_fit(self, tol: float) -> None:
        self.model.fit(self.X, self.y)

    def time_predict(self, tol: float) -> None:
        self.model.decision_function(self.X)


class Small:
    """A fit of a hundred samples: the fixed cost."""

    def setup(self) -> None:
        self.X, self.y = make_moons(100, noise=0.2, random_state=0)
        self.linear, self.kernel = LinearSVC().fit(self.X, self.y), SVC().fit(self.X, self.y)

    def time_linear(self) -> None:
        self.linear.fit(self.X, self.y)

    def time_kernel(self) -> None:
        self.kernel.fit(self.X, self.y)


class Import:
    """Seconds until the package, and an estimator, can be used."""

    def timeraw_package(self) -> str:
        return "import maxmargin"

    def timeraw_estimator(self) -> str:
        return "from maxmargin import LinearSVC"
