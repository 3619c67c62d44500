"""``maxmargin train -C``: LIBLINEAR's search for C, by cross-validation over a list of values. It writes no model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from maxmargin.cli import families
from maxmargin.cli.cross_validation import stratified
from maxmargin.cli.machine import TrainingOptions, weights_from
from maxmargin.cli.training import progress_of, read


@dataclass(frozen=True)
class FindCPolicy:
    """What ``-C`` tries where the user says nothing."""

    n_folds: int = 5
    """Folds without ``-v``, as in LIBLINEAR."""
    n_values: int = 13
    """Values of C, from 1e-3 to 1e3 at equal ratios: each is about three times the one before."""


SEARCH = FindCPolicy()


class Measure(NamedTuple):
    """How the values of C are compared: names of one and of several scores in JSON, the word for one, scikit-learn's name."""

    one: str
    several: str
    word: str
    scoring: str
    is_error: bool

    def text(self, score: float) -> str:
        return f"{score:.6g}" if self.is_error else f"{100 * score:.4f}%"

    def of(self, scores: Any) -> Any:
        """What is reported of scikit-learn's scores, of which greater ones are better."""
        return -scores if self.is_error else scores


ACCURACY = Measure("accuracy", "accuracies", "accuracy", "accuracy", False)
SQUARED_ERROR = Measure("mean_squared_error", "mean_squared_errors", "mean squared error", "neg_mean_squared_error", True)


@dataclass(frozen=True)
class SearchReport:
    """The mean score of each C; None for a value that provably cannot be the best one."""

    C: float
    measure: Measure
    score: float
    Cs: list[float]
    scores: list[float | None]
    n_folds: int
    n_samples: int
    read_seconds: float
    fit_seconds: float
    remarks: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "C": self.C,
            self.measure.one: self.score,
            "Cs": self.Cs,
            self.measure.several: self.scores,
            "folds": self.n_folds,
            "samples": self.n_samples,
            "seconds": {"read": self.read_seconds, "fit": self.fit_seconds},
            "warnings": list(self.remarks),
        }

    def words(self) -> str:
        rows = [
            f"  C = {C:<10.4g} " + ("cannot be the best" if score is None else self.measure.text(score))
            for C, score in zip(self.Cs, self.scores, strict=True)
        ]
        best = f"{self.measure.word} {self.measure.text(self.score)}"
        head = f"Best C = {self.C:g}, cross-validation {best} ({self.n_folds} folds)"
        end = f"  {self.n_samples} samples; read in {self.read_seconds:.2f} s, searched in {self.fit_seconds:.2f} s"
        return "\n".join([head, *rows, end, *self.remarks])


def searched(options: TrainingOptions) -> SearchReport:
    """Read the data, and try every value on the same folds."""
    import numpy as np
    from sklearn.model_selection import PredefinedSplit

    _check(options)
    settings = options.settings()
    solver = options.chosen_solver(settings)
    with progress_of(options) as line:
        samples, read_seconds = read(options, line)
        X = samples.X.to_numpy() if hasattr(samples.X, "to_numpy") else samples.X
        n_folds = options.folds or SEARCH.n_folds
        limits = {name: value for name, value in options.limits().items() if name != "C"}
        has_classes = options.family.targets is families.Targets.CLASSES
        measure = ACCURACY if has_classes else SQUARED_ERROR
        if n_folds > len(samples.y):
            raise ValueError(f"{n_folds} folds are more than there are samples, which are {len(samples.y)}.")
        folds = stratified(samples.y if has_classes else np.zeros(len(samples.y)), n_folds, options.seed)
        search = _estimator(options, settings)(
            scoring=measure.scoring,
            Cs=SEARCH.n_values,
            cv=PredefinedSplit(folds),
            refit=False,
            solver=solver,
            **limits,
        )
        if has_classes:
            search.class_weight = weights_from(options.class_weight, samples.y)
        begun = time.perf_counter()
        search.fit(X, samples.y)
    means = search.scores_.reshape(n_folds, -1).mean(axis=0)
    return SearchReport(
        C=search.C_,
        measure=measure,
        score=measure.of(search.best_score_),
        Cs=search.Cs_.tolist(),
        scores=[None if np.isnan(mean) else float(measure.of(mean)) for mean in means],
        n_folds=n_folds,
        n_samples=len(samples.y),
        read_seconds=read_seconds,
        fit_seconds=time.perf_counter() - begun,
        remarks=samples.remarks,
    )


def _check(options: TrainingOptions) -> None:
    if "C" in options.family.lacks or options.family is families.NU_REGRESSION:
        raise ValueError("-C searches for the C of a classification or a regression; a machine with nu has another parameter.")
    if options.model is not None:
        raise ValueError(f"-C writes no model: leave {options.model} out, and train with the C that it finds.")
    if options.checkpoint is not None:
        raise ValueError("-C keeps no checkpoint: leave --checkpoint out.")
    if options.folds is not None and options.folds < 2:
        raise ValueError(f"-v takes the number of folds, at least 2; got {options.folds}.")


def _estimator(options: TrainingOptions, settings: dict[str, Any]) -> Any:
    """The search with the settings of the machine; a kernel has one gamma."""
    from functools import partial

    from maxmargin.estimators.linear_svc_cv import LinearSVCCV
    from maxmargin.estimators.linear_svr_cv import LinearSVRCV
    from maxmargin.estimators.svc_cv import SVCCV
    from maxmargin.estimators.svr_cv import SVRCV

    has_classes = options.family.targets is families.Targets.CLASSES
    if not options.has_kernel:
        return partial(LinearSVCCV if has_classes else LinearSVRCV, **settings)
    own = {name: value for name, value in settings.items() if name != "gamma"}
    gammas = [settings["gamma"]] if "gamma" in settings else None
    return partial(SVCCV if has_classes else SVRCV, gammas=gammas, **own)
