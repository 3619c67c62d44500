"""``maxmargin train -v K``: folds, each fit started from the dual variables of the one before.

The folds of classes are stratified. Those of regressions and of one class are drawn at random. Classes and one class are
scored by their accuracy, regressions by the mean squared error and the squared correlation, as LIBLINEAR and LIBSVM do.

Two training sets share all but 2/K of their samples, and the optimal alpha of a shared sample is nearly the same in both. Any
alpha is a valid start, so a warm start only saves time: every fit is certified by itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from maxmargin.cli.data import check_outlier_labels
from maxmargin.cli.families import Targets
from maxmargin.cli.machine import TrainingOptions, weights_from
from maxmargin.cli.progress import ProgressLine
from maxmargin.cli.report import Verdict
from maxmargin.cli.training import progress_of, read
from maxmargin.cli.validation_report import AccuracyReport, ErrorReport, FoldsReport


def validated(options: TrainingOptions) -> AccuracyReport | ErrorReport:
    """How good the predictions for every fold are of a model that was trained on the others."""
    settings = options.settings()
    solver = options.chosen_solver(settings)
    _check(options)
    with progress_of(options) as line:
        samples, read_seconds = read(options, line)
        warm = {"warm_start": True} if options.family.has_warm_start else {}
        estimator = options.family.public_estimator()(**settings, **options.limits(), solver=solver, **warm)
        estimator.callback = line
        if options.family.targets is Targets.CLASSES:
            estimator.class_weight = weights_from(options.class_weight, samples.y)
        elif options.family.targets is Targets.NOTHING:
            check_outlier_labels(options.data, samples.y)
        X = samples.X.to_numpy() if hasattr(samples.X, "to_numpy") else samples.X
        begun = time.perf_counter()
        folds = _Folds.of(X, samples.y, options)
        scores = [folds.score(estimator, k, line) for k in range(folds.n_folds)]
    seconds = read_seconds, time.perf_counter() - begun
    report = FoldsReport.of([score.verdict for score in scores], len(samples.y), options.tol, seconds, samples.remarks)
    return _errors(report, scores) if options.family.targets is Targets.NUMBERS else _accuracy(report, scores)


def _check(options: TrainingOptions) -> None:
    if options.folds is None or options.folds < 2:
        raise ValueError(f"-v takes the number of folds, at least 2; got {options.folds}.")
    if options.model is not None:
        raise ValueError(f"-v writes no model: leave {options.model} out, or train without -v.")
    if options.checkpoint is not None:
        raise ValueError("-v keeps no checkpoint: leave --checkpoint out.")


class FoldOutcome(NamedTuple):
    """One fold: what was predicted, what is in the file, and the certificates of the fit."""

    predictions: Any
    targets: Any
    verdict: Verdict


def _accuracy(folds: FoldsReport, scores: list[FoldOutcome]) -> AccuracyReport:
    right = [int((score.predictions == score.targets).sum()) for score in scores]
    accuracies = tuple(n_right / len(score.targets) for n_right, score in zip(right, scores, strict=True))
    return AccuracyReport(folds, sum(right) / folds.n_samples, accuracies)


def _errors(folds: FoldsReport, scores: list[FoldOutcome]) -> ErrorReport:
    import numpy as np

    predictions, targets = (np.concatenate(each) for each in list(zip(*scores, strict=True))[:2])
    errors = tuple(float(np.mean((score.predictions - score.targets) ** 2)) for score in scores)
    p, t = predictions - predictions.mean(), targets - targets.mean()
    spread = float(p @ p) * float(t @ t)
    correlation = float(p @ t) ** 2 / spread if spread > 0.0 else float("nan")
    return ErrorReport(folds, float(np.mean((predictions - targets) ** 2)), correlation, errors)


class _Folds(NamedTuple):
    X: Any
    y: Any
    fold: Any
    n_folds: int
    takes_kernel_values: bool
    starts: _Starts

    @classmethod
    def of(cls, X: Any, y: Any, options: TrainingOptions) -> _Folds:
        n_folds, has_classes = int(options.folds or 0), options.family.targets is Targets.CLASSES
        if n_folds > len(y):
            raise ValueError(f"-v {n_folds} asks for more folds than there are samples, which are {len(y)}.")
        fold = stratified(y if has_classes else [0] * len(y), n_folds, options.seed)
        return cls(X, y, fold, n_folds, options.takes_kernel_values, _Starts(len(y), has_classes))

    def score(self, estimator: Any, k: int, line: ProgressLine) -> FoldOutcome:
        import numpy as np

        train, test = np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k)
        line.begin(f"fold {k + 1} of {self.n_folds}")
        if self.starts.has_classes:
            self._check_classes(train, k)
        self.starts.give(estimator, self.y[train], train)
        estimator.fit(self._part(train, train), self.y[train])
        self.starts.take(estimator, self.y[train], train)
        return FoldOutcome(estimator.predict(self._part(test, train)), self.y[test], Verdict.of(estimator, estimator.tol))

    def _part(self, rows: Any, train: Any) -> Any:
        """The features of these samples, or their kernel values with the training samples."""
        return self.X[rows][:, train] if self.takes_kernel_values else self.X[rows]

    def _check_classes(self, train: Any, k: int) -> None:
        if len(set(self.y[train].tolist())) < 2:
            raise ValueError(f"Without fold {k + 1} of {self.n_folds} only one class is left: ask for fewer folds with -v.")


def stratified(y: Any, n_folds: int, seed: int) -> Any:
    """The fold of each sample. The samples of a class are shuffled and dealt out like cards. The next class continues with the
    next fold. So the sizes of folds differ by at most one sample, and by at most one sample of each class."""
    import numpy as np

    y, random = np.asarray(y), np.random.default_rng(seed)
    order = np.concatenate([random.permutation(np.flatnonzero(y == label)) for label in np.unique(y)])
    fold = np.empty(len(y), np.int64)
    fold[order] = np.arange(len(y)) % n_folds
    return fold


class _Known(NamedTuple):
    """What a fit leaves for the next: its own warm start, and for each binary problem an alpha of every sample of the file."""

    warm_start: Any
    alphas: list[Any]


@dataclass
class _Starts:
    """The last alphas, by the classes that the training samples had."""

    n_samples: int
    has_classes: bool = True
    known: dict[tuple[Any, ...], _Known] = field(default_factory=dict)

    def give(self, estimator: Any, y: Any, train: Any) -> None:
        """Start the fit from the known alphas of its samples. Samples that were in the last fold start at zero."""
        known = self.known.get(self._key(y))  # nothing, where fits leave no alphas behind
        if known is not None:
            parts = self._parts(estimator, y)
            starts = [alpha[train[part]] for alpha, part in zip(known.alphas, parts, strict=True)]
            estimator._warm_start = known.warm_start._replace(alphas=starts)

    def take(self, estimator: Any, y: Any, train: Any) -> None:
        """Remember the alphas by the places of the samples in the whole file."""
        import numpy as np

        if getattr(estimator, "_warm_start", None) is None:
            return
        alphas = []
        for alpha, part in zip(estimator._warm_start.alphas, self._parts(estimator, y), strict=True):
            alphas.append(np.zeros(self.n_samples))
            alphas[-1][train[part]] = alpha
        self.known[self._key(y)] = _Known(estimator._warm_start, alphas)

    def _key(self, y: Any) -> tuple[Any, ...]:
        """The classes. A regression has none."""
        return tuple(sorted(set(y.tolist()))) if self.has_classes else ()

    def _parts(self, estimator: Any, y: Any) -> list[Any]:
        return _samples_of_problems(estimator, y) if self.has_classes else [slice(None)]


def _samples_of_problems(estimator: Any, y: Any) -> list[Any]:
    """Which of the training samples each binary problem has: a pair of classes, or all of them."""
    import numpy as np

    classes = np.unique(y)
    if not hasattr(estimator, "kernel"):
        return [slice(None)] * (1 if len(classes) == 2 else len(classes))
    from maxmargin.estimators.pairs import Pair

    return [pair.samples for pair in Pair.all_of(np.searchsorted(classes, y))]
