"""The state of IRWLS: s_i = y_i alpha_i, f = K s, their distance from optimality, and counts of the work done."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.rows import Array
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.problem.offset import best_offsets, offset_level
from maxmargin.screening.shrinking import ActiveSet, ShrinkingRule
from maxmargin.solvers.base import Stage
from maxmargin.solvers.kernel.active_rows import ActiveRows
from maxmargin.solvers.kernel.irwls.active_set_newton import WorkingSet
from maxmargin.solvers.kernel.irwls.chunk_loops import ChunkPlan, Variables, Workspace, run_chunks
from maxmargin.solvers.kernel.irwls.engines import SolvedSet
from maxmargin.solvers.kernel.irwls.selection import Errors
from maxmargin.solvers.kernel.signed_point import SignedPoint
from maxmargin.solvers.patience import IdleRounds, Patience, Standstill


@dataclass(frozen=True)
class IRWLSPolicy:
    """The numbers that tune IRWLS."""

    most_steps: int = 20_000
    """Steps that the compiled loop makes at a time, each variable of a working set counted once and once more for each system:
    ten milliseconds for working sets of 20 samples, some thirty for those of 128, so that Ctrl-C is heard."""
    held_pairs: int = 4
    """Times the engine's pairs that are moved before the systems where the kernel matrix is held. A working set costs little
    there, so that more of them, each solved less exactly, cost less in all. For the same reason a working set that pairs have
    brought within its tolerance is left without a system there, and one that takes too many systems after as many pairs
    again."""
    held_tolerance: float = 10.0
    """Times ``local_tolerance`` at which a working set is left where the kernel matrix is held, for the same reason. With 4 and
    10 instead of 2 and 5, the time for q = 20, 40, 70 and the default is 0.93, 0.84, 0.81 and 0.73 to a gap of 1e-3, and 0.90,
    0.91, 0.87 and 0.78 to 1e-6: geometric means of 14 problems of 400 to 1,000 samples that are not in the paper's tables."""
    start_size: int = 64
    """Samples of the compiled working sets with which a problem of few samples begins, where the size is left to the solver."""
    usual_size: int = 500
    """Samples of a working set, where the size is left to the solver."""
    greatest_size: int = 4000
    """The same where most of them are free."""
    lower_epsilon: float = 0.1
    """The factor of the paper's eps when its conditions hold and the gap does not meet the target."""
    still_chunks: int = 5
    """f is computed anew after this many working sets in a row that do not raise the dual value."""
    most_stalls: int = 2
    """The solver gives up after f was computed anew this many times without halving the gap."""
    most_refusals: int = 4
    """The same for certificates that were refused."""
    steps_to_stall: int = 10_000_000
    """Steps before the solver can be said to have stalled, each variable of a linear system counted as one."""
    most_resets: int = 3
    """After left-out samples had to return this many times, no sample is left out any more."""


