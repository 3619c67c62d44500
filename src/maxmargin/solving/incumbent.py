"""The incumbent of a solve: the best answer so far, and what the certificate says of it.

For a linear problem the incumbent is a pair, the best w and the best alpha, which may come from different moments. For a kernel
problem it is an alpha alone, because w is known only through alpha.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin.certificate.certificate import Certificate, refusal, relative
from maxmargin.certificate.intercept import kernel_offset_bound, linear_offset_bound, priced_offset_bound
from maxmargin.certificate.kernel import KernelVerdict, certify_kernel
from maxmargin.certificate.linear import judge_of
from maxmargin.certificate.nu import NuVerdict, certify_nu, threshold_bound
from maxmargin.data.kept import kept
from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.data.rows import Array
from maxmargin.data.threads import available_cores
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.nu import NuProblem
from maxmargin.solvers.base import KernelSolver, Solver
from maxmargin.solvers.linear.primal_search import PrimalPoint
from maxmargin.solving.mending import JudgedPair, Mender
from maxmargin.solving.policy import DEFAULT, DrivingPolicy
from maxmargin.solving.solution import Status


class Answer(NamedTuple):
    """A primal and a dual point, the intercept, and the certificate of the pair."""

    w: Array
    alpha: Array
    b: float
    certificate: Certificate


class Known(Protocol):
    """The numbers of the best answer that a row of the trace shows."""

    @property
    def primal(self) -> float: ...

    @property
    def dual(self) -> float: ...

    @property
    def gap(self) -> float: ...

    @property
    def relative_gap(self) -> float: ...


class Incumbent(Protocol):
    """What the driver keeps of the answers to its problem."""

    @property
    def elements_a_step(self) -> float:
        """Stored elements that a step touches, and what it costs besides, in elements."""

    @property
    def certificate_seconds(self) -> float:
        """Seconds that a certificate may take: an estimate until the driver has measured one."""

    @property
    def kernel_evaluations(self) -> int:
        """Kernel values that were computed for certificates."""

    @property
    def is_limited_by_rounding(self) -> bool: ...

    def judge(self, solver: Any, state: Any, tol: float) -> Answer | None:
        """Certify where the solver stands, and give the answer that meets ``tol`` if there is one now."""

    def judge_own(self, solver: Any, state: Any) -> Answer:
        """The solver's own point with its certificate, whatever other points are known."""

    def known(self) -> Known: ...

    def best(self) -> Answer: ...

    def best_without_time(self) -> Answer:
        """The best answer, without a certificate where that would take long."""

    def forget_certificate(self) -> None:
        """Certify the best answer again at its next use, because an interruption may have mixed it with another."""

    def offset_bound(self, answer: Answer) -> float:
        """How far an optimal intercept can be from the answer's, where the intercept is free. Zero elsewhere."""

    def spacing(self, steps: int) -> float:
        """How many steps until the next certificate, if the solver does not ask for one before."""


def incumbent_of(
    problem: LinearProblem | KernelProblem | NuProblem | CrammerSingerProblem, policy: DrivingPolicy = DEFAULT
) -> Incumbent:
    if isinstance(problem, CrammerSingerProblem):
        from maxmargin.solving.crammer_singer import CrammerSingerIncumbent

        return CrammerSingerIncumbent(problem, policy)
    if isinstance(problem, NuProblem):
        return NuIncumbent(problem, policy)
    if isinstance(problem, KernelProblem):
        return KernelIncumbent(problem, policy)
    return LinearIncumbent(problem, policy)


def status_of(stop: Stop) -> Status:
    return Status.STOPPED if stop.is_told else Status.TIME_LIMIT


