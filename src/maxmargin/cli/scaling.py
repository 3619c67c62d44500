"""``maxmargin scale``: svm-scale's options and its file of ranges, for data of any size."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxmargin.cli import options as of
from maxmargin.cli.data import DataFile
from maxmargin.cli.outcome import complain

if TYPE_CHECKING:
    from maxmargin.io.ranges import Ends, Ranges


@dataclass(frozen=True)
class ScalingRemarks:
    """When the user is told of the size of the scaled data."""

    denser: float = 2.0
    """Times as many values that are not zero as before. svm-scale warns of every one more."""


@dataclass(frozen=True)
class ScalingOptions:
    """The options of ``scale``."""

    data: of.Data
    output: of.Scaled = None
    lower: of.Lower = None
    upper: of.Upper = None
    target: of.TargetBounds = None
    save: of.SaveRanges = None
    restore: of.RestoreRanges = None
    zero_based: of.ZeroBasedStream = False
    label_column: of.LabelColumn = None
    as_json: of.AsJson = False
    quiet: of.Quiet = False

    def bounds(self) -> Ends:
        """The range to scale to: -1 to 1 by default, as in svm-scale."""
        lower = -1.0 if self.lower is None else self.lower
        upper = 1.0 if self.upper is None else self.upper
        return _interval(lower, upper, f"-l {lower:g} and -u {upper:g}")

    def target_bounds(self) -> Ends | None:
        if self.target is None:
            return None
        return _interval(*self.target, f"-y {self.target[0]:g} {self.target[1]:g}")

    def check(self) -> None:
        """Refuse what does not go together, and outputs that cannot be written."""
        from maxmargin.io.outputs import Output

        if self.restore is not None:
            given = {"-l": self.lower, "-u": self.upper, "-y": self.target, "-s": self.save}
            for switch, value in given.items():
                if value is not None:
                    raise ValueError(f"-r {self.restore} says how to scale: leave {switch} out.")
        for path, other in ((self.output, self.save), (self.save, None)):
            if path is not None:
                Output(path).check(self.data, self.restore, other)


@dataclass
class ScalingReport:
    """What ``scale`` has done."""

    output: str
    n_samples: int = 0
    n_features: int = 0
    n_kept: int = 0
    stored_before: int = 0
    stored_after: int = 0
    n_unknown: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "output": self.output,
            "samples": self.n_samples,
            "features": self.n_features,
            "kept": self.n_kept,
            "nonzeros": {"before": self.stored_before, "after": self.stored_after},
            "unknown_features": self.n_unknown,
        }

    def words(self) -> str:
        kept = f"{self.n_kept} of {self.n_features} features (the others have one value only)"
        scaled = kept if self.n_kept < self.n_features else f"{self.n_features} features"
        return f"Scaled {self.n_samples} samples, {scaled}: {self.output}"

    def remarks(self, options: ScalingOptions) -> Iterator[str]:
        """What svm-scale warns of, too."""
        if self.n_unknown:
            yield f"{options.data}: {self.n_unknown} features are not in {options.restore}, and were left out."
        if self.stored_after > ScalingRemarks().denser * self.stored_before:
            more = f"{self.stored_after} values that are not zero, where there were {self.stored_before}"
            yield f"The scaled data has {more}. If no value is negative, -l 0 keeps zeros zero."


def scaled(options: ScalingOptions) -> ScalingReport:
    """Measure the ranges or read them, and write the scaled samples."""
    options.check()
    ranges = _ranges(options)
    if options.save is not None:
        ranges.write(options.save, zero_based=options.zero_based)
    report = ScalingReport(str(options.output), n_features=ranges.n_features, n_kept=int(ranges.is_kept.sum()))
    with _output(options.output) as file:
        for X, y in _pieces(options):
            _write(X, y, ranges, options, report, file)
    if not options.quiet:
        for remark in report.remarks(options):
            complain(remark)
    return report


def _ranges(options: ScalingOptions) -> Ranges:
    from maxmargin.io.ranges import Ranges

    if options.restore is not None:
        return Ranges.read(options.restore, zero_based=options.zero_based)
    return Ranges.measured(_pieces(options), options.bounds(), options.target_bounds())


def _write(X: Any, y: Any, ranges: Ranges, options: ScalingOptions, report: ScalingReport, file: Any) -> None:
    """The lines of one piece."""
    from maxmargin.io.svmlight import svmlight_lines

    report.n_samples += X.shape[0]
    report.n_unknown = max(report.n_unknown, X.shape[1] - ranges.n_features)
    labels, start = ranges.labels(y), 0
    for block in ranges.blocks(X):
        report.stored_after += block.nnz
        file.writelines(svmlight_lines(block, labels[start : start + block.shape[0]], zero_based=options.zero_based))
        start += block.shape[0]
    report.stored_before += int((X.data != 0.0).sum())


def _pieces(options: ScalingOptions) -> Iterable[tuple[Any, Any]]:
    """Piece by piece where the file can be read twice, and at once where it is a pipe or a table."""
    import numpy as np
    from scipy import sparse

    from maxmargin.io.files import is_regular

    file = DataFile(options.data, options.label_column, options.zero_based)
    if not is_regular(options.data) and options.restore is None:
        raise ValueError(f"{options.data} can be read only once, and the ranges take a pass of their own: name a file.")
    for X, y in file.pieces():
        if y.dtype.kind not in "biuf":
            raise ValueError(f"{options.data} has words for labels, which svmlight text does not hold.")
        yield sparse.csr_matrix(X, dtype=np.float64), y


@contextmanager
def _output(path: Path | None) -> Iterator[Any]:
    """A file, or standard output."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    from maxmargin.io.outputs import written

    with written(path) as file:
        yield file


def _interval(lower: float, upper: float, said: str) -> Ends:
    from maxmargin.io.ranges import Ends

    if not -float("inf") < lower < upper < float("inf"):
        raise ValueError(f"{said} are not a range: the lower end must be below the upper end.")
    return Ends(lower, upper)
