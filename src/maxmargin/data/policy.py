"""The sizes and limits of the data, each with its unit. Tests replace a policy as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RowsPolicy:
    """How a matrix is looked at before a fit."""

    first_look: int = 1024
    """Stored elements that are compared before all of them are. In most data they show that the values differ, which spares a
    pass. An estimate, not measured."""


ROWS = RowsPolicy()
