"""Checkpoints: the dual variables of every problem, under way or done, saved at intervals: a killed fit goes on where it was.

Any alpha is a valid start, and the certificate at the end is computed from the data, so a resumed fit is as certified as an
uninterrupted one. A problem is known by a digest of its data, labels, costs, and loss or kernel: a checkpoint of other data is
never used.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from maxmargin.data import Array
from maxmargin.io.files import MalformedFile, replaced
from maxmargin.kernel_problem import KernelProblem
from maxmargin.problem import LinearProblem
from maxmargin.solvers.base import Budget, Stage


@dataclass
class Checkpoint:
    """One file with an alpha for each problem, written whole or not at all, and by one thread at a time."""

    path: Path
    alphas: dict[str, Array] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    saved_at: float = field(default_factory=time.monotonic)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Checkpoint:
        path = Path(path)
        if not path.exists():
            return cls(path)
        try:
            return cls(path, load_tensors(path.read_bytes()))
        except SafetensorError as error:
            raise MalformedFile(path, f"it is no checkpoint, or it is damaged ({error})") from error

    def is_due(self, seconds: float) -> bool:
        return time.monotonic() - self.saved_at >= seconds

    def keep(self, key: str, alpha: Array) -> None:
        with self.lock:
            self.alphas[key] = alpha.copy()

    def save(self, key: str, alpha: Array) -> None:
        """Write all that is kept, and this."""
        self.keep(key, alpha)
        with self.lock:
            with replaced(self.path) as file:
                file.write(save_tensors(self.alphas))
            self.saved_at = time.monotonic()

    def remove(self) -> None:
        """After the model is safe."""
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Checkpointed:
    """A solver that starts from the checkpoint of its problem, if there is one, and saves its alpha every so many seconds."""

    solver: Any
    checkpoint: Checkpoint
    seconds: float = 5.0

    @property
    def name(self) -> str:
        return str(self.solver.name)

    def init(self, problem: Any, warm_start: Array | None, seed: int) -> CheckpointedState:
        key = fingerprint(problem)
        saved = self.checkpoint.alphas.get(key)
        if saved is not None and saved.shape == (problem.n_samples,) and np.isfinite(saved).all():
            warm_start = saved
        return CheckpointedState(self.solver.init(problem, warm_start, seed), key, time.monotonic())

    def advance(self, problem: Any, state: CheckpointedState, budget: Budget) -> None:
        self.solver.advance(problem, state.inner, budget)
        if time.monotonic() - state.saved_at >= self.seconds:
            self.checkpoint.save(state.key, self._alpha(problem, state))
            state.saved_at = time.monotonic()

    def candidate(self, problem: Any, state: CheckpointedState) -> Any:
        """What a certificate judges may be the last of this problem: it is kept, so that many short problems are not lost."""
        keep = self.checkpoint.save if self.checkpoint.is_due(self.seconds) else self.checkpoint.keep
        keep(state.key, self._alpha(problem, state))
        return self.solver.candidate(problem, state.inner)

    def _alpha(self, problem: Any, state: CheckpointedState) -> Array:
        alpha: Array = self.solver.candidate(problem, state.inner)[1]
        return alpha


class CheckpointedKernelSolver(Checkpointed):
    """The same for a kernel solver, whose candidate is alpha alone."""

    def for_features(self) -> Checkpointed | None:
        """The same for the linear problem on the features of a kernel, if the solver has a form for that."""
        make = getattr(self.solver, "for_features", None)
        return None if make is None else Checkpointed(make(), self.checkpoint, self.seconds)

    def take_outputs(self, problem: KernelProblem, state: CheckpointedState, outputs: Array) -> None:
        self.solver.take_outputs(problem, state.inner, outputs)

    def _alpha(self, problem: Any, state: CheckpointedState) -> Array:
        alpha: Array = self.solver.candidate(problem, state.inner)
        return alpha


@dataclass
class CheckpointedState:
    """The solver's own state, and when it was saved."""

    inner: Any
    key: str
    saved_at: float

    @property
    def steps(self) -> int:
        return int(self.inner.steps)

    @property
    def stage(self) -> Stage:
        stage: Stage = self.inner.stage
        return stage

    @property
    def active(self) -> int:
        return int(self.inner.active)

    @property
    def looks_done(self) -> bool:
        return bool(self.inner.looks_done)

    @property
    def has_best_w(self) -> bool:
        return bool(self.inner.has_best_w)

    @property
    def is_stuck(self) -> bool:
        return bool(self.inner.is_stuck)

    @property
    def kernel_evaluations(self) -> int:
        return int(getattr(self.inner, "kernel_evaluations", 0))


def fingerprint(problem: LinearProblem | KernelProblem) -> str:
    """A digest of all that the optimum depends on."""
    digest = hashlib.blake2b(digest_size=16)
    if isinstance(problem, KernelProblem):
        settings: tuple[Any, ...] = (problem.kernel, problem.has_offset)
    else:
        settings = (problem.intercept_scaling, problem.penalizes_intercept)
    digest.update(f"{problem.loss!r} {settings!r} {problem.rows.matrix.shape}".encode())
    matrix = problem.rows.matrix
    arrays = (matrix.data, matrix.indices, matrix.indptr) if problem.rows.is_sparse else (matrix,)
    for array in (*arrays, problem.y, np.ascontiguousarray(problem.C)):
        digest.update(array.data)
    return digest.hexdigest()
