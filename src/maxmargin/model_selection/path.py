r"""A solution for every C of a range, with a certified objective.

The path keeps fits at some values of C, its *knots*. Between two knots the solution is the mixture of theirs, and
:class:`maxmargin.model_selection.transfer.Between` bounds its gap on the whole interval. An interval whose bound is above
``tol`` is divided, and the fit in its middle starts from the mixture of the two alphas. The optimum P*(C) rises with C and
is concave, so that the dual values of two knots bound it from below in between.

Joachim Giesen, Jens Mueller, Soeren Laue and Sascha Swiercy, "Approximating concavely parameterized optimization problems",
NeurIPS 2012, show that a multiple of :math:`1 / \sqrt{\text{tol}}` fits suffices, and that fewer do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.model_selection import policy
from maxmargin.model_selection.hinge_pieces import between
from maxmargin.model_selection.points import Weights
from maxmargin.model_selection.sparse_fits import sparse_fit
from maxmargin.model_selection.transfer import (
    Between,
    Fit,
    Problem,
    kernel_fit,
    linear_fit,
    row_lengths,
    scaled_costs,
    with_costs,
)
from maxmargin.model_selection.whole_fits import solve_whole
from maxmargin.problem import policy as problem_policy
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.solution import Solution


class PathPoint(NamedTuple):
    """The solution at one C. ``coef`` has one weight for each feature, or with a kernel one signed coefficient for each sample.
    The objective is proved to be within ``gap`` of the optimum."""

    C: float
    coef: Array
    intercept: float
    alpha: Array
    gap: float
    relative_gap: float


@dataclass(frozen=True, eq=False)
class Path:
    """Call it with any C of its range. ``Cs`` are the knots. ``relative_gap`` bounds that of every C in the range.
    ``problem`` is that of C = 1."""

    problem: Problem = field(repr=False)
    fits: tuple[Fit, ...]
    solutions: tuple[Solution, ...] = field(repr=False)
    tol: float

    @property
    def Cs(self) -> Array:
        return np.array([fit.C for fit in self.fits])

    @property
    def intervals(self) -> list[Between]:
        return [between(*pair) for pair in zip(self.fits[:-1], self.fits[1:], strict=True)]

    @property
    def relative_gaps(self) -> Array:
        """A bound for each interval between two knots; for a single knot its own."""
        duals = [solution.certificate.dual for solution in self.solutions]
        if len(self.fits) == 1:
            return np.array([_relative(self.fits[0].gap, duals[0])])
        gaps = [interval.greatest_gap for interval in self.intervals]
        return np.array([_relative(gap, dual) for gap, dual in zip(gaps, duals, strict=False)])

    @property
    def relative_gap(self) -> float:
        return float(self.relative_gaps.max())

    @property
    def is_certified(self) -> bool:
        """Whether the relative gap is proved to be within ``tol`` at every C of the range."""
        return self.relative_gap <= self.tol

    @property
    def n_support(self) -> Array:
        """The number of support vectors at each knot."""
        return np.array([np.count_nonzero(fit.alpha) for fit in self.fits])

    @property
    def n_nonzero(self) -> Array:
        """The number of coefficients that are not zero at each knot."""
        return np.count_nonzero(self.coefs, axis=1)

    @property
    def coefs(self) -> Array:
        """The coefficients at the knots, a row for each."""
        return np.stack([_coefficients(fit) for fit in self.fits])

    def __call__(self, C: float) -> PathPoint:
        """The solution at any C between the first and the last knot, with the bound on its gap."""
        Cs, C = self.Cs, float(C)
        if not Cs[0] <= C <= Cs[-1]:
            raise ValueError(f"The path has values of C between {Cs[0]:g} and {Cs[-1]:g}; got {C!r}.")
        k = min(int(np.searchsorted(Cs, C, side="right")) - 1, len(Cs) - 1)
        if Cs[k] == C:
            return _at_knot(self.fits[k], self.solutions[k])
        return self._inside(k, C)

    def _inside(self, k: int, C: float) -> PathPoint:
        interval = between(self.fits[k], self.fits[k + 1])
        theta, gap = interval.position(C), interval.gap_at(C)
        one, two = (_at_knot(self.fits[j], self.solutions[j]) for j in (k, k + 1))
        coef = (1.0 - theta) * one.coef + theta * two.coef
        b = (1.0 - theta) * one.intercept + theta * two.intercept
        alpha = (1.0 - theta) * one.alpha + theta * two.alpha
        dual = (1.0 - theta) * self.solutions[k].certificate.dual + theta * self.solutions[k + 1].certificate.dual
        problem = with_costs(self.fits[k].problem, scaled_costs(self.problem.C, C))  # costs of a knot would be rounded twice
        alpha = np.clip(alpha, problem.box.L, problem.box.U)  # a mixture of two alphas at their bounds can be rounded beyond it
        return PathPoint(C, coef, b, alpha, float(gap), float(_relative(gap, dual)))

    def __repr__(self) -> str:
        Cs = self.Cs
        return f"Path(C from {Cs[0]:g} to {Cs[-1]:g}, {len(Cs)} fits, relative gap {self.relative_gap:.2g} at every C)"


def _relative(gap: float, dual: float) -> float:
    """The ratio of a gap to an objective that is at least ``dual``."""
    if dual > 0.0:
        return gap / dual
    return 0.0 if gap == 0.0 else math.inf


def _coefficients(fit: Fit) -> Array:
    if isinstance(fit.w, Weights):
        return fit.w.values[: fit.problem.rows.n_features]
    return fit.w.s


def _at_knot(fit: Fit, solution: Solution) -> PathPoint:
    gap = fit.gap
    return PathPoint(fit.C, _coefficients(fit), solution.b, fit.alpha, gap, _relative(gap, solution.certificate.dual))


def path(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    Cs: Sequence[float] | None = None,
    C_range: tuple[float, float] | None = None,
    tol: float = 1e-3,
    sample_weight: Any = None,
    solver: Any = "auto",
) -> Path:
    """Solve for every C of a range.

    Parameters
    ----------
    model : LinearProblem, KernelProblem, LinearSVC, SVC, LinearSVR or SVR
        The costs of a problem are multiplied by C. An estimator needs X and y, of two classes or, in regression, of one target;
        its own C is not used. With an L1 or elastic-net penalty each fit starts at the w of the last one, whose gap screens
        features in the first pass.
    X, y, sample_weight
        The samples, for an estimator.
    C_range : (float, float)
        The least and the greatest C. Fits are added until the relative gap is proved to be at most ``tol`` at every C between.
    Cs : sequence of float
        Fit at these values only. Between them the gap may be greater than ``tol``; the path says how great.
    tol : float, default 1e-3
        The relative duality gap.
    solver : str or solver object, default "auto"

    Returns
    -------
    Path
        ``path(C)`` has the coefficients at any C of the range, with their gap.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> import maxmargin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> p = maxmargin.path(maxmargin.LinearSVC(), StandardScaler().fit_transform(X), y, C_range=(1e-3, 1.0))
    >>> bool(p(0.0314).relative_gap <= 1e-3)
    True
    """
    problem = model if isinstance(model, Problem) else _problem_of(model, X, y, sample_weight)
    if (Cs is None) == (C_range is None):
        raise ValueError("Give either Cs, a list of values, or C_range, the least and the greatest value.")
    values = checked_values(Cs) if Cs is not None else first_knots(*checked_range(C_range))
    track = _Track(prepared(problem), tol if Cs is not None else policy.PATH.share_of_fits * tol, solver)
    for C in values:
        track.extend(float(C))
    if C_range is not None:
        track.divide(tol)
    return Path(track.problem, tuple(track.fits), tuple(track.solutions), tol)


def _problem_of(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Problem:
    makes = getattr(estimator, "binary_problem", None) or getattr(estimator, "regression_problem", None)
    if makes is None:
        raise TypeError(
            f"path takes a LinearProblem, a KernelProblem, a LinearSVC, an SVC, a LinearSVR or an SVR; got {estimator!r}."
        )
    if X is None or y is None:
        raise ValueError("path needs X and y with an estimator.")
    problem: Problem = makes(X, y, sample_weight)
    return problem


def checked_values(Cs: Sequence[float]) -> Array:
    """Positive and finite, sorted, each once."""
    values = np.unique(np.asarray(Cs, dtype=np.float64))
    if values.size == 0 or not (np.isfinite(values).all() and values[0] > 0.0):
        raise ValueError(f"Cs must be positive numbers, at least one; got {Cs!r}.")
    return values


def checked_range(C_range: Any) -> tuple[float, float]:
    try:
        low, high = C_range
    except (TypeError, ValueError):
        raise ValueError(f"C_range must be the least and the greatest C; got {C_range!r}.") from None
    are_numbers = isinstance(low, Real) and isinstance(high, Real)
    if not (are_numbers and 0.0 < float(low) < float(high) < math.inf):
        raise ValueError(f"C_range must be two positive numbers, the smaller one first; got {C_range!r}.")
    return float(low), float(high)


def first_knots(low: float, high: float, ratio: float = policy.PATH.first_ratio) -> Array:
    """Knots from low to high, with equal ratios of at most ``ratio``."""
    knots = np.geomspace(low, high, 1 + max(1, math.ceil(math.log(high / low) / math.log(ratio))))
    knots[0], knots[-1] = low, high
    return knots


def prepared(problem: Problem) -> Problem:
    """The problem with what all fits share: kernel values in float32 where they fit into memory."""
    if (
        not isinstance(problem, KernelProblem)
        or problem.fast_values is not None
        or problem.n_samples <= problem_policy.HELD.most_samples
    ):
        return problem
    matrix = KernelMatrix(problem.kernel, problem.points, np.float32, cache_mb=policy.PATH.held_megabytes)
    if matrix.megabytes_to_hold <= policy.PATH.held_megabytes:
        matrix.hold()
    return with_costs(replace(problem, fast_values=matrix), problem.C)


@dataclass
class _Track:
    """Fits in the order of C. ``problem`` is that of C = 1."""

    problem: Problem
    tol: float
    solver: Any
    fits: list[Fit] = field(default_factory=list)
    solutions: list[Solution] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lengths = row_lengths(self.problem)
        self.starts_at_w = isinstance(self.problem, LinearProblem) and self.problem.penalty.has_kink

    def extend(self, C: float) -> None:
        """A knot after the last one, started from its alpha, scaled to the new C; with an L1 penalty from its w."""
        start = None
        if self.fits:
            last = self.solutions[-1]
            start = last.w if self.starts_at_w else last.alpha * (C / self.fits[-1].C)
        self._insert(len(self.fits), C, start)

    def divide(self, tol: float) -> None:
        """Add knots until every interval is proved to be within ``tol``. A knot starts from the mixture of its neighbours."""
        k = 0
        while k < len(self.fits) - 1:
            one, two = self.fits[k], self.fits[k + 1]
            dual = self.solutions[k].certificate.dual
            bound, fitted = (_relative(gap, dual) for gap in (between(one, two).greatest_gap, max(one.gap, two.gap)))
            is_limited = fitted > policy.PATH.divided_below * tol
            if bound <= tol or two.C / one.C < policy.PATH.closest or is_limited:
                k += 1
                continue
            C = math.sqrt(one.C * two.C)
            theta = (C - one.C) / (two.C - one.C)
            pair = [s.w if self.starts_at_w else s.alpha for s in self.solutions[k : k + 2]]
            self._insert(k + 1, C, (1.0 - theta) * pair[0] + theta * pair[1])

    def _insert(self, k: int, C: float, start: Array | None) -> None:
        problem = with_costs(self.problem, scaled_costs(self.problem.C, C))
        solution = solve_whole(problem, self.solver, self.tol, start)
        self.solutions.insert(k, solution)
        self.fits.insert(k, fit_of(problem, solution, C, self.lengths))


def fit_of(problem: Problem, solution: Solution, C: float, lengths: Array | None = None) -> Fit:
    """A solution as a fit whose proof can be moved."""
    if isinstance(problem, KernelProblem):
        return kernel_fit(problem, solution.alpha, solution.b, C)
    if problem.penalty.has_kink:
        return sparse_fit(problem, solution, C, lengths)
    return linear_fit(problem, solution.w, solution.alpha, C, lengths)
