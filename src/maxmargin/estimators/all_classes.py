"""Crammer and Singer's machine in a linear classifier: one problem for all classes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin.certificate.crammer_singer import certify_crammer_singer
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.data.threads import single_threaded_blas
from maxmargin.estimators.jobs import run_jobs, serialised
from maxmargin.estimators.linear_fit import NOTHING, scaling_of
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.problem.linear import LinearProblem, costs_of
from maxmargin.problem.losses import Hinge
from maxmargin.solvers.registry import solver_named
from maxmargin.solving.driver import Limits, drive, seed_from
from maxmargin.solving.solution import Solution


def check_all_classes(model: Any) -> None:
    """Refuse settings that ``multi_class="crammer_singer"`` does not support. It ignores ``penalty``, ``loss`` and ``dual``, as
    in scikit-learn."""
    if model.fit_intercept and not model.penalize_intercept:
        raise ValueError("penalize_intercept=False goes with multi_class='ovr'; got multi_class='crammer_singer'.")
    if math.isinf(model.C):
        raise ValueError("C = infinity (the hard margin) goes with multi_class='ovr'; got multi_class='crammer_singer'.")
    if model.sharp_proofs:
        raise ValueError("sharp_proofs=True goes with multi_class='ovr'; got multi_class='crammer_singer'.")


def solve_all_classes(
    model: Any, rows: Rows, codes: Array, n_classes: int, costs: Array, limits: Limits, start: Array | None
) -> Solution:
    """``codes`` are the numbers of the classes. The w of the solution has one row a feature and one column a class."""
    solver, seed = solver_named(model.solver), seed_from(model.random_state)
    callback = serialised(model._watcher(), model.verbose)
    problem = CrammerSingerProblem(rows, codes.astype(np.int64), n_classes, costs_of(costs, rows), scaling_of(model))

    def run(stop: Stop) -> Solution:
        if n_classes == 2 and solver.name == "auto":
            alpha = None if start is None else 2.0 * np.maximum(0.0, start[problem.own])
            hinge = drive(as_hinge(problem), solver, limits, warm_start=alpha, callback=callback, seed=seed, stop=stop)
            solution = from_hinge(problem, hinge)
        else:
            solution = drive(problem, solver, limits, warm_start=start, callback=callback, seed=seed, stop=stop)
        return solution if model.warm_start else replace(solution, alpha=NOTHING)

    with single_threaded_blas():
        return run_jobs([run], model.n_jobs, limits.seconds_left)[0]


def as_hinge(problem: CrammerSingerProblem) -> LinearProblem:
    """Two classes: w_1 - w_0 is the hinge machine with 2C, and P is half of its P."""
    signs = np.where(problem.y == 1, np.int8(1), np.int8(-1))
    return LinearProblem(problem.rows, signs, 2.0 * problem.C, Hinge(), problem.intercept_scaling)


def from_hinge(problem: CrammerSingerProblem, hinge: Solution) -> Solution:
    """The solution of ``as_hinge`` as one of both classes: half of w each way, half of alpha."""
    W = np.column_stack([-0.5 * hinge.w, 0.5 * hinge.w])
    signed = 0.5 * hinge.alpha * np.where(problem.y == 1, 1.0, -1.0)
    b = np.column_stack([-signed, signed])
    return replace(hinge, w=W, alpha=b, b=0.0, certificate=certify_crammer_singer(problem, W, b))


def weights_and_intercepts(model: Any, W: Array, n_features: int) -> tuple[Array, Array]:
    """A row for each class; for two classes the difference of both, as in scikit-learn."""
    coef = np.ascontiguousarray(W[:n_features].T)
    intercept = W[-1] * scaling_of(model) if model.fit_intercept else np.zeros(W.shape[1])
    if len(coef) == 2:
        return coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    return coef, np.array(intercept)


def reach_of_a_class(n_classes: int) -> float:
    """The difference of two decision values moves by at most sqrt(2) |x| times the distance of W from its optimum. For two
    classes that is the decision value; else each of both gets half."""
    return math.sqrt(2.0) if n_classes == 2 else math.sqrt(0.5)
