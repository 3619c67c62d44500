"""``maxmargin train -v K``: stratified folds, each fit started from the dual variables of the one before.

Two training sets share all but 2/K of their samples, and the optimal alpha of a shared sample is nearly the same in both. Any
alpha is a valid start, so a warm start only saves time: every fit is certified by itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from maxmargin.cli.families import Targets
from maxmargin.cli.machine import TrainingOptions, weights_from
from maxmargin.cli.progress import ProgressLine
from maxmargin.cli.report import ValidationReport, Verdict
from maxmargin.cli.training import progress_of, read


def validated(options: TrainingOptions) -> ValidationReport:
    """The accuracy on every fold of a model that was trained on the others."""
    settings = options.settings()
    solver = options.chosen_solver(settings)
    _check(options)
    with progress_of(options) as line:
        samples, read_seconds = read(options, line)
        warm = {"warm_start": True} if options.family.has_warm_start else {}
        estimator = options.family.public_estimator()(**settings, **options.limits(), solver=solver, **warm)
        estimator.class_weight, estimator.callback = weights_from(options.class_weight, samples.y), line
        X = samples.X.to_numpy() if hasattr(samples.X, "to_numpy") else samples.X
        begun = time.perf_counter()
        folds = _Folds.of(X, samples.y, int(options.folds or 0), options.seed, options.takes_kernel_values)
        scores = [folds.score(estimator, k, line) for k in range(folds.n_folds)]
    seconds = time.perf_counter() - begun
    return ValidationReport.of(scores, len(samples.y), options.tol, (read_seconds, seconds), samples.remarks)


def _check(options: TrainingOptions) -> None:
    if options.folds is None or options.folds < 2:
        raise ValueError(f"-v takes the number of folds, at least 2; got {options.folds}.")
    if options.family.targets is not Targets.CLASSES:
        raise ValueError("-v is for classes: regression and the one-class SVM cannot be cross-validated here yet.")
    if options.model is not None:
        raise ValueError(f"-v writes no model: leave {options.model} out, or train without -v.")
    if options.checkpoint is not None:
        raise ValueError("-v keeps no checkpoint: leave --checkpoint out.")


class FoldScore(NamedTuple):
    """One fold: how many samples were predicted right, of how many, and the certificates of the fit."""

    n_right: int
    n_samples: int
    verdict: Verdict


class _Folds(NamedTuple):
    X: Any
    y: Any
    fold: Any
    n_folds: int
    takes_kernel_values: bool
    starts: _Starts

    @classmethod
    def of(cls, X: Any, y: Any, n_folds: int, seed: int, takes_kernel_values: bool) -> _Folds:
        if n_folds > len(y):
            raise ValueError(f"-v {n_folds} asks for more folds than there are samples, which are {len(y)}.")
        return cls(X, y, stratified(y, n_folds, seed), n_folds, takes_kernel_values, _Starts(len(y)))

    def score(self, estimator: Any, k: int, line: ProgressLine) -> FoldScore:
        import numpy as np

        train, test = np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k)
        line.begin(f"fold {k + 1} of {self.n_folds}")
        self._check_classes(train, k)
        self.starts.give(estimator, self.y[train], train)
        estimator.fit(self._part(train, train), self.y[train])
        self.starts.take(estimator, self.y[train], train)
        n_right = int((estimator.predict(self._part(test, train)) == self.y[test]).sum())
        return FoldScore(n_right, len(test), Verdict.of(estimator, estimator.tol))

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

    random = np.random.default_rng(seed)
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
    known: dict[tuple[Any, ...], _Known] = field(default_factory=dict)

    def give(self, estimator: Any, y: Any, train: Any) -> None:
        """Start the fit from the known alphas of its samples. Samples that were in the last fold start at zero."""
        known = self.known.get(_classes(y))  # nothing, where fits leave no alphas behind
        if known is not None:
            parts = _samples_of_problems(estimator, y)
            starts = [alpha[train[part]] for alpha, part in zip(known.alphas, parts, strict=True)]
            estimator._warm_start = known.warm_start._replace(alphas=starts)

    def take(self, estimator: Any, y: Any, train: Any) -> None:
        """Remember the alphas by the places of the samples in the whole file."""
        import numpy as np

        if not estimator.warm_start:
            return
        alphas = []
        for alpha, part in zip(estimator._warm_start.alphas, _samples_of_problems(estimator, y), strict=True):
            alphas.append(np.zeros(self.n_samples))
            alphas[-1][train[part]] = alpha
        self.known[_classes(y)] = _Known(estimator._warm_start, alphas)


def _classes(y: Any) -> tuple[Any, ...]:
    return tuple(sorted(set(y.tolist())))


def _samples_of_problems(estimator: Any, y: Any) -> list[Any]:
    """Which of the training samples each binary problem has: a pair of classes, or all of them."""
    import numpy as np

    classes = np.unique(y)
    if not hasattr(estimator, "kernel"):
        return [slice(None)] * (1 if len(classes) == 2 else len(classes))
    from maxmargin.estimators.pairs import Pair

    return [pair.samples for pair in Pair.all_of(np.searchsorted(classes, y))]
