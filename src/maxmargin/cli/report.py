"""What a command says at the end: the figures for machines, and a few lines for a person."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """The certificates of a fit, as plain values. The numbers are those of the worst of several binary problems."""

    certified: bool
    ended_by_own_rule: bool
    is_proof: bool
    tol: float
    relative_gap: float
    primal: float
    dual: float
    rounding_error: float
    support_vectors: int
    at_bound: int
    all_support_vectors: int | None
    problems: int
    epochs: int
    status: str
    sentence: str

    @classmethod
    def of(cls, estimator: Any, tol: float) -> Verdict:
        statuses, certificates = listed(estimator.status_), listed(estimator.certificate_)
        worst = max(certificates, key=lambda certificate: certificate.relative_gap)
        told = _told(statuses)
        return cls(
            certified=all(_is_proved(*each, tol) for each in zip(statuses, certificates, strict=True)),
            ended_by_own_rule=told.is_as_asked and not told.is_within_tol,
            is_proof=worst.is_proof,
            tol=tol,
            relative_gap=worst.relative_gap,
            primal=worst.primal,
            dual=worst.dual,
            rounding_error=worst.rounding_error,
            support_vectors=worst.n_support,
            at_bound=worst.n_at_bound,
            all_support_vectors=int(estimator.n_support_.sum()) if hasattr(estimator, "n_support_") else None,
            problems=len(certificates),
            epochs=estimator.n_iter_ if isinstance(estimator.n_iter_, int) else int(estimator.n_iter_.max()),
            status=told.name,
            sentence=told.value,
        )

    @property
    def several(self) -> str:
        return f" (the worst of {self.problems} binary problems)" if self.problems > 1 else ""

    @property
    def first_line(self) -> str:
        """What is proved, and what was asked."""
        ended_otherwise = "Ended by the solver's own rule" if self.ended_by_own_rule else "NOT certified"
        head = "Certified" if self.certified else ended_otherwise
        asked = f"{tolerance_text(self.tol)}{' for a certificate' if self.ended_by_own_rule else ''}"
        return f"{head}: {self._claim}{self.several}; asked {asked}."

    @property
    def _claim(self) -> str:
        if not self.is_proof:
            return f"primal and dual value are {self.relative_gap:.1e} apart, which proves no optimum"
        claim = f"the objective is within {self.relative_gap:.1e} of the optimum"
        if not self.certified and self.relative_gap <= self.tol:
            claim += f", known to {self.rounding_error / abs(self.primal):.1e}"
        return claim

    @property
    def values_line(self) -> str:
        of_all = f"; {self.all_support_vectors} support vectors in all" if self.all_support_vectors and self.several else ""
        return (
            f"primal {self.primal:.10g}, dual {self.dual:.10g}, {self.support_vectors} support vectors, "
            f"{self.at_bound} at the bound{of_all}"
        )


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _told(statuses: list[Any]) -> Any:
    """The status of all, for the user: of several the least good."""
    failed = [status for status in statuses if not status.is_as_asked]
    by_own_rule = [status for status in statuses if status.is_as_asked and not status.is_within_tol]
    return (failed or by_own_rule or [status for status in statuses if not status.is_certified] or statuses)[0]


def _is_proved(status: Any, certificate: Any, tol: float) -> bool:
    """Certified, or ended by the solver's own rule at a point that happens to be."""
    if status.is_certified:
        return True
    by_own_rule = status.is_as_asked and not status.is_within_tol
    return bool(by_own_rule and certificate.is_proof and certificate.meets(tol))


