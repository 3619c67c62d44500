"""One page about a fitted model: what was proved, how the fit went, the data, the parameters and the versions."""

from __future__ import annotations

import inspect
import platform
from html import escape
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.certificate.html import certificate_rows, in_words
from maxmargin.data.rows import Array
from maxmargin.displays import page, policy
from maxmargin.displays.convergence import ConvergenceDisplay

NAMES = {
    "LinearClassifier": "LinearSVC",
    "KernelClassifier": "SVC",
    "LinearRegressor": "LinearSVR",
    "KernelRegressor": "SVR",
    "LinearOneClass": "LinearOneClassSVM",
}
"""The public names of the classes that the command line trains with."""
NOT_NEW = "If the model was trained on these samples, this says nothing about new data."
PACKAGES = ("maxmargin", "numpy", "scipy", "scikit-learn", "numba")


class Report:
    """A self-contained page about a fitted model.

    ``model.report(X, y)`` and ``maxmargin train --report FILE.html`` make one. A notebook shows it in place.

    Parameters
    ----------
    title : str
    body : str
        The HTML inside the page.

    Attributes
    ----------
    html : str
        The whole page.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> report = SVC().fit(X, y).report(X, y)
    >>> "no model of this training problem" in report.html
    True
    """

    def __init__(self, *, title: str, body: str) -> None:
        self.title = title
        self.body = f'<style>{page.STYLE}</style>\n<div class="maxmargin-report">\n{body}\n</div>'

    @property
    def html(self) -> str:
        return page.whole_page(self.title, self.body)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, y: Any = None, *, predictions: Any = None) -> Report:
        """Describe a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator of maxmargin
        X : matrix, optional
            The data, for its summary.
        y : array, optional
            The labels of X, for the balance of the classes, or its targets.
        predictions : array, optional
            What the model predicts for X, for the comparison with y.
        """
        if not hasattr(estimator, "certificate_"):
            raise ValueError(f"This {type(estimator).__name__} has no certificate: it was imported, or is not fitted yet.")
        title = f"{_name(estimator)} trained by maxmargin"
        parts = [
            f"<h1>{escape(title)}</h1>",
            _verdict(estimator),
            _certificates(estimator),
            _convergence(estimator),
            _data(estimator, X, y),
            _predictions(estimator, y, predictions),
            _parameters(estimator),
            _versions(),
        ]
        return cls(title=title, body="\n".join(part for part in parts if part))

    def save(self, path: str | Path) -> Path:
        """Write the page to ``path``."""
        path = Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        return self.body

    def __repr__(self) -> str:
        return f"<Report: {self.title}, {len(self.html):,} characters of HTML>"


def _name(estimator: Any) -> str:
    return NAMES.get(type(estimator).__name__, type(estimator).__name__)


def _unit(estimator: Any) -> str:
    """What a model has a certificate for each of."""
    return "binary problem" if hasattr(estimator, "classes_") else "output"


