"""What the command line says: a live line while it works, and the certificate in words."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the line appears at once, before NumPy and Numba are loaded
    from maxmargin.solution import Progress


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
    worst = max(certificates, key=lambda certificate: certificate.relative_gap)
    failed = [status for status in statuses if not status.is_certified]
    return {
        "certified": not failed,
        "tol": tol,
        "relative_gap": worst.relative_gap,
        "primal": worst.primal,
        "dual": worst.dual,
        "rounding_error": worst.rounding_error,
        "support_vectors": worst.n_support,
        "at_bound": worst.n_at_bound,
        "problems": len(certificates),
        "epochs": max(estimator.n_iter_.tolist()) if hasattr(estimator.n_iter_, "tolist") else estimator.n_iter_,
        "status": (failed or statuses)[0].name,
        "sentence": (failed or statuses)[0].value,
    }


def training_report(report: dict[str, Any]) -> str:
    """A few lines for a person."""
    several = f" (the worst of {report['problems']} binary problems)" if report["problems"] > 1 else ""
    head = "Certified" if report["certified"] else "NOT certified"
    seconds = report["seconds"]
    return "\n".join(
        (
            f"{head}: the objective is within {report['relative_gap']:.1e} of the optimum{several}; "
            f"asked {tolerance_text(report['tol'])}.",
            f"  {report['sentence']}",
            f"  primal {report['primal']:.10g}, dual {report['dual']:.10g}, {report['support_vectors']} support vectors, "
            f"{report['at_bound']} at the bound",
            f"  {report['samples']} samples, {report['features']} features; read in {seconds['read']:.2f} s, "
            f"fitted in {seconds['fit']:.2f} s, {report['epochs']} epochs",
            f"Model: {report['model']} ({size_text(report['bytes'])})",
        )
    )


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
