"""Figure 3 of Guillory and Bilmes (2007): which points zero-one loss has to look at after noise on w."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from maxmargin.data.rows import Array
from maxmargin.margin_bounds.bound import ZERO_ONE
from maxmargin.margin_bounds.pruned_loss import PrunedLoss
from maxmargin.margin_bounds.sorted_sums import SortedSums
from maxmargin.margin_bounds.spheres import Spheres
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge


class Synthetic(NamedTuple):
    """Figure 3: two Gaussians, w, and the shares of points to examine for zero-one loss after noise on w: with the norm of each
    point, and with the greatest norm, as in the paper. ``examined`` and ``examined_by_greatest`` are those points at sigma
    = 0.1."""

    problem: LinearProblem
    examined: Array
    examined_by_greatest: Array
    sigmas: Array
    shares: Array
    shares_by_greatest: Array


def figure_3_data(n: int) -> Synthetic:
    """The noise of a sigma is drawn once for both bounds."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % 2 == 0, 1, -1)
    problem = LinearProblem.build(rng.normal(size=(n, 2)) + y[:, None], y, 1.0, Hinge())
    spheres, w = Spheres.around_origin(problem), np.array([1.0, 1.0, 0.0])
    sigmas = np.logspace(-3, 0, 13)
    shares = np.empty((len(sigmas), 2))
    for k, sigma in enumerate(sigmas):
        noises = [_noise(rng) for _ in range(20)]
        counts = [(len(_examined(problem, spheres, w, sigma * noise)), _count(problem, w, sigma * noise)) for noise in noises]
        shares[k] = np.mean(counts, axis=0) / n
    noise = 0.1 * _noise(rng)
    reach = float(np.linalg.norm(noise) * np.sqrt(problem.rows.squared_norms().max()))
    by_greatest = np.flatnonzero(np.abs(problem.margins(w[:2])) <= reach)
    return Synthetic(problem, _examined(problem, spheres, w, noise), by_greatest, sigmas, shares[:, 0], shares[:, 1])


def _noise(rng: Any) -> Array:
    return np.append(rng.normal(size=2), 0.0)


def _examined(problem: LinearProblem, spheres: Spheres, w: Array, noise: Array) -> Array:
    """The samples that zero-one loss has to look at after noise, by our variant."""
    loss = PrunedLoss(problem, ZERO_ONE, spheres=spheres)
    loss.evaluate(w)
    _check(problem, w + noise, loss.evaluate(w + noise).loss)
    return loss.examined_samples


def _count(problem: LinearProblem, w: Array, noise: Array) -> int:
    """How many there are by Algorithm 2 as printed."""
    loss = SortedSums(problem, ZERO_ONE)
    loss.evaluate(w)
    result = loss.evaluate(w + noise)
    _check(problem, w + noise, result.loss)
    return result.examined


def _check(problem: LinearProblem, w: Array, loss: float) -> None:
    if loss != np.count_nonzero(problem.margins(w[:2]) < 0.0):
        raise AssertionError("The pruned zero-one loss is not exact.")


def figure_3(s: Synthetic) -> Figure:
    figure = Figure(figsize=(18.0, 4.4), layout="constrained")
    *maps, right = figure.subplots(1, 4)
    X, y = s.problem.rows.matrix, s.problem.y
    shown = _some(np.arange(len(y)))
    titles = "the data and w", "to be examined, sigma = 0.1, own norms", "to be examined, the greatest norm"
    for ax, chosen, title in zip(maps, (shown, s.examined, _some(s.examined_by_greatest)), titles, strict=True):
        ax.scatter(*X[chosen].T, c=np.where(y[chosen] > 0, "tab:blue", "tab:red"), s=1.0)
        ax.plot([-4, 4], [4, -4], color="black", linewidth=1.0)
        ax.set(xlim=(-5, 5), ylim=(-5, 5), title=title, aspect="equal")
    right.plot(s.sigmas, 100 * s.shares, marker="o", label="own norms")
    right.plot(s.sigmas, 100 * s.shares_by_greatest, marker="s", label="the greatest norm, as in the paper")
    right.set(xscale="log", xlabel="sigma of the noise on w", ylabel="points examined, % (mean of 20)", title="zero-one loss")
    right.grid(alpha=0.25)
    right.legend()
    return figure


def _some(samples: Array) -> Array:
    """At most some 5000, of both classes: those alternate, so every so many-th sample would be of one class if that were
    even."""
    every = max(1, len(samples) // 5000)
    return samples[:: every + (every + 1) % 2]
