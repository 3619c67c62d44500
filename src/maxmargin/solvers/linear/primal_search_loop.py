"""The loss along a line of margins, or of outputs in regression, for the search for a better primal point."""

from __future__ import annotations

from maxmargin.data.caching import njit


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})
def loss_along(start, end, t, C, pieces):
    """sum_i C_i loss(m_i) and its derivative by t, at the margins (1 - t) start + t end. On the quadratic piece the loss is
    curvature bend^2 / 2; beyond it, where slack > bend, it rises with the slope one."""
    total, slope = 0.0, 0.0
    half, width = 0.5 * pieces.curvature, pieces.high - pieces.low
    for i in range(start.shape[0]):
        rise = end[i] - start[i]
        slack = pieces.high - start[i] - t * rise
        if not pieces.is_two_sided:
            slack = max(slack, 0.0)
        if half > 0.0:
            bend = min(slack, width)
            total += C[i] * (half * bend * bend + (slack - bend))
            slope -= C[i] * 2.0 * half * bend * rise
        elif slack > 0.0:
            total += C[i] * slack
            slope -= C[i] * rise
    return total, slope


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})
def residual_loss_along(start, end, t, C, targets, pieces):
    """The same for a loss of the residual, at the outputs (1 - t) start + t end."""
    total, slope = 0.0, 0.0
    for i in range(start.shape[0]):
        rise = end[i] - start[i]
        residual = targets[i] - start[i] - t * rise
        above, below = residual - pieces.epsilon, -residual - pieces.epsilon
        beyond, steepness, direction = 0.0, 0.0, 0.0
        if above > 0.0:
            beyond, steepness, direction = above, C[i] * pieces.up, -rise
        elif below > 0.0:
            beyond, steepness, direction = below, C[i] * pieces.down, rise
        if pieces.is_squared:
            total += steepness * beyond * beyond
            slope += 2.0 * steepness * beyond * direction
        else:
            total += steepness * beyond
            slope += steepness * direction
    return total, slope
