"""What happens while Numba compiles a loop of ours: one line for whoever watches, and no garbage collection.

The first fit on a machine compiles its loops, which takes seconds. A user at a terminal, or one who asked for ``verbose``,
reads one line that says so. Pipes and log files get no such line. Garbage collection is off meanwhile: a compilation makes
millions of objects and hardly any garbage, and looking for it took a tenth of the time.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from typing import Any

from numba.core import event

OURS = "maxmargin."
SENTENCE = "maxmargin: compiling, once on this machine ..."


class Watch(event.Listener):
    """Hears of every compilation in this process. Numba's lock lets one thread compile at a time, so the counts need none."""

    def __init__(self) -> None:
        self.is_verbose = False
        """Whether a fit of this process has ``verbose`` set."""
        self._has_spoken = False
        self._depth = 0
        self._collects = False

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            if not _is_ours(event):
                return
            self._speak()
            self._collects = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth == 0 and self._collects:
            gc.enable()

    def _speak(self) -> None:
        if self._has_spoken or not (self.is_verbose or _is_terminal(sys.stderr)):
            return
        self._has_spoken = True
        with suppress(OSError, ValueError):  # nobody can read it
            print(SENTENCE, file=sys.stderr, flush=True)


def _is_ours(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith(OURS)


def _is_terminal(stream: Any) -> bool:
    """Whether standard error is a terminal. It is None in a process without one, and raises an error when it is closed."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


watch = Watch()
event.register("numba:compile", watch)
