"""A problem at one C after another."""

import numpy as np
import pytest
from scipy import sparse

from maxmargin.certificate.linear import certify
from maxmargin.data.limits import Stop
from maxmargin.model_selection import policy
from maxmargin.model_selection.track import Track
from maxmargin.model_selection.transfer import scaled_costs, with_costs
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.problem.regression_losses import EpsilonInsensitive, SquaredEpsilonInsensitive
from maxmargin.solving.driver import Limits, solve
from maxmargin.solving.solution import Status

LOSSES = (Hinge(), SquaredHinge(), EpsilonInsensitive(0.1), SquaredEpsilonInsensitive(0.1))
VALUES = (0.3, 3.0, 30.0, 0.01, 0.02)


def data(kind: str, loss: object) -> LinearProblem:
    """Too large for the method of small problems."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 30)) * (rng.random((4000, 30)) < 0.5)
    if kind == "equal rows":
        X = np.repeat(X[:1000], 4, axis=0)
    outputs = X @ rng.normal(size=30) + rng.normal(size=len(X))
    y = outputs if loss.is_regression else np.where(outputs > 0.0, 1, -1)  # type: ignore[attr-defined]
    if kind == "equal rows" and not loss.is_regression:  # type: ignore[attr-defined]
        y = np.repeat(y[::4], 4)
    rows = X if kind == "dense" else sparse.csr_matrix(X)
    return LinearProblem.build(rows, y, rng.uniform(0.5, 2.0, len(X)), loss, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("kind", ["sparse", "dense", "equal rows"])
def test_every_solve_of_a_track_is_certified_and_equals_a_solve_of_its_own(kind: str, loss: object) -> None:
    problem = data(kind, loss)
    track = Track(problem)
    assert track.is_movable
    for C in VALUES:
        at_C = with_costs(problem, scaled_costs(problem.C, C))
        moved = track.solve(C, Limits(1e-6), stop=Stop())
        alone = solve(at_C, tol=1e-6)
        assert moved.status is Status.CERTIFIED
        assert certify(at_C, moved.w, moved.alpha).meets(1e-6)
        away = moved.certificate.distance_bound + alone.certificate.distance_bound
        assert np.linalg.norm(moved.w - alone.w) <= away * (1.0 + 1e-9)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=repr)
def test_a_moved_solve_takes_fewer_steps_than_one_from_zero(loss: object) -> None:
    problem = data("sparse", loss)
    track = Track(problem)
    track.solve(1.0, Limits(1e-6), stop=Stop())
    after = track.solve(2.0, Limits(1e-6), stop=Stop())
    fresh = Track(problem).solve(2.0, Limits(1e-6), stop=Stop())
    assert after.epochs < fresh.epochs


def test_an_answer_stays_as_it_is_when_the_track_moves_on() -> None:
    track = Track(data("sparse", Hinge()))
    first = track.solve(1.0, Limits(1e-4), stop=Stop())
    w, alpha = first.w.copy(), first.alpha.copy()
    track.solve(5.0, Limits(1e-4), stop=Stop())
    assert np.array_equal(first.w, w)
    assert np.array_equal(first.alpha, alpha)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_track_that_is_put_back_starts_there(loss: object) -> None:
    """At the place of a certified answer there is nothing left to do."""
    problem = data("sparse", loss)
    track = Track(problem)
    track.solve(1.0, Limits(1e-8), stop=Stop())
    first = track.place
    track.solve(100.0, Limits(1e-4), stop=Stop())
    track.place = first
    again = track.solve(1.0, Limits(1e-4), stop=Stop())
    assert again.status is Status.CERTIFIED
    assert again.epochs <= 1.0


def test_a_track_without_cheap_steps_starts_from_a_multiple_of_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "TRACK", policy.TrackPolicy(sweeps_a_step=0.0))
    problem = data("sparse", SquaredHinge())
    track = Track(problem)
    assert not track.is_movable
    for C in VALUES:
        solution = track.solve(C, Limits(1e-6), stop=Stop())
        assert certify(with_costs(problem, scaled_costs(problem.C, C)), solution.w, solution.alpha).meets(1e-6)


def test_hinge_loss_on_few_dense_rows_is_solved_by_one_compiled_call_after_the_other() -> None:
    track = Track(data("dense", Hinge()))
    assert track.suits_call
    first = track.solve(1.0, Limits(1e-6), stop=Stop())
    kept = track.place
    after = track.solve(2.0, Limits(1e-6), stop=Stop())
    assert after.status is Status.CERTIFIED
    assert after.epochs < Track(track.problem).solve(2.0, Limits(1e-6), stop=Stop()).epochs
    assert kept is not None
    assert np.array_equal(kept.w, first.w), "the answer is not a view of memory that the next solve changes"


def test_a_call_that_rounding_ends_is_continued_by_the_careful_method() -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack(
        [1.6e9 + rng.uniform(0.0, 3e7, 1500), rng.lognormal(10.8, 0.5, 1500), rng.uniform(0.0, 0.05, (1500, 8))]
    )
    y = np.where(X[:, 1] * (1.0 + rng.normal(size=1500)) > np.median(X[:, 1]), 1, -1)
    track = Track(LinearProblem.build(X, y, 1.0, Hinge(), 1.0))
    assert track.suits_call
    for C in (1e-3, 1.0, 10.0):
        assert track.solve(C, Limits(1e-6), stop=Stop()).status is Status.CERTIFIED