class LinearIncumbent:
    """The best w and the best alpha. Zero is the first of both."""

    kernel_evaluations = 0

    def __init__(self, problem: LinearProblem, policy: DrivingPolicy) -> None:
        self.problem, self.policy = problem, policy
        self.w = np.zeros(problem.n_weights)
        self.dual = 0.0 if problem.offset_prices is None else -np.inf  # that of the prices takes a pass over X
        self.certificate: Certificate | None = None
        self._judge = judge_of(problem)
        self._mender = Mender(problem, self._judge)
        self._looks_for_w = problem.penalizes_intercept and not problem.penalty.has_kink
        self._margins = np.empty(problem.n_samples) if self._looks_for_w else self._judge.margins
        self._point: PrimalPoint | None = None
        self._w_of_margins: Array | None = None
        self._own_w, self._is_here_limited = self.w, False

    @kept
    def alpha(self) -> Array:
        """Made where the first answer is not within ``tol``."""
        return self.problem.first_dual_point.copy()

    @kept
    def primal(self) -> float:
        return self.problem.primal_at_zero

    def judge(self, solver: Solver, state: Any, tol: float) -> Answer | None:
        """The solver's own point, or the best pair if that is better."""
        self._judge.tol = tol
        here = self._mended(self.judge_own(solver, state), tol)
        self._is_here_limited = here.certificate.is_limited_by_rounding
        if here.certificate.meets(tol):
            return here
        self._offer_outputs(solver, state)
        self.learn(here, may_search=not state.has_best_w)
        if self.relative_gap > tol and not self._may_be_zero:
            return None
        pair = self.best()
        return pair if pair.certificate.meets(tol) else None

    def _offer_outputs(self, solver: Any, state: Any) -> None:
        """Where the offset has a price, the solver's next working set comes from the outputs that the judge has computed."""
        if self.problem.offset_prices is not None and hasattr(solver, "take_outputs"):
            solver.take_outputs(self.problem, state, self._margins)

    @property
    def _may_be_zero(self) -> bool:
        """Whether w = 0 is the best point so far and the optimum can be zero. No gap is small relative to zero."""
        return self.problem.offset_prices is not None and self.primal >= 0.0

    def _mended(self, here: Answer, tol: float) -> Answer:
        """The same pair, or one whose rounding errors are made good where these may be what keeps the gap from ``tol``."""
        judged = JudgedPair(here.w, here.alpha, here.certificate)
        found = self._mender.mended(judged, tol)
        return here if found is judged else self._answer(*found)

    def judge_own(self, solver: Solver, state: Any) -> Answer:
        w, alpha = solver.candidate(self.problem, state)
        self._w_of_margins = w
        return self._answer(w, alpha, self._judge.certify(w, alpha, self._margins))

    def learn(self, here: Answer, may_search: bool) -> None:
        """Take over the better w and alpha, then search for a still better w, in the same memory: new pages are slow."""
        certificate = here.certificate
        found = self._search(here) if may_search and np.isfinite(certificate.gap) else np.inf
        is_here = certificate.is_limited_by_rounding or certificate.primal < found * (1.0 - self.policy.tie)
        is_lower = min(found, certificate.primal) < self.primal or certificate.is_safer_than(self.certificate)
        improves = is_lower, certificate.dual > self.dual
        if any(improves):
            self.certificate = certificate if all(improves) and is_here else None
        if improves[1]:
            self.dual = certificate.dual
            np.copyto(self.alpha, here.alpha)
        if improves[0] and is_here:
            self.primal, self.w = certificate.primal, self._own_w
            np.copyto(self.w, here.w)
        elif improves[0]:
            assert self._point is not None
            assert self._point.best is not None
            self.primal, self.w = found, self._point.best.w  # owns its memory, and moves only to a better point

    def _search(self, here: Answer) -> float:
        """The primal value of the best point on a few lines; infinite where there is no such search."""
        if not self._looks_for_w or self._margins is None:
            return np.inf
        self._point = self._point or PrimalPoint(self.problem)
        return self._point.offer(here.w, self._margins, float(here.w @ here.w))

    def known(self) -> Known:
        return self

    @property
    def gap(self) -> float:
        """The gap of the pair by its certificate, or else the difference of the two values."""
        return self.certificate.gap if self.certificate else self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        return relative(self.gap, self.primal, self.dual)

    @property
    def is_limited_by_rounding(self) -> bool:
        """Whether both the best pair and the solver's own point are: else the solver may still find a better pair."""
        return self._is_here_limited and self.certificate is not None and self.certificate.is_limited_by_rounding

    def best(self) -> Answer:
        if self.certificate is None:
            self.certificate = self._judge.certify(self.w, self.alpha)
        return self._answer(self.w, self.alpha, self.certificate)

    best_without_time = best  # a certificate is one pass over X

    def forget_certificate(self) -> None:
        self.certificate = None

    def offset_bound(self, answer: Answer) -> float:
        squares = getattr(self._judge, "squares", None)
        if squares is not None and self._margins is not None and answer.w is self._w_of_margins:
            return priced_offset_bound(self.problem, answer.w, answer.certificate, self._margins, squares)
        return linear_offset_bound(self.problem, answer.w, answer.certificate)

    def _answer(self, w: Array, alpha: Array, certificate: Certificate) -> Answer:
        scaling = self.problem.intercept_scaling
        return Answer(w, alpha, float(w[-1] * scaling) if scaling else 0.0, certificate)

    @kept
    def elements_a_step(self) -> float:
        return self.policy.elements_a_step(self.problem.rows.n_stored, self.problem.n_samples)

    @property
    def certificate_seconds(self) -> float:
        return 1e-9 * self.policy.certificate_element_ns * self.problem.rows.n_stored

    def spacing(self, steps: int) -> float:
        policy = self.policy
        least = max(policy.certificate_epochs * self.problem.n_samples, policy.certificate_elements / self.elements_a_step)
        return int(max(least, policy.certificate_growth * steps))


