"""A generator small enough to live in a register: xorshift64 (Marsaglia, 2003), and ranges by multiply-shift (Lemire, 2019).

The functions write LLVM instructions themselves, so Numba has nothing to compile or to inline for them.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

WORD = types.uint64


@intrinsic
def next_random(typing_context, word):
    """The next state, which is also the next random word. Zero is the only state that it never leaves."""

    def generate(context, builder, signature, arguments):
        (word,) = arguments
        word = builder.xor(word, builder.shl(word, word.type(13)))
        word = builder.xor(word, builder.lshr(word, word.type(7)))
        return builder.xor(word, builder.shl(word, word.type(17)))

    return WORD(WORD), generate


@intrinsic
def below(typing_context, word, n):
    """A whole number in 0 .. n - 1 from a random word, for n < 2^32."""

    def generate(context, builder, signature, arguments):
        word, n = arguments
        half = word.type(32)
        return builder.lshr(builder.mul(builder.lshr(word, half), n), half)

    return WORD(WORD, WORD), generate


def first_word(seed: int) -> np.uint64:
    """A state that is never zero and differs in many bits for neighbouring seeds."""
    return np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] | np.uint64(1)
