"""What ``info`` says of a model: the figures for machines, and a few lines for a person."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from maxmargin.cli.report import listed, value_text


@dataclass(frozen=True)
class ListingPolicy:
    """How much of a model is listed one by one."""

    most_classes: int = 20
    """Classes up to which each is listed."""
    most_certificates: int = 3
    """Binary problems up to which the certificate of each is listed."""


@dataclass(frozen=True)
class ModelReport:
    """What ``info`` says of a model. A certificate in a file is the claim of its writer."""

    estimator: Any
    certificates: tuple[Any, ...]

    @classmethod
    def of(cls, estimator: Any) -> ModelReport:
        return cls(estimator, tuple(listed(getattr(estimator, "certificate_", []))))

    def as_json(self) -> dict[str, Any]:
        estimator = self.estimator
        report = {
            "estimator": type(estimator).__name__,
            "features": estimator.n_features_in_,
            "classes": estimator.classes_.tolist() if hasattr(estimator, "classes_") else None,
            "parameters": {key: value for key, value in estimator.get_params().items() if value is not None},
            "certificates": [asdict(certificate) for certificate in self.certificates],
        }
        if hasattr(estimator, "_kernel_"):
            report |= {"support_vectors": int(estimator.n_support_.sum()), "kernel": repr(estimator._kernel_)}
        return report

    def words(self) -> str:
        """What the model is, the parameters that are not as they would be by default, and its certificates if they are few."""
        report, policy = self.as_json(), ListingPolicy()
        kernel = f", {report['support_vectors']} support vectors, kernel {report['kernel']}" if "kernel" in report else ""
        lines = [
            f"{report['estimator']} with {report['features']} features{_classes_text(report['classes'], policy)}{kernel}",
            f"  {_changed(report['parameters'], self.estimator, is_trained=bool(self.certificates))}",
        ]
        return "\n".join([*lines, *self._claims(policy)])

    def _claims(self, policy: ListingPolicy) -> list[str]:
        if not self.certificates:
            return ["  no certificate: it was imported"]
        head = "  what the writer of the file claims (maxmargin certify computes it again from the data):"
        if len(self.certificates) <= policy.most_certificates:
            return [head, *(f"  {certificate}" for certificate in self.certificates)]
        worst = max(self.certificates, key=lambda certificate: certificate.relative_gap)
        return [head, f"  the worst of {len(self.certificates)} certificates: {worst}"]


def _classes_text(classes: list[Any] | None, policy: ListingPolicy) -> str:
    if classes is None:
        return ""
    shown = ", ".join(map(value_text, classes[: policy.most_classes]))
    return f", classes {shown}{', ...' if len(classes) > policy.most_classes else ''}"


def _changed(parameters: dict[str, Any], estimator: Any, is_trained: bool) -> str:
    """C, which an imported model does not say, and whatever is not as it is by default."""
    defaults = type(estimator)().get_params()
    shown = {key: value for key, value in parameters.items() if value != defaults[key] or (key == "C" and is_trained)}
    return ", ".join(f"{key}={value!r}" for key, value in shown.items()) or "all parameters as by default"
