"""A generator small enough to live in a register: xorshift64 (Marsaglia, 2003), and ranges by multiply-shift (Lemire, 2019)."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit

THIRTEEN, SEVEN, SEVENTEEN, HALF_WORD = np.uint64(13), np.uint64(7), np.uint64(17), np.uint64(32)


@njit(inline="always")
def next_random(word):
    """The state, and the random word, after ``word``. Zero is the one state that it never leaves."""
    word ^= word << THIRTEEN
    word ^= word >> SEVEN
    word ^= word << SEVENTEEN
    return word


@njit(inline="always")
def below(word, n):
    """A whole number in 0 .. n - 1 from a random word, for n < 2^32."""
    return ((word >> HALF_WORD) * n) >> HALF_WORD


def first_word(seed: int) -> np.uint64:
    """A state that is never zero and differs in many bits for neighbouring seeds."""
    return np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] | np.uint64(1)
