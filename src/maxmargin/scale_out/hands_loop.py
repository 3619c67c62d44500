"""Copies of chosen sparse rows, one after the other."""

from __future__ import annotations

from maxmargin.data.caching import njit


@njit(cache=True, allocates=False, nogil=True)
def copy_rows(values, indices, indptr, places, to_values, to_indices, start):
    """Copy the stored elements of the rows at ``places``, from ``start`` on. Returns where they end. A stack may be copied into
    itself where no row moves towards its end."""
    for place in places:
        first, last = indptr[place], indptr[place + 1]
        for k in range(first, last):
            to_values[start] = values[k]
            to_indices[start] = indices[k]
            start += 1
    return start
