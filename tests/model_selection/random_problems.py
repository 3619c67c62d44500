"""Random small problems, and every bound of ``transfer`` compared with optima that were solved to 1e-12.

As a script it runs as many problems as it is told, and ends with 1 if a bound was violated:

    python -m tests.model_selection.random_problems 10000
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np

from maxmargin import RBF, Hinge, Huber, KernelProblem, LeastSquares, LinearProblem, SquaredHinge, solve
from maxmargin.certificate.predictions import linear_values
from maxmargin.model_selection.hinge_pieces import between
from maxmargin.model_selection.points import Weights
from maxmargin.model_selection.transfer import has_free_offset, kernel_fit, linear_fit, scaled_costs, with_costs

SHARP = 1e-12
"""The tolerance of the optima that the bounds are compared with."""


def random_problem(seed):
    """Linear or with a kernel; with every kind of intercept; with and without sample weights."""
    random = np.random.default_rng(seed)
    n, d = int(random.integers(4, 25)), int(random.integers(1, 6))
    X = random.normal(size=(n, d)) * 10.0 ** random.uniform(-1, 1)
    y = np.where(X[:, 0] + random.normal(size=n) * random.uniform(0, 3) > 0, 1, -1)
    y[:2] = 1, -1
    weights = random.uniform(0.2, 3.0, n) if random.random() < 0.5 else 1.0
    if random.random() < 0.3:
        return KernelProblem.build(X, y, weights, RBF(float(10.0 ** random.uniform(-2, 1))), bool(random.random() < 0.5))
    loss = [Hinge(), SquaredHinge(), Huber(0.3), LeastSquares()][int(random.integers(4))]
    scaling = float(random.choice([0.0, 1.0]))
    return LinearProblem.build(X, y, weights, loss, scaling, bool(random.random() < 0.5))


def at(problem, C):
    return with_costs(problem, scaled_costs(problem.C, C))


def fitted(problem, C, tol):
    solution = solve(at(problem, C), tol=tol)
    if isinstance(problem, KernelProblem):
        return kernel_fit(at(problem, C), solution.alpha, solution.b, C)
    return linear_fit(at(problem, C), solution.w, solution.alpha, C)


class Optimum:
    """At one C, without some samples: the value, the point, and how well both are known."""

    def __init__(self, problem, C, absent=()):
        costs = np.array(problem.C) * C
        costs[list(absent)] = 0.0
        self.problem = with_costs(problem, costs)
        self.solution = solve(self.problem, tol=SHARP)
        self.certificate = self.solution.certificate
        self.slack = self.certificate.distance_bound

    def distance(self, point):
        """From a point."""
        if isinstance(point, Weights):
            return float(np.linalg.norm(point.values - self.solution.w[: self.problem.n_penalised]))
        s = point.s - self.solution.alpha * self.problem.signs
        K = self.problem.gram(slice(None), slice(None))
        return float(np.sqrt(max(0.0, s @ K @ s)))

    def primal_of(self, fit):
        """P at this C of the fit's w and b, from below."""
        losses = self.problem.loss.value(fit.outputs, self.problem.targets)
        return 0.5 * fit.w.least_norm**2 + float(self.problem.C @ losses)


def violations_of(ball, gap, offsets, optimum, primal=None):
    """Names of the bounds that are wrong."""
    found = []
    if optimum.distance(ball.centre) > ball.radius + optimum.slack:
        found.append("ball")
    low, high = optimum.certificate.dual, optimum.certificate.primal
    if primal is not None and primal - high > gap + 1e-12 * (abs(high) + abs(low)):
        found.append("gap")
    b, known = optimum.solution.b, optimum.solution.offset_bound
    if has_free_offset(optimum.problem) and not offsets.low - known - 1e-9 <= b <= offsets.high + known + 1e-9:
        found.append("offset")
    return found


def check(seed):
    """Violated bounds of one random problem, and how many bounds were looked at."""
    random = np.random.default_rng([seed, 1])
    problem = random_problem(seed)
    tol = float(10.0 ** random.uniform(-9, -0.5))
    C1 = float(10.0 ** random.uniform(-2, 2))
    C2 = C1 * float(10.0 ** random.uniform(0.02, 1.0))
    one, two = fitted(problem, C1, tol), fitted(problem, C2, tol)
    found, count = [], 0

    C = C1 * float(10.0 ** random.uniform(-1, 1))
    optimum = Optimum(problem, C)
    found += [f"scaled {name}" for name in _moved(one, C, optimum)]
    pair = between(one, two)
    theta = float(random.random())
    C = (1.0 - theta) * C1 + theta * C2
    optimum = Optimum(problem, C)
    found += [f"between {name}" for name in violations_of(pair.ball_at(C), 0.0, pair.offsets_at(C), optimum)]
    found += [f"between {name}" for name in _mixture_gap(problem, pair, C)]

    absent = np.flatnonzero(random.random(problem.n_samples) < random.choice([0.1, 0.3]))
    left = np.delete(np.asarray(problem.y), absent)
    if len(set(left.tolist())) == 2:
        fewer = one.without(absent)
        C = C1 * float(10.0 ** random.uniform(-0.5, 0.5))
        optimum = Optimum(problem, C, absent)
        found += [f"without {name}" for name in _moved(fewer, C, optimum)]
        count += 1
    return found, count + 2


def _moved(fit, C, optimum):
    return violations_of(fit.ball_at(C), fit.gap_at(C), fit.offsets_at(C), optimum, optimum.primal_of(fit))


def _mixture_gap(problem, pair, C):
    """The gap of the mixture, by the plain definition, is at most the bound at C, and that is at most the greatest."""
    one, two, theta = pair.first, pair.second, pair.position(C)
    here = at(problem, C)
    alpha = (1.0 - theta) * one.alpha + theta * two.alpha
    outputs = (1.0 - theta) * one.outputs + theta * two.outputs
    terms = float(np.sum(here.loss.gap_terms(outputs, alpha, here.C, here.targets)))
    w, v = one.w.mixed(1.0 - theta, two.w, theta), one.v.mixed(1.0 - theta, two.v, theta)
    plain = terms + 0.5 * w.mixed(1.0, v, -1.0).least_norm ** 2
    wrong = ["gap"] if plain > pair.gap_at(C) + 1e-13 * (1.0 + abs(plain)) else []
    return wrong + (["greatest gap"] if pair.gap_at(C) > pair.greatest_gap * (1 + 1e-12) else [])


def score_rows(X, scaling):
    """Scores of a linear point at the rows of X."""

    def score(point):
        values = point.values
        coef, b = values[: X.shape[1]], values[X.shape[1] :].sum() * scaling
        scores = linear_values(X, coef[None, :], np.array([b]))
        return scores.values[:, 0], scores.errors[:, 0]

    return score


def main(count):
    wrong, looked_at = Counter(), 0
    for seed in range(count):
        found, n = check(seed)
        looked_at += n
        for name in found:
            wrong[name] += 1
            print(f"seed {seed}: {name}")
    print(f"{count} problems, {looked_at} moved proofs, {sum(wrong.values())} violations")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
