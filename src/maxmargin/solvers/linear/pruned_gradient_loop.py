"""The step of gradient descent on the penalised mean of a loss; see ``maxmargin.solvers.linear.pruned_gradient``."""

from __future__ import annotations

from maxmargin.data.caching import njit


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})
def step_down(start, regulariser, weights, shrinking, push, w):
    """w = start - shrinking regulariser start + push weights, element by element; returns |w|^2 over what is penalised."""
    sqnorm = 0.0
    for j in range(w.shape[0]):
        w[j] = start[j] - shrinking * regulariser[j] * start[j] + push * weights[j]
        sqnorm += regulariser[j] * w[j] * w[j]
    return sqnorm
