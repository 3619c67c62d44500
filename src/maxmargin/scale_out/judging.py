"""The certificate as one pass: every partition judges its own samples, and the sums are put together.

The numbers are those of :func:`maxmargin.certify` on all rows, up to the order of their sums, which the bound on rounding
covers."""

from __future__ import annotations

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.linear import is_in_doubt
from maxmargin.certificate.linear_sums import PartSums, part_sums
from maxmargin.certificate.linear_verdict import ProblemShape, certificate_of_parts
from maxmargin.data.rows import Array
from maxmargin.scale_out.passes import Deal, Part, Pass, Solving


def judge_part(part: Part, w: Array, is_precise: bool) -> PartSums:
    """The task: the sums of one partition."""
    return part_sums(part.problem, w, part.memory.alpha, is_precise=is_precise)


def judged(shape: ProblemShape, w: Array, deal: Deal | None = None) -> Solving[Certificate]:
    """The certificate of w and of the alpha that the partitions have. Where rounding would hide the gap, a second pass sums in
    about twice the precision."""
    quick = certificate_of_parts(shape, w, (yield Pass(judge_part, (w, False), deal)).value)
    return (yield from settled(shape, w, quick, deal))


def settled(shape: ProblemShape, w: Array, quick: Certificate, deal: Deal | None = None) -> Solving[Certificate]:
    """The quick certificate, or a precise one where rounding leaves the quick one in doubt."""
    if not is_in_doubt(quick):
        return quick
    precise = certificate_of_parts(shape, w, (yield Pass(judge_part, (w, True), deal)).value)
    return precise if precise.gap + precise.rounding_error < quick.gap + quick.rounding_error else quick
