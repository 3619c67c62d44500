"""Numba's cache is keyed by the compiled sources: it does not see that a helper in another file has changed."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "maxmargin"

SEEN_BY_LOOPS = {"by_type.py", "curves.py", "rows.py", "caching.py", "held_values.py"}
compiled = [path for path in sorted(SOURCES.rglob("*.py")) if "_loop" in path.stem or path.name in SEEN_BY_LOOPS]
digest = hashlib.sha256(b"".join(path.read_bytes() for path in compiled)).hexdigest()[:16]
os.environ["NUMBA_CACHE_DIR"] = str(ROOT / ".cache" / f"numba-{digest}")
sys.path.insert(0, str(ROOT))

settings.register_profile("ci", derandomize=True)  # the same cases in every run; runs by hand draw new ones
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True)
def liblinear_begins_alike():
    """LIBLINEAR draws its order by the C library's rand: a test must not depend on how often others drew before it."""
    c_library = ctypes.CDLL(None) if os.name == "posix" else ctypes.cdll.msvcrt
    c_library.srand(1)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The command ``maxmargin`` in a folder of its own: exit code, output and errors."""
    from typer.testing import CliRunner

    from maxmargin.cli.commands import app

    monkeypatch.chdir(tmp_path)
    runner = CliRunner()

    def call(*words):
        result = runner.invoke(app, [str(word) for word in words], catch_exceptions=False)
        return result.exit_code, result.stdout, result.stderr

    return call
