"""The certificates of many kernel problems with hinge loss, an offset and one C for all samples, from sums that a compiled loop
has added up for all of them.

Each certificate is what ``maxmargin.certificate.kernel`` makes of the sums of one problem, and each bound on an offset what
``maxmargin.certificate.intercept`` makes of its kinks. What is done here for all problems together is elementwise: it takes a
tenth of the time that it would take one by one."""

from __future__ import annotations

import math
from dataclasses import fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.certificate import Certificate, joined
from maxmargin.certificate.intercept import between, farthest_of, moved_kinks
from maxmargin.certificate.kernel import (
    Balance,
    BestKinks,
    Totals,
    even_errors,
    even_sqnorm_error,
    gap_parts,
    is_plausible,
    offset_imbalance,
)
from maxmargin.certificate.rounding import OUTWARDS
from maxmargin.data.rows import Array
from maxmargin.problem.kernel_loops import (
    ERRORS,
    GREATEST,
    HIGH,
    LENGTHS,
    LOW,
    N_AT_BOUND,
    N_NUMBERS,
    N_ROWS,
    N_SUPPORT,
    OFFSET,
    OUTPUTS,
    REACH,
    SIGNS,
    SUMS,
)
from maxmargin.problem.offset import Interval

FIELDS = tuple(field.name for field in fields(Certificate))


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
    """The certificates, of positive semidefinite kernels. None where a problem has no support vectors, or nothing is proved.
    These are the certificates of ``certify_kernel`` to the last bit."""
    with np.errstate(all="ignore"):
        values = np.column_stack(_fields(found))
    is_proof = (found.numbers[:, N_SUPPORT] > 0.0) & np.isfinite(values).all(axis=1)
    counts = found.numbers[:, [N_SUPPORT, N_AT_BOUND]].astype(np.int64).tolist()
    rows = zip(values.tolist(), counts, is_proof.tolist(), strict=True)
    return [_certificate(row, own) if proof else None for row, own, proof in rows]


def _fields(found: EvenSums) -> tuple[Array, ...]:
    """The fields of the certificates that are not whole numbers, in their order."""
    columns: Any = found.numbers.T
    loss, terms, rounding, sqnorm, total, excess, slope, n_at_bound = columns[SUMS:]
    totals = Totals(loss, terms, rounding, sqnorm, total, Balance(total, excess, slope), n_at_bound)
    imbalance = offset_imbalance(totals.balance, columns[REACH], columns[OFFSET])
    parts: Any = gap_parts(totals)
    dual, gap, error = map(np.asarray, joined(parts, imbalance))
    worst = gap + error
    distance = np.minimum(np.sqrt(2.0 * worst), np.sqrt(worst) + 0.5 * imbalance.move)
    relative_error, _ = even_errors(found.share, np.diff(found.edges))
    own_error: Any = even_sqnorm_error(totals, relative_error, columns[REACH])
    distance[~is_plausible(totals, parts, imbalance, own_error)] = np.inf
    dual = np.minimum(np.maximum(dual, parts.primal - gap - error), parts.primal - gap + error)
    return parts.primal, dual, gap, gap / np.maximum(np.abs(parts.primal), np.abs(dual)), error, distance


def _certificate(values: list[float], counts: list[int]) -> Certificate:
    """What the constructor makes, in half of its time."""
    certificate = object.__new__(Certificate)
    vars(certificate).update(zip(FIELDS, (*values, *counts, True, False), strict=True))
    return certificate


def even_offset_bounds(found: EvenSums, distances: Array, is_uniform: bool) -> list[float]:
    """Upper bounds on |b - b*|, from the distance bounds of the certificates. ``is_uniform``: all lengths are one."""
    reaches = distances * (1.0 + found.share) * OUTWARDS
    if is_uniform:
        errors = found.samples[ERRORS, found.edges[:-1]]
        kinks = found.numbers[:, [LOW, HIGH, GREATEST, OFFSET]].tolist()
        return [
            _bound(between(BestKinks(*known), reach), b)
            for (*known, b), reach in zip(kinks, (reaches + errors).tolist(), strict=True)
        ]
    from maxmargin.problem.kernel_loops import even_offsets, many_even_offsets

    sizes = np.diff(found.edges)
    with np.errstate(invalid="ignore"):
        own = np.repeat(reaches, sizes) * found.samples[LENGTHS] + found.samples[ERRORS]
        moved = moved_kinks(own, np.repeat(found.numbers[:, GREATEST], sizes))
    intervals = np.empty((len(sizes), 2))
    if len(sizes) < policy.EVEN.many_problems:
        for k, own in enumerate(slice(*ends) for ends in pairwise(found.edges.tolist())):
            intervals[k] = even_offsets(found.samples[OUTPUTS, own], found.samples[SIGNS, own], moved[own], np.empty(sizes[k]))
    else:
        many_even_offsets(found.samples, moved, found.edges, np.empty(int(sizes.max())), intervals)
    return [_bound(Interval(*ends), b) for ends, b in zip(intervals.tolist(), found.numbers[:, OFFSET].tolist(), strict=True)]


def _bound(interval: Interval, b: float) -> float:
    return farthest_of(interval, b) if math.isfinite(interval.high - interval.low) else math.inf
