"""What the estimators that choose their own parameters share: folds, scorers, routing, and the sentences of a search."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, get_routing_for_object, process_routing
from sklearn.utils.validation import _check_method_params, _check_sample_weight

from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.estimators import checks, policy
from maxmargin.estimators.jobs import warn_if_uncertified
from maxmargin.estimators.presentation import fit_task, with_callbacks
from maxmargin.estimators.search import Fold, ListSearch, best_of, warn_if_cut
from maxmargin.model_selection.path import checked_values
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class Samples(NamedTuple):
    """What a fit is given, after its checks."""

    X: Any
    y: Array
    sample_weight: Any


def values_of(Cs: Any) -> Array:
    """The values of C: the list itself, or ``Cs`` values at equal ratios."""
    if isinstance(Cs, (int, np.integer)) and not isinstance(Cs, bool):
        if Cs < 1:
            raise ValueError(f"Cs must be positive numbers, or how many of them; got {Cs!r}.")
        return np.geomspace(policy.SEARCH.least_C, policy.SEARCH.greatest_C, int(Cs)) if Cs > 1 else np.ones(1)
    return checked_values(Cs)


def scorer_of(estimator: Any) -> Any:
    """The scorer that ``scoring`` means; None is accuracy or, in regression, R^2."""
    default = "accuracy" if is_classifier(estimator) else "r2"
    return get_scorer(estimator.scoring or default) if not callable(estimator.scoring) else estimator.scoring


def known_score(scoring: Any, names: Iterable[str]) -> Any:
    """The name of the score. A scorer object of scikit-learn, which can ask for metadata, is known by what it computes."""
    if scoring is None or isinstance(scoring, str):
        return scoring
    parts = operator.attrgetter("_score_func", "_sign", "_kwargs", "_response_method")
    for name in names if hasattr(scoring, "_score_func") else ():
        known = get_scorer(name)
        if type(known) is type(scoring) and parts(known) == parts(scoring):
            return name
    return scoring


def routed(estimator: Any, sample_weight: Any, params: dict[str, Any]) -> Any:
    """The metadata for the splitter and the scorer. Without scikit-learn's metadata routing, ``groups`` go to the splitter, and
    weights to the training and to the scorer, as in LogisticRegressionCV."""
    from sklearn import get_config

    if get_config()["enable_metadata_routing"]:
        return process_routing(estimator, "fit", sample_weight=sample_weight, **params)
    unknown = set(params) - {"groups"}
    if unknown:
        raise TypeError(f"fit takes X, y, sample_weight and groups; got {', '.join(sorted(unknown))}.")
    score = {} if sample_weight is None else {"sample_weight": sample_weight}
    return Bunch(splitter=Bunch(split=params), scorer=Bunch(score=score))


def router_of(estimator: Any) -> MetadataRouter:
    """The router for the estimator itself, the splitter and the scorer."""
    to_split = MethodMapping().add(caller="fit", callee="split")
    to_score = MethodMapping().add(caller="fit", callee="score").add(caller="score", callee="score")
    router = MetadataRouter(owner=estimator).add_self_request(estimator)
    scorer = scorer_of(estimator)
    if not hasattr(scorer, "get_metadata_routing"):
        scorer = get_routing_for_object(None)
    return router.add(splitter=check_cv(estimator.cv, classifier=is_classifier(estimator)), method_mapping=to_split).add(
        scorer=scorer, method_mapping=to_score
    )


def folds_of(search: Any, model: Any, X: Any, y: Array, sample_weight: Any, params: Any) -> list[Fold]:
    """One fold for each part of ``search.cv``, with a copy of ``model``."""
    weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
    splitter = check_cv(search.cv, y, classifier=is_classifier(search))
    folds, classes = [], np.unique(y) if is_classifier(search) else np.empty(0)
    for train, test in splitter.split(X, y, **params.splitter.split):
        score_params = _check_method_params(X, params.scorer.score, test)
        own = None if weights is None else weights[train]
        rows, columns = _part(X, train, train, search), _part(X, test, train, search)
        folds.append(Fold(clone(model), rows, y[train], own, columns, y[test], score_params, classes, train, test))
    return folds


def _part(X: Any, rows: Array, columns: Array, search: Any) -> Any:
    """Some rows of X. With a precomputed kernel, only the columns of the training samples."""
    is_pairwise = getattr(search, "kernel", None) == "precomputed"
    return X[rows][:, columns] if is_pairwise else X[rows]


class Searching(ABC):
    """What the estimators that choose their own parameters share. A subclass lists the parameters of the search in ``_own``,
    names the estimator that is searched in ``_plain``, and searches in ``_search``, which sets ``outcomes_`` and what
    ``_chosen`` returns."""

    _own: ClassVar[tuple[str, ...]]
    _plain: ClassVar[type]
    refit: bool
    n_jobs: int | None
    outcomes_: Array

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Choose the parameters, and train with them on all samples. ``groups`` go to the splitter; other metadata is routed as
        in scikit-learn."""
        solutions, limits = self._fit_all(X, y, sample_weight, params)
        warn_if_cut(self.outcomes_)
        self._warn_of_search()
        warn_if_uncertified(solutions, limits)
        return self

    @with_callbacks
    def _fit_all(self, X: Any, y: Any, sample_weight: Any, params: dict[str, Any]) -> tuple[list[Solution], Limits]:
        """The certificates that scikit-learn's callbacks hear of are those of the last fit, on all samples."""
        with fit_task(self, X, y, sample_weight), checks.unchanged_on_error(self):
            limits = self._model()._check_parameters()
            whole, folds_stop = (Stop.after(share * limits.max_seconds) for share in (1.0, policy.SEARCH.time_share))
            checks.flag("refit", self.refit)
            X, y = self._validated_samples(X, y)
            given = routed(self, sample_weight, params)
            solutions = self._search(Samples(X, y, sample_weight), given, limits, folds_stop)
            if self.refit:
                watcher: Any = self
                model = self._model(**self._chosen(), n_jobs=self.n_jobs, callback=watcher._watcher())
                solutions += self._trained(model, Samples(X, y, sample_weight), limits.until(whole))
                adopt(self, model)
        return solutions, limits

    @abstractmethod
    def _warn_of_search(self) -> None:
        """Say what a search could not do."""

    def _validated_samples(self, X: Any, y: Any) -> tuple[Any, Array]:
        return checks.validated(self, X, y)

    @abstractmethod
    def _search(self, samples: Samples, given: Any, limits: Limits, stop: Stop) -> list[Solution]:
        """Solutions that ended before ``tol`` without a proof of their labels."""

    def _chosen(self) -> dict[str, Any]:
        return {"C": self.C_}

    def _trained(self, model: Any, samples: Samples, limits: Limits) -> list[Solution]:
        """The last fit."""
        solutions: list[Solution] = model._train(*samples, limits)
        return solutions

    def _model(self, cls: type | None = None, **more: Any) -> Any:
        """The estimator that is searched, or a subclass of it."""
        estimator: Any = self
        parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name not in self._own}
        return (cls or self._plain)(**parameters, **more)

    def _keep_list(self, search: ListSearch) -> list[Solution]:
        """The attributes of a search over a list of values of C."""
        best = best_of([search])
        self.Cs_, self.C_ = search.Cs, float(search.Cs[best.value])
        self.scores_, self.best_score_ = search.scores, best.score
        self.score_bounds_ = np.stack([search.low, search.high])
        self.outcomes_ = search.outcomes
        return list(search.solutions)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score of the predictions for X, by ``scoring``."""
        return float(scorer_of(self)(self, X, y, **({} if sample_weight is None else {"sample_weight": sample_weight})))

    def get_metadata_routing(self) -> Any:
        return router_of(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "certificate_")


def adopt(search: Any, model: Any) -> None:
    """Take over what the model has learned."""
    learned = {name: value for name, value in vars(model).items() if name.endswith("_")}
    vars(search).update(learned)
