"""Table 1 of the IRWLS-SVC paper: every iteration as it is printed, at the optimum where it settles, counted where not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import IRWLS, SVC, Largest, RandomViolators, Smallest, Status, Table1, solve
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Linear
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.irwls.active_set_newton import WorkingSet, optimise
from maxmargin.solvers.kernel.irwls.engines import SetTask
from maxmargin.solvers.kernel.irwls.table_1 import terms_of
from maxmargin.solvers.kernel.irwls.table_1_loop import S1, SETTLED, Rules, table_1
from tests.catalogue import labelled

offsets = pytest.mark.parametrize("has_offset", [False, True])


class Printed(NamedTuple):
    beta: np.ndarray
    b: float
    e: np.ndarray
    sets: np.ndarray


def as_printed(H, y, C, G_in, G_b_in, iterations, weight=2.0) -> list[Printed]:
    """Table 1 word for word, in the paper's variables, by LU of the bordered system. Only e = y of step 0 has G_in taken out,
    and what goes to S3 counts with C in step 5, as it does in step 1."""
    n = len(y)
    sets, beta, b, e, a = np.ones(n, int), np.zeros(n), 0.0, y * (1.0 - G_in), np.ones(n)
    G_13, G_b3 = G_in.copy(), G_b_in
    found = []
    for _ in range(iterations):
        one = np.flatnonzero(sets == 1)
        matrix = np.zeros((len(one) + 1, len(one) + 1))
        matrix[:-1, :-1] = H[np.ix_(one, one)] + np.diag(1.0 / a[one])
        matrix[:-1, -1] = matrix[-1, :-1] = y[one]
        answer = np.linalg.solve(matrix, np.append(1.0 - G_13[one], G_b3))
        new = np.where(sets == 3, C, 0.0)
        new[one] = answer[:-1]
        e = e - y * (H @ (new - beta)) - (answer[-1] - b)
        with np.errstate(divide="ignore"):
            a = np.where(e * y < 0.0, 0.0, weight * C / (e * y))
        before = sets.copy()
        sets[(before == 3) & (e * y < 0.0)] = 2
        sets[(before == 1) & (new >= C)] = 3
        sets[(before == 1) & (new < C) & (a == 0.0)] = 2
        sets[(before == 2) & (a != 0.0)] = 1
        beta, b = new, float(answer[-1])
        three = sets == 3
        G_13, G_b3 = C * H[:, three].sum(axis=1) + G_in, float(-C * y[three].sum() + G_b_in)
        found.append(Printed(beta.copy(), b, e.copy(), sets.copy()))
    return found


def inside(C: float, n: int = 40, has_offset: bool = True, seed: int = 3, gamma: float = 0.4) -> WorkingSet:
    """Part of a problem whose other samples are held at a feasible point."""
    X, y = labelled(2 * n, 4, 1.0, seed)
    K = rbf_kernel(X, gamma=gamma)
    alpha = np.zeros(2 * n)
    for sign in (-1.0, 1.0):
        alpha[np.flatnonzero(y == sign)[:9]] = 0.3 * C
    here, there = np.arange(0, 2 * n, 2), np.arange(1, 2 * n, 2)
    G_in = y[here] * (K[np.ix_(here, there)] @ (y * alpha)[there])
    return WorkingSet.of_alpha(K[np.ix_(here, here)], y[here], np.full(n, C), alpha[here], G_in, has_offset)


def rules(tolerance: float = 1e-9, iterations: int = 200, **changes) -> Rules:
    return Rules(2.0, False, False, 0.0, tolerance, iterations)._replace(**changes)


def run(work: WorkingSet, these: Rules):
    terms = terms_of(work)
    s, e, sets = np.zeros(len(work.s)), terms.right.copy(), np.full(len(work.s), S1)
    outcome, iterations, b = table_1(terms, these, sets, s, e)
    return outcome, iterations, Printed(terms.y * s, b, e, sets)


def violation(work: WorkingSet, s: np.ndarray) -> float:
    v = work.v - work.K @ (s - work.s)
    top, bottom = v[s < work.upper].max(initial=-np.inf), v[s > work.lower].min(initial=np.inf)
    return float(top - bottom) if work.has_offset else float(max(top, -bottom))


@pytest.mark.parametrize("C", [0.3, 5.0, 300.0])
@pytest.mark.parametrize("weight", [2.0, 1.0])
def test_every_iteration_is_that_of_the_printed_table(C, weight):
    work = inside(C)
    terms = terms_of(work)
    y, G_in = terms.y, 1.0 - terms.y * terms.right
    expected = as_printed(y[:, None] * y * work.K, y, C, G_in, float(work.s.sum()), 12, weight)
    signed = [bool((np.abs(printed.e) > 1e-13).all()) for printed in expected]  # below, rounding decides who stays in S1
    until = signed.index(False) if False in signed else len(signed)
    assert until >= 4
    for k, printed in enumerate(expected[:until], start=1):
        _, iterations, found = run(work, rules(0.0, k, weight=weight))
        assert iterations == k
        assert np.array_equal(found.sets, printed.sets), k
        scale = C + np.abs(printed.beta).max()
        assert found.beta == pytest.approx(printed.beta, abs=1e-9 * scale)
        assert found.b == pytest.approx(printed.b, abs=1e-9 * scale)
        assert found.e == pytest.approx(printed.e, abs=1e-9 * scale)


@offsets
@pytest.mark.parametrize("C", [0.3, 5.0, 100.0])
def test_where_the_sets_settle_is_the_optimum(C, has_offset):
    n_settled = 0
    for seed in range(8):
        work = inside(C, 30, has_offset, seed)
        outcome, _, found = run(work, rules())
        if outcome == SETTLED:
            n_settled += 1
            s = np.clip(terms_of(work).y * found.beta, work.lower, work.upper)
            assert violation(work, s) <= 4e-9
            assert work.K @ s == pytest.approx(work.K @ optimise(work).s, abs=1e-7 * C)
    assert n_settled >= 4


@pytest.mark.parametrize("weight", [2.0, 1.0])
def test_once_the_sets_are_right_an_error_falls_to_beta_over_the_weight_times_C(weight):
    work, C = inside(5.0), 5.0
    settled = run(work, rules(1e-3, 500, weight=weight))[1]
    _, _, one = run(work, rules(0.0, settled, weight=weight))
    _, _, next_one = run(work, rules(0.0, settled + 1, weight=weight))
    assert np.array_equal(one.sets, next_one.sets)
    free = one.sets == 1
    assert next_one.e[free] == pytest.approx(one.e[free] * next_one.beta[free] / (weight * C), abs=1e-12)


def test_with_twice_C_the_errors_are_halved_by_every_iteration_at_least():
    counts = [run(inside(5.0, 40, True, seed), rules(tolerance))[1] for seed in range(4) for tolerance in (1e-4, 1e-7)]
    for rough, fine in zip(counts[::2], counts[1::2], strict=True):
        assert fine - rough <= np.ceil(np.log2(1e3))


@offsets
def test_a_projection_keeps_beta_in_the_box_and_a_line_search_never_lowers_the_dual(has_offset):
    work = inside(300.0, 40, has_offset, gamma=0.02)
    terms = terms_of(work)
    before = -np.inf
    for k in range(1, 25):
        s, e = work.s.copy(), work.v.copy()
        table_1(terms, rules(0.0, k, projects=True, searches=True, jitter=1e-13), np.full(len(s), S1), s, e)
        assert ((s >= work.lower - 1e-12) & (s <= work.upper + 1e-12)).all()
        assert not has_offset or s.sum() == pytest.approx(work.s.sum(), abs=1e-9)
        dual = float(terms.right @ s - 0.5 * s @ work.K @ s)
        assert dual >= before - 1e-12 * abs(dual)
        before = dual


def test_bounds_alone_are_an_optimum_although_S1_is_empty():
    K, y = np.eye(4), np.array([1.0, -1.0, 1.0, -1.0])
    work = WorkingSet.of_alpha(K, y, np.full(4, 0.1), np.zeros(4), np.zeros(4), True)
    outcome, _, found = run(work, rules())
    assert outcome == SETTLED
    assert found.beta == pytest.approx(np.full(4, 0.1))
    assert (found.sets == 3).all()


def test_a_working_set_that_does_not_settle_is_solved_by_smo_and_counted():
    X, y = labelled(120, 2, 1.0, 3)
    problem = KernelProblem.build(X, y, 300.0, RBF(0.05))
    solution = solve(problem, IRWLS(60, engine=Table1(), max_inner_iterations=5), tol=1e-4)
    assert solution.status is Status.CERTIFIED
    assert "Table 1 did not settle in" in solution.trace[-1].reason
    assert "SMO solved" in solution.trace[-1].reason
    engine, work = Table1(), inside(300.0, 40, True, gamma=0.02)
    solved = engine.solve(SetTask(work, 0.0, 1e-3, 1e-6, 2))
    assert solved.is_unsettled
    assert solved.was_handed_over
    assert violation(work, solved.s) <= 1e-6


def test_a_singular_H_ends_the_iteration_without_a_jitter_and_not_with_it():
    X, y = labelled(20, 3, 1.0, 5)
    X, y = np.concatenate([X, X]), np.concatenate([y, y])
    work = WorkingSet.of_alpha(X @ X.T, y, np.full(40, 50.0), np.zeros(40), np.zeros(40), True)
    solved = {jitter: Table1(jitter=jitter).solve(SetTask(work, 0.0, 1e-3, 0.0, 60)) for jitter in (False, True)}
    assert solved[False].is_unsettled
    for answer in solved.values():
        assert violation(work, answer.s) <= 1e-5


@offsets
@pytest.mark.parametrize("kernel", [RBF(0.4), Linear()], ids=str)
@pytest.mark.parametrize("q", [6, 30, 1000])
def test_irwls_with_table_1_is_certified(kernel, q, has_offset):
    X, y = labelled(120, 4, 1.0, 3)
    problem = KernelProblem.build(X, y, 2.0, kernel, has_offset)
    solution = solve(problem, IRWLS(q, engine=Table1()), tol=1e-6)
    assert solution.status is Status.CERTIFIED


@pytest.mark.parametrize("epsilon", [1e-1, 1e-3])
def test_as_printed_ends_when_the_conditions_9_to_11_hold_and_not_before(epsilon):
    X, y = labelled(150, 4, 1.0, 3)
    problem = KernelProblem.build(X, y, 2.0, RBF(0.4))
    solver = IRWLS.as_printed(20, epsilon=epsilon)
    state = solver.init(problem, None, 0)
    while not (state.looks_done or state.is_stuck):
        assert state.errors(epsilon).violates.any()
        solver.advance(problem, state, Budget(1, 0.0))
    alpha, C = solver.candidate(problem, state), 2.0
    error = problem.y * (problem.y - state.f - state.b)
    assert not state.is_stuck
    assert (error[alpha == 0.0] < epsilon).all()
    assert (error[alpha == C] > -epsilon).all()
    assert (np.abs(error[(alpha > 0.0) & (alpha < C)]) < epsilon).all()


def test_a_solve_as_printed_ends_by_the_rule_of_the_paper_and_gets_a_certificate():
    X, y = labelled(150, 4, 1.0, 3)
    problem = KernelProblem.build(X, y, 2.0, RBF(0.4))
    rough, fine = (solve(problem, IRWLS.as_printed(20, epsilon=epsilon), tol=0.0) for epsilon in (1e-1, 1e-3))
    assert rough.status is fine.status is Status.SOLVER_RULE
    assert fine.steps > rough.steps
    assert fine.certificate.relative_gap < min(0.01, rough.certificate.relative_gap)


def test_as_printed_has_working_sets_of_exactly_q():
    X, y = labelled(150, 4, 1.0, 3)
    problem = KernelProblem.build(X, y, 2.0, RBF(0.4))
    for selection in (RandomViolators(), Largest(by_side=False), Smallest(by_side=False)):
        solver = IRWLS.as_printed(17, selection)
        sizes = []

        class Watched:
            name = "watched"

            def solve(self, task, sizes=sizes):
                sizes.append(len(task.work.s))
                return Table1().solve(task)

        watched = IRWLS(**{**solver.__dict__, "engine": Watched()})
        state = watched.init(problem, None, 0)
        for _ in range(10):
            watched.iterate(state)
        assert set(sizes) == {17}


@pytest.mark.parametrize("strategy", [Largest, Smallest])
def test_without_sides_a_selection_goes_by_the_size_of_the_error_alone(strategy):
    X, _ = labelled(150, 4, 1.0, 3)
    state = IRWLS().init(KernelProblem.build(X, np.where(np.arange(150) < 30, 1, -1), 2.0, RBF(0.4)), None, 0)
    state.f[:] = np.random.default_rng(0).normal(size=150) * 0.1
    errors = state.errors(1e-3)
    chosen = strategy(by_side=False).choose(errors, 25, np.random.default_rng(0))
    size = np.sort(np.abs(errors.e[errors.violates]))
    expected = size[-25:] if strategy is Largest else size[:25]
    assert np.sort(np.abs(errors.e[chosen])) == pytest.approx(expected)


def test_svc_takes_the_paper_s_engine():
    X, y = labelled(120, 4, 1.0, 3)
    by_paper = SVC(C=5.0, solver=IRWLS(40, engine=Table1()), tol=1e-6).fit(X, y)
    assert by_paper.status_ is Status.CERTIFIED
    assert by_paper.decision_function(X) == pytest.approx(SVC(C=5.0, tol=1e-6).fit(X, y).decision_function(X), abs=1e-2)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Table1(weight=0.0), ValueError, "weight must be a positive number; got 0.0"),
        (lambda: Table1(accuracy=-1.0), ValueError, "accuracy must be a positive number"),
        (lambda: Table1(line_search=True), ValueError, "line_search needs projection"),
        (lambda: IRWLS(engine=Table1), TypeError, "engine must be an engine such as"),
        (lambda: IRWLS(engine="paper"), TypeError, "engine must be an engine such as"),
        (lambda: IRWLS(epsilon=0.0), ValueError, "epsilon must be a positive number"),
        (lambda: IRWLS(stop="never"), ValueError, "stop must be 'gap' or 'paper'; got 'never'"),
        (lambda: IRWLS(local_tolerance=1.0), ValueError, "local_tolerance"),
    ],
)
def test_settings_out_of_range_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