@dataclass
class IRWLSState(SignedPoint):
    """The point, its distance from optimality, and counts of the work done."""

    rows: ActiveRows
    diagonal: Array
    samples: Array  # samples with C_i > 0 that are not left out; the f of the others dates from when they were
    has_offset: bool
    is_definite: bool  # if not, relative_gap is LIBSVM's violation
    random: np.random.Generator
    word: np.uint64  # the random numbers of the compiled loop
    policy: IRWLSPolicy
    held: Array | None = None  # the kernel matrix, where the compiled loop makes the chunks
    evaluations_held: int = 0
    steps: int = 0
    chunks: int = 0
    inner_iterations: int = 0
    factorisations: int = 0
    unsettled: int = 0
    handovers: int = 0
    b: float = 0.0
    epsilon: float = 1e-3
    caution: float = 1.0  # falls with every certificate that was refused
    looks_done: bool = False
    is_stuck: bool = False
    is_exact: bool = True  # f was computed from the present s, and not by adding up changes
    top: float = np.inf
    bottom: float = -np.inf
    gap: float = np.inf
    dual: float = 0.0
    relative_gap: float = np.inf
    best_b: float = 0.0  # the offset that minimises the primal; b is the multiplier of the last working set
    level: float = 0.0  # of the quantile of y - f that best_b is
    removals: int = 0
    resets: int = 0  # times that all came back
    was_narrow: bool = False  # samples were left out until the last refresh
    refusals: IdleRounds = field(default_factory=lambda: IdleRounds(share=0.5))  # of certificates
    stalls: IdleRounds = field(default_factory=lambda: IdleRounds(share=0.5))  # of working sets that raised nothing

    def __post_init__(self) -> None:
        self.patience = Patience(self.policy.steps_to_stall)
        self.standstill = Standstill(self.policy.still_chunks)

    @property
    def stage(self) -> Stage:
        unsettled = f"Table 1 did not settle in {self.unsettled} of {self.chunks} working sets" if self.unsettled else ""
        by_smo = f"SMO solved {self.handovers} of {self.chunks} working sets that took too long" if self.handovers else ""
        return Stage("irwls", "; ".join(filter(None, ("asked for", unsettled, by_smo))))

    @property
    def active(self) -> int:
        return len(self.samples)

    @property
    def present(self) -> int:
        """Samples with C_i > 0."""
        return int(np.count_nonzero(self.lower < self.upper))

    @property
    def kernel_evaluations(self) -> int:
        return self.rows.kernel_evaluations + self.evaluations_held

    @property
    def violation(self) -> float:
        """Twice the least eps with which (9), (10) and (11) can hold."""
        return max(0.0, self.top - self.bottom)

    def errors(self, epsilon: float) -> Errors:
        samples = self.samples
        s = self.s[samples]
        e = (self.y - self.f)[samples] - self.b
        return Errors(e, self.y[samples], s < self.upper[samples], s > self.lower[samples], epsilon)

    def is_over(self, target: float) -> bool:
        """Step 5."""
        self.looks_done = self.relative_gap <= target * self.caution
        if not self.looks_done and self.violation < 2.0 * self.epsilon:
            self.epsilon *= self.policy.lower_epsilon
        if not self.looks_done and self.standstill.is_reached:
            self._look_why_it_stalls()
            self.looks_done = self.relative_gap <= target * self.caution
        return self.looks_done or self.is_stuck

    def is_over_by_rule(self) -> bool:
        """(9), (10) and (11) hold with one b for all, which becomes the b; or nothing rises any more."""
        self.looks_done = self.violation < 2.0 * self.epsilon
        if self.looks_done:
            self.b = 0.5 * (self.top + self.bottom) if self.has_offset and np.isfinite(self.violation) else 0.0
        elif self.standstill.is_reached:
            self._look_why_it_stalls()
        return self.looks_done or self.is_stuck

    def _look_why_it_stalls(self) -> None:
        """Handle a state in which the dual value does not rise: compute f anew and bring all samples back. If that does not
        halve the gap, the solver is stuck."""
        has_moved = not self.is_exact or self.active < self.present
        self.refresh()
        self.survey()
        self.is_stuck = not has_moved or self.stalls.note(self.relative_gap) >= self.policy.most_stalls

    def look_closer(self) -> None:
        """React to a refused certificate: compute f anew, unless the certificate has delivered its own, and tighten the
        target."""
        self.looks_done = False
        self.caution *= 0.5
        self.refresh()
        self.survey()
        if self.was_narrow:
            self.was_narrow = False
            return
        idle_refusals = self.refusals.note(self.relative_gap)
        self.is_stuck = idle_refusals >= self.policy.most_refusals or self.relative_gap == 0.0

    def refresh(self) -> None:
        """Compute f of all samples anew from s, without the rounding error of earlier steps."""
        self.take_all_back()
        if not self.is_exact or (self.s.any() and not self.f.any()):
            support = np.flatnonzero(self.s)
            self.f[:] = 0.0
            self.rows.add_to(self.f, support, self.s[support])
        self.is_exact = True
        self.standstill.count = 0
        self.standstill.forget_values()

    def survey(self) -> None:
        """The violation and the gap at the present f, over the samples that are not left out, and whether the dual rises."""
        point = self.at(self.samples)
        C = point.upper - point.lower
        self.level = offset_level(point.y, point.alpha, C)
        self.best_b = best_offsets(point.v, C, self.level).middle if self.has_offset else 0.0
        here = point.measure(self.has_offset, self.best_b)
        self.top, self.bottom, self.gap = here.top, here.bottom, here.gap
        if len(self.samples) == self.present:
            self.dual = here.dual
        self.relative_gap = relative(self.gap, self.dual + self.gap, self.dual) if self.is_definite else self.violation
        self.is_stuck |= self.patience.note(self.steps, self.dual, self.dual + self.gap)
        self.standstill.note(self.gap, self.dual)

    def leave_out(self, rule: ShrinkingRule) -> None:
        """Leave out the samples that a rule assumes to stay at their bounds. They return when a certificate is refused."""
        if self.resets >= self.policy.most_resets:
            return
        here = self.samples
        y, s = self.y[here], self.s[here]
        C, alpha = (self.upper - self.lower)[here], np.abs(s)
        noise = UNIT_ROUNDOFF * (len(y) + 8.0) * (1.0 + float(np.abs(self.s).sum()) * float(np.abs(self.diagonal).max()))
        imbalance = abs(float(self.s.sum())) + UNIT_ROUNDOFF * len(y) * float(alpha.sum()) if self.has_offset else 0.0
        kinks = (self.y - self.f)[here]
        known = y, C, alpha, kinks, self.diagonal[here], self.has_offset, self.level, imbalance, self.best_b, self.gap, noise
        removable = rule.removable(ActiveSet(*known))
        if removable.any() and not removable.all():
            self.removals += int(np.count_nonzero(removable))
            self.samples = here[~removable]
            self.rows.narrow_to(self.samples)

    def take_outputs(self, outputs: Array) -> None:
        """The f of the present point, which a certificate has computed anyway."""
        self.f[:] = outputs
        self.is_exact = True
        self.take_all_back()

    def take_all_back(self) -> None:
        everyone = np.flatnonzero(self.lower < self.upper)
        if len(self.samples) < len(everyone):
            self.was_narrow = True
            self.resets += 1
        self.samples = everyone
        self.rows.widen()

    def working_set(self, chosen: Array) -> WorkingSet:
        """Step 2, and the kernel block by one matrix product."""
        return WorkingSet(
            self.rows.block(chosen),
            self.s[chosen],
            (self.y - self.f)[chosen],
            self.lower[chosen],
            self.upper[chosen],
            self.has_offset,
        )

    def take(self, chosen: Array, work: WorkingSet, s: Array) -> None:
        """Step 4."""
        change = s - work.s
        changed = change != 0.0
        self.dual += float(work.v @ change) - 0.5 * float(change @ (work.K @ change))
        self.s[chosen] = s
        self.rows.add_to(self.f, chosen[changed], change[changed])
        self.chunks += 1
        self.steps += len(chosen)
        self.is_exact = self.is_exact and not changed.any()

    def run_chunks(self, plan: ChunkPlan) -> bool:
        """Steps 1 to 4 over and over. True if the last working set was not solved."""
        variables = Variables(self.y, self.lower, self.upper, self.s, self.f)
        space = Workspace.of(len(self.y), plan.size + 2)
        report = run_chunks(self.held, variables, plan, float(self.b), self.word, space)
        self.word = np.uint64(report.word)
        self.b = float(report.b) if np.isfinite(report.b) else 0.0
        self.chunks += int(report.chunks)
        self.handovers += int(report.handovers)
        self.steps += int(report.steps)
        self.inner_iterations += int(report.iterations)
        self.factorisations += int(report.iterations)
        self.is_exact = self.is_exact and report.chunks == 0
        self.survey()
        return bool(report.is_unsolved)

    def count(self, solved: SolvedSet) -> None:
        self.steps += solved.steps
        self.inner_iterations += solved.iterations
        self.factorisations += solved.factorisations
        self.unsettled += solved.is_unsettled
        self.handovers += solved.was_handed_over
