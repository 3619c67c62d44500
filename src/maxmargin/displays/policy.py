"""What pictures and reports show at most, each number with its unit. Tests replace a policy as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportPolicy:
    """How long the tables of a report may be."""

    most_problems: int = 12
    """Rows of the table of binary problems, the worst first. A hundred classes would make thousands."""
    most_classes: int = 30
    """Rows of the class balance, and rows and columns of the confusion table."""
    most_checks: int = 60
    """Rows of the table of certificates during the fit."""


@dataclass(frozen=True)
class PicturePolicy:
    """What the axes of a picture can show."""

    least_gap: float = 1e-17
    """The smallest relative gap that is drawn. A smaller one, zero included, is drawn here: a logarithmic axis has no zero."""


REPORT = ReportPolicy()
PICTURE = PicturePolicy()
