"""Fast kernel rows: against the definition of the kernel, whatever the form of X, the element type and the cache."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.data.caching import njit
from maxmargin.data.rows import CsrRows
from maxmargin.data.threads import ThreadPolicy
from maxmargin.kernel_matrix.matrix import KernelMatrix, MatrixPolicy, padded
from maxmargin.kernel_matrix.rows import RowCache
from maxmargin.kernel_matrix.tile_loops import VECTORISED, exp2
from maxmargin.kernel_matrix.tiles import Span, TilePolicy, Tiles, transposed
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Custom, Linear, Points, Polynomial, Precomputed, Sigmoid
from tests.catalogue import labelled

KERNELS = {
    "linear": Linear(),
    "rbf": RBF(0.4),
    "polynomial": Polynomial(0.3, 1.0, 3),
    "constant": Polynomial(0.3, 1.0, 0),
    "sigmoid": Sigmoid(0.05, -0.1),
    "custom": Custom(lambda A, B: np.asarray((A @ B.T).todense() if sparse.issparse(A) else A @ B.T) ** 2),
}
PRECISION = {np.float32: 2e-5, np.float64: 1e-12}
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def problem_of(name: str, form: str = "dense", n: int = 70, d: int = 6) -> KernelProblem:
    X, y = labelled(n, d, 1.0, 0)
    if form != "dense":
        X[np.random.default_rng(1).random(X.shape) < 0.8] = 0.0
        X[::9] = 0.0
    if name == "precomputed":
        X = X @ X.T
        return KernelProblem.build(sparse.csr_array(X) if form == "sparse" else X, y, 1.0, Precomputed())
    return KernelProblem.build(sparse.csr_array(X) if form == "sparse" else X, y, 1.0, KERNELS[name])


def matrix_of(problem: KernelProblem, dtype=np.float32, **settings) -> KernelMatrix:
    return KernelMatrix(problem.kernel, problem.points, dtype, **settings)


def everyone(problem: KernelProblem) -> np.ndarray:
    return problem.gram(np.arange(problem.n_samples), np.arange(problem.n_samples))


@njit(fastmath=VECTORISED)
def exp2_all(x):
    for i in range(np.uint64(x.shape[0])):
        x[i] = exp2(x[i])


@dtypes
def test_a_power_of_two_is_right_within_two_units_in_the_last_place(dtype):
    least = -126.0 if dtype is np.float32 else -1022.0
    x = np.linspace(least, 0.0, 300_001).astype(dtype)
    expected = np.exp2(x.astype(np.longdouble))
    exp2_all(x)
    assert np.max(np.abs(x - expected) / np.spacing(expected.astype(dtype))) <= 2.0


@dtypes
@pytest.mark.parametrize("form", ["dense", "mostly-zero", "sparse"])
@pytest.mark.parametrize("name", [*KERNELS, "precomputed"])
def test_a_block_is_what_the_definition_says(name, form, dtype):
    problem = problem_of(name, form)
    rows, expected = matrix_of(problem, dtype), everyone(problem)
    chosen, among = np.array([3, 0, 66, 9]), np.array([5, 69, 1])
    scale = PRECISION[dtype] * max(1.0, np.abs(expected).max())
    assert rows.block(chosen).dtype == dtype
    assert np.abs(rows.block(chosen) - expected[chosen]).max() <= scale
    assert np.abs(rows.block(chosen, among) - expected[np.ix_(chosen, among)]).max() <= scale
    assert np.abs(rows.row(7) - expected[7]).max() <= scale


@dtypes
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_a_block_leaves_the_memory_beyond_it_as_it_was(name, form, dtype):
    problem, chosen = problem_of(name, form, n=300), np.arange(0, 300, 2)
    policy = MatrixPolicy(columns_a_tile=70, tiles=TilePolicy(few_double_features=8, fewest_rows=1))
    memory = np.full((160, 170), 7.0, dtype)
    rows = matrix_of(problem, dtype, policy=policy)
    rows.block(chosen, chosen, memory)
    assert np.allclose(memory[:150, :150], everyone(problem)[np.ix_(chosen, chosen)], atol=10.0 * PRECISION[dtype])
    assert (memory[150:] == 7.0).all()
    assert (memory[:, 150:] == 7.0).all()
    turned = np.full((150, 150), 7.0, dtype).T
    rows.block(chosen, chosen, turned)
    np.testing.assert_array_equal(turned, memory[:150, :150])


@dtypes
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_a_wide_sparse_matrix_gives_the_same_block(name, dtype):
    problem = problem_of(name, "sparse", d=30)
    narrow = matrix_of(problem, dtype).block(np.arange(40))
    wide = matrix_of(problem, dtype, policy=MatrixPolicy(tiles=TilePolicy(narrow_features=1)))
    assert np.allclose(wide.block(np.arange(40)), narrow, atol=PRECISION[dtype])
    assert np.allclose(wide.block(np.arange(5), np.array([9, 2])), narrow[:5][:, [9, 2]], atol=PRECISION[dtype])


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_tiles_of_any_shape_and_any_number_of_threads_give_the_same_rows(form, monkeypatch):
    problem = problem_of("rbf", form, n=300)
    expected = everyone(problem)
    policy = MatrixPolicy(rows_a_tile=7, columns_a_tile=13, tiles=TilePolicy(few_double_features=8, fewest_rows=1))
    monkeypatch.setattr("maxmargin.data.threads.POLICY", ThreadPolicy(elements_a_thread=1))
    sums = np.zeros(300)
    rows = matrix_of(problem, np.float64, policy=policy)
    rows.add_to(sums, np.arange(300), np.linspace(-1.0, 1.0, 300))
    assert np.allclose(rows.block(np.arange(300)), expected, atol=1e-13)
    assert np.allclose(sums, np.linspace(-1.0, 1.0, 300) @ expected, atol=1e-11)


@pytest.mark.parametrize("cache_mb", [0.0, 0.001, 0.01, 1.0])
@dtypes
def test_sums_of_rows_do_not_depend_on_the_cache(cache_mb, dtype):
    problem = problem_of("rbf")
    rows, expected, random = matrix_of(problem, dtype, cache_mb=cache_mb), everyone(problem), np.random.default_rng(0)
    sums, total = np.zeros(70), np.zeros(70)
    for _ in range(20):
        chosen, scales = random.permutation(70)[: random.integers(1, 30)], random.normal(size=70)
        rows.add_to(sums, chosen, scales[: len(chosen)])
        total += scales[: len(chosen)] @ expected[chosen]
        i = int(random.integers(70))
        assert np.abs(rows.row(i) - expected[i]).max() <= PRECISION[dtype]
    assert np.abs(sums - total).max() <= 500.0 * PRECISION[dtype]
    assert rows._cache.rows.nbytes <= 1e6 * cache_mb


def test_only_values_that_are_computed_count_as_evaluations():
    rows = matrix_of(problem_of("rbf"), np.float32, cache_mb=1.0)
    rows.row(3)
    assert rows.kernel_evaluations == 70
    rows.row(3)
    assert rows.kernel_evaluations == 70
    rows.block(np.arange(4), np.arange(5))
    assert rows.kernel_evaluations == 90


def test_the_least_recently_used_row_makes_room():
    cache = RowCache(10, np.float32, 125.0 / 1e6, asks_to_be_kept=1)
    assert cache.capacity == 3
    for sample in (0, 1, 2):
        cache.find(np.array([sample]))
        cache.make_room(np.array([sample]))
    cache.find(np.array([0]))
    cache.find(np.array([7]))
    cache.make_room(np.array([7]))
    assert (cache.find(np.array([0, 1, 2, 7])) >= 0).tolist() == [True, False, True, True]


def test_a_row_in_use_never_makes_room_and_a_full_cache_keeps_no_more():
    cache = RowCache(10, np.float32, 85.0 / 1e6, asks_to_be_kept=1)
    samples = np.arange(5)
    cache.find(samples)
    places = cache.make_room(samples)
    assert sorted(places.tolist()) == [-1, -1, -1, 0, 1]


def test_a_row_is_kept_at_the_ask_that_pays_for_its_memory():
    cache = RowCache(10, np.float32, 1.0, asks_to_be_kept=2)
    one = np.array([4])
    cache.find(one)
    assert cache.make_room(one).tolist() == [-1]
    cache.find(one)
    assert cache.make_room(one).tolist() == [0]


@pytest.mark.parametrize("cache_mb", [-1.0, float("nan")])
def test_a_cache_of_no_size_is_refused(cache_mb):
    with pytest.raises(ValueError, match="cache_mb"):
        matrix_of(problem_of("rbf"), np.float32, cache_mb=cache_mb)


@pytest.mark.parametrize("name", ["rbf", "precomputed"])
@pytest.mark.parametrize("is_held", [True, False])
@dtypes
def test_a_part_of_a_matrix_is_the_matrix_of_a_part_of_the_points(name, is_held, dtype):
    problem = problem_of(name)
    matrix, expected, fold = matrix_of(problem, dtype), everyone(problem), np.array([8, 3, 69, 20, 4])
    if is_held:
        matrix.hold()
    part = matrix.part(fold)
    scale = PRECISION[dtype] * max(1.0, np.abs(expected).max())
    assert np.abs(part.block(np.arange(5)) - expected[np.ix_(fold, fold)]).max() <= scale
    assert part.kernel_evaluations == (0 if is_held else 25)


@dtypes
def test_a_matrix_that_is_held_gives_every_value_and_computes_no_more(dtype):
    problem = problem_of("rbf")
    matrix, expected = matrix_of(problem, dtype), everyone(problem)
    matrix.hold()
    computed, chosen, scales = matrix.kernel_evaluations, np.array([9, 2, 60]), np.array([1.0, -2.0, 0.5])
    sums = np.zeros(70)
    matrix.add_to(sums, chosen, scales)
    assert matrix.whole.shape == (padded(70), padded(70))
    assert not matrix.whole[70:].any()
    assert np.abs(sums - scales @ expected[chosen]).max() <= 10.0 * PRECISION[dtype]
    assert np.abs(matrix.sums_at(np.array([5, 1]), chosen, scales) - sums[[5, 1]]).max() <= 10.0 * PRECISION[dtype]
    assert np.abs(matrix.row(7) - expected[7]).max() <= PRECISION[dtype]
    assert np.abs(matrix.square(chosen) - expected[np.ix_(chosen, chosen)]).max() <= PRECISION[dtype]
    assert matrix.kernel_evaluations == computed


def test_the_next_solve_finds_the_rows_that_the_one_before_has_kept_and_counts_anew():
    matrix = matrix_of(problem_of("rbf"), np.float32, cache_mb=1.0)
    first, second = matrix.for_one_solve(), matrix.for_one_solve()
    row = first.row(3).copy()
    assert np.array_equal(second.row(3), row)
    assert (first.kernel_evaluations, second.kernel_evaluations) == (70, 0)
    first.hold()
    assert second.whole is first.whole


@dtypes
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("d", [3, 6])
def test_sums_that_are_made_without_a_tile_do_not_depend_on_the_tile_before(form, dtype, d):
    """A tile that does not fill a vector leaves values in the memory that the sums use next."""
    problem = problem_of("rbf", form, d=d)
    matrix, expected = matrix_of(problem, dtype), everyone(problem)
    chosen, scales = np.arange(0, 70, 2), np.random.default_rng(2).standard_normal(35)
    for _ in range(2):
        matrix.block(chosen, chosen)
        sums = np.zeros(70)
        matrix.add_to(sums, chosen, scales)
        assert np.abs(sums - scales @ expected[chosen]).max() <= 10.0 * PRECISION[dtype]


@dtypes
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_sums_are_those_of_the_rows_in_float64_whatever_the_type_of_the_values(form, dtype):
    """With a large C the alphas are large, and the rounding of float32 sums would hide which samples are at the margin."""
    problem = problem_of("rbf", form)
    matrix = matrix_of(problem, dtype)
    chosen, scales = np.arange(70), 1e6 * np.random.default_rng(2).standard_normal(70)
    rows, sums = matrix.block(chosen, chosen).astype(np.float64), np.zeros(70)
    matrix.add_to(sums, chosen, scales)
    assert np.abs(sums - scales @ rows).max() <= 1e-13 * np.abs(scales).sum()


@dtypes
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_values_of_whole_numbers_have_one_rounding_before_the_power(form, dtype):
    """Dot products of small whole numbers are exact in float32, so that equal distances have equal values."""
    rng = np.random.default_rng(0)
    X = (rng.random((70, 120)) < 0.12).astype(np.float64)
    points = sparse.csr_array(X) if form == "sparse" else X
    problem = KernelProblem.build(points, np.resize([1, -1], 70), 1.0, RBF(0.005))
    values = matrix_of(problem, dtype).block(np.arange(70), np.arange(70))
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    exact = np.exp(-0.005 * distances)
    assert (np.abs(values - exact) <= 3.0 * np.finfo(dtype).eps * exact).all()


@dtypes
def test_rows_that_are_kept_and_rows_that_are_not_add_up(dtype):
    problem = problem_of("rbf")
    two_rows = 2 * 70 * np.dtype(dtype).itemsize / 1e6
    matrix, expected = matrix_of(problem, dtype, cache_mb=1.01 * two_rows), everyone(problem)
    chosen, scales = np.array([9, 2, 60, 30, 31, 32, 33, 34, 35, 36, 37]), np.linspace(-1.0, 2.0, 11)
    for _ in range(15):
        sums = np.zeros(70)
        matrix.add_to(sums, chosen, scales)
        assert np.abs(sums - scales @ expected[chosen]).max() <= 10.0 * PRECISION[dtype]
    assert matrix.kernel_evaluations < 15 * 11 * 70


@pytest.mark.parametrize("elements_a_piece", [1, 7, 10_000])
def test_a_transpose_in_pieces_is_that_of_scipy(elements_a_piece):
    matrix = sparse.random_array((60, 500), density=0.03, format="csr", rng=np.random.default_rng(3), dtype=np.float32)
    rows = CsrRows(matrix.data, matrix.indices.astype(np.uint32), matrix.indptr.astype(np.uint64), 0.0)
    found, expected = transposed(rows, 500, elements_a_piece), matrix.T.tocsr()
    assert (found.values == expected.data).all()
    assert (found.indices == expected.indices).all()
    assert (found.indptr == expected.indptr).all()


def test_the_deadline_is_heard_inside_a_wide_tile_and_inside_a_transpose(monkeypatch):
    points = Points(sparse.random_array((40, 500), density=0.1, format="csr", rng=np.random.default_rng(3)))
    tiles = Tiles(RBF(0.5), points, policy=TilePolicy(narrow_features=1, elements_a_piece=1, elements_to_turn=1))
    asked: list[int] = []
    monkeypatch.setattr("maxmargin.kernel_matrix.tiles.check_point", lambda: asked.append(1))
    side = tiles.everyone
    assert len(asked) == 40
    tiles.tile(tiles.left(np.arange(8)), side, Span(0, 40), np.empty((8, 40), np.float32))
    assert len(asked) == 48
