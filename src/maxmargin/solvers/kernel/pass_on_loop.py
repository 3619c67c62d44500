"""When a sample is left out, its s_i is distributed among the other samples."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit

FLAGS = {"contract", "nnan", "nsz", "reassoc", "arcp"}


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def pass_on(local, i, b, most_receivers):
    """Set s_i of a LocalProblem to zero, and let others rise by as much.

    Each time the sample with the greatest slope v rises, by a Newton step beyond the offset b; the last one takes all that is
    left. Signs are reversed if s_i is negative. Returns what could not be distributed."""
    K, v, s, lower, upper = local.K, local.v, local.s, local.lower, local.upper
    i, n = np.uint64(i), np.uint64(v.shape[0])
    sign = 1.0 if s[i] > 0.0 else -1.0
    left = abs(s[i])
    for j in range(n):
        v[j] += s[i] * K[i, j]
    s[i] = lower[i] = upper[i] = 0.0
    for turn in range(most_receivers):
        if left <= 0.0:
            break
        best, place = -np.inf, n
        for j in range(n):
            room = upper[j] - s[j] if sign > 0.0 else s[j] - lower[j]
            here = sign * (v[j] - b)
            if room > 0.0 and here > best:
                best, place = here, np.uint64(j)
        if place == n:
            break
        room = upper[place] - s[place] if sign > 0.0 else s[place] - lower[place]
        wanted = max(best, 0.05) / K[place, place] if turn < most_receivers - 1 else left
        step = min(left, room, wanted)
        s[place] = s[place] + sign * step
        if step == room:
            s[place] = upper[place] if sign > 0.0 else lower[place]
        left -= step
        for j in range(n):
            v[j] -= sign * step * K[place, j]
    return sign * left
