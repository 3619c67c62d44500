r"""Table 1 of F. Perez-Cruz, P. L. Alarcon-Diana, A. Navia-Vazquez, A. Artes-Rodriguez, "Fast training of support vector
classifiers", as it is printed: an engine for the working sets of IRWLS. The loop is
``maxmargin.solvers.kernel.irwls.table_1_loop``.

==========  ==================================================================================================================
step        here
==========  ==================================================================================================================
0           S1 holds every sample, a = 1, beta = 0, b = 0. The errors are e = y - D_y G_in; the printed e = y forgets G_in
1           the system in S1, by a Cholesky factor of H + 1/a and the bordering row; S2 at 0, S3 at C
2           e = y - D_y (H beta + G_in) - b, which is the printed update without the rounding of earlier iterations
3           1/a_i = e_i y_i / (2 C): ``weight`` is the 2
4a to 4d    as printed. "beta_i = C" in 4b is beta_i >= C. No e below its own rounding error has a sign
5           in steps 1 and 2
6           settled when no sample changes sets and no error of S1 is above ``accuracy`` times eps
==========  ==================================================================================================================

Where S1 is empty the printed system has no equation. If the sums agree, b is then the middle of the values that are as good.

In S1 the system says y_i e_i = beta_i / a_i, with the weights of the iteration before. So once the sets are right, each error
falls to beta_i / (2 C) of itself, which is less than half. With a_i = C / (e_i y_i), which matches the first derivatives of the
hinge loss, it falls to beta_i / C, and that can be as near to one as a beta_i is to C.

Nothing in Table 1 keeps beta in the box on the way or makes the dual rise, and the sets may change for ever. A working set that
has not settled after its limit of iterations is solved by SMO from where it stood, and counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.solvers.kernel.irwls.active_set_newton import WorkingSet
from maxmargin.solvers.kernel.irwls.engines import SetTask, SolvedSet, by_smo, jitter_of
from maxmargin.solvers.kernel.irwls.table_1_loop import S1, S2, S3, SETTLED, Rules, Terms, table_1


@dataclass(frozen=True)
class Table1:
    """The paper's engine.

    Parameters
    ----------
    weight : float
        The 2 of a_i = 2 C / (e_i y_i). 1 matches the first derivatives of the hinge loss.
    jitter : bool
        Keep a singular H factorable by a multiple of the identity as small as rounding. Without it a system that cannot be
        factored ends the iteration.
    projection : bool
        Project beta onto the box and the sum after step 1.
    line_search : bool
        Go from the last beta towards the new one only as far as the dual rises. It needs ``projection``, and begins where
        the working set stands instead of at 0.
    accuracy : float
        The share of eps within which the errors of S1 count as zero.
    """

    weight: float = 2.0
    jitter: bool = True
    projection: bool = False
    line_search: bool = False
    accuracy: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("weight", "accuracy"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0.0 < value < np.inf:
                raise ValueError(f"{name} must be a positive number; got {value!r}.")
        if self.line_search and not self.projection:
            raise ValueError("line_search needs projection: without it the way may lead out of the box.")

    @property
    def name(self) -> str:
        return "Table 1"

    def solve(self, task: SetTask) -> SolvedSet:
        work = task.work
        terms = terms_of(work)
        s = work.s.copy() if self.line_search else np.zeros(len(work.s))
        e = work.v.copy() if self.line_search else terms.right.copy()
        sets = np.where(terms.C > 0.0, S1, S2)
        outcome, iterations, b = table_1(terms, self._rules(task), sets, s, e)
        counts = int(iterations), int(iterations), len(s) * int(iterations)
        if outcome == SETTLED:
            at_bounds = np.where(sets == S3, terms.y * terms.C, np.where(sets == S2, 0.0, s))
            return SolvedSet(np.clip(at_bounds, work.lower, work.upper), float(b), *counts)
        unsettled = SolvedSet(work.s, task.b, *counts, is_unsettled=True)
        return by_smo(work, max(task.tolerance, self.accuracy * task.epsilon), unsettled)

    def _rules(self, task: SetTask) -> Rules:
        jitter = jitter_of(np.diagonal(task.work.K), len(task.work.s)) if self.jitter else 0.0
        tolerance = max(task.tolerance, self.accuracy * task.epsilon)
        switches = bool(self.projection), bool(self.line_search)
        return Rules(float(self.weight), *switches, jitter, tolerance, int(task.max_iterations))


def terms_of(work: WorkingSet) -> Terms:
    """The terms of the paper: y - D_y G_in, and G_b,in = the sum of s."""
    K = np.ascontiguousarray(work.K, np.float64)
    y = np.where(work.upper > 0.0, 1.0, -1.0)
    return Terms(K, work.v + K @ work.s, float(work.s.sum()), bool(work.has_offset), y, work.upper - work.lower)
