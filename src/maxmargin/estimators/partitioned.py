"""Linear estimators on data in partitions: blocks on a disk, for now; ``maxmargin.dask`` has those on a cluster."""

from __future__ import annotations

from typing import Any

from maxmargin.data.rows import Array
from maxmargin.estimators.jobs import serialised
from maxmargin.estimators.labels import BinaryProblems
from maxmargin.estimators.linear_classifier import LOSSES
from maxmargin.estimators.linear_fit import scaling_of
from maxmargin.estimators.linear_regressor import LOSSES as REGRESSION_LOSSES
from maxmargin.scale_out.block_fit import BlockFit, class_costs, classes_from, refuse_out_of_core
from maxmargin.scale_out.blocks import Blocks
from maxmargin.scale_out.passes import Framing
from maxmargin.solving.driver import Limits, seed_from
from maxmargin.solving.solution import Solution

Fit = tuple[list[Solution], Limits]


def fit_classes_in_blocks(model: Any, blocks: Any, memory: Any, checkpoint: Any) -> Fit:
    """Train a linear classifier on blocks, and give it the attributes of a fit."""
    limits = model._check_parameters()
    refuse_out_of_core(model)
    blocks = opened(blocks)
    classes = classes_from(blocks)
    framings = framings_of_classes(model, classes, blocks.class_sums, blocks.n_features)
    solutions = _fit(model, limits, memory, checkpoint).solve(blocks, framings)
    keep_classes(model, blocks.n_features, classes, solutions)
    return solutions, limits


def fit_targets_in_blocks(model: Any, blocks: Any, memory: Any, checkpoint: Any) -> Fit:
    """Train a linear regressor on blocks, and give it the attributes of a fit."""
    limits = model._check_parameters()
    refuse_out_of_core(model)
    blocks = opened(blocks)
    if blocks.classes is not None and blocks.classes.dtype.kind not in "biuf":
        raise ValueError("The targets of a regression are numbers; those of the blocks are words.")
    loss = REGRESSION_LOSSES[model.loss](model)
    framing = Framing(loss, scaling_of(model), float(model.C), blocks.n_features)
    solutions = _fit(model, limits, memory, checkpoint).solve(blocks, [framing])
    vars(model).pop("feature_names_in_", None)
    model._keep(blocks.n_features, True, solutions)
    return solutions, limits


def framings_of_classes(model: Any, classes: Array, sums: Array, n_features: int) -> list[Framing]:
    """One problem for two classes, else one for each class against the rest."""
    costs = class_costs(model.class_weight, classes, sums)
    positives = classes[1:] if len(classes) == 2 else classes
    loss, scaling = LOSSES[model.loss], scaling_of(model)
    return [Framing(loss, scaling, float(model.C), n_features, positive, costs) for positive in positives]


def keep_classes(model: Any, n_features: int, classes: Array, solutions: list[Solution]) -> None:
    """The attributes of a fit. There is no alpha to start another fit from."""
    vars(model).pop("feature_names_in_", None)
    model._keep(n_features, BinaryProblems(classes, [], []), solutions)
    model._warm_start = None


def opened(blocks: Any) -> Blocks:
    return blocks if isinstance(blocks, Blocks) else Blocks(blocks)


def _fit(model: Any, limits: Limits, memory: Any, checkpoint: Any) -> BlockFit:
    callback = serialised(model._watcher(), model.verbose)
    return BlockFit(limits, memory, seed_from(model.random_state), callback, checkpoint)
