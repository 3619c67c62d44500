"""What the command line says: a live line while it works, and the certificate in words."""

from __future__ import annotations

import sys
import time
from typing import Any

from maxmargin.solution import Progress


class ProgressLine:
    """A callback that keeps one line up to date on a terminal, and is silent in a pipe."""

    def __init__(self, tol: float, *, enabled: bool) -> None:
        self.tol, self.enabled = tol, enabled and sys.stderr.isatty()
        self._status: Any = None
        self._drawn = 0.0

    def __enter__(self) -> ProgressLine:
        if self.enabled:
            from rich.console import Console

            self._status = Console(stderr=True).status("reading", spinner="dots")
            self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, progress: Progress) -> None:
        if self._status is not None and time.perf_counter() - self._drawn > 0.1:
            self._drawn = time.perf_counter()
            self._status.update(
                f"{progress.seconds:.1f} s  epoch {progress.epochs:.0f}  gap {progress.relative_gap:.1e} of {self.tol:.0e}  "
                f"active {progress.active}  ({progress.solver})"
            )


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
        "epochs": estimator.n_iter_,
        "status": (failed or statuses)[0].name,
        "sentence": (failed or statuses)[0].value,
    }


def training_report(report: dict[str, Any]) -> str:
    """A few lines for a person."""
    several = f" (the worst of {report['classes']} classes)" if report["classes"] > 2 else ""
    head = "Certified" if report["certified"] else "NOT certified"
    seconds = report["seconds"]
    return "\n".join(
        (
            f"{head}: the objective is within {report['relative_gap']:.1e} of the optimum{several}; asked {report['tol']:.0e}.",
            f"  {report['sentence']}",
            f"  primal {report['primal']:.10g}, dual {report['dual']:.10g}, {report['support_vectors']} support vectors, "
            f"{report['at_bound']} at the bound",
            f"  {report['samples']} samples, {report['features']} features; read in {seconds['read']:.2f} s, "
            f"fitted in {seconds['fit']:.2f} s, {report['epochs']} epochs",
            f"Model: {report['model']} ({size_text(report['bytes'])})",
        )
    )


def size_text(n_bytes: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes = n_bytes / 1000  # type: ignore[assignment]
    return f"{n_bytes:.3g} GB"
