"""The linear models of one fold, trained at one C after another on data that is prepared once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from maxmargin.certificate.predictions import CertifiedValues, Decisions, MeasuredRows
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.data.threads import single_threaded_blas
from maxmargin.estimators import checks
from maxmargin.estimators.labels import BinaryProblems, one_against_rest
from maxmargin.estimators.linear_classifier import LOSSES, bounds_of
from maxmargin.estimators.linear_fit import scaling_of
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.linear_svr import LinearSVR
from maxmargin.estimators.penalties import penalty_of_model
from maxmargin.model_selection.track import Track
from maxmargin.problem.linear import LinearProblem, costs_of
from maxmargin.solving.driver import Limits, seed_from
from maxmargin.solving.solution import Solution


class Tracked(ABC):
    """The linear estimator of one fold: every call of ``_train`` has the same samples. A subclass makes the problems of C = 1
    in ``_prepare``."""

    C: float
    random_state: Any
    _warm_start: Any = None
    _tracks: list[Track] | None = None
    _measured: MeasuredRows | None = None
    _measured_X: Any = None

    @abstractmethod
    def _prepare(self, X: Any, y: Array, sample_weight: Any) -> list[Track]:
        """The problems of C = 1."""

    def _solved(self, X: Any, y: Array, sample_weight: Any, limits: Limits) -> list[Solution]:
        """All problems at the present C."""
        if self._tracks is None:
            self._tracks = self._prepare(X, y, sample_weight)
        for track, place in zip(self._tracks, self._warm_start or [], strict=False):
            track.place = place  # another one than that of the track where the search has turned back
        stop, seed = Stop.within(limits.seconds_left), seed_from(self.random_state)
        with single_threaded_blas():
            return [
                track.solve(self.C, limits, seed=seed, stop=stop.share(len(self._tracks) - k))
                for k, track in enumerate(self._tracks)
            ]

    def _remember(self) -> None:
        assert self._tracks is not None
        self._warm_start = [track.place for track in self._tracks]

    def _measured_rows(self, X: Any) -> MeasuredRows:
        """The validation samples are the same each time."""
        if self._measured is None or X is not self._measured_X:
            model: Any = self
            constant = scaling_of(model) if model.penalize_intercept else 0.0
            self._measured, self._measured_X = MeasuredRows.of(X, constant), X
        return self._measured


class FoldLinearSVC(Tracked, LinearSVC):
    """The LinearSVC of one fold."""

    _binary: BinaryProblems

    def _train(self, X: Any, y: Any, sample_weight: Any, limits: Limits) -> list[Solution]:
        if self._takes_all_classes or self.sharp_proofs:
            return super()._train(X, y, sample_weight, limits)
        solutions = self._solved(X, y, sample_weight, limits)
        self._keep(X.shape[1], self._binary, solutions)
        self._remember()
        return solutions

    def _prepare(self, X: Any, y: Array, sample_weight: Any) -> list[Track]:
        classes, rows = checks.classes_of(y), Rows.from_matrix(X, check=False)
        costs = checks.sample_costs(1.0, self.class_weight, sample_weight, X, classes, y)
        self._binary = one_against_rest(y, classes, costs)
        scaling = scaling_of(self)
        settings = LOSSES[self.loss], scaling, bool(self.penalize_intercept) or scaling == 0.0
        return [
            Track(LinearProblem(rows, signs(), costs_of(own, rows), *settings, penalty=penalty_of_model(self)), self.solver)
            for signs, own in zip(self._binary.signs, self._binary.costs, strict=True)
        ]

    def _decisions(self, X: Any) -> Decisions:
        return self._measured_rows(X).decisions(self.coef_, self.intercept_, bounds_of(self))


class FoldLinearSVR(Tracked, LinearSVR):
    """The LinearSVR of one fold, for one target."""

    def _train(self, X: Any, y: Array, sample_weight: Any, limits: Limits) -> list[Solution]:
        solutions = self._solved(X, y, sample_weight, limits)
        self._keep(X.shape[1], True, solutions)
        self._remember()
        return solutions

    def _prepare(self, X: Any, y: Array, sample_weight: Any) -> list[Track]:
        return [Track(self.problem(X, y, sample_weight), self.solver)]

    def _certified_values(self, X: Any) -> CertifiedValues:
        decisions = self._measured_rows(X).decisions(self.coef_[None, :], self.intercept_, bounds_of(self))
        return CertifiedValues(decisions.values[:, 0], decisions.reach[:, 0])
