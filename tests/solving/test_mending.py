"""What is done to a pair whose certificate was refused."""

from __future__ import annotations

import numpy as np

from maxmargin.certificate.linear import Judge
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.regression_losses import EpsilonInsensitive
from maxmargin.solving import mending
from maxmargin.solving.mending import JudgedPair, Mender


def test_a_set_of_free_samples_leads_to_its_pair_once_however_often_it_is_offered(monkeypatch):
    rng = np.random.default_rng(0)
    problem = LinearProblem.build(rng.normal(size=(8, 3)), rng.normal(size=8), 1.0, EpsilonInsensitive(0.1), 1.0)
    judge, calls = Judge(problem), []
    monkeypatch.setattr(mending, "exact_pair", lambda problem, alpha: calls.append(alpha))
    mender = Mender(problem, judge)
    for alpha in (np.full(8, 0.5), np.full(8, 0.25), np.append(np.full(7, 0.5), 1.0), np.full(8, 0.125)):
        w = problem.weights(alpha)
        mender.mended(JudgedPair(w, alpha, judge.certify(w, alpha)), 1e-4)
    assert len(calls) == 2


def test_a_pair_within_tol_is_left_as_it_is():
    problem = LinearProblem.build(np.eye(2), np.zeros(2), 1.0, EpsilonInsensitive(0.1), 1.0)
    judge = Judge(problem)
    pair = JudgedPair(np.zeros(3), np.zeros(2), judge.certify(np.zeros(3), np.zeros(2)))
    assert Mender(problem, judge).mended(pair, 1e-4) is pair
