"""The few operations on a row that solvers are made of, chosen by the layout at compile time.

A loop written with these is compiled once for ``CsrRows`` and once for ``DenseRows``. Row indices are unsigned. In every
one ``w`` has one element more than X has features: the last belongs to the appended constant feature ``rows.bias``.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from maxmargin.data.caching import njit
from maxmargin.data.rows import CsrRows

ONE = np.uint64(1)
LINE = 64
"""Bytes a cache line."""
MOST_LINES = np.uint64(32)
"""Of a row that are asked for beforehand."""


def row_dot(rows, i, w):
    """x_i . w"""
    raise TypeError("row_dot exists only inside compiled code")


def row_add(rows, i, scale, w):
    """w += scale * x_i"""
    raise TypeError("row_add exists only inside compiled code")


def row_coordinates(rows, i, table):
    """x_i with the eight columns of ``table``, which has a line for every feature and none for the constant one, and |x_i|^2
    without that too: all at once, as each sum alone would wait for itself"""
    raise TypeError("row_coordinates exists only inside compiled code")


def prefetch_row_start(rows, i):
    """Ask for what is needed to find row i."""
    raise TypeError("prefetch_row_start exists only inside compiled code")


def prefetch_row(rows, i):
    """Ask for the first lines of row i."""
    raise TypeError("prefetch_row exists only inside compiled code")


def prefetch_whole_row(rows, i):
    """Ask for all of row i, up to some kilobytes: for rows that do not follow each other, where the processor's own
    prefetching starts anew in each."""
    raise TypeError("prefetch_whole_row exists only inside compiled code")


@overload(row_dot, inline="always")
def _row_dot(rows, i, w):
    if rows.instance_class is CsrRows:

        def sparse(rows, i, w):
            total = rows.bias * w[w.shape[0] - 1]
            for k in range(rows.indptr[i], rows.indptr[i + ONE]):
                total += rows.values[k] * w[rows.indices[k]]
            return total

        return sparse

    def dense(rows, i, w):
        total = rows.bias * w[w.shape[0] - 1]
        for j in range(rows.values.shape[1]):
            total += rows.values[i, j] * w[j]
        return total

    return dense


@overload(row_add, inline="always")
def _row_add(rows, i, scale, w):
    if rows.instance_class is CsrRows:

        def sparse(rows, i, scale, w):
            for k in range(rows.indptr[i], rows.indptr[i + ONE]):
                w[rows.indices[k]] += scale * rows.values[k]
            w[w.shape[0] - 1] += scale * rows.bias

        return sparse

    def dense(rows, i, scale, w):
        for j in range(rows.values.shape[1]):
            w[j] += scale * rows.values[i, j]
        w[w.shape[0] - 1] += scale * rows.bias

    return dense


@njit(inline="always")
def _plus_line(sums, value, table, j):
    """Eight coordinates and the square, each with what this element adds: written out, so that all are in flight at once."""
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


@overload(row_coordinates)
def _row_coordinates(rows, i, table):
    if rows.instance_class is CsrRows:

        def sparse(rows, i, table):
            sums = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
            for k in range(rows.indptr[i], rows.indptr[i + ONE]):
                sums = _plus_line(sums, np.float64(rows.values[k]), table, np.uint64(rows.indices[k]))
            return sums[:8], sums[8]

        return sparse

    def dense(rows, i, table):
        sums = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        for j in range(np.uint64(rows.values.shape[1])):
            sums = _plus_line(sums, np.float64(rows.values[i, j]), table, j)
        return sums[:8], sums[8]

    return dense


@overload(prefetch_row_start)
def _prefetch_row_start(rows, i):
    if rows.instance_class is CsrRows:

        def sparse(rows, i):
            prefetch(rows.indptr, i)

        return sparse

    def dense(rows, i):
        pass

    return dense


@overload(prefetch_row)
def _prefetch_row(rows, i):
    a_line = np.uint64(LINE // rows.types[0].dtype.bitwidth * 8)
    if rows.instance_class is CsrRows:

        def sparse(rows, i):
            start = rows.indptr[i]
            prefetch(rows.indices, start)
            prefetch(rows.indices, start + a_line + a_line)
            prefetch(rows.values, start)
            prefetch(rows.values, start + a_line)
            prefetch(rows.values, start + a_line + a_line)

        return sparse

    def dense(rows, i):
        start = i * np.uint64(rows.values.shape[1])
        prefetch(rows.values, start)
        prefetch(rows.values, start + a_line)

    return dense


@overload(prefetch_whole_row)
def _prefetch_whole_row(rows, i):
    a_line = np.uint64(LINE // rows.types[0].dtype.bitwidth * 8)
    if rows.instance_class is CsrRows:
        indices_a_line = np.uint64(LINE // rows.types[1].dtype.bitwidth * 8)

        def sparse(rows, i):
            start, end = rows.indptr[i], rows.indptr[i + ONE]
            end = min(end, start + MOST_LINES * a_line)
            for k in range(start, end, a_line):
                prefetch(rows.values, k)
            for k in range(start, end, indices_a_line):
                prefetch(rows.indices, k)

        return sparse

    def dense(rows, i):
        length = np.uint64(rows.values.shape[1])
        start = i * length
        for k in range(start, start + min(length, MOST_LINES * a_line), a_line):
            prefetch(rows.values, k)

    return dense


@intrinsic
def prefetch(typing_context, array, offset):
    """llvm.prefetch of element ``offset``, counted flat, for reading and to all cache levels. Past the end is harmless."""

    def emit(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        int32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [address.type, int32, int32, int32])
        name = "llvm.prefetch.p0"
        function = builder.module.globals.get(name) or ir.Function(builder.module, function_type, name)
        builder.call(function, [address, int32(0), int32(3), int32(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), emit


@njit(cache=True, nogil=True)
def squared_norms(rows):
    """|x_i|^2 + bias^2, in float64."""
    norms = np.empty(n_rows(rows))
    for i in range(np.uint64(norms.shape[0])):
        norms[i] = row_sqnorm(rows, i)
    return norms


@njit(cache=True, nogil=True)
def add_rows(rows, scales, w, start, stop):
    """w += sum over start <= i < stop of scales_i x_i"""
    for i in range(np.uint64(start), np.uint64(stop)):
        if scales[i] != 0.0:
            row_add(rows, i, scales[i], w)


def n_rows(rows):
    """The number of rows."""
    raise TypeError("n_rows exists only inside compiled code")


def row_sqnorm(rows, i):
    """|x_i|^2 + bias^2"""
    raise TypeError("row_sqnorm exists only inside compiled code")


@overload(n_rows)
def _n_rows(rows):
    if rows.instance_class is CsrRows:
        return lambda rows: rows.indptr.shape[0] - 1
    return lambda rows: rows.values.shape[0]


@overload(row_sqnorm)
def _row_sqnorm(rows, i):
    if rows.instance_class is CsrRows:

        def sparse(rows, i):
            total = rows.bias * rows.bias
            for k in range(rows.indptr[i], rows.indptr[i + ONE]):
                total += np.float64(rows.values[k]) * np.float64(rows.values[k])
            return total

        return sparse

    def dense(rows, i):
        total = rows.bias * rows.bias
        for j in range(rows.values.shape[1]):
            total += np.float64(rows.values[i, j]) * np.float64(rows.values[i, j])
        return total

    return dense
