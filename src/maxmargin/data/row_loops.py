"""The operations on a row that solvers are made of. The layout of X chooses their code at compile time.

A loop that uses them is compiled once for each layout that it is given: ``CsrRows``, ``DenseRows`` or ``OneValueRows`` (which
has no prefetches). Row indices are unsigned. ``w`` has one element more than X has features: the last one belongs to the
appended constant feature ``rows.bias``.

The stored elements of row i are numbered 0 <= k < ``row_length(rows, i)``, and ``row_start(rows, i)`` is the place of the first
one. The four functions that locate an element write LLVM instructions themselves, so Numba has nothing to compile for them. All
other functions are one text for all layouts. (``@overload`` by layout compiled every operation twice, on its own and where it
was used: a quarter of the time of a first fit.)
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maxmargin.data.caching import njit
from maxmargin.data.lanes import INDEX, add_fours
from maxmargin.data.rows import DenseRows, OneValueRows

ONE = np.uint64(1)
LINE = 64
"""Bytes of a cache line."""
MOST_LINES = np.uint64(32)
"""Cache lines of a row that are prefetched at most."""


def _is_sparse(rows):
    return rows.instance_class is not DenseRows


def _array(context, builder, signature, arguments, field):
    """A field of ``rows``, the first argument: its array, and the type of the array."""
    array_type = signature.args[0].types[field]
    return context.make_array(array_type)(context, builder, builder.extract_value(arguments[0], field)), array_type


def _element(context, builder, signature, arguments, field, places):
    """An element of a field of ``rows``, at the sum of these places, counted flat."""
    array, array_type = _array(context, builder, signature, arguments, field)
    address = array.data
    for place in places:
        address = builder.gep(address, [place], inbounds=True)
    return context.unpack_value(builder, array_type.dtype, address, align=None if array_type.aligned else 1)


def _row_start(rows):
    """Write the instructions that find the first element of a row: indptr[i], or i times the number of features."""
    is_sparse = _is_sparse(rows)

    def generate(context, builder, signature, arguments):
        if is_sparse:
            return _element(context, builder, signature, arguments, 2, arguments[1:2])
        array, _ = _array(context, builder, signature, arguments, 0)
        return builder.mul(arguments[1], builder.extract_value(array.shape, 1))

    return generate


@intrinsic
def row_start(typing_context, rows, i):
    """The place of the first element of row i."""
    return types.uint64(rows, types.uint64), _row_start(rows)


@intrinsic
def row_length(typing_context, rows, i):
    """How many elements row i has."""

    def sparse(context, builder, signature, arguments):
        start, stop = (
            _element(context, builder, signature, arguments, 2, (arguments[1], ir.IntType(64)(offset))) for offset in (0, 1)
        )
        return builder.sub(stop, start)

    def dense(context, builder, signature, arguments):
        array, _ = _array(context, builder, signature, arguments, 0)
        return builder.extract_value(array.shape, 1)

    return types.uint64(rows, types.uint64), sparse if _is_sparse(rows) else dense


@intrinsic
def value_of(typing_context, rows, start, k):
    """The value of element k of the row that begins at ``start``."""

    def stored(context, builder, signature, arguments):
        return _element(context, builder, signature, arguments, 0, arguments[1:])

    def constant(context, builder, signature, arguments):
        return builder.extract_value(arguments[0], 0)

    if rows.instance_class is OneValueRows:
        return types.float64(rows, types.uint64, types.uint64), constant
    return rows.types[0].dtype(rows, types.uint64, types.uint64), stored


@intrinsic
def column_of(typing_context, rows, start, k):
    """The column of element k of the row that begins at ``start``."""

    def sparse(context, builder, signature, arguments):
        index = _element(context, builder, signature, arguments, 1, arguments[1:])
        return context.cast(builder, index, signature.args[0].types[1].dtype, types.uint64)

    def dense(context, builder, signature, arguments):
        return arguments[2]

    return types.uint64(rows, types.uint64, types.uint64), sparse if _is_sparse(rows) else dense


@njit(inline="always")
def row_dot(rows, i, w):
    """x_i . w"""
    start = row_start(rows, i)
    total = rows.bias * w[w.shape[0] - 1]
    for k in range(row_length(rows, i)):
        total += value_of(rows, start, k) * w[column_of(rows, start, k)]
    return total


@njit(inline="always")
def row_add(rows, i, scale, w):
    """w += scale * x_i"""
    start = row_start(rows, i)
    for k in range(row_length(rows, i)):
        w[column_of(rows, start, k)] += scale * value_of(rows, start, k)
    w[w.shape[0] - 1] += scale * rows.bias


@intrinsic
def _whole_fours(typing_context, rows, i, scale, w):
    """w += scale x_i for all whole fours of a dense row, and nothing of a sparse one. Returned is the first element that is
    left."""
    is_sparse, start = _is_sparse(rows), _row_start(rows)

    def generate(context, builder, signature, arguments):
        if is_sparse:
            return INDEX(0)
        array, array_type = _array(context, builder, signature, arguments, 0)
        x = builder.gep(array.data, [start(context, builder, signature, arguments)], inbounds=True)
        w_type = signature.args[3]
        places = x, context.make_array(w_type)(context, builder, arguments[3]).data
        length = builder.extract_value(array.shape, 1)
        return add_fours(context, builder, places, (array_type.dtype, w_type.dtype), arguments[2], length)

    return types.uint64(rows, types.uint64, types.float64, w), generate


@njit(inline="always")
def short_row_add(rows, i, scale, w):
    """``row_add`` for dense rows that may be short: whole fours need no test of whether x and w overlap."""
    start = row_start(rows, i)
    for k in range(_whole_fours(rows, i, scale, w), row_length(rows, i)):
        w[column_of(rows, start, k)] += scale * value_of(rows, start, k)
    w[w.shape[0] - 1] += scale * rows.bias


@njit(inline="always")
def row_sqnorm(rows, i):
    """|x_i|^2 + bias^2"""
    start = row_start(rows, i)
    total = rows.bias * rows.bias
    for k in range(row_length(rows, i)):
        value = np.float64(value_of(rows, start, k))
        total += value * value
    return total


@njit(inline="always")
def row_coordinates(rows, i, table):
    """The products of x_i with the eight columns of ``table``, and |x_i|^2, both without the constant feature. The nine sums
    are made at once, because a single sum would wait for its own last addition."""
    start = row_start(rows, i)
    sums = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for k in range(row_length(rows, i)):
        sums = _plus_line(sums, np.float64(value_of(rows, start, k)), table, column_of(rows, start, k))
    return sums[:8], sums[8]


@njit(inline="always")
def _plus_line(sums, value, table, j):
    """Add the share of one element to the eight products and the square. They are written out, so that all are in flight at
    once."""
    a, b, c, d, e, f, g, h, squares = sums
    a += value * table[j, 0]
    b += value * table[j, 1]
    c += value * table[j, 2]
    d += value * table[j, 3]
    e += value * table[j, 4]
    f += value * table[j, 5]
    g += value * table[j, 6]
    h += value * table[j, 7]
    return a, b, c, d, e, f, g, h, squares + value * value


@intrinsic
def prefetch_row_start(typing_context, rows, i):
    """Prefetch what is needed to find row i. A dense X needs nothing."""
    is_sparse = _is_sparse(rows)

    def generate(context, builder, signature, arguments):
        if is_sparse:
            array, _ = _array(context, builder, signature, arguments, 2)
            _ask_for(builder, array.data, arguments[1])
        return context.get_dummy_value()

    return types.void(rows, types.uint64), generate


@intrinsic
def prefetch_row(typing_context, rows, i):
    """Prefetch the first cache lines of row i: two of a dense X; three of the values and two of the indices of a sparse X."""
    is_sparse = _is_sparse(rows)
    a_line = LINE // rows.types[0].dtype.bitwidth * 8
    start = _row_start(rows)
    asked = ((1, 0), (1, 2), (0, 0), (0, 1), (0, 2)) if is_sparse else ((0, 0), (0, 1))

    def generate(context, builder, signature, arguments):
        first = start(context, builder, signature, arguments)
        for field, line in asked:
            array, _ = _array(context, builder, signature, arguments, field)
            _ask_for(builder, array.data, builder.add(first, first.type(line * a_line)))
        return context.get_dummy_value()

    return types.void(rows, types.uint64), generate


@intrinsic
def prefetch_element(typing_context, rows, k):
    """Prefetch element k: its value and, of a sparse X, its index."""
    fields = (0, 1) if _is_sparse(rows) else (0,)

    def generate(context, builder, signature, arguments):
        for field in fields:
            array, _ = _array(context, builder, signature, arguments, field)
            _ask_for(builder, array.data, arguments[1])
        return context.get_dummy_value()

    return types.void(rows, types.uint64), generate


@njit(inline="always")
def prefetch_whole_row(rows, i):
    """Prefetch all of row i, up to ``MOST_LINES``. It is for rows in random order, where the processor's own prefetching begins
    again in each row."""
    a_line = np.uint64(LINE // rows.values.itemsize)
    start = row_start(rows, i)
    for k in range(np.uint64(0), min(row_length(rows, i), MOST_LINES * a_line), a_line):
        prefetch_element(rows, start + k)


@intrinsic
def prefetch(typing_context, array, offset):
    """llvm.prefetch of element ``offset``, counted flat, for reading and to all cache levels. Past the end is harmless."""

    def emit(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        _ask_for(builder, data, arguments[1])
        return context.get_dummy_value()

    return types.void(array, types.uint64), emit


def _ask_for(builder, data, place):
    address = builder.bitcast(builder.gep(data, [place]), ir.IntType(8).as_pointer())
    int32 = ir.IntType(32)
    function_type = ir.FunctionType(ir.VoidType(), [address.type, int32, int32, int32])
    name = "llvm.prefetch.p0"
    function = builder.module.globals.get(name) or ir.Function(builder.module, function_type, name)
    builder.call(function, [address, int32(0), int32(3), int32(1)])


@njit(cache=True, allocates=False, nogil=True)
def squared_norms(rows, norms):
    """norms_i = |x_i|^2 + bias^2, in float64."""
    for i in range(np.uint64(norms.shape[0])):
        norms[i] = row_sqnorm(rows, i)


@njit(cache=True, allocates=False, nogil=True)
def add_rows(rows, scales, w, start, stop):
    """w += sum over start <= i < stop of scales_i x_i"""
    for i in range(np.uint64(start), np.uint64(stop)):
        if scales[i] != 0.0:
            row_add(rows, i, scales[i], w)
