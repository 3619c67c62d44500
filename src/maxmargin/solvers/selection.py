"""Which samples go into the next working set: the three strategies of F. Perez-Cruz, P. L. Alarcon-Diana, A. Navia-Vazquez,
A. Artes-Rodriguez, "Fast training of support vector classifiers", section 3, as types.

With errors e_i = y_i - f_i - b, an alpha is optimal when

    (9)  y_i e_i < eps where alpha_i = 0,    (10)  y_i e_i > -eps where alpha_i = C,    (11)  |e_i| < eps where it is free.

In signed variables s_i = y_i alpha_i an error is the gradient of the dual. A sample *rises* when s_i has room above, and it
violates its condition by rising when e_i >= eps; it *falls* when s_i has room below, and violates it when e_i <= -eps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from maxmargin.data import Array


class Errors(NamedTuple):
    """The samples that may be chosen, and what each has to say about it."""

    e: Array
    y: Array
    can_rise: Array
    can_fall: Array
    epsilon: float

    @property
    def is_free(self) -> Array:
        mask: Array = self.can_rise & self.can_fall
        return mask

    @property
    def rising(self) -> Array:
        """Those that violate their condition, and want to rise."""
        mask: Array = self.can_rise & (self.e >= self.epsilon)
        return mask

    @property
    def falling(self) -> Array:
        mask: Array = self.can_fall & (self.e <= -self.epsilon)
        return mask

    @property
    def violates(self) -> Array:
        """Those that do not fulfil (9), (10) or (11)."""
        mask: Array = self.rising | self.falling
        return mask

    @property
    def candidates(self) -> Array:
        """S_c of step 1: those that violate (9) or (10), and the free ones, for whom a small change of their error is enough
        to violate (11)."""
        mask: Array = self.violates | self.is_free
        return mask


class Selection(Protocol):
    def choose(self, errors: Errors, size: int, random: np.random.Generator) -> Array:
        """The places of ``size`` samples, or of all if there are fewer, in ascending order."""


@dataclass(frozen=True)
class Largest:
    """The violators with the largest |e|: the greatest step, which at large C swings from side to side.

    ``by_side`` takes half of them from those that rise and half from those that fall, as SVMlight does (T. Joachims, "Making
    large-scale SVM learning practical", 1999). Without it the choice is as the paper words it, by |e| alone; a working set in
    which all would rise can move nothing, as the sum is fixed."""

    by_side: bool = True

    def choose(self, errors: Errors, size: int, random: np.random.Generator) -> Array:
        return _by_size(errors, size, -np.abs(errors.e), self.by_side)


@dataclass(frozen=True)
class Smallest:
    """The violators with the smallest |e|: small steps, and many of them. ``by_side`` as in :class:`Largest`."""

    by_side: bool = True

    def choose(self, errors: Errors, size: int, random: np.random.Generator) -> Array:
        return _by_size(errors, size, np.abs(errors.e), self.by_side)


@dataclass(frozen=True)
class RandomViolators:
    """At random among the candidates, the paper's own strategy, in its six steps; "n" there is the size of the working set."""

    def choose(self, errors: Errors, size: int, random: np.random.Generator) -> Array:
        candidates = np.flatnonzero(errors.candidates)  # 1
        if len(candidates) < size:  # 2
            return _completed(errors, candidates, size)  # 5
        first = _one_of_each_kind(errors)[:size]  # 3
        others = np.setdiff1d(candidates, first, assume_unique=True)
        drawn = random.choice(others, size - len(first), replace=False, shuffle=False)  # 4
        return np.union1d(first, drawn)  # 6


def worst_pair(errors: Errors) -> Array:
    """The sample that rises with the greatest error, and the one that falls with the least: a working set with both raises the
    dual, so that no strategy can stand still (C.-J. Lin, "On the convergence of the decomposition method", 2001)."""
    rise, fall = np.flatnonzero(errors.can_rise), np.flatnonzero(errors.can_fall)
    pair = [rise[[np.argmax(errors.e[rise])]] if len(rise) else rise, fall[[np.argmin(errors.e[fall])]] if len(fall) else fall]
    return np.unique(np.concatenate(pair))


def _by_size(errors: Errors, size: int, rank: Array, by_side: bool) -> Array:
    """The lowest ranks first; half from each side if ``by_side``, and more from one where the other has too few."""
    rising, falling = np.flatnonzero(errors.rising), np.flatnonzero(errors.falling)
    if len(rising) + len(falling) <= size:
        return _completed(errors, np.union1d(rising, falling), size)
    if not by_side:
        return np.sort(_lowest(np.union1d(rising, falling), rank, size))
    n_rising = min(len(rising), max(size // 2, size - len(falling)))
    return np.union1d(_lowest(rising, rank, n_rising), _lowest(falling, rank, size - n_rising))


def _one_of_each_kind(errors: Errors) -> Array:
    """Step 3: for each class and each of (9), (10), (11), the sample that violates it most."""
    kinds = errors.can_rise * 2 + errors.can_fall  # 1 and 2 at a bound, which one depends on the class; 3 free
    found = []
    for violates in (errors.rising, errors.falling):
        for sign in (1.0, -1.0):
            for kind in (1, 2, 3):
                here = np.flatnonzero(violates & (errors.y == sign) & (kinds == kind))
                if len(here):
                    found.append(here[np.argmax(np.abs(errors.e[here]))])
    return np.unique(np.array(found, dtype=np.int64))


def _completed(errors: Errors, chosen: Array, size: int) -> Array:
    """Step 5: with those that fulfil their conditions and have the lowest |e|, the free ones before the others."""
    is_other = np.ones(len(errors.e), dtype=bool)
    is_other[chosen] = False
    others = np.flatnonzero(is_other)
    rank = np.abs(errors.e) + np.where(errors.is_free, 0.0, np.abs(errors.e).max(initial=0.0))
    return np.union1d(chosen, _lowest(others, rank, size - len(chosen)))


def _lowest(places: Array, rank: Array, count: int) -> Array:
    if count >= len(places):
        return places
    return places[np.argpartition(rank[places], count - 1)[:count]] if count > 0 else places[:0]
