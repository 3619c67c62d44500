"""Exact reductions: the reduced problem has the same dual, and what is found on it is certified on the original."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin.certificate.linear import certify
from maxmargin.data.threads import ThreadPolicy
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.solvers import presolve
from maxmargin.solvers import presolve_loops as compiled
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.avsf import AVSF
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.presolve import CentredColumns, MergedRows, RenumberedColumns, equal_rows
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import LOSSES, PROBLEMS, feasible_point, labelled

losses = pytest.mark.parametrize("loss_name", LOSSES)
layouts = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.fixture(autouse=True, params=[0, presolve.DEFAULT.few_elements], ids=["compiled", "few elements"])
def few_elements(request, monkeypatch):
    """Equal rows of a small X are found without compiled code: both ways are tested."""
    monkeypatch.setattr(presolve, "DEFAULT", replace(presolve.DEFAULT, few_elements=request.param))


@dataclass(frozen=True)
class Shape:
    """What a random sparse problem is made of."""

    seed: int
    n: int
    d: int
    density: float
    n_values: int
    repeats: bool
    dtype: type
    long_indices: bool
    scaling: float
    loss: str
    weighted: bool

    def problem(self) -> LinearProblem:
        """Few different values in few columns, so that rows repeat and columns occur once or never; some rows are empty."""
        rng = np.random.default_rng(self.seed)
        X = rng.integers(1, self.n_values + 1, size=(self.n, self.d)) * (rng.random((self.n, self.d)) < self.density)
        if self.repeats:
            X = X[rng.integers(self.n, size=self.n)]
        y = np.where(rng.random(self.n) < 0.5, 1, -1)
        C = rng.integers(0, 3, size=self.n) + 0.5 * (np.arange(self.n) == 0) if self.weighted else 0.7
        matrix = sparse.csr_array(X.astype(self.dtype) / self.dtype(3))
        if self.long_indices:
            matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
        return LinearProblem.build(matrix, y, C, LOSSES[self.loss], self.scaling)


shapes = st.builds(
    Shape,
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    d=st.integers(1, 25),
    density=st.sampled_from([0.0, 0.03, 0.1, 0.5, 1.0]),
    n_values=st.integers(1, 3),
    repeats=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    long_indices=st.booleans(),
    scaling=st.sampled_from([0.0, 2.0]),
    loss=st.sampled_from(list(LOSSES)),
    weighted=st.booleans(),
)


def dense(problem: LinearProblem) -> np.ndarray:
    return problem.rows.matrix.toarray().astype(np.float64)


def dual_value(problem: LinearProblem, alpha: np.ndarray) -> float:
    """D(alpha) in float64 whatever the type of X, with the folded features in the diagonal."""
    signed = alpha * problem.y
    w = np.append(dense(problem).T @ signed, problem.intercept_scaling * signed.sum())
    return float(np.sum(alpha - 0.5 * problem.box.D * np.square(alpha)) - 0.5 * w @ w)


def copies(problem: LinearProblem) -> tuple[np.ndarray, ...]:
    matrix = problem.rows.matrix
    return matrix.data.copy(), matrix.indices.copy(), matrix.indptr.copy(), problem.y.copy(), problem.C.copy()


def assert_unchanged(problem: LinearProblem, before: tuple[np.ndarray, ...]) -> None:
    for now, then in zip(copies(problem), before, strict=True):
        assert now.dtype == then.dtype
        assert np.array_equal(now, then)


# Features


@settings(max_examples=150, deadline=None)
@given(shapes)
def test_renumbered_columns_have_the_same_dual_and_the_same_weights(shape):
    problem = shape.problem()
    before = copies(problem)
    reduction = RenumberedColumns.of(problem)
    _, alpha = feasible_point(problem, shape.seed)
    reduced = reduction.reduce(alpha)
    scale = 1e-12 * (1.0 + np.abs(alpha).sum() ** 2) * (1.0 + dense(problem).max(initial=0.0) ** 2 + shape.scaling**2)
    assert reduction.problem.is_feasible(reduced)
    assert dual_value(reduction.problem, reduced) == pytest.approx(dual_value(problem, alpha), abs=shape.d * scale)
    w, expanded = reduction.expand(reduction.problem.weights(reduced), reduced)
    accuracy = 1e-5 if shape.dtype is np.float32 else 1e-12
    assert np.array_equal(expanded, alpha)
    assert w == pytest.approx(problem.weights(alpha), rel=accuracy, abs=accuracy * (1.0 + np.abs(alpha).sum()))
    assert_unchanged(problem, before)


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_in_single_the_values_are_those_in_double_rounded_once_and_the_diagonal_is_the_same(shape):
    problem = shape.problem()
    single, double = RenumberedColumns.of(problem, in_single=True).problem, RenumberedColumns.of(problem).problem
    assert single.rows.matrix.data.dtype == np.float32
    assert np.array_equal(single.rows.matrix.data, double.rows.matrix.data.astype(np.float32))
    assert np.array_equal(single.folded, double.folded)


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_columns_are_left_in_falling_order_of_frequency_and_those_that_occur_once_are_gone(shape):
    problem = shape.problem()
    reduction = RenumberedColumns.of(problem)
    counts = np.bincount(problem.rows.matrix.indices, minlength=shape.d)
    kept = np.flatnonzero(counts > 1)
    assert np.array_equal(np.flatnonzero(reduction.numbers != compiled.SINGLE), kept)
    assert np.array_equal(np.sort(reduction.numbers[kept]), np.arange(len(kept)))
    assert np.all(np.diff(counts[kept][np.argsort(reduction.numbers[kept])]) <= 0)
    X, left = dense(problem), dense(reduction.problem)
    assert left.shape[1] == max(1, len(kept))
    assert np.array_equal(left[:, reduction.numbers[kept]], X[:, kept])
    assert reduction.problem.folded == pytest.approx(np.square(X[:, counts == 1]).sum(axis=1), rel=1e-12)


def test_expand_writes_to_the_same_memory_and_forgets_what_was_there():
    problem = PROBLEMS["sparse"](Hinge())
    singles = sparse.hstack([problem.rows.matrix, sparse.eye_array(150)], format="csr")
    problem = LinearProblem.build(singles, problem.y)
    reduction = RenumberedColumns.of(problem)
    for seed in range(3):
        _, alpha = feasible_point(problem, seed)
        w, _ = reduction.expand(reduction.problem.weights(alpha), alpha)
        assert w == pytest.approx(problem.weights(alpha), rel=1e-12, abs=1e-12)
        assert w is reduction.w


@losses
@layouts
@pytest.mark.parametrize("solver", [DCD(), AVSF()], ids=["dcd", "avsf"])
def test_what_is_found_on_renumbered_columns_certifies_on_the_original(loss_name, dtype, solver):
    sparse_one = PROBLEMS["sparse"](LOSSES[loss_name])
    own = sparse.diags_array(np.where(np.arange(150) % 2, 1.0, 0.0)).tocsr()
    own.eliminate_zeros()
    matrix = sparse.hstack([own, sparse_one.rows.matrix], format="csr").astype(dtype)
    problem = LinearProblem.build(matrix, sparse_one.y, 1.0, LOSSES[loss_name], 1.0)
    reduction = RenumberedColumns.of(problem)
    assert reduction.problem.rows.n_features < problem.rows.n_features
    state = solver.init(reduction.problem, None, 0)
    for _ in range(400):
        solver.advance(reduction.problem, state, Budget(1500, 0.0))
    w, alpha = reduction.expand(*solver.candidate(reduction.problem, state))
    certificate = certify(problem, w, alpha)
    assert certificate.relative_gap <= 1e-7
    assert certificate.dual == pytest.approx(float(state.sweep["dual"][0]), rel=1e-9)


# Rows


@settings(max_examples=150, deadline=None)
@given(shapes)
def test_merged_rows_have_the_same_dual_and_the_same_primal(shape):
    problem = shape.problem()
    before = copies(problem)
    reduction = MergedRows.of(problem, least_saving=0.0)
    assert reduction is not None
    merged = reduction.problem
    assert merged.C.sum() == pytest.approx(problem.C.sum())
    w, alpha = feasible_point(merged, shape.seed)
    same_w, expanded = reduction.expand(w, alpha)
    scale = 1e-11 * (1.0 + np.abs(alpha).sum() ** 2) * (shape.d + shape.scaling**2)
    assert problem.is_feasible(expanded)
    assert dual_value(problem, expanded) == pytest.approx(dual_value(merged, alpha), abs=scale)
    assert reduction.reduce(expanded) == pytest.approx(alpha, rel=1e-14, abs=1e-300)
    assert same_w is w
    assert problem.primal(w) == pytest.approx(merged.primal(w), rel=1e-5 if shape.dtype is np.float32 else 1e-12)
    assert_unchanged(problem, before)


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_merging_never_lowers_the_dual(shape):
    """D of the sum is the maximum of D over all ways to share it out."""
    problem = shape.problem()
    reduction = MergedRows.of(problem, least_saving=0.0)
    _, alpha = feasible_point(problem, shape.seed)
    scale = 1e-11 * (1.0 + np.abs(alpha).sum() ** 2) * (shape.d + shape.scaling**2)
    assert dual_value(reduction.problem, reduction.reduce(alpha)) >= dual_value(problem, alpha) - scale


@settings(max_examples=100, deadline=None)
@given(shapes)
def test_rows_are_merged_exactly_when_they_and_their_labels_are_equal(shape):
    problem = shape.problem()
    group, n_groups = equal_rows(problem.compiled_rows, problem.y)
    keys = [(*row, sign) for row, sign in zip(dense(problem), problem.y, strict=True)]
    assert n_groups == len(set(keys)) == len(set(group))
    assert len(set(zip(keys, group, strict=True))) == n_groups


@settings(max_examples=60, deadline=None)
@given(shapes)
def test_a_hash_that_is_the_same_for_all_merges_no_unequal_rows(shape):
    problem = shape.problem()
    n, rows = problem.n_samples, problem.compiled_rows
    group, order = np.empty(n, np.int64), np.random.default_rng(shape.seed).permutation(n)
    n_groups = compiled.group_equal_rows(rows, problem.y, order, np.zeros(n, np.uint64), group)
    keys = np.column_stack([dense(problem), problem.y])
    assert np.array_equal(np.unique(group), np.arange(n_groups))
    for number in range(n_groups):
        members = keys[group == number]
        assert np.array_equal(members, np.broadcast_to(members[0], members.shape))


def test_a_solve_on_rows_merged_by_a_bad_hash_is_right(monkeypatch):
    def constant(rows, y, words, hashes, start, stop):
        hashes[start:stop] = 1

    monkeypatch.setattr(compiled, "hash_rows", constant)
    problem = LinearProblem.build(sparse.csr_array(np.repeat(labelled(40, 4, 1.0, 0)[0], 3, 0)), np.repeat([1, -1] * 20, 3))
    reduction = MergedRows.of(problem, 0.0)
    w, alpha = reduction.expand(*solve_newton(reduction.problem))
    assert certify(problem, w, alpha).relative_gap <= 1e-8


def solve_newton(problem: LinearProblem) -> tuple[np.ndarray, np.ndarray]:
    solution = solve(problem, Newton(), tol=1e-10)
    assert solution.status is Status.CERTIFIED
    return solution.w, solution.alpha


@losses
@layouts
@pytest.mark.parametrize("penalizes_intercept", [True, False])
def test_what_is_found_on_merged_rows_certifies_on_the_original_to_the_same_gap(loss_name, dtype, penalizes_intercept):
    X, y = labelled(60, 5, 1.0, 0)
    repeats = np.random.default_rng(0).integers(1, 6, size=60)
    X, y = sparse.csr_array(np.repeat(X, repeats, 0).astype(dtype)), np.repeat(y, repeats)
    C = np.random.default_rng(1).integers(0, 3, size=len(y))
    problem = LinearProblem.build(X, y, C, LOSSES[loss_name], 1.0, penalizes_intercept)
    reduction = MergedRows.of(problem, 0.1)
    assert reduction.problem.n_samples == 60
    assert reduction.problem.penalizes_intercept == penalizes_intercept
    found = solve_newton(reduction.problem)
    there, here = certify(reduction.problem, *found), certify(problem, *reduction.expand(*found))
    assert here.meets(1e-9)
    assert here.primal == pytest.approx(there.primal, rel=1e-12)
    assert here.dual == pytest.approx(there.dual, rel=1e-11)
    assert here.gap == pytest.approx(there.gap, rel=1e-6, abs=10.0 * (here.rounding_error + there.rounding_error))


def test_equal_rows_with_other_labels_stay_apart():
    X = sparse.csr_array(np.ones((4, 2)))
    problem = LinearProblem.build(X, [1, -1, 1, -1])
    group, n_groups = equal_rows(problem.compiled_rows, problem.y)
    assert n_groups == 2
    assert group[0] == group[2] != group[1] == group[3]


def test_a_stored_zero_changes_no_answer():
    """-0.0, a stored 0.0 and no entry are the same number: whether such rows are merged is a matter of speed alone."""
    data, indices, indptr = np.array([1.0, -0.0, 1.0, 0.0, 1.0]), np.array([0, 1, 0, 1, 0]), np.array([0, 2, 4, 5])
    matrix = sparse.csr_array((data, indices, indptr), shape=(3, 2))
    problem = LinearProblem.build(sparse.vstack([matrix, matrix, -matrix], format="csr"), [1] * 6 + [-1, 1, -1])
    for reduction in (MergedRows.of(problem, 0.0), RenumberedColumns.of(problem)):
        _, alpha = feasible_point(problem, 0)
        reduced = reduction.reduce(alpha)
        assert dual_value(reduction.problem, reduced) == pytest.approx(dual_value(problem, alpha), rel=1e-12)
        w, expanded = reduction.expand(*solve_newton(reduction.problem)) if isinstance(reduction, MergedRows) else (None, None)
        assert w is None or certify(problem, w, expanded).relative_gap <= 1e-9


def test_nothing_is_merged_when_too_little_would_be_saved():
    problem = PROBLEMS["sparse"](Hinge())
    n = problem.n_samples - equal_rows(problem.compiled_rows, problem.y)[1]
    assert MergedRows.of(problem, (n + 1) / problem.n_samples) is None
    assert MergedRows.of(problem, 0.0) is not None


@pytest.mark.parametrize("reduction", [RenumberedColumns.of, lambda problem: MergedRows.of(problem, 0.0)])
def test_threads_make_the_same_reduction(monkeypatch, reduction):
    X = np.round(labelled(300, 12, 1.0, 0)[0])
    problem = LinearProblem.build(sparse.csr_array(X), np.where(np.arange(300) % 2, 1, -1))
    alone = reduction(problem)
    monkeypatch.setattr("maxmargin.data.threads.POLICY", ThreadPolicy(elements_a_thread=1))
    monkeypatch.setattr("maxmargin.data.threads.available_cores", lambda: 3)
    together = reduction(problem)
    assert np.array_equal(dense(alone.problem), dense(together.problem))
    w, alpha = feasible_point(alone.problem, 0)
    for one, other in zip(alone.expand(w, alpha), together.expand(w, alpha), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(("mean", "spread"), [(1.7e12, 1e10), (-1e7, 46.0), (3e9, 0.5), (1e15, 1.0)])
def test_columns_far_from_zero_are_centred_without_a_rounding_error(mean, spread):
    X = np.random.default_rng(0).normal(mean, spread, (50, 2))
    centred = CentredColumns.of(LinearProblem.build(X, np.resize([1, -1], 50), 1.0, Hinge(), 1.0))
    assert centred is not None
    shifted = centred.problem.rows.dense()
    differences = [Fraction(x) - Fraction(c) for row in X.tolist() for x, c in zip(row, centred.centre.tolist(), strict=True)]
    assert [Fraction(value) for row in shifted.tolist() for value in row] == differences
    assert (np.abs(shifted.mean(axis=0)) < 0.5 * spread).all()


def test_a_column_whose_spread_overflows_is_not_rounded_away():
    X = np.column_stack([np.full(6, 1e6) + np.arange(6), np.linspace(-1e200, 1e200, 6)])
    with np.errstate(over="ignore"):
        centred = CentredColumns.of(LinearProblem.build(X, np.resize([1, -1], 6), 1.0, Hinge(), 1.0))
    assert centred is not None
    assert np.isfinite(centred.problem.rows.dense()).all()
