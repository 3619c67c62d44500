"""Every public name has an example, in its docstring or in docs/api/examples, and the example does what it says."""

from __future__ import annotations

import doctest
from pathlib import Path

import matplotlib as mpl
import pytest

import maxmargin
import maxmargin.dask
import maxmargin.io

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "api" / "examples"
PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (maxmargin, maxmargin.io)
    for name in module.__all__
    if name != "__version__"
} | {"maxmargin.dask.LinearSVC": maxmargin.dask.LinearSVC}


def example_of(name: str) -> str:
    """The file, or the docstring where that has one."""
    path = EXAMPLES / f"{name.rpartition('.')[2]}.rst"
    return path.read_text() if path.exists() else (PUBLIC[name].__doc__ or "")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example_that_does_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name.startswith("maxmargin.dask"):
        pytest.importorskip("distributed")
    mpl.use("Agg")
    example = doctest.DocTestParser().get_doctest(example_of(name), {}, name, None, 0)
    assert example.examples
    said: list[str] = []
    assert doctest.DocTestRunner().run(example, out=said.append).failed == 0, "".join(said)
    import matplotlib.pyplot as plt

    plt.close("all")


def test_no_example_is_left_of_a_name_that_is_gone():
    names = {name.rpartition(".")[2] for name in PUBLIC}
    assert {path.stem for path in EXAMPLES.glob("*.rst")} <= names


@pytest.mark.parametrize("name", PUBLIC)
def test_the_api_reference_lists_every_public_name(name):
    assert name in (EXAMPLES.parent / "index.rst").read_text()
