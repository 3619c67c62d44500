"""A fit on blocks: the budget of memory, the binary problems side by side, and the checkpoint."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.io.memory import memory_bytes
from maxmargin.scale_out import policy
from maxmargin.scale_out.blocks import Blocks
from maxmargin.scale_out.checkpoint import PassesCheckpoint, SavedTo
from maxmargin.scale_out.executors import OnDisk
from maxmargin.scale_out.fitting import PassesRun, Plan
from maxmargin.scale_out.passes import Framing, run_together
from maxmargin.scale_out.remainder import ROW_OVERHEAD
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Progress, Solution

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def bytes_from(memory: Any) -> int:
    """A budget: a number of bytes, or a text such as "2G" or "500M"; None for half of the machine's memory."""
    if memory is None:
        return memory_bytes() // 2
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)B?\s*", memory, re.IGNORECASE)
        if found is None:
            raise ValueError(f"memory must be a number of bytes, or a text such as '2G' or '500M'; got {memory!r}.")
        return int(float(found[1]) * UNITS[found[2].upper()])
    if isinstance(memory, bool) or not isinstance(memory, (int, float, np.integer)) or not memory > 0:
        raise ValueError(f"memory must be a number of bytes, or a text such as '2G' or '500M'; got {memory!r}.")
    return int(memory)


