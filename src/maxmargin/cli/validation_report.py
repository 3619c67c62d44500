"""What ``train -v`` says at the end: the accuracy of classes and of one class, or the errors of a regression."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from maxmargin.cli.report import Verdict, tolerance_text


@dataclass(frozen=True)
class FoldsReport:
    """What all reports on folds have: how many there were, and whether their fits are certified."""

    n_folds: int
    n_samples: int
    certified: bool
    relative_gap: float
    tol: float
    read_seconds: float
    fit_seconds: float
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, verdicts: Sequence[Verdict], n_samples: int, tol: float, seconds: tuple[float, float], remarks: tuple[str, ...]
    ) -> FoldsReport:
        """``seconds`` are those of reading and of fitting."""
        certified, worst = all(each.certified for each in verdicts), max(each.relative_gap for each in verdicts)
        return cls(len(verdicts), n_samples, certified, worst, tol, *seconds, remarks)

    def as_json(self, **scores: Any) -> dict[str, Any]:
        return {
            "folds": self.n_folds,
            "samples": self.n_samples,
            **scores,
            "certified": self.certified,
            "relative_gap": self.relative_gap,
            "tol": self.tol,
            "seconds": {"read": self.read_seconds, "fit": self.fit_seconds},
            "warnings": list(self.remarks),
        }

    def words(self, *scores: str) -> str:
        head = "Every fit is certified" if self.certified else "NOT every fit is certified"
        proof = f"  {head}: the worst is within {self.relative_gap:.1e} of its optimum; asked {tolerance_text(self.tol)}"
        times = f"  {self.n_samples} samples; read in {self.read_seconds:.2f} s, fitted in {self.fit_seconds:.2f} s"
        return "\n".join((*scores, proof, times))


@dataclass(frozen=True)
class AccuracyReport:
    """The accuracy is that of all samples together, as in LIBLINEAR and LIBSVM."""

    folds: FoldsReport
    accuracy: float
    accuracies: tuple[float, ...]

    @property
    def certified(self) -> bool:
        return self.folds.certified

    @property
    def spread(self) -> float:
        """The standard deviation of the accuracies of the folds."""
        return statistics.stdev(self.accuracies)

    def as_json(self) -> dict[str, Any]:
        return self.folds.as_json(accuracy=self.accuracy, spread=self.spread, accuracies=list(self.accuracies))

    def words(self) -> str:
        of_folds = ", ".join(f"{100 * accuracy:.2f}" for accuracy in self.accuracies)
        return self.folds.words(
            f"Cross-validation accuracy: {100 * self.accuracy:.4f}%, +/- {100 * self.spread:.2f}% ({self.folds.n_folds} folds)",
            f"  the folds, in percent: {of_folds}",
        )


@dataclass(frozen=True)
class ErrorReport:
    """The mean squared error and the squared correlation of predictions and targets, both of all samples together, as in
    LIBLINEAR and LIBSVM. ``errors`` are the mean squared errors of the folds. The correlation is not a number where all
    targets or all predictions are equal."""

    folds: FoldsReport
    mean_squared_error: float
    squared_correlation: float
    errors: tuple[float, ...]

    @property
    def certified(self) -> bool:
        return self.folds.certified

    @property
    def spread(self) -> float:
        """The standard deviation of the mean squared errors of the folds."""
        return statistics.stdev(self.errors)

    def as_json(self) -> dict[str, Any]:
        return self.folds.as_json(
            mean_squared_error=self.mean_squared_error,
            squared_correlation=None if math.isnan(self.squared_correlation) else self.squared_correlation,
            spread=self.spread,
            mean_squared_errors=list(self.errors),
        )

    def words(self) -> str:
        error = f"{self.mean_squared_error:.6g}, +/- {self.spread:.2g} ({self.folds.n_folds} folds)"
        return self.folds.words(
            f"Cross-validation mean squared error: {error}",
            f"Cross-validation squared correlation coefficient: {self._correlation}",
            f"  the folds: {', '.join(f'{each:.6g}' for each in self.errors)}",
        )

    @property
    def _correlation(self) -> str:
        if math.isnan(self.squared_correlation):
            return "undefined, as all targets or all predictions are equal"
        return f"{self.squared_correlation:.6g}"
