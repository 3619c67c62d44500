r"""What partitions are asked by Newton's method: answers, the change of its matrix, and slopes along a line.

A partition that stays in memory keeps the margins of the last point, so that a step costs one product with the direction, and a
copy of its rows near a kink, which it visits alone until the anchor moves (``nearby.py``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.scale_out.nearby import Nearby
from maxmargin.scale_out.passes import Part
from maxmargin.scale_out.policy import PASSES
from maxmargin.solvers.linear.newton.hessian import packed
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.passes import Changes, CompiledPasses, Prox, curve_of


class Order(NamedTuple):
    """What the partitions are told: the proximal term, whether alpha, the middle of the box or zero becomes its anchor before
    they answer, whether they report from the beginning, and whether the matrix is to come with the answer. With a ``reach``
    above zero, partitions in memory then visit the samples within that distance of a kink alone, until the anchor moves."""

    penalty: float
    softness: float
    moves_anchor: bool = False
    anchors_in_middle: bool = False
    anchors_at_zero: bool = False
    restarts: bool = False
    has_matrix: bool = True
    reach: float = 0.0

    def prox(self, anchor: Array) -> Prox:
        return Prox.of(anchor, self.penalty, self.softness)

    @property
    def visits_all(self) -> bool:
        return self.moves_anchor or self.anchors_in_middle or self.anchors_at_zero or self.restarts or self.reach > 0.0


class Line(NamedTuple):
    """The points w + t direction. ``number`` names the line; ``follows`` is the number of the line on which w was answered
    last, so that partitions that stay in memory need not compute the margins of w again."""

    number: int
    follows: int
    w: Array
    direction: Array

    def point(self, length: float) -> Array:
        return self.w + length * self.direction


@dataclass
class Margins:
    """What a partition in memory keeps of a line: its margins at w, how they change along it, and where it was answered. Where
    only that one point was asked for, ``along`` is None and ``at`` are the margins there."""

    number: int
    at: Array
    along: Array | None
    length: float = 0.0

    def end(self) -> Array:
        """The margins of the point that was answered."""
        return self.at if self.along is None else self.at + self.length * self.along


def answer_part(part: Part, line: Line, length: float, order: Order) -> Changes:
    """The task: set alpha to the answer to a point of the line, and report what changes. A partition that stays in memory
    reports the matrix where it is asked for, and remembers until then what changed."""
    if not part.problem.C.any():
        return Changes.none(len(line.w), order.has_matrix)
    near: Nearby | None = part.memory.kept.get("near")
    changes = (
        _answer_all(part, line, length, order)
        if near is None or order.visits_all
        else _answer_near(part, near, line, length, order)
    )
    return changes._replace(outer=matrix_part(part, len(line.w)).values) if part.stays and order.has_matrix else changes


def _answer_near(part: Part, near: Nearby, line: Line, length: float, order: Order) -> Changes:
    memory = part.memory
    changes = near.completed(_changes(near.part, _margin(near.part, line, length), order), line.point(length))
    near.write_to(memory)
    memory.kept["w_alpha"] += changes.w_alpha
    return changes


def _answer_all(part: Part, line: Line, length: float, order: Order) -> Changes:
    memory = part.memory
    _leave_near(part)
    _prepare(part, order)
    margin = _margin(part, line, length)
    changes = _changes(part, margin, order)
    if part.stays:
        memory.kept["w_alpha"] = changes.w_alpha + (0.0 if order.restarts else memory.kept.get("w_alpha", 0.0))
    if part.stays and order.reach > 0.0:
        memory.kept["near"] = Nearby.of(part, margin, order.reach, memory.kept["w_alpha"], PASSES.near_share)
    return changes


def _changes(part: Part, margin: Array, order: Order) -> Changes:
    memory = part.memory
    anchor = memory.alpha if memory.anchor is None else memory.anchor
    assert memory.free is not None
    with single_threaded_blas(), np.errstate(all="ignore"):
        return _passes(part).changes(margin, order.prox(anchor), memory.alpha, memory.free, has_matrix=not part.stays)


def _leave_near(part: Part) -> None:
    """Go on with all samples. Those that became free or ceased to be, and are not in the matrix yet, are noted for it."""
    near: Nearby | None = part.memory.kept.pop("near", None)
    if near is not None:
        for changed in _passes(near.part).hessian.pending:
            places = near.places[np.where(changed >= 0, changed, ~changed)]
            _passes(part).hessian.note(np.where(changed >= 0, places, ~places))


def _prepare(part: Part, order: Order) -> None:
    """Move the anchor, and forget the last answer, as the order says."""
    problem, memory = part.problem, part.memory
    if memory.free is None:
        memory.free = np.zeros(problem.n_samples, bool)
    has_prox = math.isfinite(order.penalty)
    if has_prox and (memory.anchor is None or order.anchors_at_zero):
        memory.anchor = np.zeros(problem.n_samples) if order.anchors_at_zero else memory.alpha.copy()
    if has_prox and order.anchors_in_middle:
        memory.anchor = 0.5 * (problem.box.L + problem.box.U)
    elif has_prox and order.moves_anchor:
        np.copyto(memory.anchor, memory.alpha)  # type: ignore[arg-type]
    if order.restarts:
        memory.alpha[:], memory.free[:] = 0.0, False
        _passes(part).hessian.pending.clear()


class Outer(NamedTuple):
    """The change of the matrix, packed."""

    values: Array

    def plus(self, other: Outer) -> Outer:
        return Outer(self.values + other.values)


def matrix_part(part: Part, n_weights: int) -> Outer:
    """The task: how the matrix has changed since it was last reported."""
    near: Nearby | None = part.memory.kept.get("near")
    parts = [part] if near is None else [part, near.part]
    with single_threaded_blas():
        changes = [packed(_passes(each).matrix_change()) for each in parts if _has_news(each)]
    return Outer(sum(changes[1:], changes[0]) if changes else np.zeros(n_weights * (n_weights + 1) // 2))


def _has_news(part: Part) -> bool:
    """Whether samples became free or ceased to be since the matrix was last reported."""
    return bool(part.problem.C.any() and _passes(part).hessian.pending)


def _margin(part: Part, line: Line, length: float) -> Array:
    """The margins of a point of the line."""
    kept: Margins | None = part.memory.kept.get("line")
    is_known = kept is not None and (
        kept.number == line.follows or (kept.number == line.number and (kept.along is not None or kept.length == length))
    )
    if part.stays and is_known:
        margins = _margins(part, line) if kept is None or kept.number != line.number else kept
        margins.length = length
        return margins.end()
    margin = np.empty(part.problem.n_samples)
    _passes(part).products(line.point(length), margin)
    if part.stays:
        part.memory.kept["line"] = Margins(line.number, margin, None, length)
    return margin.copy() if part.stays else margin


def _margins(part: Part, line: Line) -> Margins:
    """The margins of a line, from those of the line before where they are known. They are kept where the rows stay."""
    kept: Margins | None = part.memory.kept.get("line")
    if kept is not None and kept.number == line.number and kept.along is not None:
        return kept
    passes, n = _passes(part), part.problem.n_samples
    at, along = np.empty(n), np.zeros(n)
    if kept is not None and kept.number == line.follows:
        at = kept.end()
    else:
        passes.products(line.w, at)
    if line.direction.any():
        passes.products(line.direction, along)
    margins = Margins(line.number, at, along)
    if part.stays:
        part.memory.kept["line"] = margins
    return margins


def _passes(part: Part) -> CompiledPasses:
    """The compiled passes of a partition, which keep the memory that they work in where the rows stay."""
    passes: CompiledPasses | None = part.memory.kept.get("passes")
    if passes is None:
        passes = CompiledPasses(part.problem, curve_of(part.problem), Newton().policy)
        passes.hessian.in_float32 = False
        if part.stays:
            part.memory.kept["passes"] = passes
    return passes


class Refined(NamedTuple):
    """w(alpha) in long double, and sum_i p_i alpha_i - e |alpha_i| - D_ii alpha_i^2 / 2."""

    w_alpha: Array
    linear: float

    def plus(self, other: Refined) -> Refined:
        return Refined(self.w_alpha + other.w_alpha, self.linear + other.linear)


def refine_part(part: Part, direction: Array, rate: float) -> Refined:
    """The task: let the free samples follow a step of w, and add up w(alpha) in higher precision."""
    problem, memory = part.problem, part.memory
    _leave_near(part)
    if memory.free is not None and direction.any():
        along = np.empty(problem.n_samples)
        _passes(part).products(direction, along)
        moved = memory.alpha - rate * problem.C * memory.free * along
        memory.alpha = np.clip(moved, problem.box.L, problem.box.U)
    return Refined(problem.long_weights(memory.alpha), float(np.sum(problem.box.terms(memory.alpha))))


class Magnitude(NamedTuple):
    """The samples, the sum of their |x_i|^2, and the greatest C_i."""

    n_samples: int
    squares: float
    cost: float

    def plus(self, other: Magnitude) -> Magnitude:
        return Magnitude(self.n_samples + other.n_samples, self.squares + other.squares, max(self.cost, other.cost))

    @property
    def stiffness(self) -> float:
        """The greatest C_i times the mean of |x_i|^2."""
        return self.cost * self.squares / self.n_samples


def magnitude_part(part: Part) -> Magnitude:
    """The task: how large rows and costs are."""
    problem = part.problem
    return Magnitude(problem.n_samples, float(np.sum(problem.rows.squared_norms())), float(problem.C.max()))


class Slopes(NamedTuple):
    """Values and slopes of the derivative of the loss along a line, at several lengths."""

    values: Array

    def plus(self, other: Slopes) -> Slopes:
        return Slopes(self.values + other.values)


def slopes_part(part: Part, line: Line, lengths: Array, order: Order) -> Slopes:
    """The task: the derivative of sum_i phi_i along a line, at several lengths."""
    if not part.problem.C.any():
        return Slopes(np.zeros((len(lengths), 2)))
    near: Nearby | None = part.memory.kept.get("near")
    if near is not None:
        constant = np.array([-float(near.w @ line.direction), 0.0])
        return Slopes(constant + slopes_part(near.part, line, lengths, order).values)
    passes, margins = _passes(part), _margins(part, line)
    prox = order.prox(part.memory.alpha if part.memory.anchor is None else part.memory.anchor)
    return Slopes(np.array([passes.slope(margins.at, margins.along, prox, float(t)) for t in lengths]))  # type: ignore[arg-type]
