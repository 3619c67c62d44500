"""The parser of svmlight text: bytes in, labels and CSR arrays out, each chunk of whole lines by itself.

Decimal numbers are rounded correctly, as Python's ``float`` does it: up to 2^53 with a small power of ten by one exact
operation (Clinger, 1990), else by the 128-bit product of Eisel and Lemire ("Number parsing at a gigabyte per second", 2021).
The few that neither can decide are left to the caller, who has Python at hand.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin.data.caching import njit

(
    FINE,
    BAD_LABEL,
    SEVERAL_LABELS,
    BAD_INDEX,
    NO_COLON,
    NOT_INCREASING,
    DUPLICATE,
    INDEX_TOO_LARGE,
    BAD_VALUE,
    NOT_FINITE,
    TOO_LARGE,
    NOT_TEXT,
    BAD_QUERY,
    UNDECIDED_FULL,
) = range(14)

TAB, NEWLINE, RETURN, SPACE, HASH, PLUS, COMMA, MINUS, POINT, ZERO, NINE, COLON = 9, 10, 13, 32, 35, 43, 44, 45, 46, 48, 57, 58
LARGEST_INDEX = 2**31 - 1
LEAST_POWER, GREATEST_POWER = -342, 308
MOST_DIGITS = 19
"""Decimal digits that always fit in 64 bits."""

EXACT_TENS = np.array([10.0**k for k in range(23)])


def _powers_of_five() -> np.ndarray:
    """The leading 128 bits of 5^q for q from LEAST_POWER to GREATEST_POWER, as (high, low) words."""
    words = np.empty((GREATEST_POWER - LEAST_POWER + 1, 2), np.uint64)
    for q in range(LEAST_POWER, GREATEST_POWER + 1):
        power = 5 ** abs(q)
        if q >= 0:
            bits = power.bit_length()
            significand = power << (128 - bits) if bits <= 128 else power >> (bits - 128)
        else:
            width = (power - 1).bit_length()
            significand = (1 << (width + 127 if q >= -27 else 2 * width + 128)) // power + 1
            significand >>= max(0, significand.bit_length() - 128)
        words[q - LEAST_POWER] = significand >> 64, significand & (2**64 - 1)
    return words


POWERS_OF_FIVE = _powers_of_five()

LOW_WORD, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
NINE_ONES = np.uint64(0x1FF)
U0, U1, U2, U3, U9 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(9)
HIDDEN_BIT = np.uint64(1 << 52)
TEN = np.uint64(10)


@njit(cache=True, nogil=True, boundscheck=False)
def high_and_low(a, b):
    """The 128-bit product of two words."""
    a_low, a_high, b_low, b_high = a & LOW_WORD, a >> HALF, b & LOW_WORD, b >> HALF
    low, middle, other, high = a_low * b_low, a_high * b_low, a_low * b_high, a_high * b_high
    carry = (low >> HALF) + (middle & LOW_WORD) + (other & LOW_WORD)
    return high + (middle >> HALF) + (other >> HALF) + (carry >> HALF), (carry << HALF) | (low & LOW_WORD)


@njit(cache=True, nogil=True, boundscheck=False)
def from_decimal(digits, power, fives):
    """(True, digits * 10^power rounded to float64), or (False, 0) where 128 bits do not decide."""
    if digits == U0 or power < LEAST_POWER:
        return True, 0.0
    if power > GREATEST_POWER:
        return True, np.inf
    if digits <= np.uint64(1 << 53) and -22 <= power <= 22:
        exact = np.float64(digits)
        return True, exact / EXACT_TENS[-power] if power < 0 else exact * EXACT_TENS[power]
    zeros = 0
    word = digits
    while word >> np.uint64(63) == U0:
        word <<= U1
        zeros += 1
    row = power - LEAST_POWER
    high, low = high_and_low(word, fives[row, 0])
    if high & NINE_ONES == NINE_ONES:
        more, _ = high_and_low(word, fives[row, 1])
        low += more
        if low < more:
            high += U1
    if low == ALL_ONES and not -27 <= power <= 55:
        return False, 0.0
    upper = high >> np.uint64(63)
    shift = upper + U9
    mantissa = high >> shift
    binary_power = (((152170 + 65536) * power) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if binary_power <= 0:
        return False, 0.0  # subnormal
    if low <= U1 and -4 <= power <= 23 and mantissa & U3 == U1 and mantissa << shift == high:
        mantissa &= ~U1  # exactly half way: to even
    mantissa = (mantissa + (mantissa & U1)) >> U1
    if mantissa >= HIDDEN_BIT + HIDDEN_BIT:
        mantissa = HIDDEN_BIT
        binary_power += 1
    if binary_power >= 2047:
        return True, np.inf
    return True, math.ldexp(np.float64(mantissa), binary_power - 1075)


@njit(cache=True, nogil=True, boundscheck=False)
def read_number(text, at, stop, fives):
    """Parse a decimal number. Returns (position after it, value, decided); the position is ``at`` when there is none."""
    k = at
    negative = False
    if k < stop and (text[k] == PLUS or text[k] == MINUS):
        negative = text[k] == MINUS
        k += 1
    digits, n_digits, power, seen = U0, 0, 0, 0
    dropped = False
    while k < stop and ZERO <= text[k] <= NINE:
        digit = np.uint64(text[k] - ZERO)
        if n_digits < MOST_DIGITS:
            digits = digits * TEN + digit
            n_digits += digits != U0
        else:
            dropped |= digit != U0
            power += 1
        seen += 1
        k += 1
    if k < stop and text[k] == POINT:
        k += 1
        while k < stop and ZERO <= text[k] <= NINE:
            digit = np.uint64(text[k] - ZERO)
            if n_digits < MOST_DIGITS:
                digits = digits * TEN + digit
                n_digits += digits != U0
                power -= 1
            else:
                dropped |= digit != U0
            seen += 1
            k += 1
    if seen == 0:
        return at, 0.0, True
    if k < stop and (text[k] == 69 or text[k] == 101):  # E, e
        mark = k
        k += 1
        down = False
        if k < stop and (text[k] == PLUS or text[k] == MINUS):
            down = text[k] == MINUS
            k += 1
        exponent, any_digit = 0, False
        while k < stop and ZERO <= text[k] <= NINE:
            if exponent < 100_000:
                exponent = exponent * 10 + np.int64(text[k] - ZERO)
            any_digit = True
            k += 1
        if not any_digit:
            return mark if mark > at else at, 0.0, True
        power += -exponent if down else exponent
    decided, value = from_decimal(digits, power, fives)
    if dropped and decided:
        decided, above = from_decimal(digits + U1, power, fives)
        decided = decided and above == value
    return k, -value if negative else value, decided


@njit(cache=True, nogil=True, boundscheck=False)
def parse(text, arrays, row, element, fives, undecided):
    """Parse the whole lines of ``text`` into the arrays (``svmlight.Arrays``) from ``row`` and ``element`` on.

    ``undecided`` takes (place in values, first byte, byte after) of numbers for Python; the place of a label is -1 - row.
    Returns (problem, its byte, row, element, least index, greatest index, entries of undecided).
    """
    labels, lengths, queries, indices, values = arrays
    least, greatest, pending = np.int64(LARGEST_INDEX), np.int64(-1), 0
    k, stop = 0, len(text)
    while k < stop:
        while k < stop and is_blank(text[k]):
            k += 1
        if k >= stop:
            break
        if text[k] == NEWLINE:
            k += 1
            continue
        if text[k] == HASH:
            while k < stop and text[k] != NEWLINE:
                k += 1
            continue

        end, value, decided = read_number(text, k, stop, fives)
        if end < stop and text[end] == COMMA and end > k:
            return SEVERAL_LABELS, end, row, element, least, greatest, pending
        if end == k or (end < stop and not ends_token(text[end])):
            return wrong(text, k, end, stop, BAD_LABEL), end, row, element, least, greatest, pending
        if decided and math.isinf(value):
            return TOO_LARGE, k, row, element, least, greatest, pending
        if not decided:
            if pending == undecided.shape[0]:
                return UNDECIDED_FULL, k, row, element, least, greatest, pending
            undecided[pending, 0], undecided[pending, 1], undecided[pending, 2] = -1 - row, k, end
            pending += 1
        labels[row] = value
        k = end
        first, last = element, np.int64(-1)

        while True:
            while k < stop and is_blank(text[k]):
                k += 1
            if k >= stop or text[k] == NEWLINE:
                break
            if text[k] == HASH:
                while k < stop and text[k] != NEWLINE:
                    k += 1
                break
            if text[k] == 113 and k + 3 < stop and text[k + 1] == 105 and text[k + 2] == 100 and text[k + 3] == COLON:  # qid:
                end, query = read_whole(text, k + 4, stop)
                if end == k + 4 or (end < stop and not ends_token(text[end])) or element != first or query > LARGEST_INDEX:
                    return BAD_QUERY, k, row, element, least, greatest, pending
                queries[row] = query
                k = end
                continue
            end, index = read_whole(text, k, stop)
            if end == k:
                return wrong(text, k, end, stop, BAD_INDEX), k, row, element, least, greatest, pending
            if end >= stop or text[end] != COLON:
                problem = NO_COLON if end >= stop or ends_token(text[end]) else BAD_INDEX
                return wrong(text, k, end, stop, problem), end, row, element, least, greatest, pending
            if index > LARGEST_INDEX:
                return INDEX_TOO_LARGE, k, row, element, least, greatest, pending
            if index <= last:
                problem = DUPLICATE if index == last else NOT_INCREASING
                return problem, k, row, element, least, greatest, pending
            k = end + 1
            end, value, decided = read_number(text, k, stop, fives)
            if end == k or (end < stop and not ends_token(text[end])):
                return wrong(text, k, end, stop, BAD_VALUE), end, row, element, least, greatest, pending
            if decided and math.isinf(value):
                return TOO_LARGE, k, row, element, least, greatest, pending
            if not decided:
                if pending == undecided.shape[0]:
                    return UNDECIDED_FULL, k, row, element, least, greatest, pending
                undecided[pending, 0], undecided[pending, 1], undecided[pending, 2] = element, k, end
                pending += 1
            indices[element] = index
            values[element] = value
            element += 1
            last = index
            k = end
        if element > first:
            least = min(least, np.int64(indices[first]))
            greatest = max(greatest, last)
        lengths[row] = element - first
        row += 1
    return FINE, k, row, element, least, greatest, pending


@njit(cache=True, nogil=True, boundscheck=False)
def read_whole(text, at, stop):
    """Parse a whole number without a sign. Returns (position after it, number), the number capped far above every index."""
    number = 0
    k = at
    while k < stop and ZERO <= text[k] <= NINE:
        if number <= LARGEST_INDEX:
            number = number * 10 + np.int64(text[k] - ZERO)
        k += 1
    return k, number


@njit(cache=True, nogil=True)
def is_blank(byte):
    return byte == SPACE or byte == TAB or byte == RETURN


@njit(cache=True, nogil=True)
def ends_token(byte):
    return is_blank(byte) or byte == NEWLINE or byte == HASH


@njit(cache=True, nogil=True)
def wrong(text, at, end, stop, problem):
    """The more telling name of a problem: not text at all, or a number that is not finite."""
    if end < stop and (text[end] >= 127 or text[end] < TAB or RETURN < text[end] < SPACE):
        return NOT_TEXT
    k = at
    if k < stop and (text[k] == PLUS or text[k] == MINUS):
        k += 1
    if k + 2 < stop:
        a, b, c = text[k] | 32, text[k + 1] | 32, text[k + 2] | 32
        if (a == 110 and b == 97 and c == 110) or (a == 105 and b == 110 and c == 102):  # nan, inf
            return NOT_FINITE
    return problem
