"""Checkpoints: the dual variables of every problem, under way or done, saved at intervals. A fit that was interrupted
resumes from them.

Any alpha is a valid start, and the certificate at the end is computed from the data, so a resumed fit is as certified as an
uninterrupted one. A problem is known by a digest of its data, labels, costs, and loss or kernel: a checkpoint of other data is
never used.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as save_tensors

from maxmargin.data.rows import Array
from maxmargin.io.files import MalformedFile, is_regular
from maxmargin.io.outputs import written
from maxmargin.models.tensors import read_tensors
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.nu import NuProblem
from maxmargin.solvers.base import Budget, KernelSolver, Stage, StoppingRule, ends_by_own_rule


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=2)


FORMAT_KEY, FORMAT = "maxmargin", "checkpoint 1"


@dataclass
class Checkpoint:
    """One file with an alpha for each problem, written whole or not at all, and by one thread at a time.

    Only a file that says that it is a checkpoint is ever opened, written over or removed. The alphas of problems that this fit
    does not have stay in it: they are what another fit resumes from.
    """

    path: Path
    alphas: dict[str, Array] = field(default_factory=dict)
    complain: Callable[[str], None] = _warn
    lock: threading.Lock = field(default_factory=threading.Lock)
    saved_at: float = field(default_factory=time.monotonic)
    used: set[str] = field(default_factory=set)
    """The problems of this fit."""
    has_failed: bool = False
    """Whether it was said already that the file cannot be written."""

    @classmethod
    def open(cls, path: str | os.PathLike[str], complain: Callable[[str], None] = _warn) -> Checkpoint:
        """A new one, or what is left of a fit that was interrupted."""
        path = Path(os.path.realpath(path))
        return cls(path, _read(path) if path.exists() else {}, complain)

    def is_due(self, seconds: float) -> bool:
        return time.monotonic() - self.saved_at >= seconds

    def start_of(self, key: str) -> Array | None:
        """What is known of a problem, which from now on is one of this fit's."""
        with self.lock:
            self.used.add(key)
            return self.alphas.get(key)

    def keep(self, key: str, alpha: Array) -> None:
        with self.lock:
            self.alphas[key] = alpha.copy()

    def save(self, key: str, alpha: Array) -> None:
        """Write all that is kept, and this. If writing fails (a full disk), the fit continues and a message says so."""
        self.keep(key, alpha)
        with self.lock:
            try:
                self._write(self.alphas)
            except OSError as error:
                if not self.has_failed:
                    self.complain(f"The checkpoint could not be saved, and the fit continues without it: {error}.")
                self.has_failed = True
            self.saved_at = time.monotonic()

    def remove(self) -> None:
        """After the model is safe: what belongs to this fit goes, what belongs to another stays."""
        if not self.path.exists():
            return
        others = {key: alpha for key, alpha in _read(self.path).items() if key not in self.used}
        if others:
            self._write(others)
        else:
            self.path.unlink()

    def _write(self, alphas: dict[str, Array]) -> None:
        with written(self.path) as file:
            file.write(save_tensors(alphas, {FORMAT_KEY: FORMAT}))


def _read(path: Path) -> dict[str, Array]:
    if not is_regular(path):
        raise MalformedFile(path, "a checkpoint must be a regular file")
    metadata, alphas = read_tensors(path, "checkpoint of maxmargin")
    if metadata.get(FORMAT_KEY) != FORMAT:
        raise MalformedFile(path, "it is not a checkpoint of maxmargin, and it is left as it is")
    if any(alpha.ndim != 1 or alpha.dtype != np.float64 for alpha in alphas.values()):
        raise MalformedFile(path, "it is a damaged checkpoint: an alpha must be a vector of float64")
    return alphas


@dataclass(frozen=True)
class Checkpointed:
    """A solver that starts from the checkpoint of its problem, if there is one, and saves its alpha at regular intervals."""

    solver: Any
    checkpoint: Checkpoint
    seconds: float = 5.0

    @property
    def name(self) -> str:
        return str(self.solver.name)

    @property
    def stop(self) -> StoppingRule:
        return "paper" if ends_by_own_rule(self.solver) else "gap"

    def init(self, problem: Any, warm_start: Array | None, seed: int) -> CheckpointedState:
        key = fingerprint(problem)
        saved = self.checkpoint.start_of(key)
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


class CheckpointedKernelSolver(Checkpointed, KernelSolver):
    """The same for a kernel solver, whose candidate is alpha alone."""

    def for_features(self) -> Checkpointed | None:
        """The same for the linear problem on the features of a kernel, if the solver has a form for that."""
        linear = self.solver.for_features()
        return None if linear is None else Checkpointed(linear, self.checkpoint, self.seconds)

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
    def relative_gap(self) -> float:
        return float(self.inner.relative_gap)

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


def fingerprint(problem: LinearProblem | KernelProblem | NuProblem) -> str:
    """A digest of all that the optimum depends on."""
    digest = hashlib.blake2b(digest_size=16)
    if isinstance(problem, NuProblem):
        for array in (problem.signs, problem.targets, problem.C, problem.group, problem.totals):
            digest.update(np.ascontiguousarray(array).data)
        problem = problem.samples
    if isinstance(problem, KernelProblem):
        settings: tuple[Any, ...] = (problem.kernel, problem.has_offset)
    else:
        settings = (problem.intercept_scaling, problem.penalizes_intercept)
    digest.update(f"{problem.loss!r} {settings!r} {problem.rows.matrix.shape}".encode())
    matrix = problem.rows.matrix
    arrays = (matrix.data, matrix.indices, matrix.indptr) if problem.rows.is_sparse else (matrix,)
    prices = getattr(problem, "offset_prices", None)
    for array in (*arrays, problem.y, problem.C, *(() if prices is None else (np.array(prices),))):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
