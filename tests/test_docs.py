"""The examples in the documentation run, and print what the page says they print, where it does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import maxmargin

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = [
    "kernels.md",
    "regression.md",
    "kernel_regression.md",
    "one_class.md",
    "model_selection.md",
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


def names_in(codes: list[str]) -> set[str]:
    """What each piece of code in backticks begins with, but for paths and formulas."""
    names = (re.match(r"[A-Za-z_][\w.]*", code) for code in codes if "/" not in code)
    return {name[0] for name in names if name is not None}


def words_of(paths: list[Path]) -> set[str]:
    return {word for path in paths for word in re.findall(r"\w+", path.read_text())}


def test_every_name_in_the_tables_of_the_papers_is_public_or_in_the_file_that_its_row_names():
    """A row without a file may name anything in the sources."""
    sources, public = words_of(sorted((ROOT / "src").rglob("*.py"))), {*maxmargin.__all__, "math"}
    missing = []
    for page in (DOCS / "papers").glob("*.md"):
        for row in (row for heading in ("Where everything", "From the paper") for row in rows_below(page.read_text(), heading)):
            codes = re.findall(r"`([^`]+)`", " ".join(row))
            files = [path for code in codes for place in PLACES if (path := place / code).is_file()]
            known = words_of(files) if files else sources
            parts = {name: name.split(".") for name in names_in(codes)}
            missing += [name for name, words in parts.items() if words[0] not in public and not {*words} <= known]
    assert not missing


ROOT = DOCS.parent
PLACES = (ROOT, ROOT / "src" / "maxmargin", ROOT / "src" / "maxmargin" / "solvers")
"""Where the paths begin that pages name."""
COPIES = set((DOCS / "benchmarks" / "results").glob("*.md"))
"""What ``make docs`` copies beside the sources of the site."""
TEXTS = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")} - COPIES)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)(?P<path>[^)#\s]+)[^)]*\)")
MODULE_PATH = re.compile(r"`(?P<path>(?:src/maxmargin/)?(?:[a-z_]+/)+[a-z_0-9]+\.py)`")
DOTTED = re.compile(r"`(?P<name>maxmargin(?:\.[a-z_]\w*)+)")


AWAITED = {"../benchmarks/results/one_class.md", "../benchmarks/results/regression_grid.md"}
"""Tables of results that are not made yet. Empty this set when they are."""


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_that_a_page_links_to_exists(page):
    linked = [match["path"] for match in LINK.finditer(page.read_text()) if match["path"] not in AWAITED]
    assert not [path for path in linked if not (page.parent / path).exists() and not is_made_by_sphinx(page, path)]


def is_made_by_sphinx(page: Path, path: str) -> bool:
    """Pages of the site whose source is not the file of that name."""
    return page.is_relative_to(DOCS) and ("auto_examples" in path or "api/generated" in path or path.endswith(".html"))


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_module_that_a_page_names_exists(page):
    if page.name == "CHANGELOG.md":
        return  # it may name what there was
    named = [match["path"] for match in MODULE_PATH.finditer(page.read_text())]
    assert not [path for path in named if not any((place / path).exists() for place in PLACES)]
    dotted = [match["name"].split(".") for match in DOTTED.finditer(page.read_text())]
    assert not [".".join(parts) for parts in dotted if not is_module_or_in_one(parts)]


def is_module_or_in_one(parts: list[str]) -> bool:
    """Whether the dotted name is a module, or all but its last part is."""
    paths = (ROOT.joinpath("src", *some) for some in (parts, parts[:-1]))
    return any(path.is_dir() or path.with_suffix(".py").exists() for path in paths)
