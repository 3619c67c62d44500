"""The arrows of DESIGN.md: imports point one way, and the judge is not the player."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from maxmargin.problem import kernel_loops

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "maxmargin"

ROOMS = [
    "_lazy",
    "data",
    "problem",
    "certificate",
    "kernel_matrix",
    "screening",
    "margin_bounds",
    "solvers",
    "solving",
    "io",
    "displays",
    "model_selection",
    "scale_out",
    "estimators",
    "models",
    "cli",
    "__main__",
]
"""A module may import from its own room and from the rooms above it in this list."""
MOST_ROOMS = 15
"""The folders that DESIGN.md names."""


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def loops() -> list[Path]:
    return [path for path in modules() if path.stem.endswith(("_loop", "_loops"))]


def room(name: str) -> str:
    return name.split(".")[1]


def name_of(path: Path) -> str:
    return ".".join(("maxmargin", *path.relative_to(PACKAGE).with_suffix("").parts))


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("maxmargin"):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("maxmargin")}
    return {name for name in found if name.count(".")}


def loop_imports_of(path: Path) -> set[str]:
    """The names of the compiled modules that this one imports from."""
    compiled = {name_of(loop) for loop in loops()}
    return {home for name in imports_of(path) for home in (name, name.rpartition(".")[0]) if home in compiled}


def test_the_top_level_holds_the_rooms_and_nothing_else():
    found = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"} - {"__init__", "__pycache__"}
    assert found <= set(ROOMS)
    assert len(ROOMS) - len({"_lazy", "__main__"}) <= MOST_ROOMS


def test_public_modules_without_a_file_are_the_modules_that_they_stand_for():
    """In a process of its own, so that the alias is imported first."""
    script = (
        "import importlib, maxmargin, maxmargin.streams as alias\n"
        "home = importlib.import_module('maxmargin.estimators.streams')\n"
        "assert alias is home is maxmargin.streams and home.__spec__.name == 'maxmargin.estimators.streams'\n"
        "from maxmargin.streams import LabelStream\n"
        "assert LabelStream is maxmargin.LabelStream"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_go_down_the_list_of_rooms_and_never_up(path):
    home = room(name_of(path))
    for imported in imports_of(path) - {"maxmargin.__version__"}:
        assert ROOMS.index(room(imported)) <= ROOMS.index(home), f"{home} imports {imported}"


@pytest.mark.parametrize("path", loops(), ids=name_of)
def test_a_loop_imports_nothing_but_loops_and_what_they_see(path):
    allowed = {name_of(loop) for loop in loops()} | {
        "maxmargin.data.by_type",
        "maxmargin.data.caching",
        "maxmargin.data.lanes",
        "maxmargin.data.rows",
        "maxmargin.problem.held_values",
        "maxmargin.solvers.linear.newton.curves",
    }
    assert {name.rpartition(".")[0] for name in imports_of(path)} <= allowed


def judges() -> list[Path]:
    return [path for path in modules() if room(name_of(path)) == "certificate"]


JUDGES_LOOPS = {"maxmargin.data.error_free_loops", "maxmargin.problem.difference_loops", "maxmargin.problem.kernel_loops"}
"""Loops below the certificate that are the judges' own: sums that lose nothing, and kernel values by their definition."""


@pytest.mark.parametrize("path", judges(), ids=name_of)
def test_the_judge_imports_problem_and_data_and_no_loop_of_a_solver(path):
    assert {room(name) for name in imports_of(path)} <= {"data", "problem", "certificate"}
    own = {name_of(judge) for judge in judges()} | JUDGES_LOOPS
    assert loop_imports_of(path) <= own


@pytest.mark.parametrize("path", [path for path in modules() if path not in judges()], ids=name_of)
def test_no_solver_uses_a_loop_of_the_judge(path):
    own = {name_of(judge) for judge in judges()} | JUDGES_LOOPS
    allowed = {"maxmargin.problem.differences", "maxmargin.problem.kernels", "maxmargin.problem.held_values", *JUDGES_LOOPS}
    allowed |= {"maxmargin.solvers.kernel.batched_smo_loops"}  # asks for rows of the matrix that the judges' code makes
    allowed |= {
        f"maxmargin.solving.pair_{name}" for name in ("batch", "batch_loops", "run")
    }  # ask the judge as the driver does
    assert name_of(path) in allowed or not loop_imports_of(path) & own


def test_the_matrix_that_a_judge_reads_is_made_by_judges_only():
    """Solvers may read it too, and never write to it. Its values are the kernel's own, by the definition."""
    assert loop_imports_of(PACKAGE / "problem" / "held_values.py") == {"maxmargin.problem.kernel_loops"}
    assert loop_imports_of(PACKAGE / "problem" / "kernels.py") == {"maxmargin.problem.kernel_loops"}
    assert loop_imports_of(PACKAGE / "problem" / "differences.py") <= JUDGES_LOOPS


@pytest.mark.parametrize("path", [path for path in loops() if path in judges() or name_of(path) in JUDGES_LOOPS], ids=name_of)
def test_fast_math_never_feeds_a_certificate(path):
    assert "fastmath" not in path.read_text().replace("fastmath=False", "")


def test_a_loop_of_a_judge_that_a_solver_calls_refuses_fast_math():
    """Numba gives a function the fast-math of the loop that calls it, and keeps the result in the cache on disk for all others,
    unless the function says no itself."""
    shared = {name for path in loops() if room(name_of(path)) == "solvers" for name in imports_of(path)}
    called = {name for name in shared if name.rpartition(".")[0] in JUDGES_LOOPS}
    assert called == {f"maxmargin.problem.kernel_loops.{name}" for name in ("make_row", "make_bent_row")}
    assert kernel_loops.make_row.targetoptions["fastmath"] is False
    assert kernel_loops.make_bent_row.targetoptions["fastmath"] is False


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_the_package_loads_neither_numba_nor_scikit_learn_nor_numpy():
    heavy = "{'numba', 'sklearn', 'scipy', 'numpy', 'matplotlib'}"
    assert run_python(f"import sys, maxmargin; print({heavy} & set(sys.modules))") == "set()"


def test_importing_an_estimator_loads_no_matplotlib():
    assert run_python("import sys; from maxmargin import LinearSVC; print('matplotlib' in sys.modules)") == "False"


@pytest.mark.parametrize(
    "module", ["io", "io.svmlight", "models.model_file", "models.checkpoint", "solving.driver", "estimators.linear_classifier"]
)
def test_what_trains_from_a_file_loads_no_scikit_learn(module):
    code = f"import sys, maxmargin.{module}; print({{'sklearn', 'joblib', 'pandas'}} & set(sys.modules))"
    assert run_python(code) == "set()"


@pytest.mark.parametrize("package", ["maxmargin", "maxmargin.io"])
def test_every_public_name_can_be_loaded(package):
    code = f"import {package} as package; print([name for name in package.__all__ if not hasattr(package, name)])"
    assert run_python(code) == "[]"
    code = f"import {package} as package; print(set(package.__all__) - set(dir(package)))"
    assert run_python(code) == "set()"


def test_a_name_that_does_not_exist_is_an_attribute_error():
    import maxmargin.io

    with pytest.raises(AttributeError, match=r"'maxmargin' has no attribute 'nonsense'"):
        maxmargin.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match=r"'maxmargin\.io' has no attribute 'nonsense'"):
        maxmargin.io.nonsense  # noqa: B018
