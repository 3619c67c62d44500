"""The certificates of many kernel problems with hinge loss, an offset and one C for all samples, from sums that a compiled loop
has added up for all of them.

Each certificate is what ``maxmargin.certificate.kernel`` makes of the sums of one problem, and each bound on an offset what
``maxmargin.certificate.intercept`` makes of its kinks. What is done here for all problems together is elementwise: it takes a
tenth of the time that it would take one by one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.intercept import between, farthest_of, moved_kinks
from maxmargin.certificate.kernel import BestKinks, even_certificate
from maxmargin.certificate.rounding import OUTWARDS
from maxmargin.data.rows import Array
from maxmargin.problem.offset import Interval

ALPHA, OUTPUTS, ERRORS, LENGTHS, SIGNS, N_ROWS = range(6)
"""The rows of ``EvenSums.samples``, and how many there are."""
N_SUPPORT, OFFSET, LOW, HIGH, GREATEST, REACH, SUMS = range(7)
"""The columns of ``EvenSums.numbers``, in the order in which ``even_sums`` returns them. The sums are the last ones."""
N_NUMBERS = SUMS + 8
TOTAL = SUMS + 4
"""The column with sum_i alpha_i."""


class EvenSums(NamedTuple):
    """What ``maxmargin.problem.kernel_loops.even_sums`` has returned for many problems: a row of ``numbers`` for each, and a
    column of ``samples`` for each sample of each. ``edges`` are where problems begin and end. A kernel value is wrong by at
    most ``share`` l_i l_j. Problems without support vectors have no certificate."""

    numbers: Array
    samples: Array
    edges: Array
    share: float

    @classmethod
    def empty(cls, n_samples: Array, share: float) -> EvenSums:
        edges = np.concatenate([[0], np.cumsum(n_samples)])
        return cls(np.zeros((len(n_samples), N_NUMBERS)), np.zeros((N_ROWS, int(edges[-1]))), edges, share)


def even_certificates(found: EvenSums) -> list[Certificate | None]:
    """The certificates, of positive semidefinite kernels. None where a problem has no support vectors."""
    return [
        even_certificate(int(row[N_SUPPORT]), row[OFFSET], row[REACH], tuple(row[SUMS:]), True) if row[N_SUPPORT] else None
        for row in found.numbers.tolist()
    ]


def even_offset_bounds(found: EvenSums, distances: Array, is_uniform: bool) -> list[float]:
    """Upper bounds on |b - b*|, from the distance bounds of the certificates. ``is_uniform``: all lengths are one."""
    reaches = distances * ((1.0 + found.share) * OUTWARDS)
    if is_uniform:
        errors = found.samples[ERRORS, found.edges[:-1]]
        kinks = found.numbers[:, [LOW, HIGH, GREATEST, OFFSET]].tolist()
        return [
            _bound(between(BestKinks(*known), reach), b)
            for (*known, b), reach in zip(kinks, (reaches + errors).tolist(), strict=True)
        ]
    from maxmargin.problem.kernel_loops import many_even_offsets

    sizes = np.diff(found.edges)
    own = np.repeat(reaches, sizes) * found.samples[LENGTHS] + found.samples[ERRORS]
    with np.errstate(invalid="ignore"):
        moved = moved_kinks(own, np.repeat(found.numbers[:, GREATEST], sizes))
    intervals = np.empty((len(sizes), 2))
    many_even_offsets(found.samples, moved, found.edges, np.empty(int(sizes.max())), intervals)
    return [_bound(Interval(*ends), b) for ends, b in zip(intervals.tolist(), found.numbers[:, OFFSET].tolist(), strict=True)]


def _bound(interval: Interval, b: float) -> float:
    return farthest_of(interval, b) if math.isfinite(interval.high - interval.low) else math.inf
