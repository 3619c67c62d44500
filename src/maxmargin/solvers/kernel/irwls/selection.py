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

from maxmargin.data.rows import Array
from maxmargin.solvers.kernel.irwls.selection_loops import (
    BY_SIZE,
    RANDOM,
    Candidates,
    SelectionMemory,
    Strategy,
    choose,
)


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
        """The samples that violate their condition, and want to rise."""
        mask: Array = self.can_rise & (self.e >= self.epsilon)
        return mask

    @property
    def falling(self) -> Array:
        mask: Array = self.can_fall & (self.e <= -self.epsilon)
        return mask

    @property
    def violates(self) -> Array:
        """The samples that do not fulfil (9), (10) or (11)."""
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

    @property
    def strategy(self) -> Strategy:
        return Strategy(BY_SIZE, -1.0, bool(self.by_side))

    def choose(self, errors: Errors, size: int, random: np.random.Generator) -> Array:
        return _places(errors, size, self.strategy, random)


@dataclass(frozen=True)
class Smallest:
    """The violators with the smallest |e|: small steps, and many of them. ``by_side`` as in :class:`Largest`."""

    by_side: bool = True

    @property
    def strategy(self) -> Strategy:
        return Strategy(BY_SIZE, 1.0, bool(self.by_side))

    def choose(self, errors: Errors, size: int, random: np.random.Generator) -> Array:
        return _places(errors, size, self.strategy, random)


@dataclass(frozen=True)
class RandomViolators:
    """Samples drawn at random among the candidates: the paper's own strategy, in its six steps."""

    @property
    def strategy(self) -> Strategy:
        return Strategy(RANDOM, 1.0, True)

    def choose(self, errors: Errors, size: int, random: np.random.Generator) -> Array:
        return _places(errors, size, self.strategy, random)


def _places(errors: Errors, size: int, strategy: Strategy, random: np.random.Generator) -> Array:
    word = np.uint64(random.integers(1, 2**63))
    memory = SelectionMemory.of(len(errors.e))
    return np.sort(memory.places[: choose(Candidates(*errors), size, strategy, word, memory).size])


def worst_pair(errors: Errors) -> Array:
    """The sample that rises with the greatest error, and the one that falls with the least: a working set with both raises the
    dual, so that no strategy can stand still (C.-J. Lin, "On the convergence of the decomposition method", 2001)."""
    rise, fall = np.flatnonzero(errors.can_rise), np.flatnonzero(errors.can_fall)
    pair = [rise[[np.argmax(errors.e[rise])]] if len(rise) else rise, fall[[np.argmin(errors.e[fall])]] if len(fall) else fall]
    return np.unique(np.concatenate(pair))
