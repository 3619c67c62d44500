"""What a registry, a benchmark site and a visitor of the repository read."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import maxmargin
from maxmargin import Hinge, LinearProblem, certify, solve

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem + "_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_link_of_the_readme_works_on_the_page_of_a_registry():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert len(links) > 5
    assert [link for link in links if not link.startswith("https://")] == []


def test_files_that_the_readme_links_to_are_in_the_repository():
    names = re.findall(r"maxmargin/maxmargin/(?:blob/)?main/([^)\s]+)", README)
    assert names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_first_example_of_the_readme_prints_what_it_says(capsys):
    code, said = re.search(r"```python\n(.*?)```\n\n    (.*?)\n", README, re.DOTALL).groups()
    exec(code, {})
    printed = capsys.readouterr().out
    assert printed.split(":")[0] == said.split(":")[0]


def test_the_project_has_addresses_and_the_citation_has_its_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"Documentation", "Source", "Issues", "Changelog"} <= set(project["urls"])
    assert f"version: {maxmargin.__version__}" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "GOVERNANCE.md", "RELEASING.md", "CONTRIBUTING.md"])
def test_links_between_the_pages_of_the_repository_lead_somewhere(name):
    links = re.findall(r"\]\(([^):#]+)\)", (ROOT / name).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.fixture
def benchopt(monkeypatch):
    """A stand-in for benchopt: what the solver file uses of it."""

    @contextmanager
    def safe_import_context():
        yield

    stand_in = ModuleType("benchopt")
    stand_in.BaseSolver, stand_in.safe_import_context = object, safe_import_context
    monkeypatch.setitem(sys.modules, "benchopt", stand_in)


def test_the_solver_file_for_benchopt_solves_its_objective(benchopt):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.choice([-1.0, 1.0], size=60)
    solver = loaded(ROOT / "benchmarks" / "benchopt" / "maxmargin.py").Solver()
    solver.set_objective(X=X, y=y, C=0.5)
    solver.run(1e-9)
    beta = solver.get_result()["beta"]
    assert beta.shape == (4,)
    problem = LinearProblem.build(X, y.astype(int), 0.5, Hinge(), intercept_scaling=0.0)
    weights = np.zeros(problem.n_weights)
    weights[:4] = beta
    assert certify(problem, weights, solve(problem, tol=1e-12).alpha).relative_gap < 1e-8


def test_the_benchmarks_of_the_trend_run():
    assert json.loads((ROOT / "asv.conf.json").read_text())["benchmark_dir"] == "benchmarks/trend"
    headline = loaded(ROOT / "benchmarks" / "trend" / "headline.py")
    small = headline.Small()
    small.setup()
    small.time_linear()
    small.time_kernel()
    exec(headline.Import().timeraw_estimator(), {})
