"""Kernel values shared by pairs of classes: the same values and certified answers, fewer evaluations, within the budget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

import maxmargin.kernel_matrix.shared as kernel_pairs
import maxmargin.kernel_matrix.tiles as kernel_tiles
from maxmargin import SVC, BatchedSMO
from maxmargin.data.threads import ThreadPolicy
from maxmargin.estimators.kernel_settings import kernel_solver
from maxmargin.estimators.pairs import KernelProblems, Pair
from maxmargin.kernel_matrix.matrix import matrix_of, padded
from maxmargin.kernel_matrix.shared import PairValues, SharedValues, SharingPolicy, Sizes
from maxmargin.kernel_matrix.tiles import TilePolicy
from maxmargin.problem.held_values import ClassValues
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Custom, Linear, Points, Polynomial, Precomputed, Sigmoid

KERNELS = {
    "linear": Linear(),
    "rbf": RBF(0.4),
    "polynomial": Polynomial(0.3, 1.0, 3),
    "sigmoid": Sigmoid(0.05, -0.1),
    "custom": Custom(lambda A, B: np.asarray((A @ B.T).todense() if sparse.issparse(A) else A @ B.T) ** 2),
}
N_CLASSES = 4


def samples(n: int = 330, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes of unequal sizes around centres that are near each other, in a random order."""
    random = np.random.default_rng(seed)
    codes = np.minimum(random.integers(N_CLASSES + 1, size=n), N_CLASSES - 1)
    X = random.normal(size=(N_CLASSES, d))[codes] + random.normal(size=(n, d))
    return X, codes


class Counting(SVC):
    """An SVC that says how many kernel values its fit took."""

    def _keep(self, X, kernel, classes, codes, pairs, solutions):
        self.kernel_evaluations = sum(solution.kernel_evaluations for solution in solutions)
        super()._keep(X, kernel, classes, codes, pairs, solutions)


@pytest.fixture
def unshared(monkeypatch):
    """A function that makes fits from then on share nothing."""

    def forbid():
        for shared in (SharedValues, ClassValues):
            monkeypatch.setattr(shared, "where_it_pays", classmethod(lambda cls, *arguments: None))

    return forbid


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("tile", [(256, 1024), (7, 13)])
def test_the_matrix_of_every_pair_is_what_the_definition_says(name, form, tile, monkeypatch):
    monkeypatch.setattr(kernel_tiles, "TilePolicy", partial(TilePolicy, rows_a_strip=tile[0], columns_a_tile=tile[1]))
    monkeypatch.setattr("maxmargin.data.threads.POLICY", ThreadPolicy(elements_a_thread=1))
    X, codes = samples()
    matrix = sparse.csr_array(X) if form == "sparse" else X
    shared, kernel = SharedValues(KERNELS[name], matrix, codes), KERNELS[name]
    for first, second in combinations(range(N_CLASSES), 2):
        pair = Pair.of(first, second, codes)
        n, points = len(pair.samples), Points.of(matrix[pair.samples])
        expected = kernel.block(points, points)
        values, _ = shared.pair(first, second)
        assert values.shape == (padded(n), padded(n))
        assert np.abs(values[:n, :n] - expected).max() <= 2e-5 * max(1.0, np.abs(expected).max())
        assert not values[n:].any()
        assert not values[:, n:].any()


def test_blocks_and_sums_come_from_that_matrix():
    X, codes = samples()
    pair, shared = Pair.of(1, 3, codes), SharedValues(RBF(0.4), X, codes)
    own = KernelProblem.build(X[pair.samples], pair.signs, 1.0, RBF(0.4))
    own = replace(own, fast_values=PairValues(own.points, shared, 1, 3))
    rows, everyone = matrix_of(own, np.float32, 0.0), np.arange(own.n_samples)
    assert rows.whole is not None
    assert matrix_of(own, np.float64, 0.0).whole is None
    expected, chosen = own.gram(everyone, everyone), np.array([60, 3, 0, 99])
    block = rows.block(chosen, chosen, np.empty((7, 7), np.float32))[:4, :4]
    assert np.abs(block - expected[np.ix_(chosen, chosen)]).max() <= 2e-5
    sums, scales = np.ones(own.n_samples), np.array([0.5, -2.0, 1.0, 3.0])
    rows.add_to(sums, chosen, scales)
    assert np.abs(sums - 1.0 - scales @ expected[chosen]).max() <= 1e-4


def test_every_kernel_value_of_all_pairs_is_computed_once():
    X, codes = samples()
    n, sizes = len(codes), np.bincount(codes)
    shared = SharedValues(RBF(0.4), X, codes)
    evaluations = sum(shared.pair(first, second)[1] for first, second in combinations(range(N_CLASSES), 2))
    assert evaluations <= n * n / 2 + 0.5 * TilePolicy().rows_a_strip * n
    assert shared.nbytes == 4 * np.sum(sizes**2)
    again = sum(shared.pair(first, second)[1] for first, second in combinations(range(N_CLASSES), 2))
    assert again == sum(sizes[i] * sizes[j] for i, j in combinations(range(N_CLASSES), 2))


