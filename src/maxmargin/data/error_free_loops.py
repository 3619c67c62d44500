"""Sums and products that give up what they lose to rounding: what the certificates' precise sums are made of.

``fma`` rounds a b + c once, so fma(a, b, -(a b)) is what the product a b lacks, exactly.
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
    """a + b and what it lacks (Knuth)."""
    total = a + b
    added = total - a
    return total, (a - (total - added)) + (b - added)
