"""Engines for the working sets of IRWLS that only the benchmark needs: an interior-point method, a clock, a recorder."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

from maxmargin import ActiveSetNewton
from maxmargin.data.rows import Array
from maxmargin.solvers.kernel.irwls.active_set_newton import WorkingSet
from maxmargin.solvers.kernel.irwls.engines import Engine, SetTask, SolvedSet


@dataclass(frozen=True)
class Timed:
    """An engine that says how long its working sets took, in seconds of processor time, and which of them settled."""

    engine: Engine
    seconds: list[float] = field(default_factory=list)
    settled_seconds: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.engine.name

    def solve(self, task: SetTask) -> SolvedSet:
        start = time.process_time()
        solved = self.engine.solve(task)
        self.seconds.append(time.process_time() - start)
        if not solved.is_unsettled:
            self.settled_seconds.append(self.seconds[-1])
        return solved


@dataclass(frozen=True)
class InteriorPoint:
    """PIQP, where the paper had LOQO."""

    name: str = "PIQP"

    def solve(self, task: SetTask) -> SolvedSet:
        work = task.work
        solver = import_module("piqp").DenseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = 1e-9
        right = work.v + work.K @ work.s
        ones = np.ones((1, len(work.s)), order="F")
        solver.setup(np.asfortranarray(work.K), -right, A=ones, b=np.array([work.s.sum()]), x_l=work.lower, x_u=work.upper)
        solver.solve()
        s = np.clip(solver.result.x, work.lower, work.upper)
        near = 1e-6 * (work.upper - work.lower)
        s = np.where(s <= work.lower + near, work.lower, np.where(s >= work.upper - near, work.upper, s))
        iterations = int(solver.result.info.iter)
        return SolvedSet(_balanced(s, work), float(solver.result.y[0]), iterations, iterations, iterations * len(s))


def _balanced(s: Array, work: WorkingSet) -> Array:
    """What clipping has taken from the sum goes to the free variables."""
    is_free = (s > work.lower) & (s < work.upper)
    if is_free.any():
        s = s.copy()
        s[is_free] += (work.s.sum() - s.sum()) / np.count_nonzero(is_free)
    return np.clip(s, work.lower, work.upper)


@dataclass(frozen=True)
class Recorder:
    """Keeps the working sets, which active-set Newton solves."""

    tasks: list[SetTask] = field(default_factory=list)
    name: str = "recorder"

    def solve(self, task: SetTask) -> SolvedSet:
        self.tasks.append(task)
        return ActiveSetNewton().solve(task)
