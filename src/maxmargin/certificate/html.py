"""A certificate in words, and as a small table for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxmargin.certificate.certificate import Certificate


def in_words(certificate: Certificate) -> str:
    """Say what a certificate proves, for a reader who has never seen one."""
    if not certificate.is_proof:
        return (
            f"This model has the objective {certificate.primal:.10g}. The certificate proves no bound on the optimum, because "
            "the dual point is not feasible or the kernel is not positive semidefinite."
        )
    text = (
        f"This model has the objective {certificate.primal:.10g}. It is proved that no model of this training problem has one "
        f"below {certificate.dual:.10g}. So the objective is within {certificate.relative_gap:.2e} of the optimum, relative to "
        "its size"
    )
    if not math.isfinite(certificate.distance_bound):
        return f"{text}. Nothing is proved about the distance of the weights from the exact ones."
    return f"{text}, and the weights are within {certificate.distance_bound:.2e} of the exact ones, in the Euclidean norm."


def certificate_rows(certificate: Certificate) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each part."""
    return [
        ("primal", f"{certificate.primal:.12g}", "the objective of this model"),
        ("dual", f"{certificate.dual:.12g}", "no model has an objective below this"),
        ("gap", f"{certificate.gap:.3e}", "the distance between the two"),
        ("relative gap", f"{certificate.relative_gap:.3e}", "the gap relative to the objective; what tol limits"),
        ("rounding error", f"{certificate.rounding_error:.1e}", "how wrong the gap can be by floating point"),
        ("distance bound", f"{certificate.distance_bound:.3e}", "how far the weights can be from the exact ones"),
        ("support vectors", str(certificate.n_support), f"of which {certificate.n_at_bound} are at the bound"),
    ]


def table_html(rows: Iterable[tuple[str, ...]]) -> str:
    """A plain table; the first cell of a row is its heading. The style is that of the page around it."""
    lines = [
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    ]
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def certificate_html(certificate: Certificate) -> str:
    """The words and the table."""
    return f"<div><p>{escape(in_words(certificate))}</p>{table_html(certificate_rows(certificate))}</div>"
