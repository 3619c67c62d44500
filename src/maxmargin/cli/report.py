"""What the command line says: a live line while it works, and the certificate in words."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the line appears at once, before NumPy and Numba are loaded
    from maxmargin.solving.solution import Progress

MOST_CLASSES, MOST_CERTIFICATES = 20, 3
"""That are listed one by one."""


class ProgressLine:
    """One live line on a terminal: what is being done, for how long, and the last certificate; silent in a pipe.

    It is the callback of the fit and also what rich draws, several times a second, so that the clock runs between certificates.
    """

    def __init__(self, tol: float, *, enabled: bool) -> None:
        self.tol, self.enabled = tol, enabled and sys.stderr.isatty()
        self._status: Any = None
        self.begin("starting")

    def __enter__(self) -> ProgressLine:
        if self.enabled:
            from rich.console import Console

            self._status = Console(stderr=True).status(self, spinner="dots")
            self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()

    def begin(self, task: str) -> None:
        """The next task; its clock starts at zero."""
        self._task, self._since = task, time.perf_counter()
        self._last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        self._last = progress

    def __rich__(self) -> Any:
        from rich.text import Text

        return Text(self.text(time.perf_counter() - self._since), no_wrap=True, overflow="ellipsis")

    def text(self, seconds: float) -> str:
        """The line after so many seconds of the task; it fits 80 columns."""
        start, last = f"{self._task}  {time_text(seconds)}", self._last
        if last is None:
            return start
        gap = f"gap {last.relative_gap:.1e}, target {tolerance_text(self.tol)}"
        return f"{start}  epoch {last.epochs:.0f}  {gap}  {last.active} active"


def verdict_of(estimator: Any, tol: float) -> dict[str, Any]:
    """The certificates of a fit, as plain values."""
    statuses = estimator.status_ if isinstance(estimator.status_, list) else [estimator.status_]
    certificates = estimator.certificate_ if isinstance(estimator.certificate_, list) else [estimator.certificate_]
    epochs = estimator.n_iter_ if isinstance(estimator.n_iter_, int) else int(estimator.n_iter_.max())
    worst = max(certificates, key=lambda certificate: certificate.relative_gap)
    failed = [status for status in statuses if not status.is_as_asked]
    by_own_rule = [status for status in statuses if status.is_as_asked and not status.is_within_tol]
    told = (failed or by_own_rule or [status for status in statuses if not status.is_certified] or statuses)[0]
    proved = (
        status.is_certified or (status in by_own_rule and certificate.is_proof and certificate.meets(tol))
        for status, certificate in zip(statuses, certificates, strict=True)
    )
    return {
        "certified": all(proved),
        "ended_by_own_rule": bool(by_own_rule) and not failed,
        "is_proof": worst.is_proof,
        "tol": tol,
        "relative_gap": worst.relative_gap,
        "primal": worst.primal,
        "dual": worst.dual,
        "rounding_error": worst.rounding_error,
        "support_vectors": worst.n_support,
        "at_bound": worst.n_at_bound,
        "all_support_vectors": int(estimator.n_support_.sum()) if hasattr(estimator, "n_support_") else None,
        "problems": len(certificates),
        "epochs": epochs,
        "status": told.name,
        "sentence": told.value,
    }


def training_report(report: dict[str, Any]) -> str:
    """A few lines for a person."""
    several = f" (the worst of {report['problems']} binary problems)" if report["problems"] > 1 else ""
    ended_otherwise = "Ended by the solver's own rule" if report["ended_by_own_rule"] else "NOT certified"
    head = "Certified" if report["certified"] else ended_otherwise
    if report["is_proof"]:
        claim = f"the objective is within {report['relative_gap']:.1e} of the optimum"
        if not report["certified"] and report["relative_gap"] <= report["tol"]:
            claim += f", known to {report['rounding_error'] / abs(report['primal']):.1e}"
    else:
        claim = f"primal and dual value are {report['relative_gap']:.1e} apart, which proves no optimum"
    n_all = report["all_support_vectors"]
    of_all = f"; {n_all} support vectors in all" if n_all is not None and several else ""
    asked = f"{tolerance_text(report['tol'])}{' for a certificate' if report['ended_by_own_rule'] else ''}"
    seconds = report["seconds"]
    return "\n".join(
        (
            f"{head}: {claim}{several}; asked {asked}.",
            f"  {report['sentence']}",
            f"  primal {report['primal']:.10g}, dual {report['dual']:.10g}, {report['support_vectors']} support vectors, "
            f"{report['at_bound']} at the bound{of_all}",
            f"  {report['samples']} samples, {report['features']} features; read in {seconds['read']:.2f} s, "
            f"fitted in {seconds['fit']:.2f} s, {report['epochs']} epochs",
            f"Model: {report['model']} ({size_text(report['bytes'])})",
        )
    )


def prediction_report(report: dict[str, Any]) -> str:
    n = report["samples"]
    lines = [f"Accuracy: {100 * report['accuracy']:.4f}% ({round(report['accuracy'] * n)} of {n})"]
    if "proved" in report:
        share = f"{100 * report['proved_share']:.4f}% ({report['proved']} of {n})"
        lines.append(f"Proved to be the labels that the exact optimum gives: {share}")
    if report["output"]:
        lines.append(f"Predictions: {report['output']}")
    return "\n".join(lines)


def _changed(parameters: dict[str, Any], estimator: Any, is_trained: bool) -> str:
    """C, which an imported model does not say, and whatever is not as it is by default."""
    defaults = type(estimator)().get_params()
    shown = {key: value for key, value in parameters.items() if value != defaults[key] or (key == "C" and is_trained)}
    return ", ".join(f"{key}={value!r}" for key, value in shown.items()) or "all parameters as by default"


def printable(text: str) -> str:
    """A text that every terminal shows: names and labels of strangers may hold control characters, which could do anything to a
    terminal, and letters that its encoding does not have."""
    shown = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
    encoding = sys.stdout.encoding or "utf-8"
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def value_text(value: Any) -> str:
    """A class or a decision value as it stands in a file: 2 and not 2.0."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def time_text(seconds: float) -> str:
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def tolerance_text(tol: float) -> str:
    """1e-04, and 2.5e-04 in full: what was asked must not be rounded to something else."""
    return f"{tol:.1e}".replace(".0e", "e")


