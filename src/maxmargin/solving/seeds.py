"""The number that seeds a solve."""

from __future__ import annotations

from typing import Any

import numpy as np


def seed_from(random_state: Any) -> int:
    """One whole number from what scikit-learn and NumPy accept; the global generator is never touched."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    raise ValueError(f"random_state must be None, a whole number >= 0, or a NumPy generator; got {random_state!r}.")
