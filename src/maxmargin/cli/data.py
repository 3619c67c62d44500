"""The files that a command reads: data, whole or piece by piece, and models; and what is odd about the labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class FileContent(NamedTuple):
    """What a data file holds, and remarks about it for the user."""

    X: Any
    y: Any
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataFile:
    """A data file and how to read it. ``n_features`` is the width that the data must have, if that is known."""

    path: Path
    label_column: str | None = None
    zero_based: bool | None = None
    n_features: int | None = None
    dtype: str = "float64"
    is_kernel: bool = False

    def read(self) -> FileContent:
        """Read the whole file."""
        if self.is_kernel:
            return self._kernel_values()
        from maxmargin.io.svmlight import read_svmlight
        from maxmargin.io.tables import is_text, read_data

        base = "auto" if self.zero_based is None else self.zero_based
        shape: Any = {"n_features": self.n_features, "zero_based": base, "dtype": self.dtype}
        if self.label_column is None and is_text(self.path):
            X, y, queries = read_svmlight(self.path, **shape, query_id=True)
            return FileContent(X, y, remarks_on_queries(self.path, queries))
        return FileContent(*read_data(self.path, label_column=self.label_column, **shape))

    def pieces(self) -> Iterator[tuple[Any, Any]]:
        """Read a text file in pieces of some tens of megabytes, and other files whole."""
        from maxmargin.io.kernel_values import stream_kernel
        from maxmargin.io.svmlight import stream_svmlight
        from maxmargin.io.tables import is_text, read_data

        if self.is_kernel:
            self._refuse_zero_based()
            yield from stream_kernel(self.path, n_samples=self.n_features or 0, label_column=self.label_column)
        elif self.label_column is None and is_text(self.path):
            yield from stream_svmlight(self.path, n_features=self.n_features, zero_based=bool(self.zero_based))
        else:
            yield read_data(self.path, label_column=self.label_column)

    def _kernel_values(self) -> FileContent:
        from maxmargin.io.kernel_values import read_kernel

        self._refuse_zero_based()
        K, y = read_kernel(self.path, label_column=self.label_column, dtype=self.dtype)
        if self.n_features not in (None, K.shape[1]):
            raise ValueError(f"{self.path} holds the kernel of {K.shape[1]} samples, not of {self.n_features}.")
        return FileContent(K, y)

    def _refuse_zero_based(self) -> None:
        if self.zero_based:
            raise ValueError("Kernel values count from 1, feature 0 is the number of the sample: leave --zero-based out.")


@dataclass(frozen=True)
class TargetPolicy:
    """When labels look like the target of a regression. Abalone's 28 ages of shells do; the 26 letters do not."""

    most_ordinary_classes: int = 10
    """Distinct labels up to which there is no remark."""
    rare_count: int = 2
    """Samples up to which a label is rare."""
    rare_share: float = 0.1
    """Share of the samples of the most frequent label below which a label is rare, too."""
    most_rare_labels: float = 0.5
    """Share of rare labels above which there is a remark."""


def remarks_on_queries(path: Path, queries: Any) -> tuple[str, ...]:
    """Say that the query numbers of a file for ranking are ignored."""
    n_lines = int((queries != 0).sum())
    if not n_lines:
        return ()
    seen = f"{n_lines} of {len(queries)} samples have a query id (qid:)"
    return (f"{path}: {seen}, which a classifier does not use: is this a file for ranking?",)


def remarks_on_target(path: Path, y: Any, policy: TargetPolicy | None = None) -> tuple[str, ...]:
    """Say that the labels look like the target of a regression, where they are many numbers and most of them rare."""
    import numpy as np

    policy = policy or TargetPolicy()
    if y.dtype.kind not in "iuf":
        return ()
    labels, counts = np.unique(y, return_counts=True)
    if len(labels) <= policy.most_ordinary_classes:
        return ()
    rare = counts < max(policy.rare_count + 1, policy.rare_share * counts.max())
    if rare.mean() <= policy.most_rare_labels:
        return ()
    return (f"{path}: the labels have {len(labels)} distinct values, most of them rare: is this a regression target?",)


def check_classes(path: Path, y: Any) -> None:
    """Refuse labels that are no classes, with the line of the first that is not."""
    import numpy as np

    from maxmargin.io.files import MalformedFile

    labels = np.unique(y)
    if len(labels) == 1:
        raise MalformedFile(path, f"all {len(y)} samples have the label {shown(labels[0])}, and a classifier needs two classes")
    if labels.dtype.kind != "f" or not np.any(is_fraction := y != np.floor(y)):
        return
    first = int(np.argmax(is_fraction))
    sentence = (
        f"the label {y[first]:g} is no class, which is a whole number or a word; the labels have {len(labels)} distinct values "
        "(is this a regression target?)"
    )
    raise MalformedFile(path, sentence, _line_of(path, first))


def check_numbers(path: Path, y: Any) -> Any:
    """The targets of a regression as float64; the first that is no finite number is refused, with its line."""
    import numpy as np

    from maxmargin.io.files import MalformedFile

    if y.dtype.kind not in "iufb":
        raise MalformedFile(path, f"the target {shown(y[0])!r} is not a number", _line_of(path, 0))
    numbers = y.astype(np.float64)
    if not np.isfinite(numbers).all():
        first = int(np.argmin(np.isfinite(numbers)))
        raise MalformedFile(path, f"the target {shown(y[first])} is not finite", _line_of(path, first))
    return numbers


def check_outlier_labels(path: Path, y: Any) -> None:
    """Refuse labels that the predictions of a one-class SVM cannot be compared with: 1 is an inlier, -1 an outlier."""
    import numpy as np

    from maxmargin.io.files import MalformedFile

    is_known = np.isin(y, (1, -1))
    if not is_known.all():
        first = int(np.argmin(is_known))
        sentence = (
            f"the label {shown(y[first])} is neither 1 (an inlier) nor -1 (an outlier), with which -v compares predictions"
        )
        raise MalformedFile(path, sentence, _line_of(path, first))


def _line_of(path: Path, sample: int) -> int | None:
    from maxmargin.io.files import is_regular
    from maxmargin.io.kernel_values import line_of_sample
    from maxmargin.io.tables import is_text

    if is_text(path):
        return line_of_sample(path, sample) if is_regular(path) else None
    return sample + 2 if path.suffix == ".csv" else None


def shown(label: Any) -> str:
    """A label as it stands in the file: 1 and not np.float64(1.0)."""
    value = label.item() if hasattr(label, "item") else label
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def load(path: Path) -> Any:
    """Load a model. Its first bytes say of which kind it is."""
    from maxmargin.io import load_model, read_liblinear, read_libsvm

    with open(path, "rb") as file:
        start = file.read(16)
    if start.startswith(b"solver_type"):
        return read_liblinear(path)
    return read_libsvm(path) if start.startswith(b"svm_type") else load_model(path)


def takes_kernel_values(estimator: Any) -> bool:
    """Whether a model predicts from kernel values instead of features."""
    return getattr(estimator, "kernel", None) == "precomputed"
