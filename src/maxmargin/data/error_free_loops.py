"""Sums and products together with their exact rounding errors. The precise sums of the certificates are made of them.

``fma`` rounds a b + c once, so fma(a, b, -(a b)) is exactly the rounding error of the product a b.
"""

from __future__ import annotations

from numba.extending import intrinsic

from maxmargin.data.caching import njit


@intrinsic
def fma(typing_context, a, b, c):
    """a b + c, rounded once."""

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return a(a, b, c), generate


@njit(inline="always")
def two_sum(a, b):
    """a + b, rounded, and the exact rounding error (Knuth)."""
    total = a + b
    added = total - a
    return total, (a - (total - added)) + (b - added)
