"""Rule (1) of Zimmert et al. (2015) to the letter: the alpha of a removed sample is set to its bound."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import IRWLS, RBF, SMO, SVC, FSafe, FSafeAsPrinted, KernelProblem, NoShrinking, Status, solve
from maxmargin.solvers.base import Budget
from tests.catalogue import labelled


def problem(n=200, has_offset=False):
    return KernelProblem.build(*labelled(n, 3, 1.0, 21), 1.0, RBF(0.3), has_offset=has_offset)


def smo(f, working_set=1, **settings):
    return SMO(working_set, FSafeAsPrinted(f, **settings), stop="paper", epsilon=1e-4)


@pytest.mark.parametrize("working_set", [1, 2])
@pytest.mark.parametrize("f", [0.02, 0.1, 0.3])
def test_kinks_and_dual_value_belong_to_the_alphas_that_a_removal_has_set(working_set, f):
    p, solver = problem(), smo(f, working_set)
    state = solver.init(p, None, 0)
    K = p.gram(np.arange(200), np.arange(200))
    while not state.looks_done:
        solver.advance(p, state, Budget(1, 0.0))
        signed = solver.candidate(p, state) * p.y
        active = state.variables.sample[: state.active]
        assert state.variables.kink[: state.active] == pytest.approx((p.y - K @ signed)[active], abs=1e-9)
        assert state.dual == pytest.approx(np.abs(signed).sum() - 0.5 * signed @ K @ signed, rel=1e-9, abs=1e-9)
    assert state.set_alphas > 0 or f == 0.3


def test_the_samples_that_satisfy_rule_1_and_no_others_are_set_to_their_bounds_and_gone():
    p, solver = problem(), SMO(1, NoShrinking())
    state = solver.init(p, None, 0)
    solver.advance(p, state, Budget(60, 0.0))
    whole = state.active_set()
    threshold = 0.05 * np.sqrt(p.diagonal[state.variables.sample] * whole.gap)
    down, up = (set(state.variables.sample[mask]) for mask in (whole.gradient < -threshold, whole.gradient > threshold))
    screened = FSafeAsPrinted(0.05).screened(whole)
    state.set_to_bounds(screened)
    state.remove(screened.at_zero | screened.at_C)
    removed, alpha = state.variables.sample[state.active :], state.variables.alpha[state.active :]
    assert set(removed[alpha == 0.0]) == down
    assert set(removed[alpha == 1.0]) == up
    assert len(removed) == len(down) + len(up) > state.set_alphas > 0


def test_with_f_of_one_the_rule_sets_alphas_to_where_they_are_at_the_optimum():
    p, solver = problem(), smo(1.0)
    optimum = solve(p, tol=1e-10).alpha
    state = solver.init(p, None, 0)
    while not state.looks_done:
        solver.advance(p, state, Budget(1, 0.0))
        removed = state.variables.sample[state.active :]
        assert solver.candidate(p, state)[removed] == pytest.approx(optimum[removed], abs=1e-6)
    assert state.removals > 100
    assert state.resets == 0


def test_where_f_is_small_removals_undo_each_other_until_the_limit_and_the_answer_is_right_all_the_same():
    p, solver = problem(), smo(0.001, most_resets=7)
    state = solver.init(p, None, 0)
    while not state.looks_done:
        solver.advance(p, state, Budget(50, 0.0))
    assert state.resets >= 7
    plain = solver.__class__(1, FSafe(0.001, every=1), stop="paper", epsilon=1e-4)
    patient = plain.init(p, None, 0)
    while not patient.looks_done:
        plain.advance(p, patient, Budget(50, 0.0))
    assert patient.resets < 7
    ended = solve(p, solver)
    assert ended.status is Status.SOLVER_RULE
    assert ended.certificate.relative_gap < 1e-3


def test_rule_1_as_printed_is_for_smo_without_an_offset_alone():
    with pytest.raises(ValueError, match="FSafeAsPrinted sets one alpha at a time"):
        solve(problem(has_offset=True), SMO(shrinking=FSafeAsPrinted()))
    with pytest.raises(TypeError, match="shrinking must be a rule"):
        IRWLS(shrinking=FSafeAsPrinted())
    with pytest.raises(ValueError, match=r"must lie in \(0, 1\]; got 2"):
        FSafeAsPrinted(2.0)


def test_an_estimator_without_an_intercept_takes_rule_1_as_printed():
    X, y = labelled(150, 3, 1.0, 22)
    model = SVC(solver="smo", shrinking=FSafeAsPrinted(0.2), fit_intercept=False).fit(X, y)
    assert model.status_ is Status.CERTIFIED
