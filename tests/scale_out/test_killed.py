"""``maxmargin train --memory`` in processes that are killed: SIGKILL cannot be caught, so nothing tidies up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import sparse

from maxmargin import LinearSVC
from maxmargin.io import load_model, write_svmlight

N_COPIES = 45
"""The text repeats its rows until the reader takes it in several windows of 32 MB."""
SETTINGS = ["-s", "3", "-c", "0.5", "-e", "1e-5", "--memory", "12M", "--checkpoint-seconds", "0", "--json"]
PATIENCE_SECONDS = 120.0


def rows(n=2000, d=3000, n_stored=60):
    """More features than Newton's method takes, so that a fit makes many rounds."""
    random = np.random.default_rng(0)
    places = random.integers(0, d, n * n_stored), np.repeat(np.arange(n), n_stored)
    X = sparse.csr_matrix((random.normal(size=n * n_stored).round(3), places[::-1]), (n, d))
    y = np.where(X @ random.normal(size=d) + 4.0 * random.normal(size=n) > 0.0, 1, -1)
    return X, y


def begun(folder):
    command = [sys.executable, "-m", "maxmargin", "train", "data.txt", "model", *SETTINGS]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process):
    """What a command reports that runs to its end."""
    output, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, errors
    return json.loads(output)


def killed_when(process, is_time):
    """Kill a process in the middle of its work."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while not is_time():
        assert process.poll() is None, f"the command ended before it was killed: {process.communicate()}"
        assert time.monotonic() < limit
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.communicate()


def listed(folder):
    """The list of blocks, if there is one."""
    path = folder / "model.blocks" / "blocks.json"
    return json.loads(path.read_text()) if path.exists() else {"blocks": [], "is_complete": False}


def killed_while_it_converts(folder):
    """The list of blocks of a command that was killed before its last block.

    On a loaded machine this process may be waiting for its turn while the command writes the last block. Then
    another command is begun and killed.
    """
    for _ in range(10):
        killed_when(begun(folder), lambda: listed(folder)["blocks"])
        before = listed(folder)
        if not before["is_complete"]:
            return before
        shutil.rmtree(folder / "model.blocks")
    pytest.fail("ten commands had written all blocks before they were killed")


class Changes:
    """Counts how often a checkpoint was written."""

    def __init__(self, folder):
        self.folder, self.stamps = folder / "model.blocks", set()

    def __call__(self):
        self.stamps |= {(path.stat().st_ino, path.stat().st_mtime_ns) for path in self.folder.glob("fit-*.checkpoint")}
        return len(self.stamps)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_a_command_killed_while_it_converts_and_while_it_fits_resumes_and_leaves_nothing_behind(tmp_path):
    X, y = rows()
    write_svmlight(X, y, tmp_path / "part.txt")
    (tmp_path / "data.txt").write_bytes((tmp_path / "part.txt").read_bytes() * N_COPIES)
    (tmp_path / "part.txt").unlink()
    without = ended(begun(tmp_path))
    (tmp_path / "model").unlink()

    before = killed_while_it_converts(tmp_path)
    first = tmp_path / "model.blocks" / before["blocks"][0]["file"]
    stamp = first.stat().st_mtime_ns

    changes = Changes(tmp_path)
    killed_when(begun(tmp_path), lambda: changes() >= without["epochs"] // 3)
    assert listed(tmp_path)["is_complete"]
    assert first.stat().st_mtime_ns == stamp, "the blocks of the first command were written again"
    (tmp_path / "model.blocks" / f".maxmargin-{'0' * 16}").write_bytes(b"half a file")

    report = ended(begun(tmp_path))
    assert report["certified"]
    assert report["epochs"] < without["epochs"], "the fit began anew"
    expected = LinearSVC(loss="hinge", C=0.5 * N_COPIES, tol=1e-8).fit(X, y)
    found = load_model(tmp_path / "model").certificate_
    assert found.relative_gap <= 1e-5
    assert found.primal == pytest.approx(expected.certificate_.primal, rel=2e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.txt", "model"]


@pytest.mark.parametrize("broken", ["memory", "text", "weights"])
def test_a_command_that_cannot_work_leaves_no_blocks_behind(broken, tmp_path):
    X, y = rows(300, 50, 10)
    write_svmlight(X, y, tmp_path / "data.txt")
    options = {"memory": ["--memory", "1K"], "text": ["--memory", "1M"], "weights": ["--memory", "1M", "-w", "7=2"]}[broken]
    if broken == "text":
        with open(tmp_path / "data.txt", "a") as file:
            file.write("1 3:oops\n")
    command = [sys.executable, "-m", "maxmargin", "train", "data.txt", "model", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 2, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.txt"]
