"""The figures of the house: sizes of functions and files, numbers of parameters, and what may stand at the top of a module.

A limit is the figure that the design sets, or a smaller one that holds today. Exceptions are listed by name, and a test fails
when one of them is no longer needed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "maxmargin"
FILES = sorted(PACKAGE.rglob("*.py"))

MOST_LINES_OF_A_FILE = 400
MEDIAN_LINES_OF_A_FUNCTION, P95_LINES_OF_A_FUNCTION = 6, 22  # 5 and 19 when this was written
P95_PARAMETERS, MOST_PARAMETERS = 6, 12  # 5 at the 95th percentile when this was written
MOST_LOOP_PARAMETERS = 7

NUMBERS = {
    "certificate/rounding.py": {"SMALLEST", "PAIRWISE_ROUNDINGS", "OUTWARDS"},
    "certificate/kernel_sums.py": {"TASK_STEP", "GROUP_ROUNDINGS"},
    "certificate/precise_sums.py": {"EXPONENTIAL_ERROR", "LONG_ROUNDOFF", "SMALLEST_NORMAL", "LARGEST_EXPONENT"},
    "certificate/ellipsoid.py": {"GREATEST_SHIFT", "GREATEST_CURVATURE", "WELL_CONDITIONED"},
    "certificate/nu.py": {"ZERO_ROUNDINGS"},
    "certificate/nu_pair.py": {"ROUNDED"},
    "certificate/zero.py": {"UNDERFLOW", "ZERO_SHARE"},
    "certificate/monomials.py": {"WEIGHT_ERROR"},
    "data/caching.py": {"DIGEST_BYTES"},
    "data/lanes.py": {"LANE_BYTES"},
    "solvers/linear/class_row_loops.py": {"REGISTER_BYTES", "REGISTERS"},
    "data/rows.py": {"NARROW_COLUMNS"},
    "estimators/checks.py": {"MOST_LABEL"},
    "estimators/search.py": {"RESIDUAL_ROUNDING"},
    "estimators/streams.py": {"ANNOUNCED_ROUNDING"},
    "io/outputs.py": {"STANDARD"},
    "io/svmlight.py": {"BYTES_A_ROW"},
    "kernel_matrix/rows.py": {"MEGABYTE"},
    "model_selection/positions.py": {"ROOT_SLACK", "SLACK"},
    "margin_bounds/bound.py": {"ROUNDED_UP"},
    "margin_bounds/spheres.py": {"MOST_CLUSTERS"},
    "model_selection/range_scores.py": {"ROUNDING"},
    "models/headers.py": {"MOST_FEATURES"},
    "problem/differences.py": {"LEAST_NUMBER"},
    "problem/dual_box.py": {"UNIT_ROUNDOFF"},
    "problem/whole_monomials.py": {"DIGITS", "KEPT_DIGITS"},
    "problem/feature_maps.py": {"COEFFICIENT_ROUNDINGS", "UNDERFLOW"},
    "problem/held_values.py": {"MULTIPLE"},
    "problem/kernel_base.py": {"SECOND_ORDER"},
    "problem/offset.py": {"TIE"},
    "scale_out/block_fit.py": {"UNITS"},
    "scale_out/block_list.py": {"ALIGNMENT", "MOST_FEATURES", "MOST_ROWS"},
    "scale_out/checkpoint.py": {"MOST_HEADER_BYTES"},
    "scale_out/remainder.py": {"BINS_A_POWER", "LEAST_POWER", "MOST_POWER", "ROW_OVERHEAD"},
    "solvers/scaled_targets.py": {"GREATEST_SIZE", "SMALLEST_SIZE"},
    "solvers/presolve.py": {"MIXER"},
    "solvers/kernel/face.py": {"RIDGE"},
    "certificate/linear_sums.py": {"LONG_ROWS_A_COLUMN"},
    "solvers/samples.py": {"MIXER"},
    "solvers/linear/newton/small_newton.py": {"LIGHT", "LINE", "STRIP"},
    "solvers/linear/newton/standing.py": {"ROUNDING"},
    "solvers/linear/pegasos.py": {"TINY"},
    "cli/outcome.py": {"CERTIFIED", "BAD_INPUT", "UNCERTIFIED"},
    "cli/switches.py": {"EPSILON_SVR", "KERNEL_ONE_CLASS", "NU_SVC", "NU_SVR", "ONE_CLASS"},
    "models/onnx.py": {"ELEMENT_TYPES", "OPSET"},
    "models/onnx_bounds.py": {"EXTRA_ROUNDINGS", "FUNCTION_ULPS"},
}
"""Numbers at the top of a module that tune nothing: they belong to a proof, a file format, or the layout of memory."""

NUMBERS_OF_LOOPS = {
    "certificate/kernel_sum_loops.py": {"GROUP"},
    "certificate/precise_kernel_loops.py": {"HALVINGS", "LN_2", "LN_2_REST", "LOG2_E", "LOG2_E_REST", "SMALL", "WIDTH"},
    "certificate/lane_loops.py": {"LANES"},
    "certificate/margin_loops.py": {"KINDS"},
    "certificate/residual_loops.py": {"KINDS", "UNDERFLOW", "UNIT_ROUNDOFF"},
    "certificate/shortfall_loops.py": {"KINDS"},
    "data/row_loops.py": {"LINE", "MOST_LINES", "ONE"},
    "io/svmlight_loops.py": {
        "ALL_ONES",
        "COLON",
        "COMMA",
        "GREATEST_POWER",
        "HALF",
        "HASH",
        "HIDDEN_BIT",
        "LARGEST_INDEX",
        "LEAST_POWER",
        "LOW_WORD",
        "MINUS",
        "MOST_DIGITS",
        "NEWLINE",
        "NINE",
        "NINE_ONES",
        "PLUS",
        "POINT",
        "RETURN",
        "SPACE",
        "TAB",
        "TEN",
        "U0",
        "U1",
        "U2",
        "U3",
        "U9",
        "ZERO",
    },
    "kernel_matrix/tile_loops.py": {"LEAST_32", "LEAST_64", "NOWHERE", "ONE_32", "SHIFT_32", "SHIFT_64", "SQUARE"},
    "margin_bounds/coded_centres_loop.py": {"BYTE", "DIRECTIONS", "EIGHT", "LARGEST_CODE"},
    "margin_bounds/pruned_loss_loops.py": {"CELLS", "FETCHED_AHEAD", "LOCATED_AHEAD"},
    "model_selection/removal_judge_loops.py": {"OPEN", "RIGHT", "WRONG"},
    "model_selection/removal_loops.py": {
        "AT_LOWER",
        "AT_UPPER",
        "ENTERED",
        "FAR",
        "FREE",
        "LEFT",
        "NO_RATE",
        "OUT",
        "RUN",
        "SINGULAR",
    },
    "problem/kernel_loops.py": {
        *("HYPERBOLIC", "IDENTITY", "LEAST", "MANTISSA_BITS", "ONE_BITS", "SHIFT", "SUMMED_SAMPLES"),
        *("N_AT_BOUND", "N_NUMBERS", "TERMS_A_BLOCK", "TOTAL"),
    },
    "solving/pair_batch_loops.py": {"JUDGE_ROWS", "MASKS", "VECTORS"},
    "solvers/kernel/batched_smo_loops.py": {"LEAST_CURVATURE", "LEAST_DETERMINANT"},
    "certificate/nu_sum_loops.py": {"N_NUMBERS", "N_SUMS"},
    "solvers/kernel/held_nu_loops.py": {"LEAST_DETERMINANT", "RIGHT"},
    "solvers/kernel/held_smo_loops.py": {"LEAST_PIVOT", "MANY", "MOVED", "OUTSIDE"},
    "solvers/kernel/irwls/active_set_newton_loop.py": {
        "LIMIT",
        "MOST_SHIFTS",
        "NOISE",
        "ONE",
        "OPTIMAL",
        "STUCK",
        "UNIT_ROUNDOFF",
        "ZERO",
    },
    "solvers/kernel/irwls/chunk_loops.py": {"ZERO"},
    "solvers/kernel/irwls/selection_loops.py": {"BY_SIZE", "KINDS", "RANDOM"},
    "solvers/kernel/irwls/table_1_loop.py": {
        "NOISE",
        "NOT_SETTLED",
        "NO_SOLUTION",
        "ONE",
        "S1",
        "S2",
        "S3",
        "SETTLED",
        "UNIT_ROUNDOFF",
        "ZERO",
    },
    "solvers/kernel/smo_loops.py": {"ALL_STEPS", "NEEDS_ROW", "NOBODY", "STILL"},
    "solvers/linear/avsf_loop.py": {"TWELVE", "ULP"},
    "solvers/linear/coordinate_loops.py": {"UNKNOWN"},
    "solvers/linear/crammer_singer_loop.py": {"LEAST_VIOLATION"},
    "solvers/linear/dcd_loop.py": {"CYCLIC", "FETCHED_AHEAD", "LOCATED_AHEAD", "NONE", "ONLINE", "PERMUTED"},
    "solvers/linear/newton/rare_column_loops.py": {"MOST_TRIES"},
    "solvers/linear/newton/small_newton_loop.py": {"FEW", "ONE", "ROUNDING", "ZERO"},
    "solvers/linear/pair_descent_loop.py": {"ROUNDING"},
    "solvers/linear/pegasos_as_printed_loop.py": {"AHEAD"},
    "solvers/linear/pegasos_loop.py": {
        "FETCHED_AHEAD",
        "LOCATED_AHEAD",
        "ROUNDING",
        "SINGLE",
        "SMALLEST_SCALE",
        "SPAN_ROUNDING",
    },
    "solvers/presolve_loops.py": {"FACTOR", "SEED", "SHIFT", "SINGLE"},
}
"""The same for compiled loops: names of outcomes and states, the layout of memory and how far ahead it is fetched, and the
roundings of float32 and float64. What tunes a loop is passed to it by the policy of its solver."""


class Function(NamedTuple):
    file: str
    name: str
    n_lines: int
    n_parameters: int


def named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def is_loop(path: Path) -> bool:
    return path.stem.endswith(("_loop", "_loops"))


def functions(paths: list[Path]) -> Iterator[Function]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                counted = [each for each in arguments if each.arg not in ("self", "cls")]
                yield Function(named(path), node.name, (node.end_lineno or 0) - node.lineno + 1, len(counted))


def test_no_file_is_longer_than_400_lines():
    assert not {named(path) for path in FILES if len(path.read_text().splitlines()) > MOST_LINES_OF_A_FILE}


def test_functions_are_short():
    lengths = [function.n_lines for function in functions(FILES)]
    assert np.median(lengths) <= MEDIAN_LINES_OF_A_FUNCTION
    assert np.percentile(lengths, 95) <= P95_LINES_OF_A_FUNCTION


def test_functions_have_few_parameters():
    assert np.percentile([function.n_parameters for function in functions(FILES)], 95) <= P95_PARAMETERS
    many = {(function.file, function.name) for function in functions(FILES) if function.n_parameters > MOST_PARAMETERS}
    assert not {each for each in many if not is_constructor_of_an_estimator(each)}


def is_constructor_of_an_estimator(function: tuple[str, str]) -> bool:
    """Constructors of estimators have scikit-learn's parameters."""
    return function[0].startswith("estimators/") and function[1] == "__init__"


