"""What a ConvergenceWarning advises where float64 was not precise enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxmargin.estimators import policy
from maxmargin.problem.kernels import Kernel, Points
from maxmargin.solvers.base import Stage
from maxmargin.solving.solution import Solution

ASKED = Stage("").reason
"""How the trace says that a solver was asked for by its name."""

Advice = Callable[[Solution, Any], str]
"""A sentence for the worst solution of a fit to X, or nothing."""


class Column(NamedTuple):
    """The column of X with the greatest values."""

    name: Any
    greatest: float


def large_column(X: Any) -> Column | None:
    """The column with the greatest values. None where these are small, or are no numbers."""
    is_matrix = hasattr(X, "tocsc")
    values = X if is_matrix else np.asarray(X)
    if values.ndim != 2 or values.dtype.kind not in "fiu" or 0 in values.shape:
        return None
    greatest = abs(values).max(axis=0)
    sizes = np.asarray(greatest.toarray() if is_matrix else greatest, dtype=np.float64).ravel()
    k = int(np.argmax(sizes))
    if not sizes[k] >= policy.JOBS.large_value:
        return None
    return Column(X.columns[k] if hasattr(X, "columns") else k, float(sizes[k]))


def with_cost(worst: Solution, X: Any) -> str:
    """The advice of an estimator with C. A solver that was asked for may be slow where another one is not."""
    column = large_column(X)
    if worst.trace and worst.trace[-1].reason.startswith(ASKED):
        name = worst.trace[-1].solver
        return f" The solver {name!r} was asked for; solver='auto' changes to another one where that ends sooner."
    return "" if column is None else f"{_too_large(column, ' at this C')}, or choose a smaller C."


def without_cost(worst: Solution, X: Any) -> str:
    """The advice of an estimator without C."""
    column = large_column(X)
    return "" if column is None else f"{_too_large(column, '')}."


def _too_large(column: Column, condition: str) -> str:
    return (
        f" Column {column.name!r} of X has values up to {column.greatest:.2g}, too large for the digits of float64{condition}. "
        "Standardise the columns, for instance with sklearn.preprocessing.StandardScaler"
    )


def has_no_margin(worst: Solution, kernel: Kernel, vectors: Any) -> bool:
    """Whether |w|^2 / 2 is nothing but rounding beside the kernel values of the support vectors of nu-SVC. The dual value is
    minus |w|^2 / 2. Not asked of kernels of the user's own."""
    is_known = kernel.is_gaussian or kernel.dot_function is not None
    if not (is_known and np.isfinite(worst.certificate.dual)):
        return False
    with np.errstate(all="ignore"):
        greatest = float(np.abs(kernel.diagonal(Points.of(vectors))).max(initial=0.0))
        return bool(abs(worst.certificate.dual) <= policy.NU.no_margin * float(worst.alpha.sum()) ** 2 * greatest)


def without_margin(nu: float, X: Any) -> str:
    """The advice where the margin of nu-SVC is zero up to rounding."""
    column = large_column(X)
    found = (
        f" With nu={nu:g} this kernel leaves no margin between the classes: it is zero up to rounding error, and the model is "
        "arbitrary. Choose a larger nu, or a kernel that tells the classes apart"
    )
    if column is None:
        return f"{found}."
    return (
        f"{found}. If the columns have very different sizes, standardise them first, for instance with "
        f"sklearn.preprocessing.StandardScaler: column {column.name!r} of X has values up to {column.greatest:.2g}."
    )
