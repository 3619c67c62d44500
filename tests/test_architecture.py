"""The arrows of DESIGN.md: imports point one way, and the judge is not the player."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "maxmargin"

ORDER = [
    "lazy",
    "limits",
    "threads",
    "data",
    "losses",
    "kernels",
    "feature_maps",
    "problem",
    "kernel_matrix",
    "kernel_problem",
    "certificate",
    "kernel_sums",
    "kernel_certificate",
    "model_certificate",
    "kernel_blocks",
    "kernel_rows",
    "kernel_pairs",
    "kernel_outputs",
    "reductions",
    "screening",
    "spheres",
    "decisions",
    "offset_bounds",
    "ellipsoids",
    "margin_bounds",
    "sorted_sums",
    "kernel_margin_bounds",
    "solution",
    "solvers",
    "answers",
    "solve",
    "estimators",
    "streams",
    "io",
    "report",
    "console",
    "options",
    "cli",
    "__main__",
    "plots",
]
"""A module may import those to its left; ``compiled`` may be imported by all, and imports only ``data`` itself."""


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


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


@pytest.mark.parametrize("path", modules(), ids=lambda path: name_of(path))
def test_no_import_points_back(path):
    home = room(name_of(path))
    for imported in imports_of(path):
        other = room(imported)
        if home == "compiled":
            assert other in ("compiled", "data"), imported
        elif other not in ("compiled", home):
            assert ORDER.index(other) < ORDER.index(home), f"{home} imports {imported}"


JUDGES = {"certificate": ("certificate", "precise_certificate"), "kernel_sums": ("kernel_certificate", "precise_sums")}
"""Modules that judge, and the compiled modules that are theirs alone."""
EXACT = "maxmargin.compiled.error_free"
"""Sums and products that lose nothing: what all judges may use, and nobody else."""


@pytest.mark.parametrize("judge", JUDGES)
def test_the_judge_imports_no_solver_and_no_compiled_code_of_one(judge):
    own = {f"maxmargin.compiled.{name}" for name in JUDGES[judge]}
    judged_by = imports_of(PACKAGE / f"{judge}.py")
    assert {name.rpartition(".")[0] for name in judged_by if room(name) == "compiled"} == own
    rooms = ("limits", "threads", "data", "losses", "kernels", "kernel_matrix", "problem", "certificate", "compiled")
    assert all(room(name) in rooms for name in judged_by)
    paths = [PACKAGE / "compiled" / f"{name}.py" for name in JUDGES[judge]]
    assert {name.rpartition(".")[0] for path in paths for name in imports_of(path)} <= own | {
        EXACT,
        "maxmargin.compiled.caching",
    }
    judges = {f"{name}.py" for names in JUDGES.values() for name in names}
    for path in modules():
        if room(name_of(path)) in ("solvers", "compiled") and path not in paths:
            allowed = {EXACT} if path.name in judges else set()
            assert not any(name.rpartition(".")[0] in (own | {EXACT}) - allowed for name in imports_of(path)), path


def test_the_judge_of_kernels_imports_judges_only():
    allowed = {"certificate", "data", "kernel_matrix", "kernel_problem", "kernel_sums", "kernels", "losses"}
    imported = imports_of(PACKAGE / "kernel_certificate.py")
    compiled = {name for name in imported if room(name) == "compiled"}
    assert {room(name) for name in imported - compiled} <= allowed
    assert {name.rpartition(".")[0] for name in compiled} == {"maxmargin.compiled.kernel_certificate"}


def test_the_matrix_that_a_judge_reads_is_made_by_judges_only():
    """Solvers may read it too, and never write to it."""
    judged_by = imports_of(PACKAGE / "kernel_matrix.py")
    assert {room(name) for name in judged_by} <= {"compiled", "data", "kernels", "limits", "threads"}
    assert {name.rpartition(".")[0] for name in judged_by if room(name) == "compiled"} == {
        "maxmargin.compiled.kernel_certificate"
    }


@pytest.mark.parametrize("compiled", [name for names in JUDGES.values() for name in names])
def test_fast_math_never_feeds_a_certificate(compiled):
    assert "fastmath" not in (PACKAGE / "compiled" / f"{compiled}.py").read_text()


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_the_package_loads_neither_numba_nor_scikit_learn_nor_numpy():
    heavy = "{'numba', 'sklearn', 'scipy', 'numpy', 'matplotlib'}"
    assert run_python(f"import sys, maxmargin; print({heavy} & set(sys.modules))") == "set()"


def test_importing_an_estimator_loads_no_matplotlib():
    assert run_python("import sys; from maxmargin import LinearSVC; print('matplotlib' in sys.modules)") == "False"


@pytest.mark.parametrize(
    "module", ["io", "io.svmlight", "io.model_file", "io.checkpoint", "solve", "estimators.linear_classifier"]
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


@pytest.mark.parametrize("first", ["maxmargin.solve", "maxmargin.estimators.linear_svc"])
def test_solve_is_the_function_whatever_was_imported_before(first):
    assert run_python(f"import maxmargin, {first}; print(callable(maxmargin.solve), maxmargin.solve.__name__)") == "True solve"
    assert run_python(f"import {first}; from maxmargin import solve; print(solve.__name__)") == "solve"


def test_a_name_that_does_not_exist_is_an_attribute_error():
    import maxmargin.io

    with pytest.raises(AttributeError, match=r"'maxmargin' has no attribute 'nonsense'"):
        maxmargin.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match=r"'maxmargin\.io' has no attribute 'nonsense'"):
        maxmargin.io.nonsense  # noqa: B018
