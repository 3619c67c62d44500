"""Vectors of numbers inside compiled code: what writes their instructions.

LLVM can make vector instructions of a plain loop, but it spends a tenth of a second on each loop to find that out, and its
sums go through memory. An ``@intrinsic`` that is written with these functions holds ``LANE_BYTES`` of sums in registers, from
the first addition to the last. No function here allows LLVM to reorder or to contract anything: the writer of a loop asks for
``fma`` where it is meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

LANE_BYTES = 256
"""Bytes of a vector: 64 numbers in float32, 32 in float64. Eight registers of AVX2, or four of AVX-512."""
INDEX = ir.IntType(64)


def lanes(itemsize: int) -> int:
    """How many numbers of this size a vector has."""
    return LANE_BYTES // itemsize


def vector_type(number: Any) -> Any:
    """The vector of these numbers, float or double of LLVM."""
    return ir.VectorType(number, lanes(4 if isinstance(number, ir.FloatType) else 8))


def constant(vector: Any, value: float) -> Any:
    """The same value in every lane."""
    return ir.Constant(vector, [value] * vector.count)


def spread(builder: Any, number: Any, vector: Any) -> Any:
    """A number in every lane."""
    nothing, first = ir.Constant(vector, ir.Undefined), ir.IntType(32)(0)
    places = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(builder.insert_element(nothing, number, first), nothing, places)


def address(context: Any, builder: Any, array_type: Any, array: Any, place: Any) -> Any:
    """Where element ``place`` of an array is, counted flat."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [place], inbounds=True)


def load(builder: Any, where: Any, vector: Any) -> Any:
    """The numbers from an address on, which need not be a multiple of anything but their size."""
    return builder.load(builder.bitcast(where, vector.as_pointer()), align=LANE_BYTES // vector.count)


def store(builder: Any, value: Any, where: Any) -> None:
    builder.store(value, builder.bitcast(where, value.type.as_pointer()), align=LANE_BYTES // value.type.count)


def fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c, rounded once."""
    return _of_three(builder, "fma", a, b, c)


def multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c, rounded once where the processor does that as fast as twice."""
    return _of_three(builder, "fmuladd", a, b, c)


def _of_three(builder: Any, operation: str, a: Any, b: Any, c: Any) -> Any:
    name = f"llvm.{operation}.v{a.type.count}f{8 * LANE_BYTES // a.type.count}"
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(a.type, [a.type] * 3), name)
    return builder.call(function, [a, b, c])


def absolute(builder: Any, vector: Any) -> Any:
    """The absolute value of each lane, of a vector of any length."""
    bits = 32 if isinstance(vector.type.element, ir.FloatType) else 64
    name = f"llvm.fabs.v{vector.type.count}f{bits}"
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(vector.type, [vector.type]), name)
    return builder.call(function, [vector])


def clipped(builder: Any, relation: str, value: Any, bound: float) -> Any:
    """value where ``value relation bound``, and the bound elsewhere."""
    limit = constant(value.type, bound)
    return builder.select(builder.fcmp_ordered(relation, value, limit), value, limit)


def power_of_two(builder: Any, shifted: Any) -> Any:
    """2^k from k + 1.5 * 2^(number of mantissa bits): its low bits, moved into the place of the exponent."""
    is_single = shifted.type.count == lanes(4)
    bits, mantissa, one = (32, 23, 0x3F800000) if is_single else (64, 52, 0x3FF0000000000000)
    integers = ir.VectorType(ir.IntType(bits), shifted.type.count)
    moved = builder.shl(builder.bitcast(shifted, integers), constant(integers, mantissa))
    return builder.bitcast(builder.add(moved, constant(integers, one)), shifted.type)


def total_of_lanes(builder: Any, vector: Any) -> Any:
    """The sum of all lanes, halves first: a term meets as many additions as the number of lanes can be halved."""
    while vector.type.count > 1:
        half = vector.type.count // 2
        nothing, kind = ir.Constant(vector.type, ir.Undefined), ir.VectorType(ir.IntType(32), half)
        low, high = (ir.Constant(kind, list(range(first, first + half))) for first in (0, half))
        vector = builder.fadd(builder.shuffle_vector(vector, nothing, low), builder.shuffle_vector(vector, nothing, high))
    return builder.extract_element(vector, ir.IntType(32)(0))


def counted(builder: Any, start: Any, stop: Any, step: int, first: Any, body: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """``carried = body(k, carried)`` for k = start, start + step, ... while k + step <= stop, beginning with ``first``. The k
    at which the loop ended, and what was carried there."""
    k, (carried,) = counted_all(builder, start, stop, step, [first], lambda k, values: [body(k, values[0])])
    return k, carried


def counted_all(
    builder: Any, start: Any, stop: Any, step: int, firsts: list[Any], body: Callable[[Any, list[Any]], list[Any]]
) -> tuple[Any, list[Any]]:
    """``counted`` with several values that are carried, or none."""
    before, name = builder.block, builder.function.append_basic_block
    head, inside, after = name("head"), name("inside"), name("after")
    builder.branch(head)
    builder.position_at_end(head)
    k, carried = builder.phi(INDEX), [builder.phi(first.type) for first in firsts]
    k.add_incoming(start, before)
    for value, first in zip(carried, firsts, strict=True):
        value.add_incoming(first, before)
    following = builder.add(k, INDEX(step))
    builder.cbranch(builder.icmp_unsigned("<=", following, stop), inside, after)
    builder.position_at_end(inside)
    changed = body(k, carried)
    k.add_incoming(following, builder.block)
    for value, new in zip(carried, changed, strict=True):
        value.add_incoming(new, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return k, carried


def add_fours(context: Any, builder: Any, places: tuple[Any, Any], kinds: tuple[Any, Any], scale: Any, stop: Any) -> Any:
    """w_k += scale x_k for k below ``stop``, four at a time. ``places`` are the addresses of the first x and of the first w,
    which are taken not to overlap, and ``kinds`` their types of Numba; w is in float64. Returned is the k at which it ended."""
    (x_place, w_place), (x_kind, w_kind) = places, kinds
    four = ir.VectorType(ir.DoubleType(), 4)
    stored, scales = ir.VectorType(context.get_value_type(x_kind), four.count), spread(builder, scale, four)

    def add(k: Any, carried: list[Any]) -> list[Any]:
        where = builder.bitcast(builder.gep(w_place, [k], inbounds=True), four.as_pointer())
        source = builder.bitcast(builder.gep(x_place, [k], inbounds=True), stored.as_pointer())
        x = builder.load(source, align=x_kind.bitwidth // 8)
        x = x if stored == four else builder.fpext(x, four)
        old = builder.load(where, align=w_kind.bitwidth // 8)
        builder.store(builder.fadd(old, builder.fmul(scales, x)), where, align=w_kind.bitwidth // 8)
        return carried

    return counted_all(builder, INDEX(0), stop, four.count, [], add)[0]
