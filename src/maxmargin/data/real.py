"""Whether a value is a real number."""

from __future__ import annotations

from numbers import Real
from typing import Any


def is_real(value: Any) -> bool:
    """``isinstance(value, Real)``, for a float at once: to ask ``Real`` takes a microsecond, which counts in small fits."""
    return type(value) is float or isinstance(value, Real)
