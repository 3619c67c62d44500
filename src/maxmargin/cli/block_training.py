"""``maxmargin train --memory``: the data go to blocks on the disk, beside the model, and the fit reads them again and again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from maxmargin.cli.families import LINEAR_CLASSES, LINEAR_REGRESSION
from maxmargin.cli.machine import TrainingOptions, weights_from
from maxmargin.cli.report import TrainingReport, Verdict
from maxmargin.cli.training import progress_of


def trained_by_blocks(options: TrainingOptions) -> TrainingReport:
    """Train within a budget of memory. Blocks of a command that was interrupted are used again; those of one that ended go."""
    from maxmargin.io.outputs import Output
    from maxmargin.models.model_file import save_model
    from maxmargin.scale_out.block_fit import bytes_from
    from maxmargin.scale_out.blocks import remove_blocks

    settings = options.settings()
    if options.family not in (LINEAR_CLASSES, LINEAR_REGRESSION):
        raise ValueError("--memory is for linear classification and regression: leave it out.")
    bytes_from(options.memory)
    target, folder = Output(options.own_model), Path(f"{options.own_model}.blocks")
    target.check(options.data, options.checkpoint)
    with progress_of(options) as line:
        line.begin("writing blocks")
        blocks = _blocks(options, folder)
        read_seconds = time.perf_counter() - line.since
        line.begin("training")
        make = options.family.public_estimator()
        estimator = make(**settings, **options.limits(), callback=line, solver=options.chosen_solver(settings))
        if options.family is LINEAR_CLASSES:
            estimator.class_weight = weights_from(options.class_weight, blocks.classes)
        estimator.fit_blocks(blocks, memory=options.memory, checkpoint=options.checkpoint)
        fit_seconds = time.perf_counter() - line.since
    n_bytes = save_model(estimator, target)
    remove_blocks(folder)
    return TrainingReport(
        model=str(options.own_model),
        n_bytes=n_bytes,
        n_samples=blocks.n_samples,
        n_features=blocks.n_features,
        n_classes=len(estimator.classes_) if hasattr(estimator, "classes_") else None,
        read_seconds=read_seconds,
        fit_seconds=fit_seconds,
        verdict=Verdict.of(estimator, options.tol),
        remarks=(),
    )


def _blocks(options: TrainingOptions, folder: Path) -> Any:
    from maxmargin.scale_out.writing import to_blocks

    return to_blocks(
        options.data,
        folder,
        label_column=options.label_column,
        n_features=options.n_features,
        zero_based=bool(options.zero_based),
        dtype="float32" if options.float32 else "float64",
    )