def size_text(n_bytes: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes = n_bytes / 1000  # type: ignore[assignment]
    return f"{n_bytes:.3g} GB"


def model_report(report: dict[str, Any], estimator: Any, certificates: list[Any]) -> str:
    """What a model is, the parameters that are not as they would be by default, and its certificates if they are few."""
    kernel = f", {report['support_vectors']} support vectors, kernel {report['kernel']}" if "kernel" in report else ""
    classes = ", ".join(map(value_text, report["classes"][:MOST_CLASSES]))
    more = ", ..." if len(report["classes"]) > MOST_CLASSES else ""
    lines = [
        f"{report['estimator']} with {report['features']} features, classes {classes}{more}{kernel}",
        f"  {_changed(report['parameters'], estimator, is_trained=bool(certificates))}",
    ]
    if not certificates:
        return "\n".join([*lines, "  no certificate: it was imported"])
    lines.append("  what the writer of the file claims (maxmargin certify computes it again from the data):")
    if len(certificates) <= MOST_CERTIFICATES:
        return "\n".join([*lines, *(f"  {certificate}" for certificate in certificates)])
    worst = max(certificates, key=lambda certificate: certificate.relative_gap)
    return "\n".join([*lines, f"  the worst of {len(certificates)} certificates: {worst}"])


def write_report(path: Path, trained: Any, X: Any, y: Any) -> None:
    """Write the page about a fit. scikit-learn's face of the model is put on for its predictions."""
    from maxmargin.estimators.kernel_classifier import KernelClassifier
    from maxmargin.estimators.linear_svc import LinearSVC
    from maxmargin.estimators.svc import SVC
    from maxmargin.io.outputs import written

    model: Any = SVC() if isinstance(trained, KernelClassifier) else LinearSVC()
    vars(model).update(vars(trained))
    with written(path) as file:
        file.write(model.report(X, y).html.encode())
