"""``maxmargin train``: read, fit, certify, write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from maxmargin.cli.data import DataFile, FileContent, check_classes, check_numbers, remarks_on_target
from maxmargin.cli.families import Targets
from maxmargin.cli.machine import TrainingOptions, made_solver, weights_from
from maxmargin.cli.outcome import complain
from maxmargin.cli.progress import ProgressLine, watched
from maxmargin.cli.report import TrainingReport, Verdict, printable
from maxmargin.cli.switches import in_switches


class Fitted(NamedTuple):
    """A model and how long it took to get it."""

    estimator: Any
    read_seconds: float
    fit_seconds: float


def trained(options: TrainingOptions) -> TrainingReport:
    """Train a model and write it. Whatever can be refused is refused before the data is read."""
    settings = options.settings()
    solver, outputs = options.chosen_solver(settings), _Outputs.checked(options)
    with progress_of(options) as line:
        samples, read_seconds = read(options, line)
        line.begin("training")
        estimator = outputs.watched(settings, solver, options, line)
        fitted = Fitted(_fitted(estimator, options, samples), read_seconds, time.perf_counter() - line.since)
    n_bytes = outputs.save(fitted.estimator)
    if options.report_page is not None:
        _write_page(options.report_page, fitted.estimator, samples)
    return _report(options, samples, fitted, n_bytes)


def read(options: TrainingOptions, line: ProgressLine) -> tuple[FileContent, float]:
    """The samples, and how many seconds they took. What is odd about them is said at once."""
    line.begin(f"reading {printable(options.data.name)}")
    dtype = "float32" if options.float32 else "float64"
    file = DataFile(
        options.data, options.label_column, options.zero_based, options.n_features, dtype, options.takes_kernel_values
    )
    samples = file.read()
    if options.family.targets is Targets.CLASSES:
        check_classes(options.data, samples.y)
        samples = samples._replace(remarks=(*samples.remarks, *remarks_on_target(options.data, samples.y)))
    elif options.family.targets is Targets.NUMBERS:
        samples = samples._replace(y=check_numbers(options.data, samples.y))
    if not options.quiet:
        for remark in samples.remarks:
            complain(remark)
    return samples, time.perf_counter() - line.since


@contextmanager
def progress_of(options: TrainingOptions) -> Iterator[ProgressLine]:
    """The live line. The command says itself, and by its exit code, that a fit is not certified: scikit-learn's warning of it
    is not shown, and complaints about parameters are made about switches."""
    import warnings

    enabled = not (options.quiet or options.as_json)
    with ProgressLine(options.tol, enabled=enabled) as line, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Relative duality gap asked")
        try:
            yield line
        except ValueError as error:
            if type(error) is not ValueError:  # it names a file and a line
                raise
            raise ValueError(in_switches(str(error))) from error


def _fitted(estimator: Any, options: TrainingOptions, samples: FileContent) -> Any:
    if options.family.targets is Targets.CLASSES:
        estimator.class_weight = weights_from(options.class_weight, samples.y)
    return estimator.fit(samples.X, samples.y)


class _Outputs(NamedTuple):
    """What the command writes: the model, and a checkpoint meanwhile."""

    model: Any
    checkpoint: Any

    @classmethod
    def checked(cls, options: TrainingOptions) -> _Outputs:
        """Both can be written, and destroy nothing that the command uses."""
        from maxmargin.io.outputs import Output

        target = Output(options.own_model, source=options.data if options.has_kernel else None)
        target.check(options.data, options.checkpoint)
        if options.report_page is not None:
            Output(options.report_page).check(options.data, target.path, options.checkpoint)
        if options.checkpoint is None:
            return cls(target, None)
        from maxmargin.models.checkpoint import Checkpoint

        Output(options.checkpoint).check(options.data)
        return cls(target, Checkpoint.open(options.checkpoint, complain))

    def watched(self, settings: dict[str, Any], solver: Any, options: TrainingOptions, line: ProgressLine) -> Any:
        """The estimator, whose solver saves its state and tells the line how it does."""
        make = options.family.estimator_for(options.data)
        return make(**settings, **options.limits(), callback=line, solver=self._solver(settings, solver, options, line))

    def _solver(self, settings: dict[str, Any], solver: Any, options: TrainingOptions, line: ProgressLine) -> Any:
        if line.enabled and options.has_kernel:
            solver = watched(made_solver(solver, settings), line)
        if self.checkpoint is None:
            return solver
        from maxmargin.models.checkpoint import Checkpointed, CheckpointedKernelSolver

        saving = CheckpointedKernelSolver if options.has_kernel else Checkpointed
        return saving(made_solver(solver, settings), self.checkpoint, options.checkpoint_seconds)

    def save(self, estimator: Any) -> int:
        """Write the model; what the checkpoint has of this fit is not needed any more."""
        from maxmargin.models.model_file import save_model

        n_bytes = save_model(estimator, self.model)
        if self.checkpoint is not None:
            self.checkpoint.remove()
        return n_bytes


def _write_page(path: Path, trained: Any, samples: FileContent) -> None:
    """The page about a fit. scikit-learn's face of the model is put on for its predictions."""
    from maxmargin.estimators.kernel_classifier import KernelClassifier
    from maxmargin.estimators.linear_svc import LinearSVC
    from maxmargin.estimators.svc import SVC
    from maxmargin.io.outputs import written

    if hasattr(trained, "report"):
        model: Any = trained
    else:
        model = SVC() if isinstance(trained, KernelClassifier) else LinearSVC()
        vars(model).update(vars(trained))
    with written(path) as file:
        file.write(model.report(samples.X, samples.y).html.encode())


def _report(options: TrainingOptions, samples: FileContent, fitted: Fitted, n_bytes: int) -> TrainingReport:
    return TrainingReport(
        model=str(options.own_model),
        n_bytes=n_bytes,
        n_samples=samples.X.shape[0],
        n_features=samples.X.shape[1],
        n_classes=len(fitted.estimator.classes_) if hasattr(fitted.estimator, "classes_") else None,
        read_seconds=fitted.read_seconds,
        fit_seconds=fitted.fit_seconds,
        verdict=Verdict.of(fitted.estimator, options.tol),
        remarks=samples.remarks,
    )
