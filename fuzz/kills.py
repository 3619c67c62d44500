"""Real commands, killed at random moments: nothing that was there is lost, and what was reached is resumed from."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.io import load_model, read_svmlight, write_svmlight
from maxmargin.models.checkpoint import Checkpoint, fingerprint
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge

SAMPLES, FEATURES, C = 4000, 40, 30.0
LONGEST_SECONDS = 5.0
"""A command is killed within this time of its start; it needs about one to begin."""
TOLERANCES = ("1e-7", "1e-3")
"""The first is reached after tens of seconds, the second soon: kills fall into the work, and between the model and the end."""
WORDS = ("-s", "3", "-c", str(C), "-B", "1", "-q", "--solver", "dcd", "--checkpoint", "state", "--checkpoint-seconds", "0.05")


def campaign(chance: random.Random, most_kills: int, deadline: float) -> dict[str, int]:
    """Train over an old model until the command ends by itself, killing it before that up to ``most_kills`` times. Returns the
    number of kills, of those that left a checkpoint, and of fits that came to their end between them; an AssertionError says
    what was lost."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        problem, old = _prepare(folder, chance)
        tol = chance.choice(TOLERANCES)
        reached, n_kills, n_left, n_ends = -np.inf, 0, 0, 0
        while n_kills < most_kills and time.monotonic() < deadline:
            code = _run(folder, tol, chance.uniform(0.2, LONGEST_SECONDS))
            if code is not None:
                assert code == 0, f"the command ended with {code}"
                assert _is_done(folder, tol), "the model is not certified"
                assert not (folder / "state").exists(), "the checkpoint of a fit that is done is still there"
                (folder / "model").write_bytes(old)
                reached, n_ends = -np.inf, n_ends + 1
                continue
            reached = _check(folder, problem, reached, tol)
            n_kills, n_left = n_kills + 1, n_left + (reached > -np.inf)
        return {"cases": n_kills, "left a checkpoint": n_left, "ends": n_ends}


def _prepare(folder: Path, chance: random.Random) -> tuple[LinearProblem, bytes]:
    """Data that takes seconds to fit, and a model where the new one will be."""
    rng = np.random.default_rng(chance.randrange(2**32))
    X = rng.normal(size=(SAMPLES, FEATURES))
    y = np.where(X @ rng.normal(size=FEATURES) + 3.0 * rng.normal(size=SAMPLES) > 0, 1, -1)
    write_svmlight(X, y, folder / "data")
    words = ["train", "data", "model", "-q", "--max-iter", "1"]
    subprocess.run([sys.executable, "-m", "maxmargin", *words], cwd=folder, check=False)
    X, y = read_svmlight(folder / "data")
    return LinearProblem.build(X, np.where(y > 0, 1, -1), C, Hinge(), 1.0), (folder / "model").read_bytes()


def _is_done(folder: Path, tol: str) -> bool:
    """Whether the new model stands in the place of the old one."""
    model = load_model(folder / "model")
    return model.loss == "hinge" and model.relative_gap_ <= float(tol)


def _run(folder: Path, tol: str, seconds: float) -> int | None:
    """The exit code, or None where the command was killed."""
    command = [sys.executable, "-m", "maxmargin", "train", "data", "model", "-e", tol, *WORDS]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def _check(folder: Path, problem: LinearProblem, reached: float, tol: str) -> float:
    """Data and model are whole, and the checkpoint stands no lower than the last one did, or the new model is there.

    Returns the dual value of the checkpoint."""
    X, _ = read_svmlight(folder / "data")
    assert np.array_equal(X.data, problem.rows.matrix.data), "the data has changed"
    load_model(folder / "model")
    alpha = _saved(folder / "state", problem)
    strangers = {path.name for path in folder.iterdir() if not path.name.startswith(".maxmargin-")}
    assert strangers <= {"data", "model", "state"}, f"there are new files: {strangers}"
    for path in folder.glob(".maxmargin-*"):  # what was being written when the command was killed
        os.unlink(path)
    if alpha is None:
        assert reached == -np.inf or _is_done(folder, tol), "the checkpoint is gone"
        return -np.inf
    dual = problem.dual(np.clip(alpha, 0.0, C))
    assert dual >= reached - 1e-6 * abs(reached), f"the checkpoint stands at {dual}, and stood at {reached}"
    return float(dual)


def _saved(path: Path, problem: LinearProblem) -> Array | None:
    if not path.exists():
        return None
    return Checkpoint.open(path).alphas.get(fingerprint(problem))
