"""The papers' own stopping rules from the public interface: where they end a solve, what its status says, and who can ask."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import AVSF, DCD, SMO, SVC, KernelProblem, LinearProblem, LinearSVC, Order, Shrinking, certify, solve
from maxmargin.problem.kernels import RBF
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.screening.shrinking import FSafe, Joachims, NoShrinking, Safe
from maxmargin.solvers.registry import KERNEL_SOLVERS, SOLVERS, ending_by_own_rule, kernel_solver_named, solver_named
from maxmargin.solving.solution import Status
from tests.catalogue import labelled
from tests.plain_papers import Box, adaptive_frequencies, dual_coordinate_descent, working_sets_of_one

LOSSES = {"hinge": (Hinge(), Box.hinge), "squared_hinge": (SquaredHinge(), Box.squared_hinge)}
losses = pytest.mark.parametrize("loss_name", LOSSES)
ORDERS = [
    (Order.CYCLIC, None),
    (Order.CYCLIC, Shrinking()),
    (Order.PERMUTED, None),
    (Order.PERMUTED, Shrinking()),
    (Order.ONLINE, None),
]


def ending_rules():
    return [DCD(stop="paper"), AVSF(stop="paper")]


@losses
@pytest.mark.parametrize(("order", "shrinking"), ORDERS, ids=lambda value: getattr(value, "name", repr(value)))
@pytest.mark.parametrize("epsilon", [0.1, 1e-3])
def test_rule_17_ends_dcd_after_the_steps_that_the_papers_own_pseudo_code_makes(loss_name, order, shrinking, epsilon):
    loss, box = LOSSES[loss_name]
    X, y = labelled(60, 5, 1.0, 4)
    ours = solve(LinearProblem.build(X, y, 1.0, loss), DCD(order, shrinking, epsilon, stop="paper"), random_state=3)
    plain = dual_coordinate_descent(box(X, y, 1.0), epsilon, order=order.name.lower(), shrinks=shrinking is not None, seed=3)
    assert ours.steps == plain.steps
    assert ours.status is Status.SOLVER_RULE
    assert ours.alpha == pytest.approx(plain.alpha, abs=1e-9)
    assert ours.w == pytest.approx(plain.w, abs=1e-9)


@losses
@pytest.mark.parametrize("epsilon", [0.01, 1e-4])
def test_canstop_ends_avsf_after_the_steps_that_algorithms_3_to_5_make(loss_name, epsilon):
    loss, box = LOSSES[loss_name]
    X, y = labelled(60, 5, 1.0, 5)
    ours = solve(LinearProblem.build(X, y, 1.0, loss), AVSF(epsilon=epsilon, stop="paper"), random_state=3)
    plain = adaptive_frequencies(box(X, y, 1.0), epsilon, seed=3)
    assert ours.steps == plain.steps
    assert ours.status is Status.SOLVER_RULE
    assert ours.alpha == pytest.approx(plain.alpha, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1e-3])
def test_the_violation_ends_smo_after_the_steps_of_a_plain_run(epsilon):
    X, y = labelled(80, 3, 1.0, 6)
    y = y * y[0]
    problem = KernelProblem.build(X, y, 1.0, RBF(0.4), has_offset=False)
    ours = solve(problem, SMO(1, NoShrinking(), epsilon=epsilon, stop="paper"))
    plain = working_sets_of_one(rbf_kernel(X, gamma=0.4) * np.outer(y, y), 1.0, epsilon)
    assert ours.steps == plain.steps
    assert ours.status is Status.SOLVER_RULE
    assert ours.alpha == pytest.approx(plain.alpha, abs=1e-9)


@pytest.mark.parametrize("shrinking", [NoShrinking(), Joachims(every=5), Safe(every=7), FSafe(0.05)], ids=repr)
@pytest.mark.parametrize("has_offset", [False, True])
def test_smo_ends_where_libsvm_would_whatever_the_rule_of_shrinking(shrinking, has_offset):
    X, y = labelled(120, 3, 1.0, 7)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.4), has_offset=has_offset)
    ours = solve(problem, SMO(shrinking=shrinking, epsilon=1e-3, stop="paper"))
    kinks = y - rbf_kernel(X, gamma=0.4) @ (ours.alpha * y)
    can_rise = np.where(y > 0, ours.alpha < 1.0, ours.alpha > 0.0)
    can_fall = np.where(y > 0, ours.alpha > 0.0, ours.alpha < 1.0)
    top, bottom = kinks[can_rise].max(), kinks[can_fall].min()
    assert (top - bottom if has_offset else max(top, 0.0) - min(bottom, 0.0)) <= 1e-3 * (1.0 + 1e-9)
    assert ours.status is Status.SOLVER_RULE


@pytest.mark.parametrize("has_offset", [False, True])
def test_a_violation_that_float64_cannot_reach_ends_smo_at_the_precision_limit(has_offset):
    problem = KernelProblem.build(*labelled(60, 3, 1.0, 7), 1.0, RBF(0.4), has_offset=has_offset)
    ended = solve(problem, SMO(epsilon=1e-300, stop="paper"))
    assert ended.status is Status.PRECISION_LIMIT
    assert ended.certificate.relative_gap < 1e-12


@pytest.mark.parametrize("solver", ending_rules(), ids=lambda solver: solver.name)
def test_the_answer_is_the_solvers_own_point_with_its_only_certificate(solver):
    problem = LinearProblem.build(*labelled(2000, 10, 1.0, 0), 10.0)
    ours = solve(problem, solver, tol=1e-12)
    w = (ours.alpha * problem.y) @ problem.rows.matrix
    assert ours.w == pytest.approx(w, abs=1e-9)
    assert len(ours.trace) == 1
    assert ours.certificate.relative_gap == pytest.approx(certify(problem, ours.w, ours.alpha).relative_gap)
    assert ours.certificate.relative_gap > 1e-12


@pytest.mark.parametrize("solver", ending_rules(), ids=lambda solver: solver.name)
def test_a_smaller_epsilon_takes_more_steps_to_a_smaller_gap(solver):
    problem = LinearProblem.build(*labelled(500, 10, 1.0, 1), 1.0)
    loose, tight = (solve(problem, ending_by_own_rule(solver, epsilon)) for epsilon in (0.1, 1e-5))
    assert loose.steps < tight.steps
    assert loose.certificate.gap > 100.0 * tight.certificate.gap


@pytest.mark.parametrize("solver", ending_rules(), ids=lambda solver: solver.name)
def test_an_epsilon_that_float64_cannot_reach_ends_at_the_precision_limit(solver):
    problem = LinearProblem.build(*labelled(60, 20, 1.0, 2), 1.0, SquaredHinge())
    ended = solve(problem, ending_by_own_rule(solver, 1e-300))
    assert ended.status is Status.PRECISION_LIMIT
    assert ended.certificate.relative_gap < 1e-12


def test_limits_are_kept_while_a_solver_works_towards_its_own_rule():
    problem = LinearProblem.build(*labelled(3000, 20, 3.0, 0), 100.0)
    solver = DCD(epsilon=1e-9, stop="paper")
    by_epochs = solve(problem, solver, max_epochs=3)
    assert (by_epochs.status, by_epochs.steps) == (Status.EPOCH_LIMIT, 3 * 3000)
    by_seconds = solve(problem, solver, max_seconds=0.02)
    assert by_seconds.status is Status.TIME_LIMIT
    assert math.isfinite(by_seconds.certificate.gap)


def test_a_warm_start_from_the_answer_needs_one_sweep_to_see_that_the_rule_holds():
    problem = LinearProblem.build(*labelled(200, 5, 1.0, 3), 1.0)
    solver = DCD(shrinking=None, stop="paper")
    assert solve(problem, solver, warm_start=solve(problem, tol=1e-10)).steps == 200


def test_estimators_take_the_rule_without_a_warning():
    X, y = labelled(300, 5, 1.0, 8)
    linear = LinearSVC(loss="hinge", solver=DCD(stop="paper"), tol=1e-10).fit(X, y)
    assert linear.status_ is Status.SOLVER_RULE
    assert linear.relative_gap_ > 1e-10
    kernel = SVC(solver=SMO(stop="paper"), tol=1e-10).fit(X, y)
    assert kernel.status_ is Status.SOLVER_RULE
    assert kernel.fit_status_ == 0


@pytest.mark.parametrize("words", [("--solver", "dcd", "--loss", "hinge"), ("--solver", "smo", "-t", "rbf", "-g", "0.5")])
def test_the_command_line_asks_for_the_rule_and_says_that_it_held(run, tmp_path, words):
    X, y = labelled(200, 6, 1.0, 9)
    dump_svmlight_file(X, y, str(tmp_path / "data"), zero_based=False)
    code, out, _ = run("train", "data", *words, "--stop", "paper", "--epsilon", "0.1", "--json")
    report = json.loads(out)
    assert report["status"] == "SOLVER_RULE"
    assert (code, report["certified"]) == (3, False)
    code, out, _ = run("train", "data", *words, "--stop", "paper", "-e", "1.0")
    assert code == 0
    assert out.startswith("Certified")
    code, out, _ = run("train", "data", *words, "--stop", "paper", "--epsilon", "0.1", "--checkpoint", "saved")
    assert out.startswith("Ended by the solver's own rule: the objective is within")
    assert Status.SOLVER_RULE.value in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--stop", "paper"), "The solver 'auto' has no stopping rule of a paper: it ends by the gap."),
        (("--epsilon", "0.1"), "ask for that with --stop paper"),
        (("--solver", "dcd", "--stop", "paper", "--epsilon", "-1"), "epsilon must be positive; got -1.0."),
    ],
)
def test_what_the_command_line_cannot_do_is_said_in_a_sentence(run, tmp_path, words, sentence):
    (tmp_path / "data").write_text("1 1:1\n-1 1:-1\n")
    code, _, errors = run("train", "data", *words)
    assert code == 2
    assert sentence in " ".join(errors.split())


@pytest.mark.parametrize("make", [DCD, AVSF, SMO])
def test_another_word_for_the_rule_is_refused(make):
    with pytest.raises(ValueError, match="stop must be 'gap' or 'paper'; got 'soon'"):
        make(stop="soon")


def test_every_solver_that_has_a_rule_of_its_own_ends_by_the_gap_unless_it_is_asked():
    solvers = [*map(solver_named, SOLVERS), *map(kernel_solver_named, KERNEL_SOLVERS)]
    assert {getattr(solver, "stop", "gap") for solver in solvers} == {"gap"}
