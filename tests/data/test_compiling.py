import gc
import io
import sys
from types import SimpleNamespace

import pytest

from maxmargin.data.compiling import SENTENCE, Watch


class Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self):
        return self._is_terminal


def compilation_of(module):
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


@pytest.fixture
def hear(monkeypatch):
    """What a new watch says of these compilations, one inside the other."""

    def call(*modules, is_terminal, is_verbose=False):
        stream, watch = Stream(is_terminal), Watch()
        monkeypatch.setattr(sys, "stderr", stream)
        watch.is_verbose = is_verbose
        for module in modules:
            watch.on_start(compilation_of(module))
        for module in reversed(modules):
            watch.on_end(compilation_of(module))
        return stream.getvalue()

    return call


def test_a_terminal_is_told_once_that_something_compiles(hear):
    assert hear("maxmargin.data.row_loops", "numba.np.arrayobj", is_terminal=True) == SENTENCE + "\n"


def test_a_pipe_stays_silent_unless_verbose_is_asked_for(hear):
    assert hear("maxmargin.data.row_loops", is_terminal=False) == ""
    assert hear("maxmargin.data.row_loops", is_terminal=False, is_verbose=True) == SENTENCE + "\n"


def test_what_others_compile_is_not_announced(hear):
    assert hear("somebody.else", is_terminal=True) == ""


def test_a_process_without_standard_error_compiles_in_silence(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    Watch().on_start(compilation_of("maxmargin.data.row_loops"))
    gc.enable()


def test_garbage_waits_for_the_end_of_the_outermost_compilation():
    watch, ours = Watch(), compilation_of("maxmargin.data.row_loops")
    watch.on_start(ours)
    watch.on_start(compilation_of("numba.np.arrayobj"))
    watch.on_end(ours)
    assert not gc.isenabled()
    watch.on_end(ours)
    assert gc.isenabled()
