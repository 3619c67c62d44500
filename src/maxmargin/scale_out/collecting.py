r"""Whether a client should collect all rows from its workers, where they fit in its memory.

With many features it should: rounds of coordinate descent are many, however well each of them is used. With few features
Newton's method needs R rounds, each with a message of :math:`4 d^2` bytes from every worker, and the work of a fit is shared.
Collecting costs one message with all rows, and the work is done by the cores of the client alone:

.. math:: R (L + 4 d^2 K / B) + P W / c_{workers} \quad\text{against}\quad bytes / B' + P W / c_{client}

with K workers, B and B' bytes a second, L seconds for a round, and P times the work W of a pass over all rows for a fit."""

from __future__ import annotations

from typing import NamedTuple

from maxmargin.data.threads import available_cores
from maxmargin.scale_out.policy import COLLECTING, CollectingPolicy


class Crowd(NamedTuple):
    """The workers of a fit, and the cores that all of them have together."""

    n_workers: int = 1
    n_cores: int = 1


class Work(NamedTuple):
    """A fit with few features: its weights, the bytes of all rows, its binary problems, and whether its loss is smooth."""

    n_weights: int
    n_bytes: float
    n_problems: int
    is_smooth: bool


def is_cheaper_to_collect(crowd: Crowd, work: Work, policy: CollectingPolicy = COLLECTING) -> bool:
    """Whether the fit ends sooner if the client collects the rows first, once for all binary problems."""
    passes = policy.passes * policy.seconds_a_byte * work.n_bytes * work.n_problems
    message = 4.0 * work.n_weights**2 * crowd.n_workers * work.n_problems / policy.bytes_a_second
    rounds = policy.smooth_rounds if work.is_smooth else policy.rounds
    stays = rounds * (policy.round_seconds + message) + passes / crowd.n_cores
    return work.n_bytes / policy.collected_a_second + passes / available_cores() < stays