def test_a_loop_takes_at_most_seven_arguments():
    loops = functions([path for path in FILES if is_loop(path)])
    assert not {(loop.file, loop.name) for loop in loops if loop.n_parameters > MOST_LOOP_PARAMETERS}


def numbers_of(path: Path) -> set[str]:
    """The names of numbers that are written at the top of a module."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and is_number(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found


def is_number(value: ast.expr) -> bool:
    """Whether an expression is made of literal numbers, of which one at least is not part of a name's own arithmetic."""
    if isinstance(value, ast.Tuple | ast.List | ast.Set):
        return bool(value.elts) and all(map(is_number, value.elts))
    if isinstance(value, ast.Dict):
        return bool(value.values) and all(map(is_number, value.values))
    if isinstance(value, ast.Call) and re.fullmatch(r"np\.(u?int|float)\d+", ast.unparse(value.func)):
        return all(map(is_number, value.args))
    if isinstance(value, ast.BinOp):
        return is_number(value.left) or is_number(value.right)
    if isinstance(value, ast.UnaryOp):
        return is_number(value.operand)
    return isinstance(value, ast.Constant) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_numbers_that_tune_behaviour_are_fields_of_a_policy(path):
    assert numbers_of(path) == (NUMBERS | NUMBERS_OF_LOOPS).get(named(path), set())


