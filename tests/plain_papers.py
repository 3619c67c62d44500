"""The pseudo-code of the papers in plain Python, line by line: what the compiled loops are compared with.

Nothing here is shared with the solvers but the random words, so that both draw the same coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.data.random_loops import first_word
from maxmargin.data.rows import Array

WORD = 2**64 - 1


@dataclass
class Words:
    """xorshift64 and ranges by multiply-shift, as ``maxmargin.data.random_loops`` has them."""

    state: int

    @classmethod
    def of(cls, seed: int) -> Words:
        return cls(int(first_word(seed)))

    def next(self) -> int:
        self.state ^= (self.state << 13) & WORD
        self.state ^= self.state >> 7
        self.state ^= (self.state << 17) & WORD
        return self.state

    def below(self, n: int) -> int:
        return ((self.next() >> 32) * n) >> 32

    def uniform(self) -> float:
        return (self.next() >> 12) * 2.0**-52

    def shuffle(self, line: list[int], length: int) -> None:
        """Fisher and Yates, the first ``length`` places."""
        for place in range(length):
            other = place + self.below(length - place)
            line[place], line[other] = line[other], line[place]


class Box(NamedTuple):
    """The dual (4): U_i, D_ii, and the rows times their labels."""

    rows: Array
    U: float
    D: float

    @classmethod
    def hinge(cls, X: Array, y: Array, C: float) -> Box:
        return cls(X * y[:, None], C, 0.0)

    @classmethod
    def squared_hinge(cls, X: Array, y: Array, C: float) -> Box:
        return cls(X * y[:, None], math.inf, 0.5 / C)

    @property
    def n(self) -> int:
        return len(self.rows)

    def objective(self, alpha: Array) -> float:
        """f(alpha) of (4)."""
        w = alpha @ self.rows
        return float(0.5 * (w @ w + self.D * (alpha @ alpha)) - alpha.sum())

    def gradient(self, alpha: Array) -> Array:
        gradient: Array = self.rows @ (alpha @ self.rows) - 1.0 + self.D * alpha
        return gradient

    def projected(self, G: float, alpha: float) -> float:
        """(8)"""
        if alpha == 0.0:
            return min(G, 0.0)
        return max(G, 0.0) if alpha == self.U else G


class Ended(NamedTuple):
    """Where a run stood when its own rule held."""

    steps: int
    sweeps: int
    alpha: Array
    w: Array


@dataclass
class Descent:
    """Algorithm 1 of Hsieh et al. on one problem."""

    box: Box
    alpha: Array
    w: Array
    steps: int = 0

    @classmethod
    def from_zero(cls, box: Box) -> Descent:
        return cls(box, np.zeros(box.n), np.zeros(box.rows.shape[1]))

    def gradient(self, i: int) -> float:
        """Line (b), equation (12)."""
        return float(self.box.rows[i] @ self.w - 1.0 + self.box.D * self.alpha[i])

    def update(self, i: int, G: float) -> float:
        """Lines (c) and (d), equations (9) and (13). Gives the change of alpha_i."""
        row, old = self.box.rows[i], float(self.alpha[i])
        if self.box.projected(G, old) == 0.0:
            return 0.0
        self.alpha[i] = min(max(old - G / (row @ row + self.box.D), 0.0), self.box.U)
        self.w += (self.alpha[i] - old) * row
        return float(self.alpha[i] - old)


def dual_coordinate_descent(
    box: Box, epsilon: float, *, order: str, shrinks: bool, seed: int = 0, max_sweeps: int = 100_000
) -> Ended:
    """Algorithms 1 and 2 with sections 3.1 and 3.2; ``order`` is cyclic, permuted or online."""
    run, words = Descent.from_zero(box), Words.of(seed)
    line, active = list(range(box.n)), box.n
    M_bar, m_bar = math.inf, -math.inf
    for sweep in range(1, max_sweeps + 1):
        if order == "permuted":
            words.shuffle(line, active)
        M, m, kept = -math.inf, math.inf, 0
        for s in range(active):
            i = words.below(box.n) if order == "online" else line[s]
            run.steps += 1
            G, alpha = run.gradient(i), run.alpha[i]
            if shrinks and ((alpha == 0.0 and G > M_bar) or (alpha == box.U and G < m_bar)):  # (16)
                continue
            line[s], line[kept] = line[kept], line[s]
            kept += 1
            PG = box.projected(G, alpha)
            M, m = max(M, PG), min(m, PG)
            run.update(i, G)
        active = kept
        M_bar, m_bar = (M if M > 0.0 else math.inf), (m if m < 0.0 else -math.inf)
        if M - m < epsilon:  # (17)
            if active == box.n:
                return Ended(run.steps, sweep, run.alpha, run.w)
            active, M_bar, m_bar = box.n, math.inf, -math.inf
            if order == "cyclic":
                line.sort()
        elif order == "cyclic":
            line[:active] = sorted(line[:active])
    raise AssertionError("The rule (17) did not hold.")


def adaptive_frequencies(box: Box, epsilon: float, *, seed: int = 0, max_sweeps: int = 100_000) -> Ended:
    """Algorithms 3, 4 and 5 of Glasmachers and Dogan with c = 1/5, p_min = 1/20 and p_max = 20."""
    run, words, n = Descent.from_zero(box), Words.of(seed), box.n
    p, p_sum, reference, can_stop = np.ones(n), float(n), 0.0, True
    for sweep in range(1, max_sweeps + 1):
        v = 0.0
        schedule = list(range(n)) if can_stop else schedule_of(p, p_sum, words)
        words.shuffle(schedule, n)
        for i in schedule:
            G = run.gradient(i)
            run.steps += 1
            v = max(v, abs(box.projected(G, run.alpha[i])))
            mu = run.update(i, G)
            gain = max(0.0, -mu * (G + 0.5 * mu * (box.rows[i] @ box.rows[i] + box.D)))
            if sweep == 1:
                reference += gain / n
                continue
            new = min(max(math.exp(min(700.0, 0.2 * (gain / reference - 1.0))) * p[i], 1 / 20), 20.0)
            p_sum += new - p[i]
            p[i] = new
            reference = (1.0 - 1.0 / n) * reference + gain / n
        if v < epsilon:
            if can_stop:
                return Ended(run.steps, sweep, run.alpha, run.w)
            p, p_sum, can_stop = np.ones(n), float(n), True
        else:
            can_stop = False
    raise AssertionError("canstop and v < epsilon did not come together.")


def schedule_of(p: Array, p_sum: float, words: Words) -> list[int]:
    """Algorithm 4. The list comes out of the length of p but for rounding."""
    schedule: list[int] = []
    N = p_sum
    for i in range(len(p)):
        n = math.floor(p[i] * (len(p) - len(schedule)) / N + words.uniform())
        schedule += [i] * n
        N -= p[i]
    return schedule[: len(p)] + [len(p) - 1] * (len(p) - len(schedule))


def working_sets_of_one(Q: Array, C: float, epsilon: float, max_steps: int = 1_000_000) -> Ended:
    """SMO without an offset, one sample at a time by the greatest gain, until LIBSVM's violation is within epsilon."""
    alpha, gradient = np.zeros(len(Q)), np.ones(len(Q))
    for steps in range(max_steps):
        signs = np.sign(Q[0])  # y_0 y_i for a kernel with positive values
        kinks = signs * gradient
        can_rise = np.where(signs > 0, alpha < C, alpha > 0.0)
        can_fall = np.where(signs > 0, alpha > 0.0, alpha < C)
        if max(kinks[can_rise].max(initial=0.0), 0.0) - min(kinks[can_fall].min(initial=0.0), 0.0) <= epsilon:
            return Ended(steps, 0, alpha, gradient)
        step = np.clip(gradient / np.diag(Q), -alpha, C - alpha)
        i = int(np.argmax(step * (gradient - 0.5 * step * np.diag(Q))))
        alpha[i] += step[i]
        gradient -= step[i] * Q[i]
    raise AssertionError("The violation stayed above epsilon.")
