"""What a row of X does to weights of several classes: the outputs of its sample, and a change of the weights along it.

V is flat: the weights of feature j are V[j * stride : (j + 1) * stride]. ``stride`` is rounded up to whole registers of
``REGISTER_BYTES``, and a row reads or changes all of them. The loops keep the numbers of up to ``REGISTERS`` registers of
classes from the first element of a row to the last; LLVM alone sends them through memory at every element. On sector (105
classes in float32) the outputs of all samples take 10 ms so, and took 20."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maxmargin.data.caching import njit
from maxmargin.data.lanes import INDEX, address, counted_all, spread

REGISTER_BYTES = 64
"""The weights of a feature, one a class, fill whole registers of this size."""
REGISTERS = 8
"""Registers that are held at a time."""
FAST = ("contract",)
"""A product and a sum may be rounded once."""


@njit(inline="always")
def outputs_of(rows, i, V, z):
    """z[m] = v_m . x_i for all classes m."""
    stride = np.uint64(z.shape[0])
    start, stop, last = rows.indptr[i], rows.indptr[i + 1], np.uint64(V.shape[0]) - stride
    most = np.uint64(REGISTERS * REGISTER_BYTES // z.itemsize)
    for m in range(stride):
        z[m] = rows.bias * V[last + m]
    for first in range(np.uint64(0), stride, most):
        add_outputs_of_row(rows, start, stop, V, z, first)


@njit(inline="always")
def add_row(rows, i, V, change):
    """v_m += change[m] x_i for all classes m."""
    stride = np.uint64(change.shape[0])
    start, stop, last = rows.indptr[i], rows.indptr[i + 1], np.uint64(V.shape[0]) - stride
    most = np.uint64(REGISTERS * REGISTER_BYTES // change.itemsize)
    for first in range(np.uint64(0), stride, most):
        add_to_weights(rows, start, stop, V, change, first)
    if rows.bias != 0.0:
        for m in range(stride):
            V[last + m] += rows.bias * change[m]


@intrinsic
def add_outputs_of_row(typing_context, rows, start, stop, V, z, first):
    """z[m] += v_m . x, for the registers of classes from ``first`` on. x is the row of the elements start to stop."""

    def generate(context, builder, signature, arguments):
        row = _Row(context, builder, signature, arguments)

        def sums(n):
            places = row.places(row.classes, n)
            found = [builder.load(place, align=row.align) for place in places]
            _, found = counted_all(builder, row.start, row.stop, 1, found, lambda e, sums: row.added(e, sums))
            for place, total in zip(places, found, strict=True):
                builder.store(total, place, align=row.align)

        _for_each_count(builder, row.n_registers, sums)
        return context.get_dummy_value()

    return types.void(rows, types.uint64, types.uint64, V, z, types.uint64), generate


@intrinsic
def add_to_weights(typing_context, rows, start, stop, V, change, first):
    """v_m += change[m] x, for the registers of classes from ``first`` on. x is the row of the elements start to stop."""

    def generate(context, builder, signature, arguments):
        row = _Row(context, builder, signature, arguments)

        def changes(n):
            found = [builder.load(place, align=row.align) for place in row.places(row.classes, n)]
            counted_all(builder, row.start, row.stop, 1, [], lambda e, _: row.change(e, found))

        _for_each_count(builder, row.n_registers, changes)
        return context.get_dummy_value()

    return types.void(rows, types.uint64, types.uint64, V, change, types.uint64), generate


class _Row:
    """The arguments of an intrinsic, and the instructions for one element of the row."""

    def __init__(self, context, builder, signature, arguments):
        kind, (rows, self.start, self.stop, V, classes, self.first) = signature.args[0], arguments
        self.context, self.builder, self.kind, self.rows = context, builder, kind, rows
        number = context.get_value_type(signature.args[3].dtype)
        self.align = 4 if isinstance(number, ir.FloatType) else 8
        self.vector = ir.VectorType(number, REGISTER_BYTES // self.align)
        self.V, self.V_kind = V, signature.args[3]
        self.classes = address(context, builder, signature.args[4], classes, self.first)
        array = context.make_array(signature.args[4])(context, builder, classes)
        self.stride = builder.extract_value(array.shape, 0)
        left = builder.udiv(builder.sub(self.stride, self.first), INDEX(self.vector.count))
        most = INDEX(REGISTERS)
        self.n_registers = builder.select(builder.icmp_unsigned("<", left, most), left, most)

    def field(self, name):
        """An array of the rows, and its type."""
        position = self.kind.fields.index(name)
        return self.builder.extract_value(self.rows, position), self.kind.types[position]

    def places(self, begin, n):
        """Where n registers are, from an address on."""
        where = self.builder.bitcast(begin, self.vector.as_pointer())
        return [self.builder.gep(where, [INDEX(r)]) for r in range(n)]

    def element(self, e):
        """The value of element e in every lane, and where the weights of its feature are."""
        builder, context = self.builder, self.context
        values, kind = self.field("values")
        value = builder.load(address(context, builder, kind, values, e))
        indices, kind = self.field("indices")
        is_dense = self.field("is_dense")[0]
        listed = builder.select(is_dense, INDEX(0), e)
        index = builder.zext(builder.load(address(context, builder, kind, indices, listed)), INDEX)
        feature = builder.select(is_dense, builder.sub(e, self.start), index)
        place = builder.add(builder.mul(feature, self.stride), self.first)
        return spread(builder, value, self.vector), address(context, builder, self.V_kind, self.V, place)

    def added(self, e, sums):
        """Sums with what element e adds to them."""
        value, begin = self.element(e)
        builder, places = self.builder, self.places(begin, len(sums))
        weights = [builder.load(place, align=self.align) for place in places]
        return [builder.fadd(total, builder.fmul(value, one, FAST), FAST) for total, one in zip(sums, weights, strict=True)]

    def change(self, e, changes):
        """The weights of the feature of element e change."""
        value, begin = self.element(e)
        builder, places = self.builder, self.places(begin, len(changes))
        for place, one in zip(places, changes, strict=True):
            weights = builder.load(place, align=self.align)
            builder.store(builder.fadd(weights, builder.fmul(value, one, FAST), FAST), place, align=self.align)
        return []


def _for_each_count(builder, n_registers, body):
    """``body(n)`` where n is the number of registers, which is known when the loop runs."""
    after = builder.function.append_basic_block("after")
    choice = builder.switch(n_registers, after)
    for n in range(1, REGISTERS + 1):
        block = builder.function.append_basic_block("registers")
        choice.add_case(INDEX(n), block)
        builder.position_at_end(block)
        body(n)
        builder.branch(after)
    builder.position_at_end(after)
