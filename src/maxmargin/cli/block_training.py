"""``maxmargin train --memory``: the data go to blocks on the disk, beside the model, and the fit reads them again and again.

The folder MODEL.blocks also holds the checkpoint of the fit, unless ``--checkpoint`` names another file. A command that was
killed leaves the folder, and the same command resumes from it. Every command that ends removes it, also one that ends with an
error that the user must mend: too little memory, or a damaged file."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maxmargin.cli.families import LINEAR_CLASSES, LINEAR_REGRESSION
from maxmargin.cli.machine import TrainingOptions, weights_from
from maxmargin.cli.progress import ProgressLine
from maxmargin.cli.report import TrainingReport, Verdict
from maxmargin.cli.training import progress_of

CHECKPOINTS = "fit-*.checkpoint"
"""The names of checkpoints beside the blocks: one for each choice of settings."""


def trained_by_blocks(options: TrainingOptions) -> TrainingReport:
    """Train within a budget of memory. Blocks of a command that was interrupted are used again; those of one that ended go."""
    from maxmargin.io.outputs import Output
    from maxmargin.models.model_file import save_model
    from maxmargin.scale_out.block_fit import bytes_from

    if options.family not in (LINEAR_CLASSES, LINEAR_REGRESSION):
        raise ValueError("--memory is for linear classification and regression: leave it out.")
    bytes_from(options.memory)
    target, folder = Output(options.own_model), Path(f"{options.own_model}.blocks")
    target.check(options.data, options.checkpoint)
    with progress_of(options) as line, _removed_if_useless(folder):
        line.begin("writing blocks")
        blocks = _blocks(options, folder)
        read_seconds = time.perf_counter() - line.since
        line.begin("training")
        estimator = _fitted(options, blocks, line)
        fit_seconds = time.perf_counter() - line.since
    n_bytes = save_model(estimator, target)
    _remove(folder)
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


def _fitted(options: TrainingOptions, blocks: Any, line: ProgressLine) -> Any:
    from maxmargin.scale_out.checkpoint import SavedTo

    settings, make = options.settings(), options.family.public_estimator()
    estimator = make(**settings, **options.limits(), callback=line, solver=options.chosen_solver(settings))
    if options.family is LINEAR_CLASSES:
        estimator.class_weight = weights_from(options.class_weight, blocks.classes)
    path = options.checkpoint or blocks.folder / _name_of_checkpoint(estimator)
    return estimator.fit_blocks(blocks, memory=options.memory, checkpoint=SavedTo(path, options.checkpoint_seconds))


def _name_of_checkpoint(estimator: Any) -> str:
    """A command with other settings does not meet the checkpoint of an interrupted one."""
    settings = {name: value for name, value in estimator.get_params().items() if name != "callback"}
    digest = zlib.crc32(json.dumps(settings, sort_keys=True, default=repr).encode())
    return CHECKPOINTS.replace("*", f"{digest:08x}")


@contextmanager
def _removed_if_useless(folder: Path) -> Iterator[None]:
    """Remove the blocks where the user must mend something before they could be used."""
    from maxmargin.scale_out.block_list import LIST
    from maxmargin.scale_out.writing import OtherBlocks

    try:
        yield
    except OtherBlocks:
        raise
    except ValueError:
        if (folder / LIST).exists():
            _remove(folder)
        raise


def _remove(folder: Path) -> None:
    """Remove what the command wrote into its folder."""
    from maxmargin.scale_out.blocks import remove_blocks

    for path in folder.glob(CHECKPOINTS):
        path.unlink(missing_ok=True)
    remove_blocks(folder)


def _blocks(options: TrainingOptions, folder: Path) -> Any:
    from maxmargin.scale_out.block_fit import block_bytes_for
    from maxmargin.scale_out.writing import to_blocks

    return to_blocks(
        options.data,
        folder,
        label_column=options.label_column,
        n_features=options.n_features,
        zero_based=bool(options.zero_based),
        dtype="float32" if options.float32 else "float64",
        block_bytes=block_bytes_for(options.memory),
    )
