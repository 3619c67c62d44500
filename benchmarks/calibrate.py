"""The machine-dependent costs of ``maxmargin.solvers.linear.costs`` and of the driver, measured on generated data in about a
minute and printed beside the committed values.

    python -m benchmarks.calibrate

Decisions use the committed values on every machine, so that answers do not depend on the machine. What matters is that the
ratios of the measured values are near those of the committed ones; a column gives measured / committed for each, divided by
the median of all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from maxmargin.certificate.linear import Judge
from maxmargin.data import threads
from maxmargin.data.rows import Array
from maxmargin.data.threads import Crew, ThreadPolicy, single_threaded_blas
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.costs import LinearCosts
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solvers.linear.newton.conjugate_gradients import ProductHessian
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.policy import NewtonPolicy
from maxmargin.solving.policy import DrivingPolicy

REPEATS = 3
NEWTON_STEPS = 8


class Measured(NamedTuple):
    name: str
    committed: float
    found: float


def made(n: int, d: int, row_length: int, seed: int = 0) -> LinearProblem:
    """Sparse rows of one length with random columns, and labels with noise, so that no method is done at once."""
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, d, n * row_length).astype(np.int32)
    values = rng.normal(size=n * row_length) / np.sqrt(row_length)
    X = sparse.csr_array((values, indices, np.arange(0, n * row_length + 1, row_length)), shape=(n, d))
    X.sum_duplicates()
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0.0, 1, -1)
    return LinearProblem.build(X, y, 1.0)


def least_ns(job: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least nanoseconds of processor time of several runs; the first run, which compiles, does not count."""
    job()
    found = []
    for _ in range(repeats):
        start = time.process_time()
        job()
        found.append(time.process_time() - start)
    return 1e9 * min(found)


def descent_step_ns(problem: LinearProblem, epochs: int) -> float:
    """A step of dual coordinate descent without shrinking, in the mean over the first epochs from zero."""
    solver, found = DCD(shrinking=None), []
    for _ in range(1 + REPEATS):  # the first compiles
        state = solver.init(problem, None, 0)
        start = time.process_time()
        solver.advance(problem, state, Budget(epochs * problem.n_samples, 0.0))
        found.append((time.process_time() - start) / state.steps)
    return 1e9 * min(found)


def descent() -> list[Measured]:
    """By the differences of four problems: short and long rows, a long w, and an X outside the caches."""
    costs = LinearCosts()
    short, long = made(30_000, 1000, 5), made(30_000, 1000, 35)
    lengths = [problem.rows.n_stored / problem.n_samples for problem in (short, long)]
    steps = [descent_step_ns(short, 10), descent_step_ns(long, 10)]
    element = (steps[1] - steps[0]) / (lengths[1] - lengths[0])
    step = steps[0] - element * lengths[0]
    wide = made(4000, 4_000_000, 200)
    far = (descent_step_ns(wide, 3) - step) / (wide.rows.n_stored / wide.n_samples)
    large = made(800_000, 1000, 10)
    miss = descent_step_ns(large, 1) - step - element * large.rows.n_stored / large.n_samples
    return [
        Measured("step_ns", costs.step_ns, step),
        Measured("element_ns", costs.element_ns, element),
        Measured("far_element_ns", costs.far_element_ns, far),
        Measured("miss_ns", costs.miss_ns, miss),
    ]


def newton_step_ns(problem: LinearProblem) -> float:
    """A Newton step in the mean over the first few, from zero. A call makes whole steps, each counted as n."""
    solver = Newton()

    def run() -> None:
        state = solver.init(problem, None, 0)
        solver.advance(problem, state, Budget(NEWTON_STEPS * problem.n_samples, 0.0))

    return least_ns(run) / NEWTON_STEPS


def newton_passes() -> list[Measured]:
    """By least squares of relative errors over problems with few features, whose factorisation costs next to nothing."""
    costs = LinearCosts()
    problems = [made(n, 40, length) for n, length in ((3000, 3), (50_000, 3), (100_000, 10), (20_000, 30), (5000, 30))]
    seconds = np.array([newton_step_ns(problem) for problem in problems])
    terms = np.array([[1.0, problem.rows.n_stored, problem.n_samples] for problem in problems])
    fixed, element, sample = np.linalg.lstsq(terms / seconds[:, None], np.ones(len(problems)), rcond=None)[0]
    return [
        Measured("newton_step_ns", costs.newton_step_ns, float(fixed)),
        Measured("pass_element_ns", costs.pass_element_ns, float(element)),
        Measured("pass_sample_ns", costs.pass_sample_ns, float(sample)),
    ]


def newton_directions() -> list[Measured]:
    costs, size = LinearCosts(), 1000
    X = np.random.default_rng(0).normal(size=(2 * size, size))
    matrix = X.T @ X
    cholesky = least_ns(lambda: linalg.cho_factor(matrix)) / size**3
    problem = made(50_000, 5000, 20)
    hessian = ProductHessian(problem, np.ascontiguousarray(problem.C), Crew(problem.rows.n_stored), NewtonPolicy())
    hessian.rebuild(np.ones(problem.n_samples, bool))
    v: Array = np.ones(problem.rows.n_features + 1)
    product = least_ns(lambda: hessian._times(v)) / problem.rows.n_stored
    n, d = 300, 3000
    rotation = least_ns(lambda: np.linalg.qr(np.ones((d, n)))) / (n * n * d)
    return [
        Measured("cholesky_ns", costs.cholesky_ns, cholesky),
        Measured("product_element_ns", costs.product_element_ns, product),
        Measured("rotation_ns", costs.rotation_ns, rotation),
    ]


def certificates() -> list[Measured]:
    """The committed value is an upper bound, for the planning of the last certificate: a long w costs most."""
    problem = made(40_000, 2_000_000, 50)
    judge, alpha = Judge(problem), np.full(problem.n_samples, 0.5)
    w = problem.weights(alpha)
    found = least_ns(lambda: judge.certify(w, alpha)) / problem.rows.n_stored
    return [Measured("certificate_element_ns", DrivingPolicy().certificate_element_ns, found)]


def table(rows: list[Measured]) -> str:
    scale = median(row.found / row.committed for row in rows)
    lines = [f"{'':24}{'committed':>12}{'measured':>12}{'relative':>10}"]
    for row in rows:
        lines.append(f"{row.name:24}{row.committed:12.4g}{row.found:12.4g}{row.found / row.committed / scale:10.2f}")
    return "\n".join([*lines, f"This machine takes {scale:.2f} times the committed values, in the median."])


def main() -> None:
    threads.POLICY = ThreadPolicy(elements_a_thread=1 << 40)  # the costs are those of one core
    with single_threaded_blas(), np.errstate(all="ignore"):
        rows = [*descent(), *newton_passes(), *newton_directions(), *certificates()]
    print(table(rows))


if __name__ == "__main__":
    main()