class KernelIncumbent:
    """The alpha with the least gap. A certificate is as much work as a good part of a fit, so it comes only when the solver
    asks for one or the driver has to end."""

    def __init__(self, problem: KernelProblem, policy: DrivingPolicy) -> None:
        self.problem, self.policy = problem, policy
        self._evaluations = 0
        self._alpha = np.zeros(problem.n_samples)
        self._verdict: KernelVerdict | None = None

    @property
    def elements_a_step(self) -> float:
        return self.policy.kernel_step_elements

    @property
    def kernel_evaluations(self) -> int:
        """Kernel values that were computed for certificates and for the matrix that the problem holds."""
        return self._evaluations + self.problem.held_evaluations

    @property
    def certificate_seconds(self) -> float:
        """An estimate: every second sample is a support vector."""
        n, rows = self.problem.n_samples, self.problem.rows
        ns = self.policy.kernel_value_ns + self.policy.kernel_element_ns * rows.n_stored / n
        return 1e-9 * ns * 0.5 * n * n / available_cores()

    def judge(self, solver: KernelSolver, state: Any, tol: float) -> Answer | None:
        alpha, verdict = self._judged(solver, state, tol)
        is_within_tol = verdict.meets(tol)
        if is_within_tol or self._verdict is None or verdict.certificate.gap < self._verdict.certificate.gap:
            self._alpha, self._verdict = np.array(alpha), verdict
        if not is_within_tol:
            longer, stretched = self._stretched(alpha, verdict, tol)
            is_within_tol = stretched.meets(tol)
            if is_within_tol:
                self._alpha, self._verdict = np.array(longer), stretched
        if is_within_tol:
            return self.best()
        solver.take_outputs(self.problem, state, verdict.outputs)
        return None

    def _stretched(self, alpha: Array, verdict: Any, tol: float) -> tuple[Array, Any]:
        """Where every margin is one but for a few digits, alpha times the number just above one that brings all margins to one.
        The losses are then exactly zero, instead of C times a rounding error. That is many times the objective where kernel
        values are large, as in raw columns."""
        least = verdict.least_margin(self.problem) if verdict.certificate.is_proof else 0.0
        longer = alpha / least if 1.0 - self.policy.stretch * tol <= least < 1.0 else alpha
        if longer is alpha or not self.problem.is_feasible(longer) or not self._may_meet(longer, verdict.outputs / least, tol):
            return alpha, verdict
        stretched = self._certify(longer, tol)
        self._evaluations += stretched.kernel_evaluations
        return (longer, stretched) if stretched.certificate.gap < verdict.certificate.gap else (alpha, verdict)

    def _may_meet(self, alpha: Array, outputs: Array, tol: float) -> bool:
        """Whether an alpha without losses, whose gap is |w|^2 - sum_i alpha_i, looks good enough for another certificate."""
        sqnorm, total = float((alpha * self.problem.signs) @ outputs), float(alpha.sum())
        return sqnorm - total <= 2.0 * tol * max(0.5 * sqnorm, total - 0.5 * sqnorm)

    def judge_own(self, solver: KernelSolver, state: Any) -> Answer:
        alpha, self._verdict = self._judged(solver, state, None)
        self._alpha = np.array(alpha)
        return self.best()

    def _judged(self, solver: KernelSolver, state: Any, tol: float | None) -> tuple[Array, KernelVerdict]:
        alpha = solver.candidate(self.problem, state)
        try:
            verdict = self._certify(alpha, tol)
        except OutOfTimeError:
            self._keep_unproved(alpha, float(getattr(state, "b", 0.0)))
            raise
        self._evaluations += verdict.kernel_evaluations
        return alpha, verdict

    def _keep_unproved(self, alpha: Array, b: float) -> None:
        """Keep an alpha without a certificate, where no time is left for one and there is no other alpha."""
        if self._verdict is None:
            nothing = np.zeros(len(alpha)), np.full(len(alpha), np.inf)
            self._alpha, self._verdict = np.array(alpha), KernelVerdict(refusal(int(np.count_nonzero(alpha))), b, *nothing, 0)

    def known(self) -> Known:
        return self._certified.certificate

    @property
    def is_limited_by_rounding(self) -> bool:
        return self._certified.certificate.is_limited_by_rounding

    def best(self) -> Answer:
        verdict = self._certified
        return Answer(np.empty(0), self._alpha, verdict.b, verdict.certificate)

    def best_without_time(self) -> Answer:
        self._keep_unproved(self._alpha, 0.0)
        return self.best()

    def forget_certificate(self) -> None:
        """Does nothing: an alpha and its verdict are always taken over together."""

    def offset_bound(self, answer: Answer) -> float:
        return kernel_offset_bound(self.problem, self._certified)

    @property
    def _certified(self) -> KernelVerdict:
        if self._verdict is None:
            self._verdict = self._certify(self._alpha, None)
        return self._verdict

    def _certify(self, alpha: Array, tol: float | None) -> Any:
        return certify_kernel(self.problem, alpha, tol=tol)

    def spacing(self, steps: int) -> float:
        return math.inf


