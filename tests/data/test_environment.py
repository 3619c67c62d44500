"""Where nothing can be kept, everything still works: caches that cannot be written or are damaged, disks that are full."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from maxmargin.data import caching, rows
from maxmargin.data.caching import CheckedFile
from maxmargin.models.checkpoint import Checkpoint, Checkpointed
from maxmargin.problem.losses import Hinge
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import PROBLEMS

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "maxmargin"
SOURCE = """
from maxmargin.data.caching import njit

@njit(cache=True)
def doubled(x):
    return x + x
"""


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """A module with one compiled function, loaded anew at each call, and its cache in a folder of its own."""
    import numba

    (tmp_path / "module_of_one.py").write_text(SOURCE)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(caching, "_said", [])

    def load():
        spec = importlib.util.spec_from_file_location("module_of_one", tmp_path / "module_of_one.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.doubled

    return load


def files_of(folder, suffix):
    return sorted(folder.rglob(f"*.{suffix}"))


def test_what_was_compiled_is_loaded_by_the_next_process(compiled, tmp_path):
    assert compiled()(3) == 6
    assert len(files_of(tmp_path, "nbi")) == len(files_of(tmp_path, "nbc")) == 1
    again = compiled()
    assert again(4) == 8
    assert sum(again.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: b"nonsense",
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content[:40] + bytes([content[40] ^ 255]) + content[41:],
    ],
    ids=["emptied", "truncated", "replaced", "last byte", "a byte"],
)
def test_a_damaged_file_of_the_cache_is_compiled_anew(compiled, tmp_path, suffix, damage):
    compiled()(3)
    (path,) = files_of(tmp_path, suffix)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    again = compiled()
    assert again(4) == 8
    assert sum(again.stats.cache_hits.values()) == 0
    last = compiled()
    assert last(5) == 10
    assert sum(last.stats.cache_hits.values()) == 1


def test_a_cache_that_cannot_be_saved_is_said_once_and_the_function_works(compiled, monkeypatch):
    def full(self, path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(caching.CheckedFile, "_open_for_write", full)
    doubled = compiled()
    with pytest.warns(RuntimeWarning, match="cannot be kept for the next process"):
        assert doubled(3) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert doubled(2.5) == 5.0


def test_every_compiled_function_has_the_cache_that_forgives():
    for path in PACKAGE.rglob("*.py"):
        if path.name != "caching.py":
            assert "from numba import njit" not in path.read_text(), path


def test_without_any_folder_for_a_cache_everything_works_and_that_is_said_once(tmp_path):
    """A file stands where each cache folder would be, which stops root, too."""
    shutil.copytree(PACKAGE, tmp_path / "maxmargin", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in {path.parent for path in (tmp_path / "maxmargin").rglob("*.py")}:
        (folder / "__pycache__").write_text("")
    (tmp_path / "data").write_text("1 1:1\n-1 1:-1\n1 1:2\n-1 1:-3\n")
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    environment |= dict.fromkeys(("HOME", "XDG_CACHE_HOME"), "/dev/null")
    environment |= {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "maxmargin", "train", "data", "model"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Certified")
    assert done.stderr.count("cannot be kept for the next process") == 1
    assert done.stderr.startswith("maxmargin: Compiled code")


# Checkpoints on a full disk


def test_a_full_disk_at_a_checkpoint_is_said_once_and_the_fit_goes_on(tmp_path, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("maxmargin.models.checkpoint.written", full)
    problem = PROBLEMS["overlapping"](Hinge())
    with pytest.warns(RuntimeWarning, match=r"could not be saved, and the fit continues without it: .*No space left") as said:
        solution = solve(problem, Checkpointed(DCD(), Checkpoint.open(tmp_path / "state"), seconds=0.0), tol=1e-6)
    assert solution.status is Status.CERTIFIED
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(solution.alpha, solve(problem, DCD(), tol=1e-6).alpha)


def test_a_cache_that_names_a_class_that_has_moved_is_taken_for_missing(tmp_path, monkeypatch):
    file = CheckedFile(str(tmp_path), "loop", "stamp")
    monkeypatch.setattr(rows, "Passing", type("Passing", (), {"__module__": rows.__name__}), raising=False)
    file._save_index({"signature": rows.Passing()})
    assert set(file._load_index()) == {"signature"}
    monkeypatch.delattr(rows, "Passing")
    assert file._load_index() == {}
