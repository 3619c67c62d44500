"""What a solve returns: the answer, its certificate, why it ended, and how it got there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import TYPE_CHECKING

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.html import certificate_html
from maxmargin.data.rows import Array

if TYPE_CHECKING:
    from maxmargin.certificate.ellipsoid import Ellipsoid


class Status(Enum):
    """Why a solve ended. Each value is a sentence for the user."""

    CERTIFIED = "The certificate shows that the relative duality gap is within tol."
    SOLVER_RULE = "The stopping rule of the solver's own paper holds. The certificate says how far from the optimum that is."
    STATIONARY = "The conditions of optimality hold within tol, but the kernel is not positive semidefinite: nothing is proved."
    EPOCH_LIMIT = "The limit on epochs was reached before tol."
    TIME_LIMIT = "The limit on seconds was reached before tol."
    PRECISION_LIMIT = "The gap stays above tol: rounding, or the conditioning of the problem, keeps the solver from it."
    STOPPED = "The user or the callback stopped the solver before tol."

    def __repr__(self) -> str:
        return f"Status.{self.name}"

    @property
    def is_certified(self) -> bool:
        return self is Status.CERTIFIED

    @property
    def is_within_tol(self) -> bool:
        return self in (Status.CERTIFIED, Status.STATIONARY)

    @property
    def is_as_asked(self) -> bool:
        """The solve ended as the caller asked: within tol, or by the solver's own rule."""
        return self.is_within_tol or self is Status.SOLVER_RULE


@dataclass(frozen=True)
class Progress:
    """Where a solve stands at one certificate: what a callback sees and one row of the trace.

    ``primal`` and ``dual`` are the best so far and ``gap`` is between them; ``solver`` is the one at work, and ``reason``
    says why it is."""

    seconds: float
    epochs: float
    steps: int
    primal: float
    dual: float
    gap: float
    relative_gap: float
    active: int
    solver: str
    reason: str = "asked for"


@dataclass(frozen=True, eq=False)
class Solution:
    """The best answer that was certified. ``w`` has the intercept's weight as its last element if there is one.

    An epoch is as many steps as there are samples; ``b`` is the intercept, already scaled. Where it is free, no optimal
    intercept is farther from it than ``offset_bound``; where it is penalised, ``certificate.distance_bound`` covers it.
    ``ellipsoid`` is there if it was asked for.
    """

    w: Array
    alpha: Array
    b: float
    certificate: Certificate
    status: Status
    trace: tuple[Progress, ...]
    seconds: float
    steps: int
    epochs: float
    kernel_evaluations: int = 0
    offset_bound: float = 0.0
    ellipsoid: Ellipsoid | None = None

    def without(self, nothing: Array) -> Solution:
        """The same solution with this in place of its alpha, which may take much memory."""
        thin = object.__new__(type(self))
        vars(thin).update(vars(self), alpha=nothing)
        return thin

    def __str__(self) -> str:
        return f"{self.status.name} after {self.seconds:.3g} s and {self.epochs:.1f} epochs: {self.certificate}"

    def _repr_html_(self) -> str:
        effort = f"{self.seconds:.3g} s, {self.epochs:.1f} epochs, {self.steps:,} steps, {len(self.trace)} certificates"
        return f"<div><p><b>{escape(self.status.value)}</b></p>{certificate_html(self.certificate)}<p>{effort}</p></div>"
