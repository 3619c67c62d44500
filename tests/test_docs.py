"""The examples in the documentation run, and print what the page says they print, where it does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = ["kernels.md", *sorted(f"papers/{path.name}" for path in (DOCS / "papers").glob("*.md") if path.name != "README.md")]
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(\n```text\n(?P<printed>.*?)```\n)?", re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_print_what_the_page_says(page, capsys):
    blocks = list(BLOCK.finditer((DOCS / page).read_text()))
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block["code"], page, "exec"), names)
        printed = capsys.readouterr().out
        assert block["printed"] in (None, printed)