def test_every_field_of_a_policy_says_what_it_limits():
    silent = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Policy"):
                silent += [f"{named(path)}: {node.name}.{field}" for field in fields_without_a_line(node)]
    assert not silent


def fields_without_a_line(policy: ast.ClassDef) -> list[str]:
    """Fields of numbers that no docstring follows."""
    bare = []
    for node, after in zip(policy.body, [*policy.body[1:], None], strict=True):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and "Policy" not in ast.unparse(node.annotation)
        ):
            is_said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            bare += [] if is_said else [node.target.id]
    return bare


def classes_with(method: str, *modules: str) -> set[str]:
    """The classes of modules of ``problem`` that define a method, or inherit from one that does."""
    nodes = [
        node
        for name in modules
        for node in ast.parse((PACKAGE / "problem" / f"{name}.py").read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    found = {
        node.name for node in nodes if any(isinstance(part, ast.FunctionDef) and part.name == method for part in node.body)
    }
    while more := {node.name for node in nodes if {ast.unparse(base) for base in node.bases} & found} - found:
        found |= more
    return found


LOSSES = classes_with("gap_terms", "losses", "dual_box", "regression_losses", "one_class")
KERNELS = classes_with("block", "kernel_base", "kernels", "differences")


def test_the_losses_and_the_kernels_are_found():
    assert {"Loss", "Hinge", "SquaredHinge", "LeastSquares", "Huber", "EpsilonInsensitive", "Quantile", "Shortfall"} <= LOSSES
    assert {"Kernel", "Linear", "Polynomial", "RBF", "RBFByDifferences", "Sigmoid", "Precomputed", "Custom"} <= KERNELS


@pytest.mark.parametrize("path", FILES, ids=named)
def test_nobody_asks_which_loss_or_kernel_it_has(path):
    """By ``isinstance``, by ``type(...) is``, or by a pattern of ``match``."""
    asked = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            asked |= words_of(node.args[1])
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node):
            asked |= words_of(node)
        elif isinstance(node, ast.MatchClass):
            asked |= words_of(node.cls)
    assert not asked & (LOSSES | KERNELS)


def words_of(node: ast.AST) -> set[str]:
    return set(re.findall(r"\w+", ast.unparse(node)))


FRAGMENTS = re.compile(r"(Of|Those|Its|That|From|None where|None for|By the|At the|In the|Back to) ")


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, ast.get_docstring(node) or ""


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_docstring_begins_with_a_verb_or_names_its_subject(path):
    assert not [name for name, text in docstrings(path) if FRAGMENTS.match(text)]
