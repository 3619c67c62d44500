"""The loss along a line of margins, for the search for a better primal point."""

from __future__ import annotations

from maxmargin.data.caching import njit


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})
def loss_along(start, end, t, C, is_squared, is_one_sided):
    """sum_i C_i loss(m_i) and its derivative by t, at the margins (1 - t) start + t end."""
    total, slope = 0.0, 0.0
    for i in range(start.shape[0]):
        rise = end[i] - start[i]
        slack = 1.0 - start[i] - t * rise
        if is_one_sided:
            slack = max(slack, 0.0)
        if is_squared:
            total += C[i] * slack * slack
            slope -= 2.0 * C[i] * slack * rise
        elif slack > 0.0:
            total += C[i] * slack
            slope -= C[i] * rise
    return total, slope