@dataclass(frozen=True)
class TrainingReport:
    """What ``train`` has done."""

    model: str
    n_bytes: int
    n_samples: int
    n_features: int
    n_classes: int | None
    read_seconds: float
    fit_seconds: float
    verdict: Verdict
    remarks: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "bytes": self.n_bytes,
            "samples": self.n_samples,
            "features": self.n_features,
            "classes": self.n_classes,
            "seconds": {"read": self.read_seconds, "fit": self.fit_seconds},
            "warnings": list(self.remarks),
            **asdict(self.verdict),
        }

    def words(self) -> str:
        """A few lines for a person."""
        verdict = self.verdict
        return "\n".join(
            (
                verdict.first_line,
                f"  {verdict.sentence}",
                f"  {verdict.values_line}",
                f"  {self.n_samples} samples, {self.n_features} features; read in {self.read_seconds:.2f} s, "
                f"fitted in {self.fit_seconds:.2f} s, {verdict.epochs} epochs",
                f"Model: {self.model} ({size_text(self.n_bytes)})",
            )
        )


@dataclass(frozen=True)
class PredictionReport:
    """What ``predict`` has done. ``n_proved`` is None where no proofs were asked for."""

    n_samples: int
    n_right: int
    n_proved: int | None
    output: str | None

    @classmethod
    def of(cls, n_samples: int, n_right: int, n_proved: int | None, output: Path | None) -> PredictionReport:
        return cls(n_samples, n_right, n_proved, None if output is None else str(output))

    def as_json(self) -> dict[str, Any]:
        report = {"samples": self.n_samples, "accuracy": self.n_right / self.n_samples, "output": self.output}
        if self.n_proved is not None:
            report |= {"proved": self.n_proved, "proved_share": self.n_proved / self.n_samples}
        return report

    def words(self) -> str:
        lines = [f"Accuracy: {self._share(self.n_right)}"]
        if self.n_proved is not None:
            lines.append(f"Proved to be the labels that the exact optimum gives: {self._share(self.n_proved)}")
        if self.output:
            lines.append(f"Predictions: {self.output}")
        return "\n".join(lines)

    def _share(self, count: int) -> str:
        return f"{100 * count / self.n_samples:.4f}% ({count} of {self.n_samples})"


@dataclass(frozen=True)
class RegressionReport:
    """What ``predict`` has done with numbers. ``r2`` is the coefficient of determination, as in scikit-learn; the radius is the
    greatest, and None where no proofs were asked for."""

    n_samples: int
    mean_squared_error: float
    r2: float
    greatest_radius: float | None
    output: str | None

    def as_json(self) -> dict[str, Any]:
        report = {
            "samples": self.n_samples,
            "mean_squared_error": self.mean_squared_error,
            "r2": self.r2,
            "output": self.output,
        }
        return report if self.greatest_radius is None else report | {"greatest_radius": self.greatest_radius}

    def words(self) -> str:
        lines = [f"Mean squared error: {self.mean_squared_error:.6g}", f"R2: {self.r2:.6g} ({self.n_samples} samples)"]
        if self.greatest_radius is not None:
            lines.append(f"The exact optimum predicts values within {self.greatest_radius:.2e} of these, as is proved.")
        if self.output:
            lines.append(f"Predictions: {self.output}")
        return "\n".join(lines)


@dataclass(frozen=True)
class ProofReport:
    """What ``certify`` has found: the worst of the certificates, and all of them."""

    model: str
    tol: float
    certificates: tuple[Any, ...]

    @property
    def certified(self) -> bool:
        return all(certificate.meets(self.tol) for certificate in self.certificates)

    @property
    def worst(self) -> Any:
        return max(self.certificates, key=lambda certificate: certificate.relative_gap)

    def as_json(self) -> dict[str, Any]:
        return {
            "relative_gap": self.worst.relative_gap,
            "tol": self.tol,
            "certified": self.certified,
            "problems": [asdict(certificate) for certificate in self.certificates],
        }

    def words(self) -> str:
        worst, n = self.worst, len(self.certificates)
        several = f" (the worst of {n} binary problems)" if n > 1 else ""
        return (
            f"{self.model}: its objective {worst.primal:.10g}{several} is at most {worst.relative_gap:.2e} above the optimum, "
            f"relative to it (no w can be below the dual bound {worst.dual:.10g}).\n"
            f"It is {'' if self.certified else 'NOT proved '}within {self.tol:g}."
        )


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
