"""What the command line says while it works, and how it writes numbers."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from rich.spinner import Spinner

from maxmargin import IRWLS, SMO, SVC, BatchedSMO
from maxmargin.cli.progress import Estimate, ProgressLine, ProgressPolicy, watched
from maxmargin.cli.report import size_text, time_text, tolerance_text
from maxmargin.solvers.kernel.auto import KernelAuto
from maxmargin.solving.solution import Progress
from tests.catalogue import labelled

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


def test_between_certificates_the_line_says_what_the_solver_believes_within_80_columns():
    line = ProgressLine(2.5e-6, enabled=False)
    line.begin("training")
    line.estimate(Estimate(1.23e-5, 12345678))
    text = line.text(3599.0)
    assert text == "training  59 min 59 s  gap about 1.2e-05, target 2.5e-06  12345678 support vectors"
    assert len("⠋ " + line.text(59.0)) <= 80
    line.estimate(Estimate(float("inf"), 0))
    assert "gap about unknown" in line.text(1.0)
    line.begin("writing")
    assert line.text(0.0) == "writing  0.0 s"


@pytest.mark.parametrize("solver", [KernelAuto(), BatchedSMO(), SMO(), IRWLS()], ids=lambda solver: solver.name)
@pytest.mark.parametrize("n_samples", [1100, 1500])  # fewer are solved in one go, and there is nothing to tell
def test_a_watched_solver_tells_its_gap_and_support_vectors_and_gives_the_same_answer(solver, n_samples):
    X, y = labelled(n_samples, 4, 2.0, 0)
    seen = []
    line = ProgressLine(1e-3, enabled=False)
    line.estimate = seen.append
    spy = watched(solver, line, ProgressPolicy(seconds_between_estimates=0.0))
    told, silent = (SVC(solver=each, C=10.0, gamma=0.5).fit(X, y) for each in (spy, solver))
    assert np.array_equal(told.dual_coef_, silent.dual_coef_)
    assert seen[-1].support_vectors == len(told.support_)
    assert seen[-1].relative_gap < 1.0
    assert spy.name == solver.name
    assert isinstance(replace(spy, cache_mb=7.0), type(spy))


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
