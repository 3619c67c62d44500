"""``maxmargin predict``: labels, decision values, probabilities and proofs, piece by piece, for a file of any size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxmargin.cli import options as of
from maxmargin.cli.data import DataFile, load, takes_kernel_values
from maxmargin.cli.report import PredictionReport, RegressionReport, value_text


@dataclass(frozen=True)
class PredictionOptions:
    """The options of ``predict``."""

    data: of.Data
    model: of.Model
    output: of.Predictions = None
    decision_values: of.DecisionValues = False
    probability: of.Probabilities = 0
    certified: of.Certified = False
    zero_based: of.ZeroBasedStream = False
    label_column: of.LabelColumn = None
    as_json: of.AsJson = False
    quiet: of.Quiet = False


@dataclass
class LabelCounts:
    """The counts so far."""

    samples: int = 0
    right: int = 0
    proved: int = 0


@dataclass
class ErrorSums:
    """The sums so far of a regression: squared errors, and the mean and the squared deviations of the targets. They are merged
    piece by piece (T. F. Chan, G. H. Golub, R. J. LeVeque, 1979)."""

    samples: int = 0
    squared: float = 0.0
    mean: float = 0.0
    deviations: float = 0.0
    radius: float = 0.0

    def see(self, values: Any, y: Any) -> None:
        n, rest = len(y), y - values
        mean, before = float(y.mean()), self.samples
        self.deviations += float(((y - mean) ** 2).sum()) + (mean - self.mean) ** 2 * before * n / (before + n)
        self.mean += (mean - self.mean) * n / (before + n)
        self.samples, self.squared = before + n, self.squared + float(rest @ rest)

    def report(self, options: PredictionOptions) -> RegressionReport:
        output, radius = options.output, self.radius if options.certified else None
        r2 = 1.0 - self.squared / self.deviations if self.deviations > 0.0 else float(self.squared == 0.0)
        return RegressionReport(self.samples, self.squared / self.samples, r2, radius, None if output is None else str(output))


def predicted(options: PredictionOptions) -> PredictionReport | RegressionReport:
    """Predict all samples of a file."""
    from maxmargin.io.outputs import Output, written
    from maxmargin.models.libsvm import aligned, width_of

    if options.output is not None:
        Output(options.output).check(options.data, options.model)
    estimator = load(options.model)
    _check_abilities(estimator, options)
    is_kernel, counts, errors = takes_kernel_values(estimator), LabelCounts(), ErrorSums()
    file = DataFile(options.data, options.label_column, options.zero_based, width_of(estimator), is_kernel=is_kernel)
    with _names_may_differ(), written(options.output) if options.output is not None else _nowhere() as output:
        if options.probability:
            output.write(f"labels {_line(estimator.classes_.tolist())}\n".encode())
        for piece, y in file.pieces():
            X = aligned(estimator, piece)
            is_plain = is_regression(estimator)
            rows = _values(estimator, X, y, options, errors) if is_plain else _rows(estimator, X, y, options, counts)
            output.writelines(f"{_line(row)}\n".encode() for row in rows)
    if is_regression(estimator):
        return errors.report(options)
    return PredictionReport.of(counts.samples, counts.right, counts.proved if options.certified else None, options.output)


def is_regression(estimator: Any) -> bool:
    """Whether a model predicts numbers, and so has no decision values."""
    return not hasattr(estimator, "decision_function")


def _values(estimator: Any, X: Any, y: Any, options: PredictionOptions, errors: ErrorSums) -> list[list[Any]]:
    """The words that are written for each sample of a regression: the value, and its radius with ``--certified``."""
    from maxmargin.cli.data import check_numbers

    y = check_numbers(options.data, y)
    if not options.certified:
        values = estimator.predict(X).ravel()
        errors.see(values, y)
        return [[value] for value in values.tolist()]
    values, radius = (part.ravel() for part in estimator.certified_predict(X))
    errors.see(values, y)
    errors.radius = max(errors.radius, float(radius.max()))
    return [list(pair) for pair in zip(values.tolist(), radius.tolist(), strict=True)]


def _rows(estimator: Any, X: Any, y: Any, options: PredictionOptions, counts: LabelCounts) -> list[list[Any]]:
    """The words that are written for each sample."""
    labels, proved, probabilities = _answers(estimator, X, options)
    counts.samples, counts.right = counts.samples + len(labels), counts.right + int((labels == y).sum())
    if options.decision_values:
        columns = [estimator.decision_function(X).reshape(len(labels), -1).tolist()]
    else:
        columns = [labels.reshape(-1, 1).tolist()]
    if probabilities is not None:
        columns.append(probabilities.tolist())
    if proved is not None:
        counts.proved += int(proved.sum())
        columns.append(proved.astype(int).reshape(-1, 1).tolist())
    return [[value for part in parts for value in part] for parts in zip(*columns, strict=True)]


def _answers(estimator: Any, X: Any, options: PredictionOptions) -> tuple[Any, Any, Any]:
    """Labels, and where they were asked for a mask of those that are proved, and probabilities. With these the label is the
    most probable one, as in svm-predict, which may be another than that of the votes."""
    if options.certified:
        return *estimator.certified_predict(X), None
    if not options.probability:
        return estimator.predict(X), None, None
    from maxmargin.models.probabilities import class_probabilities

    probabilities = class_probabilities(estimator, X)
    return estimator.classes_[probabilities.argmax(axis=1)], None, probabilities


def _line(values: list[Any]) -> str:
    return " ".join(map(value_text, values))


def _check_abilities(estimator: Any, options: PredictionOptions) -> None:
    """Refuse options that the model cannot serve."""
    from maxmargin.estimators.labels import refuse_indicator
    from maxmargin.models.probabilities import has_probabilities

    if options.probability not in (0, 1):
        raise ValueError(f"-b takes 0 or 1; got {options.probability}.")
    if options.probability and (options.certified or options.decision_values):
        raise ValueError("-b 1 writes labels and probabilities: leave --certified and -d out.")
    if options.decision_values and is_regression(estimator):
        raise ValueError(f"{options.model} predicts numbers, which are written anyway: leave -d out.")
    if is_regression(estimator) and len(estimator.intercept_) > 1:
        raise ValueError(
            f"{options.model} predicts {len(estimator.intercept_)} numbers for each sample; a data file holds one."
        )
    if options.probability and not has_probabilities(estimator):
        raise ValueError(
            f"{options.model} holds no probabilities, which -b 1 asks for: train it with svm-train -b 1, or in Python wrap it "
            "in scikit-learn's CalibratedClassifierCV. Without -b, -d writes decision values."
        )
    refuse_indicator(estimator, "A file of predictions")
    if options.certified:
        _check_for_proofs(estimator, options.model)


def _check_for_proofs(estimator: Any, model: Path) -> None:
    if not hasattr(estimator, "certificate_"):
        raise ValueError(f"{model} has no certificate (it was imported), so nothing can be proved of its predictions.")
    if takes_kernel_values(estimator):
        raise ValueError(
            "--certified needs k(x, x), which a file of kernel values does not hold: use "
            f"{type(estimator).__name__}.certified_predict(X, diagonal)."
        )


@contextmanager
def _names_may_differ() -> Iterator[None]:
    """scikit-learn warns where only one of the model and the data has names of features, as text files never have."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X (has|does not have valid) feature names")
        yield


@contextmanager
def _nowhere() -> Iterator[Any]:
    with open(os.devnull, "wb") as file:
        yield file