class NuIncumbent(KernelIncumbent):
    """The incumbent of a problem with nu. The w of its answer holds the thresholds, one for each group."""

    problem: Any

    def __init__(self, problem: NuProblem, policy: DrivingPolicy) -> None:
        super().__init__(problem, policy)  # type: ignore[arg-type]
        self._alpha = problem.first_point

    def best(self) -> Answer:
        verdict: Any = self._certified
        return Answer(verdict.thresholds, self._alpha, verdict.b, verdict.certificate)

    def offset_bound(self, answer: Answer) -> float:
        verdict: Any = self._certified
        return threshold_bound(self.problem, verdict)

    def _stretched(self, alpha: Array, verdict: Any, tol: float) -> tuple[Array, Any]:
        """The same: the sums of alpha are fixed."""
        return alpha, verdict

    def _certify(self, alpha: Array, tol: float | None) -> Any:
        return certify_nu(self.problem, alpha, tol=tol)

    def _keep_unproved(self, alpha: Array, b: float) -> None:
        if self._verdict is None:
            n, nothing = self.problem.samples.n_samples, np.zeros(len(self.problem.totals))
            unproved: Any = NuVerdict(refusal(int(np.count_nonzero(alpha))), nothing, np.zeros(n), np.full(n, np.inf), 0)
            self._alpha, self._verdict = np.array(alpha), unproved