def block_bytes_for(memory: Any) -> int:
    """The size of blocks that are written for one fit with this budget."""
    return max(policy.BLOCKS.least_bytes, min(policy.BLOCKS.block_bytes, bytes_from(memory) // policy.BLOCKS.blocks_a_budget))


def client_bytes(memory: Any) -> float:
    """The same for rows that a client collects from workers: zero means none."""
    is_none = memory is not None and not isinstance(memory, (str, bool)) and memory == 0
    return 0.0 if is_none else float(bytes_from(memory))


@dataclass(frozen=True)
class Budget:
    """How a budget of bytes is spent on a fit of ``n_problems`` binary problems."""

    blocks: Blocks
    n_bytes: int
    n_problems: int

    @property
    def fixed(self) -> int:
        """Bytes that every fit needs: two blocks (and the chosen rows of one), two arrays of results for each core, alpha, its
        bounds, Newton's arrays with one element for each sample, and some vectors as long as w."""
        d = self.blocks.n_features + 1
        is_narrow = d <= policy.PASSES.narrow_weights
        samples = self.blocks.n_samples * (policy.SHARES.narrow_sample_bytes if is_narrow else policy.SHARES.wide_sample_bytes)
        vectors = 8 * d * (d if is_narrow else policy.SHARES.vectors)
        return (2 if is_narrow else 3) * self.blocks.most_bytes + self.n_problems * (samples + vectors)

    def room(self) -> float:
        """The bytes for rows of each problem that an ordinary solver gets. It makes copies of them."""
        return policy.SHARES.rows * self.left() / self.n_problems

    def hand(self) -> float:
        """The bytes for rows of each problem that coordinate descent visits together, where they lie."""
        return policy.SHARES.hands * self.left() / self.n_problems

    def left(self) -> int:
        """The bytes for rows. An error says how much memory is needed, where it does not suffice."""
        left = self.n_bytes - self.fixed
        if left < 0:
            raise ValueError(
                f"memory={self.n_bytes} is too little for {self.blocks!r}: the fit holds {self.fixed} bytes whatever it does, "
                f"and a block has {self.blocks.most_bytes}."
            )
        return left

    @property
    def total(self) -> float:
        """What all rows would take."""
        return float(self.blocks.n_bytes + ROW_OVERHEAD * self.blocks.n_samples)


@dataclass(frozen=True)
class BlockFit:
    """What an estimator asks for."""

    limits: Limits
    memory: Any = None
    seed: int = 0
    callback: Callable[[Progress], Any] | None = None
    checkpoint: str | os.PathLike[str] | SavedTo | None = None

    def solve(self, blocks: Blocks, framings: Sequence[Framing]) -> list[Solution]:
        """Fit all problems, with one visit of a block for all of them."""
        executor = OnDisk(blocks, framings)
        budget = Budget(blocks, bytes_from(self.memory), len(framings))
        room, total, stop = budget.room(), budget.total, Stop.after(self.limits.max_seconds)
        saved = None
        if self.checkpoint is not None:
            saved = PassesCheckpoint.open(SavedTo.of(self.checkpoint), _key(blocks, framings), executor)
        plan = Plan(self.limits, stop, self.seed, self.callback, room, total, budget.hand(), save=_saver(saved, executor))
        starts = saved.starts if saved is not None else {}
        runs = [PassesRun(executor, k, plan, _start(starts.get(k)), goes_on=bool(starts)) for k in range(len(framings))]
        with single_threaded_blas():
            solutions = run_together(executor, [run.solve() for run in runs], stop)
        if saved is not None and all(solution.status.is_certified for solution in solutions):
            saved.remove()
        return solutions


def _start(w: Array | None) -> Array | None:
    """The w to start from; None for a problem of which nothing is known yet."""
    return w if w is not None and len(w) and np.isfinite(w).all() and w.any() else None


def _saver(saved: PassesCheckpoint | None, executor: OnDisk) -> Callable[[int, Array], None] | None:
    if saved is None:
        return None
    weights: dict[int, Array] = {}

    def save(which: int, w: Array) -> None:
        weights[which] = w
        saved.save(executor, weights)

    return save


def _key(blocks: Blocks, framings: Sequence[Framing]) -> str:
    """The settings that the optimum depends on."""
    settings = [
        [repr(each.loss), each.intercept_scaling, each.C, repr(each.positive), repr(each.class_costs)] for each in framings
    ]
    return json.dumps([blocks.fingerprint, settings])


def class_costs(class_weight: Any, classes: Array, sums: Array) -> tuple[Array, Array] | None:
    """What multiplies the cost of the samples of each class, as scikit-learn computes it. ``sums`` are the weights of the
    samples of each class, added up."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight must be a dictionary, 'balanced' or None; got {class_weight!r}.")
        return classes, sums.sum() / (len(classes) * sums)
    known = {label: float(weight) for label, weight in dict(class_weight).items()}
    strangers = [label for label in known if label not in classes.tolist()]
    if strangers:
        raise ValueError(f"class_weight names the label {strangers[0]!r}, which does not occur in the data.")
    weights = np.array([known.get(label, 1.0) for label in classes.tolist()])
    if not (np.isfinite(weights).all() and weights.min() >= 0.0 and weights.any()):
        raise ValueError(f"class_weight must give finite weights that are not negative and not all zero; got {weights}.")
    return classes, weights


def classes_from(labelled: Any) -> Array:
    """The labels of blocks or of partitions, which must be at least two, and no fractions."""
    classes: Array | None = labelled.classes
    if classes is None or (classes.dtype.kind == "f" and np.any(classes != np.floor(classes))):
        raise ValueError("Labels must be whole numbers or words, one for each class; those here are not.")
    if len(classes) < 2:
        named = ", ".join(str(label) for label in classes)
        raise ValueError(f"The number of classes has to be greater than one; got {len(classes)} class: {named}.")
    return classes


def refuse_out_of_core(model: Any) -> None:
    """Refuse settings that fits by passes do not support."""
    scaling = float(model.intercept_scaling) if model.fit_intercept else 0.0
    if not model.penalize_intercept and scaling != 0.0:
        raise ValueError("penalize_intercept=False is not supported by fits in partitions: they penalise the intercept.")
    for name, only in (("penalty", "l2"), ("multi_class", "ovr")):
        if getattr(model, name, only) != only:
            raise ValueError(
                f"{name}={getattr(model, name)!r} is not supported by fits in partitions: {name} must be {only!r}."
            )
    if math.isinf(model.C):
        raise ValueError("C=inf, the hard margin, is not supported by fits in partitions.")
    if model.solver != "auto":
        raise ValueError(f"A fit in partitions chooses its methods itself: solver must be 'auto'; got {model.solver!r}.")
    if getattr(model, "sharp_proofs", False):
        raise ValueError("sharp_proofs=True is not supported by fits in partitions.")