def _all(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _verdict(estimator: Any) -> str:
    statuses = _all(estimator.status_)
    n_good = sum(status.is_certified for status in statuses)
    if n_good == len(statuses):
        several = f" All {len(statuses)} {_unit(estimator)}s are." if len(statuses) > 1 else ""
        text = f"Certified: within {estimator.relative_gap_:.2e} of the optimum; {estimator.tol:g} was asked.{several}"
        return page.verdict(text, is_good=True)
    reason = next(status for status in statuses if not status.is_certified)
    text = f"Not certified: {reason.value} Reached {estimator.relative_gap_:.2e}; {estimator.tol:g} was asked. "
    return page.verdict(text + f"{n_good} of {len(statuses)} {_unit(estimator)}s are certified.", is_good=False)


def _certificates(estimator: Any) -> str:
    certificates = _all(estimator.certificate_)
    worst = max(certificates, key=lambda certificate: certificate.relative_gap)
    parts = [page.paragraph(in_words(worst)), page.table(certificate_rows(worst))]
    if len(certificates) == 1:
        return page.section("What is proved", *parts)
    order = sorted(range(len(certificates)), key=lambda k: -certificates[k].relative_gap)
    rows = [_problem_row(_problem_name(estimator, k), certificates[k]) for k in order[: policy.REPORT.most_problems]]
    left_out = len(certificates) - len(rows)
    heading = (_unit(estimator), "relative gap", "objective", "distance bound", "support vectors")
    more = [page.paragraph(f"{left_out} more are better than these.")] if left_out else []
    intro = page.paragraph(f"There are {len(certificates)} {_unit(estimator)}s. This is the worst of their certificates:")
    return page.section("What is proved", intro, *parts, page.table(rows, heading=heading), *more)


def _problem_row(name: str, certificate: Any) -> tuple[str, ...]:
    numbers = (f"{certificate.relative_gap:.2e}", f"{certificate.primal:.6g}", f"{certificate.distance_bound:.2e}")
    return (name, *numbers, str(certificate.n_support))


def _problem_name(estimator: Any, k: int) -> str:
    if not hasattr(estimator, "classes_"):
        return f"output {k + 1}"
    classes = [str(label) for label in estimator.classes_]
    if hasattr(estimator, "dual_coef_"):
        pairs = [f"{a} against {b}" for i, a in enumerate(classes) for b in classes[i + 1 :]]
        return pairs[k]
    return f"{classes[k]} against the rest"


def _convergence(estimator: Any) -> str:
    traces = _all(estimator.trace_)
    longest = max(traces, key=len)
    rows = [
        (f"{row.seconds:.4g} s", f"{row.epochs:.1f}", f"{row.relative_gap:.2e}", row.solver, row.reason)
        for row in longest[-policy.REPORT.most_checks :]
    ]
    last = page.details(
        f"The last {len(rows)} of {len(longest)} certificates" + (" of the longest fit" if len(traces) > 1 else ""),
        page.table(rows, heading=("time", "epochs", "relative gap", "solver", "why this solver")),
    )
    text = "The solver was checked at the points. The gap that was asked for is the dotted line."
    return page.section("How the fit went", page.paragraph(text), _picture(estimator), last)


def _picture(estimator: Any) -> str:
    if find_spec("matplotlib") is None:
        return page.paragraph("The picture of the gap against time needs matplotlib: pip install maxmargin[plots].")
    return page.picture(lambda ax: ConvergenceDisplay.from_estimator(estimator, ax=ax))


def _data(estimator: Any, X: Any, y: Any) -> str:
    rows = [("features", f"{estimator.n_features_in_:,}")]
    if hasattr(estimator, "classes_"):
        rows.append(("classes", f"{len(estimator.classes_):,}"))
    if X is not None:
        rows = [("samples", f"{X.shape[0]:,}"), *rows, ("storage", _storage(X))]
    parts = [page.table(rows)]
    if y is not None and hasattr(estimator, "classes_"):
        labels, counts = np.unique(np.asarray(y), return_counts=True)
        shown = slice(0, policy.REPORT.most_classes)
        parts += [page.paragraph("Samples of each class:"), page.bars([str(v) for v in labels[shown]], counts[shown].tolist())]
    elif y is not None:
        least, middle, greatest = np.quantile(np.asarray(y, dtype=np.float64), (0.0, 0.5, 1.0))
        parts.append(page.paragraph(f"The targets go from {least:.6g} to {greatest:.6g}; half of them are below {middle:.6g}."))
    return page.section("Data", *parts)


def _storage(X: Any) -> str:
    if sparse.issparse(X):
        return f"sparse, {X.nnz:,} stored values ({100.0 * X.nnz / max(1, X.shape[0] * X.shape[1]):.3g}%), {X.dtype}"
    kinds = sorted({str(dtype) for dtype in X.dtypes}) if hasattr(X, "dtypes") else [str(X.dtype)]
    return f"dense, {', '.join(kinds)}"


def _predictions(estimator: Any, y: Any, predictions: Any) -> str:
    if predictions is None:
        return ""
    if hasattr(estimator, "classes_"):
        return _confusion(estimator, y, predictions) if y is not None else ""
    if hasattr(estimator, "offset_"):
        n_outliers = int((np.asarray(predictions) < 0).sum())
        return page.section("Predictions", page.paragraph(f"{n_outliers:,} of {len(predictions):,} samples are outliers."))
    return _errors(np.asarray(y, dtype=np.float64), np.asarray(predictions)) if y is not None else ""


def _errors(y: Array, predictions: Array) -> str:
    """The errors of a regression, all outputs together."""
    wrong, spread = np.abs(y - predictions), np.square(y - y.mean(axis=0)).sum()
    rows = [
        ("mean absolute error", f"{wrong.mean():.6g}"),
        ("root mean square error", f"{np.sqrt(np.square(wrong).mean()):.6g}"),
        ("greatest error", f"{wrong.max():.6g}"),
        ("share of the variance explained", f"{1.0 - np.square(wrong).sum() / spread:.4f}" if spread > 0.0 else "undefined"),
    ]
    return page.section("Predictions", page.paragraph(NOT_NEW), page.table(rows))


def _confusion(estimator: Any, y: Any, predictions: Any) -> str:
    classes = np.asarray(estimator.classes_)
    y, predictions = np.asarray(y), np.asarray(predictions)
    share = float((y == predictions).mean())
    parts = [page.paragraph(f"{100.0 * share:.2f}% of the {len(y):,} samples given are predicted as labelled. {NOT_NEW}")]
    if len(classes) <= policy.REPORT.most_classes:
        parts.append(page.confusion_table([str(label) for label in classes], _counts(classes, y, predictions)))
    return page.section("Predictions", *parts)


def _counts(classes: Array, y: Array, predictions: Array) -> Array:
    """Samples by true class (rows) and predicted class (columns); a label that the model does not know is left out."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    known = np.isin(y, classes)
    np.add.at(counts, (np.searchsorted(classes, y[known]), np.searchsorted(classes, predictions[known])), 1)
    return counts


def _parameters(estimator: Any) -> str:
    signature = inspect.signature(type(estimator).__init__).parameters.values()
    defaults = {p.name: p.default for p in signature if p.name != "self" and p.kind is not p.VAR_KEYWORD}
    values = {name: getattr(estimator, name) for name in defaults if name != "callback"}
    changed = [name for name, value in values.items() if repr(value) != repr(defaults[name])]
    rows = [(name, repr(value)) for name, value in values.items()]
    return page.section("Parameters", page.paragraph("Bold: not the default."), page.table(rows, bold=changed))


def _versions() -> str:
    rows = [(name, _version(name)) for name in PACKAGES]
    return page.section(
        "Versions", page.table([*rows, ("Python", platform.python_version()), ("platform", platform.platform())])
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed as a package"
