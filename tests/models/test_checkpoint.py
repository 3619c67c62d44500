"""Checkpoints: a fit that is killed goes on, and ends with the certificate of one that was not."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import numpy as np
import pytest

from maxmargin.io import MalformedFile, load_model, write_svmlight
from maxmargin.models.checkpoint import Checkpoint, Checkpointed, CheckpointedKernelSolver, fingerprint
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Linear
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.solvers.kernel.batched_smo import BatchedSMO
from maxmargin.solvers.kernel.smo import SMO
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import PROBLEMS, labelled


def test_a_solve_goes_on_from_its_checkpoint(tmp_path):
    problem = PROBLEMS["overlapping"](Hinge())
    path = tmp_path / "checkpoint"
    first = solve(problem, Checkpointed(DCD(), Checkpoint.open(path), seconds=0.0), tol=1e-6)
    again = solve(problem, Checkpointed(DCD(), Checkpoint.open(path), seconds=0.0), tol=1e-6)
    assert first.status is again.status is Status.CERTIFIED
    assert again.steps < 0.5 * first.steps


@pytest.mark.parametrize("solver", [SMO(), BatchedSMO(working_set=16)], ids=["smo", "batched-smo"])
@pytest.mark.parametrize("has_offset", [True, False])
def test_a_kernel_solve_goes_on_from_its_checkpoint(tmp_path, solver, has_offset):
    X, y = labelled(200, 4, 1.0, 0)
    problem = KernelProblem.build(X, y, 10.0, RBF(0.3), has_offset)
    path = tmp_path / "checkpoint"
    first = solve(problem, CheckpointedKernelSolver(solver, Checkpoint.open(path), seconds=0.0), tol=1e-6)
    again = solve(problem, CheckpointedKernelSolver(solver, Checkpoint.open(path), seconds=0.0), tol=1e-6)
    assert first.status is again.status is Status.CERTIFIED
    assert again.steps < 0.5 * first.steps
    assert first.kernel_evaluations > again.kernel_evaluations > 0


def test_problems_shorter_than_the_interval_are_saved_with_the_next_that_is_not(tmp_path):
    checkpoint = Checkpoint.open(tmp_path / "checkpoint")
    short, long = (PROBLEMS["overlapping"](loss) for loss in (Hinge(), SquaredHinge()))
    solve(short, Checkpointed(DCD(), checkpoint, seconds=1e9), tol=1e-6)
    assert not checkpoint.path.exists()
    solve(long, Checkpointed(DCD(), checkpoint, seconds=0.0), tol=1e-6)
    assert set(Checkpoint.open(checkpoint.path).alphas) == {fingerprint(short), fingerprint(long)}


def test_a_checkpoint_of_another_problem_is_not_used(tmp_path):
    path = tmp_path / "checkpoint"
    problem, other = (PROBLEMS["overlapping"](loss) for loss in (Hinge(), SquaredHinge()))
    solve(problem, Checkpointed(DCD(), Checkpoint.open(path), seconds=0.0), tol=1e-6)
    resumed = solve(other, Checkpointed(DCD(), Checkpoint.open(path), seconds=0.0), tol=1e-6)
    assert resumed.steps == solve(other, DCD(), tol=1e-6).steps


def test_everything_that_moves_the_optimum_changes_the_fingerprint():
    X, y = labelled(20, 3, 1.0, 0)
    problems = [
        LinearProblem.build(X, y),
        LinearProblem.build(X, -y),
        LinearProblem.build(X, y, 2.0),
        LinearProblem.build(X, y, 1.0, SquaredHinge()),
        LinearProblem.build(X, y, 1.0, Hinge(), 1.0),
        LinearProblem.build(X, y, 1.0, Hinge(), 1.0, penalizes_intercept=False),
        LinearProblem.build(np.nextafter(X, 1e9), y),
        KernelProblem.build(X, y, 1.0, Linear()),
        KernelProblem.build(X, y, 1.0, Linear(), has_offset=False),
        KernelProblem.build(X, y, 1.0, RBF(1.0)),
        KernelProblem.build(X, y, 1.0, RBF(2.0)),
        KernelProblem.build(X, y, 2.0, RBF(1.0)),
    ]
    assert len({fingerprint(problem) for problem in problems}) == len(problems)
    assert fingerprint(problems[0]) == fingerprint(LinearProblem.build(X.copy(), y.copy()))


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / "checkpoint").write_bytes(b"nonsense")
    with pytest.raises(MalformedFile, match="not a checkpoint"):
        Checkpoint.open(tmp_path / "checkpoint")


def test_a_command_killed_again_and_again_ends_certified(tmp_path):
    X, y = labelled(3000, 40, 5.0, 0)
    write_svmlight(X, y, tmp_path / "data")
    command = [sys.executable, "-m", "maxmargin", "train", "data", "-s", "3", "-c", "30", "-e", "1e-5", "-q"]
    command += ["--solver", "dcd", "--checkpoint", "state", "--checkpoint-seconds", "0.05"]
    moments = random.Random(0)
    for attempt in range(60):
        process = subprocess.Popen(command, cwd=tmp_path)
        deadline = time.monotonic() + moments.uniform(1.0, 2.0) * (1.0 + 0.3 * attempt)  # longer on a slow machine
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert load_model(tmp_path / "data.model").relative_gap_ <= 1e-5
    assert not (tmp_path / "state").exists()
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["data", "data.model"]