@pytest.mark.parametrize("n_threads", [2, 8])
def test_threads_that_ask_at_once_get_the_same_values_and_compute_no_square_twice(n_threads):
    X, codes = samples(700)
    pairs = 3 * list(combinations(range(N_CLASSES), 2))
    alone, together = (SharedValues(RBF(0.4), X, codes, n_threads) for _ in range(2))
    expected = [alone.pair(*pair)[0].copy() for pair in pairs]
    with ThreadPoolExecutor(n_threads) as pool:
        found = list(pool.map(lambda pair: [part.copy() for part in map(np.asarray, together.pair(*pair))], pairs))
    assert all(np.array_equal(values, one) for (values, _), one in zip(found, expected, strict=True))
    squares = sum(int(count) for _, count in found) - 3 * sum(
        len(together.members[i]) * len(together.members[j]) for i, j in combinations(range(N_CLASSES), 2)
    )
    assert squares == sum(alone_evaluations(X, codes, k) for k in range(N_CLASSES))


def alone_evaluations(X: np.ndarray, codes: np.ndarray, k: int) -> int:
    return SharedValues(RBF(0.4), X, codes).square(k)[1]


@pytest.mark.parametrize("solver", ["auto", "batched-smo", BatchedSMO(working_set=32)])
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_shared_fits_have_the_certified_values_of_fits_on_their_own(solver, form, tol, unshared):
    X, y = samples()
    matrix = sparse.csr_matrix(X) if form == "sparse" else X
    shared = Counting(gamma=0.4, C=3.0, tol=tol, solver=solver).fit(matrix, y)
    unshared()
    own = Counting(gamma=0.4, C=3.0, tol=tol, solver=solver).fit(matrix, y)
    assert max(shared.relative_gap_, own.relative_gap_) <= tol
    for here, there in zip(shared.certificate_, own.certificate_, strict=True):
        assert here.dual <= there.primal * (1.0 + 1e-12)
        assert there.dual <= here.primal * (1.0 + 1e-12)
    assert shared.kernel_evaluations < own.kernel_evaluations


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_two_threads_give_the_answers_of_one(fit_intercept):
    X, y = samples(600)
    one, two = (Counting(gamma=0.4, tol=1e-6, n_jobs=n_jobs, fit_intercept=fit_intercept).fit(X, y) for n_jobs in (1, 2))
    assert two.relative_gap_ <= 1e-6
    assert two.kernel_evaluations == one.kernel_evaluations
    assert np.array_equal(one.dual_coef_, two.dual_coef_)
    assert np.array_equal(one.intercept_, two.intercept_)


def within_budget(solver, n_threads):
    X, codes = samples()
    return KernelProblems.of(X, RBF(0.4), np.ones(len(codes)), True, solver, codes, n_threads)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("cache_mb", [0.1, 0.5, 3.0, 500.0])
def test_what_is_shared_and_what_all_threads_may_take_is_within_the_budget(n_threads, cache_mb):
    problems = within_budget(kernel_solver("auto", True, cache_mb), n_threads)
    solver, shared = problems.solver, problems.shared
    shared_mb = shared.megabytes if shared else 0.0
    assert shared_mb + n_threads * solver.cache_mb <= cache_mb * (1.0 + 1e-12)
    assert (shared is not None) == (cache_mb >= 3.0)
    if shared:
        for first, second in combinations(range(N_CLASSES), 2):
            shared.pair(first, second)
        assert shared.nbytes + n_threads * shared._memory.values.nbytes <= 1e6 * shared.megabytes


@pytest.mark.parametrize("solver", ["smo", "irwls", BatchedSMO(dtype="float64")])
def test_a_solver_that_shares_nothing_has_the_whole_budget(solver):
    problems = within_budget(kernel_solver(solver, True, 500.0), 2)
    assert problems.shared is None
    assert problems.solver.cache_mb == 250.0


def test_two_classes_and_given_kernel_values_share_nothing():
    X, codes = samples()
    assert SharedValues.where_it_pays(RBF(0.4), X, codes, 500.0, 1) is not None
    assert SharedValues.where_it_pays(RBF(0.4), X, np.minimum(codes, 1), 500.0, 1) is None
    assert SharedValues.where_it_pays(Precomputed(), X @ X.T, codes, 500.0, 1) is None


def test_only_small_pairs_share_and_cheap_values_only_among_the_smallest(monkeypatch):
    sizes = Sizes(np.array([2000, 100, 50, 900]), most=1000)
    assert [pair for pair in combinations(range(4), 2) if sizes.may_share(*pair)] == [(1, 2), (1, 3), (2, 3)]
    assert sizes.sharing.tolist() == [50, 100, 900]
    assert sizes.largest == 1000
    X, codes = samples()
    monkeypatch.setattr(kernel_pairs, "SharingPolicy", partial(SharingPolicy, most_if_cheap=10))
    assert SharedValues.where_it_pays(RBF(0.4), X, codes, 500.0, 1) is None
    assert SharedValues.where_it_pays(KERNELS["custom"], X, codes, 500.0, 1) is not None


def test_pairs_that_share_and_pairs_that_do_not_are_certified_side_by_side(monkeypatch):
    X, y = samples()
    monkeypatch.setattr(kernel_pairs, "SharingPolicy", partial(SharingPolicy, most_if_cheap=150))
    sizes = np.bincount(y)
    shares = [bool(sizes[i] + sizes[j] <= 150) for i, j in combinations(range(N_CLASSES), 2)]
    assert any(shares)
    assert not all(shares)
    assert SharedValues.where_it_pays(RBF(0.4), X, y, 500.0, 1) is not None
    assert SVC(gamma=0.4, tol=1e-6).fit(X, y).relative_gap_ <= 1e-6
