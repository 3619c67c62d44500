"""The best answer so far to a problem of Crammer and Singer: the one with the least gap."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.crammer_singer import certify_coefficients, certify_crammer_singer
from maxmargin.data.rows import Array
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.solving.incumbent import Answer, Known
from maxmargin.solving.policy import DrivingPolicy


class CrammerSingerIncumbent:
    """W and b of one moment, with their certificate. Zero is the first."""

    kernel_evaluations = 0

    def __init__(self, problem: CrammerSingerProblem, policy: DrivingPolicy) -> None:
        self.problem, self.policy = problem, policy
        self._answer: Answer | None = None

    def judge(self, solver: Any, state: Any, tol: float) -> Answer | None:
        here = self.judge_own(solver, state)
        if self._answer is None or here.certificate.gap < self._answer.certificate.gap:
            self._answer = here._replace(alpha=np.array(here.alpha))  # sweeps change it in place, but never a W
        return self._answer if here.certificate.meets(tol) else None

    def judge_own(self, solver: Any, state: Any) -> Answer:
        W, b = solver.candidate(self.problem, state)
        if W is None:
            W, certificate = certify_coefficients(self.problem, b)
            return self._answer_of(W, b, certificate)
        return self._answer_of(W, b, certify_crammer_singer(self.problem, W, b))

    def _answer_of(self, W: Array, b: Array, certificate: Certificate) -> Answer:
        return Answer(W, b, 0.0, certificate)

    def known(self) -> Known:
        return self.best().certificate

    @property
    def is_limited_by_rounding(self) -> bool:
        return self.best().certificate.is_limited_by_rounding

    def best(self) -> Answer:
        if self._answer is None:
            W = np.zeros((self.problem.n_weights, self.problem.n_classes))
            b = np.zeros((self.problem.n_samples, self.problem.n_classes))
            self._answer = self._answer_of(W, b, certify_crammer_singer(self.problem, W, b))
        return self._answer

    best_without_time = best
    """A certificate is one pass over X."""

    def forget_certificate(self) -> None:
        """An answer and its certificate are taken over together, so that the certificate stands."""

    def offset_bound(self, answer: Answer) -> float:
        return 0.0

    @property
    def elements_a_step(self) -> float:
        return self.problem.n_classes * (self.problem.rows.n_stored / self.problem.n_samples + self.policy.step_elements)

    @property
    def certificate_seconds(self) -> float:
        return 1e-9 * self.policy.certificate_element_ns * self.problem.rows.n_stored * self.problem.n_classes

    def spacing(self, steps: int) -> float:
        policy = self.policy
        least = max(policy.certificate_epochs * self.problem.n_samples, policy.certificate_elements / self.elements_a_step)
        return int(max(least, policy.certificate_growth * steps))
