"""The notebooks run from top to bottom, and hold the outputs of such a run."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def code_cells(path: Path) -> list[dict]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def test_there_are_three():
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs_from_top_to_bottom(path):
    mpl.use("Agg")
    names: dict[str, object] = {}
    for number, cell in enumerate(code_cells(path)):
        exec(compile("".join(cell["source"]), f"{path.name}, code cell {number}", "exec"), names)
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_was_saved_after_such_a_run(path):
    assert [cell["execution_count"] for cell in code_cells(path)] == list(range(1, len(code_cells(path)) + 1))
