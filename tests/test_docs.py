"""The examples in the documentation run, and print what the page says they print, where it does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = [
    "kernels.md",
    "model_selection.md",
    "regression.md",
    "one_class.md",
    *sorted(f"papers/{path.name}" for path in (DOCS / "papers").glob("*.md") if path.name != "README.md"),
]
GUIDE = ["start.md", *sorted(f"guide/{path.name}" for path in (DOCS / "guide").glob("*.md") if "```python" in path.read_text())]
NEEDS = {"guide/scikit_learn.md": ("sklearn.callback",), "guide/export.md": ("skl2onnx", "onnxruntime")}
"""What a page uses that may not be installed."""
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(\n```text\n(?P<printed>.*?)```\n)?", re.DOTALL)


@pytest.mark.parametrize("page", [*PAGES, *GUIDE])
def test_the_examples_print_what_the_page_says(page, capsys):
    for module in NEEDS.get(page, ()):
        pytest.importorskip(module)
    blocks = list(BLOCK.finditer((DOCS / page).read_text()))
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block["code"], page, "exec"), names)
        printed = capsys.readouterr().out
        assert block["printed"] in (None, printed)


WORDS = ("faithful", "setting", "not built")


def rows_below(text: str, heading: str) -> list[list[str]]:
    """The rows of the tables of a page in the sections whose heading begins so, without their heads."""
    sections = [part for part in re.split(r"^## ", text, flags=re.MULTILINE) if part.startswith(heading)]
    lines = [line for part in sections for line in part.splitlines() if line.startswith("|")]
    below = [line for line in lines if not re.fullmatch(r"[|\- ]+", line)]
    heads = [lines[k - 1] for k, line in enumerate(lines) if re.fullmatch(r"[|\- ]+", line)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in below if line not in heads]


def counts_of(text: str) -> list[int]:
    """Rows by their words; claims, and those that were not made again."""
    states = [row[-1] for heading in ("Where everything", "From the paper") for row in rows_below(text, heading)]
    built = [sum(state.startswith(word) for state in states) for word in WORDS]
    built[-1] += sum(len(rows_below(text, heading)) for heading in ("What is not built", "Not built"))
    claims = rows_below(text, "The claims")
    missing = sum(any(cell.startswith("not made again") for cell in row) for row in claims)
    return [*built, len(claims) - missing, missing]


def test_the_counts_of_the_papers_rows_are_those_of_their_pages():
    folder = DOCS / "papers"
    said = {row[0]: [int(cell) for cell in row[1:]] for row in rows_below((folder / "README.md").read_text(), "How to read")}
    found = {path.name: counts_of(path.read_text()) for path in folder.glob("*.md") if path.name != "README.md"}
    assert said == found
    faithful, setting, not_built, *_ = (sum(column) for column in zip(*found.values(), strict=True))
    assert faithful + setting >= 110
    assert f"In all {faithful + setting} of {faithful + setting + not_built} rows" in (folder / "README.md").read_text()
