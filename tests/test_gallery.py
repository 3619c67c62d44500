"""The gallery: ``make docs`` runs its examples. Here is what can be seen of them without running."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples" / "gallery").glob("plot_*.py"))


def test_there_are_at_least_twelve():
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_begins_with_its_title(path):
    title, line, *_ = ast.get_docstring(ast.parse(path.read_text())).splitlines()
    assert line == "=" * len(title)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_uses_names_that_exist(path):
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if node.module.startswith("maxmargin")]
    assert ours
    for node in ours:
        module = importlib.import_module(node.module)
        assert [alias.name for alias in node.names if alias.name not in module.__all__] == []
