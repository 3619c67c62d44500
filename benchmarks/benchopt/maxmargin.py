"""maxmargin in benchopt's benchmark of linear SVMs without an intercept."""

from __future__ import annotations

from benchopt import BaseSolver, safe_import_context

with safe_import_context() as import_ctx:
    import numpy as np

    from maxmargin import Hinge, LinearProblem, solve


class Solver(BaseSolver):
    """The default solver of maxmargin. benchopt asks for smaller and smaller tolerances: relative duality gaps."""

    name = "maxmargin"
    install_cmd = "conda"
    requirements = ["pip::maxmargin"]  # noqa: RUF012
    sampling_strategy = "tolerance"
    references = [  # noqa: RUF012
        "C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, 'A Dual Coordinate Descent Method for "
        "Large-scale Linear SVM', ICML 2008",
    ]

    def set_objective(self, X, y, C):  # type: ignore[no-untyped-def]
        """Build the problem, and compile once: compilation is no part of the curve."""
        self.problem = LinearProblem.build(X, np.where(np.asarray(y) > 0, 1, -1), C, Hinge(), intercept_scaling=0.0)
        self.run(1e-1)

    def run(self, tolerance):  # type: ignore[no-untyped-def]
        self.solution = solve(self.problem, tol=float(np.clip(tolerance, 1e-12, 0.5)))

    def get_result(self):  # type: ignore[no-untyped-def]
        return {"beta": self.solution.w[: self.problem.rows.n_features]}
