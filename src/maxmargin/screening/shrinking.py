"""Shrinking as a type: which of the active samples a solver may leave out for a while, or for good.

A rule names samples that are at a bound and look as if they stay there. ``is_safe`` says that this is proved, so the solver
never looks at them again. After any other rule the solver checks every sample before it says that it is done (Zimmert et al.
2015, Algorithm 1, lines 12 and 13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.offset import offset_interval
from maxmargin.screening.rules import Screened, gap_ball, gradient_reach, screen, screen_with_offset


class ActiveSet(NamedTuple):
    """What a rule may look at: the samples that are not removed, their gap, and the offset b at which it was computed."""

    y: Array
    C: Array
    alpha: Array
    kinks: Array
    diagonal: Array
    has_offset: bool
    level: float
    imbalance: float
    b: float
    gap: float
    noise: float
    """A bound on the rounding error of a kink."""

    @property
    def gradient(self) -> Array:
        product: Array = self.y * (self.kinks - self.b)
        return product

    @property
    def can_rise(self) -> Array:
        """Which samples are below the upper bound of alpha y."""
        mask: Array = np.where(self.y > 0, self.alpha < self.C, self.alpha > 0.0)
        return mask

    @property
    def can_fall(self) -> Array:
        mask: Array = np.where(self.y > 0, self.alpha > 0.0, self.alpha < self.C)
        return mask

    @property
    def violation(self) -> float:
        """LIBSVM's violation: the greatest kink of the samples that can rise minus the least kink of those that can fall, or
        zero."""
        top = float(self.kinks[self.can_rise].max(initial=-np.inf))
        bottom = float(self.kinks[self.can_fall].min(initial=np.inf))
        if not self.has_offset:
            top, bottom = max(top, 0.0), min(bottom, 0.0)
        return max(0.0, top - bottom)


class ShrinkingRule(Protocol):
    @property
    def is_safe(self) -> bool: ...

    @property
    def every(self) -> int:
        """Steps from one removal to the next, or the number of samples if that is less. Algorithm 1 looks after every step. But
        a look costs about as much as a step, and the gap hardly falls in a hundred steps. LIBSVM looks after a thousand."""

    @property
    def unshrinks_at(self) -> float:
        """All samples are taken back once, when the gap first falls below this multiple of the target."""

    def removable(self, active: ActiveSet) -> Array:
        """A mask of the active samples that may be left out."""


@dataclass(frozen=True)
class NoShrinking:
    is_safe: ClassVar[bool] = True
    every: ClassVar[int] = 100
    unshrinks_at: ClassVar[float] = 0.0

    def removable(self, active: ActiveSet) -> Array:
        return np.zeros(len(active.y), dtype=bool)


@dataclass(frozen=True)
class Joachims:
    """T. Joachims, "Making large-scale SVM learning practical", 1999, as LIBSVM does it (C.-C. Chang, C.-J. Lin, "LIBSVM",
    2011, section 5.1): a sample at a bound is left out when its gradient is beyond that of every sample which can still move
    against it. Without an offset that is rule (16) of Hsieh et al. (ICML 2008)."""

    every: int = 1000
    is_safe: ClassVar[bool] = False
    unshrinks_at: ClassVar[float] = 10.0

    def __post_init__(self) -> None:
        _check_steps(self.every)

    def removable(self, active: ActiveSet) -> Array:
        if not active.has_offset:
            return _beyond(active.gradient, active.alpha < active.C, active.alpha > 0.0, zero=0.0)
        return _beyond(active.kinks, active.can_rise, active.can_fall, zero=None)


def _beyond(values: Array, may_rise: Array, may_fall: Array, zero: float | None) -> Array:
    """The samples that can only fall and lie above all that can rise, or the other way round. ``zero`` is the optimal offset
    where it is known: a threshold on its wrong side removes nothing."""
    greatest, least = values[may_rise].max(initial=-np.inf), values[may_fall].min(initial=np.inf)
    if zero is not None:
        greatest = greatest if greatest > zero else np.inf
        least = least if least < zero else -np.inf
    mask: Array = (~may_rise & (values > greatest)) | (~may_fall & (values < least))
    return mask


@dataclass(frozen=True)
class Safe:
    """Section 5: what is removed is at its bound in every optimal alpha, if the kernel is positive semidefinite."""

    every: int = 100
    is_safe: ClassVar[bool] = True
    unshrinks_at: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        _check_steps(self.every)

    def removable(self, active: ActiveSet) -> Array:
        gap = active.gap + active.noise * float(active.C.sum())
        return _at_their_bounds(active, gap_ball(gap), active.noise)


@dataclass(frozen=True)
class FSafe:
    """Rule (1): the safe rule with f times the radius of its ball. With an offset the interval for b* shrinks with the ball."""

    f: float = 0.1
    every: int = 100
    is_safe: ClassVar[bool] = False
    unshrinks_at: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        _check_steps(self.every)
        _check_factor(self.f)

    def removable(self, active: ActiveSet) -> Array:
        return _at_their_bounds(active, self.f * gap_ball(active.gap), 0.0)


@dataclass(frozen=True)
class FSafeAsPrinted:
    """Rule (1) to the letter: a sample that the ball of f times the radius puts at a bound is removed, and its alpha is set to
    that bound, wherever it stands. :class:`FSafe` waits until a step has led alpha there.

    The dual value may fall with a removal, and then nothing keeps Algorithm 1 from removing the same samples for ever: on MNIST
    0/7 with f = 0.032 all samples go at once, each to the wrong bound, and come back to the other. ``most_resets`` is how often
    removed samples may be taken back before the rule removes no more. The paper has no limit (``math.inf``); its Table 1 has
    37 at f = 0.01."""

    f: float = 0.1
    every: int = 1
    most_resets: float = 100
    is_safe: ClassVar[bool] = False
    unshrinks_at: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        _check_steps(self.every)
        _check_factor(self.f)

    def screened(self, active: ActiveSet) -> Screened:
        """The samples to be set to zero and removed, and those to be set to C and removed."""
        return _screened(active, gradient_reach(active.diagonal, self.f * gap_ball(active.gap)))


def _at_their_bounds(active: ActiveSet, radius: float, noise: float) -> Array:
    """The samples that the ball of this radius puts at the bound where they already are."""
    reach = gradient_reach(active.diagonal, radius) + noise
    screened = _screened(active, reach)
    mask: Array = (screened.at_zero & (active.alpha == 0.0)) | (screened.at_C & (active.alpha == active.C))
    return mask


def _screened(active: ActiveSet, reach: Array) -> Screened:
    if not active.has_offset:
        return screen(active.gradient, reach)
    offsets = offset_interval(active.kinks, active.C, active.level, reach, active.imbalance)
    return screen_with_offset(active.kinks, active.y, reach, offsets)


def _check_factor(f: float) -> None:
    if not 0.0 < f <= 1.0:
        raise ValueError(f"The factor f of FSafe must lie in (0, 1]; got {f!r}.")


def _check_steps(every: int) -> None:
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"every must be a whole number >= 1; got {every!r}.")


DEFAULT_RULE: ShrinkingRule = FSafe()
