"""What a certificate adds up over the samples of a regression, in one pass over their residuals. Nothing here is shared with a
solver, and nothing uses fast-math."""

from __future__ import annotations

from maxmargin.data.caching import njit

UNIT_ROUNDOFF = 2.0**-53
"""The largest relative error of one rounding to float64."""


@njit(inline="always")
def added(total, lost, term):
    """A sum and what its rounding has lost so far (Knuth's two-sum): the two together are wrong by a few roundings, however
    many terms there are."""
    new = total + term
    back = new - total
    return new, lost + ((total - (new - back)) + (term - back))


@njit(cache=True, allocates=False, nogil=True)
def judge_residuals(outputs, errors, alphas, C, targets, pieces):
    """The sums of C_i loss_i, of p_i alpha_i - e |alpha_i| - D_ii alpha_i^2 / 2, of the gap terms, and of how wrong a gap term
    can be when its residual is wrong by ``errors``: the formulas of ``maxmargin.problem.regression_losses``, which give them
    for each sample. ``pieces`` is a ``ResidualPieces``.

    With a = |alpha| and s the residual in the direction of alpha, U is the bound of alpha in its direction and V that in the
    other: (U - a) (s - e)_+ + a (e - s)_+ + V (-s - e)_+, and with squares C ((s - e)_+ - a / 2C)^2 + a (e - s)_+
    + C (-s - e)_+^2."""
    epsilon, up, down, is_squared = pieces
    own = 4.0 * UNIT_ROUNDOFF if up != 1.0 or down != 1.0 else 0.0  # U and V are rounded themselves
    loss = conjugate = gap = error = lost_loss = lost_conjugate = lost_gap = lost_error = 0.0
    for i in range(len(outputs)):
        alpha, cost, along = alphas[i], C[i], targets[i] - outputs[i]
        U, V, a = cost * up, cost * down, abs(alpha)
        linear, curved = targets[i] * alpha - epsilon * a, 0.0
        if alpha < 0.0 or (alpha == 0.0 and along < 0.0):
            along, U, V = -along, V, U
        above, other = max(0.0, along - epsilon), max(0.0, -along - epsilon)
        inside = a * max(0.0, epsilon - along)
        wrong = errors[i] + 2.0 * UNIT_ROUNDOFF * (epsilon + abs(along))
        if is_squared:
            half = 0.5 / cost if cost > 0.0 else 0.0
            own_loss, curved = cost * (above * above + other * other), 0.5 * half * alpha * alpha
            wrong += 4.0 * UNIT_ROUNDOFF * a * half
            missing = above - a * half
            own_gap = cost * missing * missing + inside + cost * other * other
            own_error = (max(abs(2.0 * cost * above - a), a) + 2.0 * cost * other + cost * wrong) * wrong
        else:
            own_loss = U * above + V * other
            own_gap = max(0.0, U - a) * above + inside + V * other
            slope = a if along < epsilon + wrong and along > -epsilon - wrong else 0.0
            slope = max(slope, U - a) if along > epsilon - wrong else slope
            slope = max(slope, V + a) if along < -epsilon + wrong else slope
            own_error = slope * wrong + own * (cost + a) * (abs(along) + wrong)
        loss, lost_loss = added(loss, lost_loss, own_loss)
        conjugate, lost_conjugate = added(conjugate, lost_conjugate, linear - curved)
        gap, lost_gap = added(gap, lost_gap, own_gap)
        error, lost_error = added(error, lost_error, own_error)
    return loss + lost_loss, conjugate + lost_conjugate, gap + lost_gap, error + lost_error
