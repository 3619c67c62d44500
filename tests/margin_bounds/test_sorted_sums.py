"""Algorithms 1 and 2 as printed: against brute force and our own variant at every call, and their rule for when to sort."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin.margin_bounds.bound import HINGE, SQUARED_HINGE, ZERO_ONE
from maxmargin.margin_bounds.pruned_loss import PrunedLoss
from maxmargin.margin_bounds.sorted_sums import PrintedEvaluation, Resort, Resorting, SortCosts, SortedSums
from maxmargin.margin_bounds.spheres import Spheres
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Huber
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.pruned_gradient import PrunedGradient, cost_from_lambda
from tests.catalogue import PROBLEMS, labelled
from tests.margin_bounds.test_pruned_loss import LAYOUTS, SHAPES, assert_exact, made, walk

VARIANTS = {
    "as in the paper's experiments": PrintedEvaluation(),
    "a fixed period": PrintedEvaluation(Resort.PERIODIC),
    "the sums for every i": PrintedEvaluation(stores_all=True),
    "the offset as a feature": PrintedEvaluation(splits_classes=False),
}
variants = pytest.mark.parametrize("variant", VARIANTS)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape_name", SHAPES)
@variants
def test_it_equals_brute_force_and_our_own_variant_at_every_call(layout, shape_name, variant):
    problem, shape = LAYOUTS[layout](1), SHAPES[shape_name]
    printed = SortedSums(problem, shape, VARIANTS[variant])
    ours = PrunedLoss(problem, shape, spheres=Spheres.around_origin(problem))
    for w in walk(problem, 60, 1):
        evaluation = printed.evaluate(w)
        assert_exact(problem, shape, evaluation, w)
        theirs = ours.evaluate(w)
        assert evaluation.loss == pytest.approx(theirs.loss, rel=1e-9, abs=1e-9)
        assert shape.is_step or evaluation.slopes == pytest.approx(theirs.slopes, rel=1e-9, abs=1e-9)
    assert printed.tally.sorted > 1
    assert printed.tally.examined < 60 * 400 + 400 * printed.tally.sorted  # something was pruned


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 40),
    d=st.integers(1, 6),
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([2.0**-30, 1.0, 2.0**30]),
    shape_name=st.sampled_from(sorted(SHAPES)),
    is_sparse=st.booleans(),
    scaling=st.sampled_from([0.0, 1.0]),
    variant=st.sampled_from(sorted(VARIANTS)),
)
def test_it_is_exact_on_awkward_data_too(n, d, seed, scale, shape_name, is_sparse, scaling, variant):
    """Zero rows, equal rows, one class, margins exactly on the knee, huge and tiny scales."""
    rng = np.random.default_rng(seed)
    X = scale * rng.integers(-1, 2, size=(n, d)).astype(float)
    y = np.where(rng.random(n) < rng.choice([0.0, 0.5]), 1, -1)
    problem = LinearProblem.build(sparse.csr_array(X) if is_sparse else X, y, 1.0, intercept_scaling=scaling)
    loss = SortedSums(problem, SHAPES[shape_name], VARIANTS[variant])
    w = np.zeros(d + 1)
    for k in range(25):
        w = w + (2.0 ** -rng.integers(0, 20) if k % 3 else 0.0) * rng.integers(-1, 2, size=d + 1) / scale
        if not scaling:
            w[-1] = 0.0
        assert_exact(problem, SHAPES[shape_name], loss.evaluate(w), w)


@variants
def test_exactly_the_samples_that_the_bounds_of_2_leave_open_are_examined(variant):
    """Those with |m'_i + y_i (b - b') - 1| <= m_delta, where m_delta has the greatest norm."""
    problem = made(500, 5, scaling=1.0, seed=8)
    loss = SortedSums(problem, HINGE, VARIANTS[variant])
    rng = np.random.default_rng(0)
    before = rng.normal(size=6)
    loss.evaluate(before)
    after = before + np.append(0.02 * rng.normal(size=5), 0.1)
    is_feature = not VARIANTS[variant].splits_classes
    norms = np.sqrt(problem.rows.squared_norms(1.0 if is_feature else 0.0))
    m_delta = np.linalg.norm((after - before)[: 6 if is_feature else 5]) * norms.max()
    shift = 0.0 if is_feature else 0.1 * problem.y
    open_ = np.abs(problem.margins(before) + shift - 1.0) <= m_delta
    backwards = (problem.margins(before) >= 1.0) & (problem.margins(before) + shift + m_delta < 1.0)
    forwards = (problem.margins(before) < 1.0) & (problem.margins(before) + shift - m_delta >= 1.0)
    expected = np.count_nonzero(open_ | backwards | forwards)  # the last two crossed the boundary with b alone
    assert loss.evaluate(after).examined == expected
    assert 0 < expected < 250


def test_the_offset_in_two_lists_leaves_fewer_samples_open_than_the_offset_as_a_feature():
    problem = made(2000, 5, scaling=1.0, seed=3)
    w = np.random.default_rng(0).normal(size=6)
    move = np.append(np.full(5, 0.005), 0.3)
    examined = []
    for splits in (True, False):
        loss = SortedSums(problem, HINGE, PrintedEvaluation(splits_classes=splits))
        loss.evaluate(w)
        examined.append(loss.evaluate(w + move).examined)
    assert examined[0] < examined[1] < 2000


def test_huber_loss_widens_m_delta_by_h():
    """With w at rest, m_delta = 0, and the samples within h of the margin 1 are examined."""
    problem, h = made(500, 5, seed=2), 0.2
    loss = SortedSums(problem, shape=SHAPES["huber"]._replace(low=1.0 - h, high=1.0 + h, curvature=0.5 / h))
    w = np.ones(6)
    loss.evaluate(w)
    near = np.count_nonzero(np.abs(problem.margins(w[:5]) - 1.0) < h)
    assert loss.evaluate(w).examined == near > 0


def test_the_period_and_the_cost_of_a_sort_are_those_of_3_and_4():
    n, d = 1000, 20
    X = sparse.csr_array(sparse.random(n, d, density=0.25, random_state=np.random.default_rng(0)))
    problem = LinearProblem.build(X, np.where(np.arange(n) % 2, 1, -1))
    s = problem.rows.n_stored / (n * d)
    costs = SortCosts.of(problem)
    assert costs.period(10.0) == pytest.approx(10.0 * (s * d * n + n * math.log(n) + d) / (s * d * n + d))
    assert costs.sort_in_margins == pytest.approx((s * d * n + n * math.log(n) + d) / (s * d))
    of_samples = SortCosts.of_samples(problem, 50)
    assert of_samples.period(10.0) == pytest.approx(10.0 * (s * d * n + d) / (s * d * 50 + d))


def test_a_fixed_period_sorts_every_so_many_evaluations():
    problem = made(300, 6)
    loss = SortedSums(problem, HINGE, PrintedEvaluation(Resort.PERIODIC), c=4.0)
    period = loss.resorting.period
    w = np.ones(7)
    for _ in range(3 * period + 1):
        loss.evaluate(w)
    assert loss.tally.sorted == 4
    assert period == math.ceil(SortCosts.of(problem).period(4.0))


def test_the_adaptive_rule_is_that_of_section_3():
    rule = Resorting(Resort.ADAPTIVE, n_samples=100, period=3.0, sort_cost=50.0)
    assert rule.is_due  # Iteration = 0
    rule.begin()
    for pruned in (90, 90, 90):
        assert not rule.is_due
        rule.count(pruned)
    assert not rule.is_due  # 270 - 3 90 = 0: what was gained is gained still
    rule.count(75)
    assert not rule.is_due  # b): 345 - 4 75 = 45
    rule.count(75)
    assert not rule.is_due
    rule.count(70)
    assert rule.is_due  # b): 490 - 6 70 = 70 > 50
    rule.begin()
    for _ in range(3):
        assert not rule.is_due
        rule.count(49)
    assert rule.is_due  # a): less than half


def test_when_nothing_is_pruned_it_goes_through_all_samples_until_the_next_sort():
    problem = made(300, 6)
    loss = SortedSums(problem, HINGE, PrintedEvaluation(Resort.PERIODIC), c=10.0)
    w = np.ones(7)
    loss.evaluate(w)
    loss.evaluate(100.0 * w)
    assert loss.tally.plain == 0
    for _ in range(5):
        assert loss.evaluate(w).examined == 300  # though w is where it was when it was sorted
    assert loss.tally.plain == 5
    for _ in range(loss.resorting.period):
        last = loss.evaluate(w)
    assert loss.tally.sorted == 2
    assert last.examined < 300


@variants
def test_the_averages_are_the_weighted_slopes_of_every_evaluation(variant):
    problem = made(weighted=True, scaling=1.0, seed=2)
    loss = SortedSums(problem, SHAPES["huber"]._replace(low=0.7, high=1.3, curvature=0.5 / 0.3), VARIANTS[variant])
    total = np.zeros(problem.n_samples)
    for k, w in enumerate(walk(problem, 50, 2)):
        loss.evaluate(w, weight=1.0 + k)
        total += (1.0 + k) * np.clip((1.3 - problem.margins(w)) / 0.6, 0.0, 1.0)
        if k % 20 == 19:
            assert loss.averages() == pytest.approx(total, rel=1e-12, abs=1e-10)
    assert loss.averages() == pytest.approx(total, rel=1e-12, abs=1e-10)
    assert loss.tally.sorted > 1
    loss.forget_averages()
    assert not loss.averages().any()


def test_another_shape_begins_anew():
    problem = made()
    loss = SortedSums(problem, SQUARED_HINGE)
    for k, w in enumerate(walk(problem, 40, 3)):
        if k == 20:
            loss.reshape(ZERO_ONE)
        assert_exact(problem, loss.shape, loss.evaluate(w), w)


@pytest.mark.parametrize("problem_name", PROBLEMS)
def test_it_is_exact_on_every_problem_of_the_catalogue(problem_name):
    problem = PROBLEMS[problem_name](Huber(0.05))
    loss = SortedSums(problem)
    for w in walk(problem, 40, 1):
        assert_exact(problem, loss.shape, loss.evaluate(w), w)


@pytest.mark.parametrize("variant", ["as in the paper's experiments", "a fixed period"])
def test_the_descent_on_it_makes_the_iterates_of_the_plain_descent(variant):
    n = 3000
    X, y = labelled(n, 6, 1.0, 21)
    problem = LinearProblem.build(X + 0.5, y, cost_from_lambda(1e-4, n), Huber(0.05), 1.0, False)
    printed = PrunedGradient(evaluation=VARIANTS[variant]).init(problem, None, 0)
    plain = PrunedGradient(evaluation="paper", overhead=math.inf).init(problem, None, 0)
    while not plain.change < 1e-9:  # later on rounding decides whether the objective rises
        printed.iterate()
        plain.iterate()
        assert printed.step == plain.step
        assert printed.w == pytest.approx(plain.w, rel=1e-7, abs=1e-7 * np.abs(plain.w).max())
    assert plain.iterations > 40
    assert plain.loss.tally.examined == plain.iterations * n
    assert printed.loss.tally.examined < 0.5 * plain.loss.tally.examined


def test_as_the_descent_slows_down_it_sorts_less_often():
    """The second half of the run has fewer sorts than the first: the throttle of section 3."""
    n = 3000
    X, y = labelled(n, 6, 1.0, 21)
    problem = LinearProblem.build(X + 0.5, y, cost_from_lambda(1e-4, n), Huber(0.05), 1.0, False)
    solver = PrunedGradient(evaluation="paper", epsilon=1e-14)
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(300 * n, 0.0))
    early = state.loss.tally.sorted
    solver.advance(problem, state, Budget(300 * n, 0.0))
    assert state.loss.tally.sorted - early < early


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"resort must be Resort\.ADAPTIVE or Resort\.PERIODIC; got 'often'"):
        PrintedEvaluation("often")
    with pytest.raises(ValueError, match=r"c must be positive; got 0\.0"):
        SortedSums(made(), HINGE, c=0.0)
    with pytest.raises(ValueError, match=r"evaluation must be 'pruned', 'paper' or a PrintedEvaluation; got 'fast'"):
        PrunedGradient(evaluation="fast")
