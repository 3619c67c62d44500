"""Rows: whatever the user brings, one view of it, without a copy where none is needed."""

from __future__ import annotations

import os
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from numba import njit
from scipy import sparse

from maxmargin.data.row_loops import add_rows, row_add, row_dot, short_row_add, squared_norms
from maxmargin.data.rows import CsrRows, DenseRows, Rows

A = np.array([[0, 2, 0, 3], [0, 0, 0, 0], [1, 0, 4, 0], [5, 6, 7, 8], [0, 0, 0, 1]], dtype=np.float64)
"""Small whole numbers: every element type holds them, and every sum of squares is exact."""

SPARSE_FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")
BIASES = pytest.mark.parametrize("bias", [0.0, 0.5, 3.0])


def read_only(array):
    array = array.copy(order="K")
    array.flags.writeable = False
    return array


def mapped(array, path):
    """The same numbers in a file, mapped read-only."""
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def with_long_indices(X):
    """X with 64-bit indices."""
    X = X.copy()
    if X.format == "coo":
        X.coords = tuple(axis.astype(np.int64) for axis in X.coords)
    else:
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def unsorted_csr():
    """A with every row stored back to front."""
    X = sparse.csr_array(A)
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.data[start:stop], X.indices[start:stop] = X.data[start:stop][::-1].copy(), X.indices[start:stop][::-1].copy()
    X.has_sorted_indices = False
    return X


