"""What the command line says while it works, and how it writes numbers."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.spinner import Spinner

from maxmargin.cli.progress import ProgressLine
from maxmargin.cli.report import size_text, time_text, tolerance_text
from maxmargin.solving.solution import Progress

PROGRESS = Progress(
    seconds=3.0, epochs=123456.7, steps=9, primal=2.0, dual=1.0, gap=1.0, relative_gap=1.23e-5, active=12345678, solver="dcd"
)


def test_the_line_says_the_task_its_time_and_the_last_certificate_within_80_columns():
    line = ProgressLine(2.5e-6, enabled=False)
    line.begin("training")
    assert line.text(0.42) == "training  0.4 s"
    line(PROGRESS)
    text = line.text(59.0)
    assert text == "training  59.0 s  epoch 123457  gap 1.2e-05, target 2.5e-06  12345678 active"
    assert len("⠋ " + text) <= 80


def test_the_next_task_starts_with_a_clean_line():
    line = ProgressLine(1e-4, enabled=False)
    line(PROGRESS)
    line.begin("writing")
    assert line.text(0.0) == "writing  0.0 s"


def test_a_narrow_terminal_cuts_the_line_and_does_not_wrap_it():
    line = ProgressLine(1e-4, enabled=False)
    line(PROGRESS)
    file = io.StringIO()
    Console(file=file, width=30).print(Spinner("dots", text=line))
    assert len(file.getvalue().splitlines()) == 1
    assert file.getvalue().rstrip().endswith("…")


def test_the_line_is_silent_where_standard_error_is_no_terminal(capsys):
    with ProgressLine(1e-4, enabled=True) as line:
        line(PROGRESS)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("seconds", "text"), [(0.04, "0.0 s"), (60.0, "1 min 00 s"), (3725.9, "62 min 05 s")])
def test_times(seconds, text):
    assert time_text(seconds) == text


@pytest.mark.parametrize(("tol", "text"), [(1e-4, "1e-04"), (2.5e-4, "2.5e-04"), (0.0, "0e+00"), (1.0, "1e+00")])
def test_a_tolerance_is_not_rounded_to_another(tol, text):
    assert tolerance_text(tol) == text


def test_sizes():
    assert [size_text(n) for n in (999, 2620, 14_800_000, 3_000_000_000)] == ["999 bytes", "2.62 kB", "14.8 MB", "3 GB"]
