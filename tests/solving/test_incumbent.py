"""What a solver is told after a certificate was refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.kernel import certify_kernel
from maxmargin.problem import policy
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF
from maxmargin.solving.driver import solve
from maxmargin.solving.incumbent import incumbent_of
from maxmargin.solving.policy import DrivingPolicy


class Recorder:
    """A solver that offers one alpha, and keeps the outputs that it is given."""

    def __init__(self, alpha: np.ndarray) -> None:
        self.alpha, self.outputs = alpha, np.empty(0)

    def candidate(self, problem, state):
        return self.alpha

    def take_outputs(self, problem, state, outputs):
        self.outputs = outputs


@pytest.mark.parametrize(("times", "is_tried"), [(1.0 / 1.5, True), (0.1, False)])
def test_a_solver_gets_the_outputs_of_its_own_alpha_when_a_longer_one_is_refused_too(times, is_tried, monkeypatch):
    monkeypatch.setattr(policy, "HELD", policy.HeldValuesPolicy(most_samples=0))
    rng = np.random.default_rng(0)
    problem = KernelProblem.build(rng.normal(size=(300, 5)), np.where(np.arange(300) % 2, 1, -1), 1e6, RBF(5.0))
    alpha = problem.nearest_feasible(solve(problem, tol=1e-13).alpha * (1.0 + 1e-5 * rng.normal(size=300)))
    own = certify_kernel(problem, alpha)
    longer = certify_kernel(problem, alpha / own.least_margin(problem))
    assert longer.certificate.relative_gap < 0.1 * own.certificate.relative_gap
    recorder, tol = Recorder(alpha), times * longer.certificate.relative_gap
    incumbent = incumbent_of(problem, DrivingPolicy(stretch=1e9))
    assert incumbent.judge(recorder, None, tol) is None
    assert np.array_equal(recorder.outputs, own.outputs)
    assert (incumbent.kernel_evaluations > own.kernel_evaluations) == is_tried


def test_a_longer_alpha_without_losses_is_the_answer_where_it_meets_tol():
    rng = np.random.default_rng(1)
    problem = KernelProblem.build(rng.normal(size=(300, 5)), np.where(np.arange(300) % 2, 1, -1), 1e6, RBF(5.0))
    alpha = problem.nearest_feasible(solve(problem, tol=1e-13).alpha * (1.0 + 1e-7 * rng.normal(size=300)))
    assert not certify_kernel(problem, alpha).meets(1e-5)
    answer = incumbent_of(problem, DrivingPolicy(stretch=1e9)).judge(Recorder(alpha), None, 1e-5)
    assert answer is not None
    assert certify_kernel(problem, answer.alpha).meets(1e-5)


def test_a_w_that_is_worse_by_less_than_rounding_hides_is_safer():
    sure = Certificate(1.0 + 1e-9, 1.0, 1e-9, 1e-9, 1e-15, 1.0, 1, 0)
    doubtful = Certificate(1.0, 1.0, 1e-12, 1e-12, 1e-6, 1.0, 1, 0)
    assert sure.is_safer_than(doubtful)
    assert not doubtful.is_safer_than(sure)
    assert not sure.is_safer_than(None)
    assert not sure.is_safer_than(replace(doubtful, gap=1e-3))  # rounding is not what limits it
    assert not replace(sure, primal=1.0 + 1e-5).is_safer_than(doubtful)