def duplicated_csr():
    """A with every element stored twice, as a half and a half."""
    X = sparse.csr_array(A)
    return sparse.csr_array((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=A.shape)


def frozen_csr(X):
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    return X


DENSE_LAYOUTS = {
    "c-order": lambda: A.copy(),
    "fortran-order": lambda: np.asfortranarray(A),
    "every-second-row": lambda: np.repeat(A, 2, axis=0)[::2],
    "every-second-column": lambda: np.repeat(A, 2, axis=1)[:, ::2],
    "backwards": lambda: A[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda: read_only(A),
    "read-only-fortran": lambda: read_only(np.asfortranarray(A)),
    "list": lambda: A.tolist(),
    "objects": lambda: A.astype(object),
    "other-endian": lambda: A.astype(A.dtype.newbyteorder()),
    **{
        f"{np.dtype(dtype).name}": lambda dtype=dtype: A.astype(dtype)
        for dtype in (np.float32, np.float16, np.longdouble, np.int8, np.uint8, np.int32, np.uint64, np.int64)
    },
    "fortran-float32": lambda: np.asfortranarray(A, dtype=np.float32),
}

SPARSE_LAYOUTS = {
    **{f"{name}-matrix": lambda name=name: getattr(sparse, f"{name}_matrix")(A) for name in SPARSE_FORMATS},
    **{f"{name}-array": lambda name=name: getattr(sparse, f"{name}_array")(A) for name in SPARSE_FORMATS},
    **{
        f"{name}-long-indices": lambda name=name: with_long_indices(getattr(sparse, f"{name}_array")(A))
        for name in ("csr", "csc", "coo")
    },
    "csr-float32": lambda: sparse.csr_array(A.astype(np.float32)),
    "csc-float32": lambda: sparse.csc_array(A.astype(np.float32)),
    "csr-float32-long-indices": lambda: with_long_indices(sparse.csr_matrix(A.astype(np.float32))),
    "csr-int64": lambda: sparse.csr_matrix(A.astype(np.int64)),
    "csr-uint8": lambda: sparse.csr_array(A.astype(np.uint8)),
    "csr-unsorted": unsorted_csr,
    "csr-unsorted-read-only": lambda: frozen_csr(unsorted_csr()),
    "csr-unsorted-long-indices": lambda: with_long_indices(unsorted_csr()),
    "csr-duplicated": duplicated_csr,
    "csr-duplicated-read-only": lambda: frozen_csr(duplicated_csr()),
    "csr-read-only": lambda: frozen_csr(sparse.csr_array(A)),
    "csr-explicit-zeros": lambda: sparse.csr_array(
        (A.ravel(), np.tile(np.arange(4, dtype=np.int32), 5), np.arange(0, 21, 4, dtype=np.int32)), shape=A.shape
    ),
}

LAYOUTS = {**DENSE_LAYOUTS, **SPARSE_LAYOUTS}

every_layout = pytest.mark.parametrize("layout", LAYOUTS)
every_sparse_layout = pytest.mark.parametrize("layout", SPARSE_LAYOUTS)
every_dense_layout = pytest.mark.parametrize("layout", DENSE_LAYOUTS)


def dense_of(rows):
    return rows.matrix.toarray() if rows.is_sparse else rows.matrix


def parts_of(X):
    """The arrays that a compressed or coordinate matrix is made of."""
    return [X.data, *X.coords] if X.format == "coo" else [X.data, X.indices, X.indptr]


@every_layout
def test_every_layout_holds_the_same_numbers(layout):
    rows = Rows.from_matrix(LAYOUTS[layout]())
    np.testing.assert_array_equal(dense_of(rows), A)
    assert (rows.n_samples, rows.n_features) == A.shape


@pytest.mark.parametrize("make", [np.array, np.asfortranarray, sparse.csr_matrix, sparse.csc_array])
def test_true_is_one_and_false_is_zero(make):
    rows = Rows.from_matrix(make(A > 0))
    assert rows.matrix.dtype == np.float64
    np.testing.assert_array_equal(dense_of(rows), (A > 0).astype(float))


@every_dense_layout
def test_dense_never_becomes_sparse_and_ends_in_c_order(layout):
    rows = Rows.from_matrix(LAYOUTS[layout]())
    assert not rows.is_sparse
    assert type(rows.matrix) is np.ndarray
    assert rows.matrix.flags.c_contiguous
    assert isinstance(rows.compiled(), DenseRows)


@every_sparse_layout
def test_sparse_never_becomes_dense_and_ends_as_canonical_csr(layout):
    rows = Rows.from_matrix(LAYOUTS[layout]())
    assert rows.is_sparse
    assert rows.matrix.format == "csr"
    for start, stop in zip(rows.matrix.indptr[:-1], rows.matrix.indptr[1:], strict=True):
        assert (np.diff(rows.matrix.indices[start:stop]) > 0).all()
    assert isinstance(rows.compiled(), CsrRows)


@every_layout
def test_float32_stays_float32_and_all_else_becomes_float64(layout):
    rows = Rows.from_matrix(LAYOUTS[layout]())
    expected = np.float32 if "float32" in layout else np.float64
    assert rows.matrix.dtype == expected
    assert rows.compiled().values.dtype == expected


@pytest.mark.parametrize("layout", [name for name in SPARSE_LAYOUTS if name.startswith(("csr", "csc", "coo"))])
def test_a_sparse_matrix_is_not_changed_by_looking_at_it(layout):
    X = LAYOUTS[layout]()
    parts, before = parts_of(X), [part.copy() for part in parts_of(X)]
    writeable = [part.flags.writeable for part in parts]
    Rows.from_matrix(X).squared_norms(1.0)
    for now, then, part in zip(parts_of(X), before, parts, strict=True):
        assert now is part
        assert now.dtype == then.dtype
        np.testing.assert_array_equal(now, then)
    assert [part.flags.writeable for part in parts] == writeable


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_dense_array_is_not_changed_by_looking_at_it(dtype):
    X = A.astype(dtype)
    Rows.from_matrix(X).squared_norms(1.0)
    np.testing.assert_array_equal(X, A)
    assert X.flags.writeable
    assert X.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("protect", [np.copy, read_only])
def test_a_c_ordered_float_array_is_shared(dtype, protect):
    X = protect(A.astype(dtype))
    rows = Rows.from_matrix(X)
    assert np.shares_memory(rows.matrix, X)
    assert np.shares_memory(rows.compiled().values, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("long_indices", [False, True])
@pytest.mark.parametrize("freeze", [False, True])
def test_canonical_csr_is_shared(dtype, container, long_indices, freeze):
    X = container(A.astype(dtype))
    X = with_long_indices(X) if long_indices else X
    X = frozen_csr(X) if freeze else X
    rows = Rows.from_matrix(X)
    for mine, yours in zip(parts_of(rows.matrix), parts_of(X), strict=True):
        assert np.shares_memory(mine, yours)
    compiled = rows.compiled()
    assert np.shares_memory(compiled.values, X.data)
    assert np.shares_memory(compiled.indices, X.indices)
    assert np.shares_memory(compiled.indptr, X.indptr) == long_indices


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_memory_mapped_array_is_shared(dtype, tmp_path):
    X = mapped(A.astype(dtype), tmp_path / "X.npy")
    rows = Rows.from_matrix(X)
    assert isinstance(X, np.memmap)
    assert np.shares_memory(rows.matrix, X)
    assert np.shares_memory(rows.compiled().values, X)
    np.testing.assert_array_equal(rows.squared_norms(2.0), (A**2).sum(axis=1) + 4.0)


@pytest.mark.parametrize("prepare", [np.asfortranarray, lambda X: X.astype(np.int32)])
def test_a_memory_mapped_array_of_another_layout_is_read_right(prepare, tmp_path):
    rows = Rows.from_matrix(mapped(prepare(A), tmp_path / "X.npy"))
    np.testing.assert_array_equal(rows.matrix, A)
    assert rows.matrix.dtype == np.float64
    assert rows.matrix.flags.c_contiguous


@pytest.mark.parametrize("long_indices", [False, True])
def test_a_memory_mapped_csr_matrix_is_shared(long_indices, tmp_path):
    X = with_long_indices(sparse.csr_array(A)) if long_indices else sparse.csr_array(A)
    X.data, X.indices, X.indptr = (mapped(part, tmp_path / f"{k}.npy") for k, part in enumerate(parts_of(X)))
    rows = Rows.from_matrix(X)
    compiled = rows.compiled()
    assert np.shares_memory(compiled.values, X.data)
    assert np.shares_memory(compiled.indices, X.indices)
    assert np.shares_memory(rows.matrix.indptr, X.indptr)
    np.testing.assert_array_equal(rows.squared_norms(), (A**2).sum(axis=1))


def test_rows_of_rows_are_the_same_rows():
    rows = Rows.from_matrix(A)
    assert Rows.from_matrix(rows) is rows


def test_rows_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Rows.from_matrix(A).matrix = A


def test_the_size_of_rows_is_what_is_stored():
    dense, csr = Rows.from_matrix(A.astype(np.float32)), Rows.from_matrix(sparse.csr_array(A))
    assert (dense.n_stored, dense.nbytes) == (20, 80)
    assert (csr.n_stored, csr.nbytes) == (9, 9 * 8 + 9 * 4 + 6 * 4)


@every_layout
def test_compiled_rows_are_read_only_views(layout):
    compiled = Rows.from_matrix(LAYOUTS[layout]()).compiled(bias=2)
    assert type(compiled.bias) is float
    assert compiled.bias == 2.0
    for array in compiled[:-1]:
        assert type(array) is np.ndarray
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@every_sparse_layout
def test_compiled_indices_are_unsigned(layout):
    rows = Rows.from_matrix(LAYOUTS[layout]())
    compiled = rows.compiled()
    assert compiled.indices.dtype == np.dtype(f"u{rows.matrix.indices.itemsize}")
    assert compiled.indptr.dtype == np.uint64
    np.testing.assert_array_equal(compiled.indices, rows.matrix.indices)
    np.testing.assert_array_equal(compiled.indptr, rows.matrix.indptr)


@pytest.mark.parametrize(("layout", "itemsize"), [("csr-array", 4), ("csr-long-indices", 8)])
def test_long_indices_stay_long_and_short_stay_short(layout, itemsize):
    assert Rows.from_matrix(LAYOUTS[layout]()).compiled().indices.itemsize == itemsize


@every_layout
@BIASES
def test_squared_norms_are_numpys(layout, bias):
    norms = Rows.from_matrix(LAYOUTS[layout]()).squared_norms(bias)
    assert norms.dtype == np.float64
    np.testing.assert_array_equal(norms, (A**2).sum(axis=1) + bias**2)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_squared_norms_of_float32_do_not_overflow(make):
    X = np.array([[1e30, -2e30], [1e-30, 0.0]], dtype=np.float32)
    exact = (X.astype(np.float64) ** 2).sum(axis=1)
    np.testing.assert_allclose(Rows.from_matrix(make(X)).squared_norms(), exact, rtol=1e-15)


@BIASES
@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_a_zero_row_has_the_squared_norm_of_its_bias(make, bias):
    np.testing.assert_array_equal(Rows.from_matrix(make(np.zeros((3, 2)))).squared_norms(bias), np.full(3, bias**2))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool", "Float64", "Int32"])
def test_a_data_frame_is_its_numbers(dtype):
    pandas = pytest.importorskip("pandas")
    values = A > 0 if dtype == "bool" else A
    frame = pandas.DataFrame(values, columns=list("abcd")).astype(dtype)
    rows = Rows.from_matrix(frame)
    assert not rows.is_sparse
    assert rows.matrix.flags.c_contiguous
    assert rows.matrix.dtype == (np.float32 if dtype == "float32" else np.float64)
    np.testing.assert_array_equal(rows.matrix, values.astype(float))
    np.testing.assert_array_equal(rows.squared_norms(1.0), (values.astype(float) ** 2).sum(axis=1) + 1.0)


def test_a_data_frame_of_mixed_columns_is_its_numbers():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"a": A[:, 0].astype(np.float32), "b": A[:, 1].astype(int), "c": A[:, 2], "d": A[:, 3].astype(np.int8)}
    )
    rows = Rows.from_matrix(frame)
    assert rows.matrix.dtype == np.float64
    np.testing.assert_array_equal(rows.matrix, A)


def spoiled(value, dtype=np.float64):
    X = A.astype(dtype)
    X[3, 2] = value
    return X


REFUSED = {
    "nan": (spoiled(np.nan), "NaN"),
    "nan-float32": (spoiled(np.nan, np.float32), "NaN"),
    "infinity": (spoiled(np.inf), "infinity"),
    "minus-infinity": (spoiled(-np.inf), "infinity"),
    "nan-csr": (sparse.csr_array(spoiled(np.nan)), "NaN"),
    "infinity-csc": (sparse.csc_array(spoiled(np.inf)), "infinity"),
    "no-rows": (np.empty((0, 4)), r"0 sample\(s\)"),
    "no-rows-csr": (sparse.csr_array((0, 4)), r"0 sample\(s\)"),
    "no-features": (np.empty((5, 0)), r"0 feature\(s\)"),
    "no-features-csr": (sparse.csr_array((5, 0)), r"0 feature\(s\)"),
    "one-dimension": (A[0], "Expected 2D"),
    "one-dimension-sparse": (sparse.coo_array(A[0]), "Expected 2D"),
    "three-dimensions": (A[None], "dim 3"),
    "a-number": (3.0, "Expected 2D"),
    "nothing": (None, "Expected 2D"),
    "words": (np.array([["one", "two"]]), "one"),
    "complex": (A * 1j, "Complex"),
    "ragged": ([[1.0, 2.0], [3.0]], "inhomogeneous"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_finite_matrix_is_refused(name):
    X, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        Rows.from_matrix(X)


@njit
def dot(rows, i, w):
    return row_dot(rows, i, w)


@njit
def add(rows, i, scale, w):
    row_add(rows, i, scale, w)


def hollow_file(path, dtype, shape):
    """Zeros in a file of which only the pages that are written to take room on the disk."""
    size = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
    try:
        path.touch()
        os.truncate(path, size)
    except OSError as error:
        pytest.skip(f"a file of {size >> 30} GiB cannot be made here: {error}")
    if occupied(path) > size // 2:
        path.unlink()
        pytest.skip("this file system has no sparse files")
    return np.memmap(path, dtype=dtype, mode="r+", shape=shape)


def occupied(path):
    return os.stat(path).st_blocks * 512


def view_only(array):
    array.flush()
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


needs_64_bits = pytest.mark.skipif(sys.maxsize < 2**32 or os.name == "nt", reason="needs 64-bit addresses and st_blocks")


@pytest.fixture(params=[2**31, 2**32], ids=["2^31", "2^32"])
def long_csr(request, tmp_path):
    """Three rows at the end of that many stored elements: one across the edge, an empty one, and the last."""
    edge, files = request.param, (tmp_path / "values", tmp_path / "indices")
    values = hollow_file(files[0], np.float32, (edge + 5,))
    indices = hollow_file(files[1], np.uint32, (edge + 5,))
    values[-8:] = np.arange(1, 9)
    indices[-8:] = [0, 1, 2, 4, 0, 1, 3, 4]
    indptr = np.array([edge - 3, edge + 1, edge + 1, edge + 5], dtype=np.uint64)
    indptr.flags.writeable = False
    yield CsrRows(view_only(values), view_only(indices), indptr, 0.5)
    assert sum(map(occupied, files)) < 2**20
    for file in files:
        file.unlink()


LONG_ROWS = np.array([[1, 2, 3, 0, 4, 0.5], [0, 0, 0, 0, 0, 0.5], [5, 6, 0, 7, 8, 0.5]])


@needs_64_bits
def test_rows_beyond_2_to_the_31_stored_elements_are_read_where_they_are(long_csr):
    w = 10.0 ** np.arange(6)
    for i, row in enumerate(LONG_ROWS):
        assert dot(long_csr, np.uint64(i), w) == row @ w
        total = np.zeros(6)
        add(long_csr, np.uint64(i), 2.0, total)
        np.testing.assert_array_equal(total, 2.0 * row)


@needs_64_bits
def test_sums_over_rows_beyond_2_to_the_31_stored_elements_are_right(long_csr):
    total, scales, norms = np.zeros(6), np.array([1.0, -2.0, 3.0]), np.empty(3)
    squared_norms(long_csr, norms)
    np.testing.assert_array_equal(norms, (LONG_ROWS**2).sum(axis=1))
    add_rows(long_csr, scales, total, 0, len(scales))
    np.testing.assert_array_equal(total, scales @ LONG_ROWS)


@needs_64_bits
def test_a_dense_row_beyond_2_to_the_31_elements_is_read_where_it_is(tmp_path):
    file, n = tmp_path / "values", 2**29 + 1
    values = hollow_file(file, np.float32, (n, 4))
    values[-1] = [1, 2, 3, 4]
    rows, w = DenseRows(view_only(values), 0.5), 10.0 ** np.arange(5)
    assert dot(rows, np.uint64(n - 1), w) == np.array([1, 2, 3, 4, 0.5]) @ w
    total = np.zeros(5)
    add(rows, np.uint64(n - 1), 2.0, total)
    np.testing.assert_array_equal(total, [2, 4, 6, 8, 1])
    assert occupied(file) < 2**20
    file.unlink()


@pytest.mark.parametrize(("indices", "indptr"), [([70], [0, 1]), ([-1], [0, 1]), ([0], [1, 1]), ([0], [0, 5])])
def test_a_sparse_matrix_with_wrong_indices_is_refused(indices, indptr):
    X = sparse.csr_array((1, 3))
    X.data, X.indices, X.indptr = np.ones(1), np.array(indices, dtype=np.int32), np.array(indptr, dtype=np.int32)
    with pytest.raises(ValueError, match=r"broken|index|indptr|Last value"):
        Rows.from_matrix(X)


@njit
def one_short_add(rows, i, scale, w):
    short_row_add(rows, i, scale, w)


@pytest.mark.parametrize("n_features", [1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_short_row_is_added_in_fours_and_the_rest(n_features, dtype, is_sparse):
    X = np.random.default_rng(n_features).integers(-9, 10, (6, n_features)).astype(dtype)
    rows, w = Rows.from_matrix(sparse.csr_array(X) if is_sparse else X).compiled(0.5), np.arange(n_features + 1.0)
    one_short_add(rows, np.uint64(4), 3.0, w)
    assert np.array_equal(w, np.arange(n_features + 1.0) + 3.0 * np.append(X[4], 0.5))
