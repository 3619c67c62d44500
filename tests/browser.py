"""A real browser, where the machine has one: what a page writes to the console."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=3000 --dump-dom"
)
MESSAGE = re.compile(r":CONSOLE[^\]]*\] (.*)")
HARMLESS = ('"[PST]: Changed to', '"[PST]: Scrolled sidebar')
"""Messages of the theme that say what it did and complain of nothing begin like this."""

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


def console_errors(address: str, folder: Path, *flags: str) -> list[str]:
    """All that the page at ``address`` makes the browser write to its console."""
    command = [str(CHROMIUM), *FLAGS.split(), f"--user-data-dir={folder / 'profile'}", *flags, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "<body" in done.stdout
    return [message for message in MESSAGE.findall(done.stderr) if not message.startswith(HARMLESS)]
