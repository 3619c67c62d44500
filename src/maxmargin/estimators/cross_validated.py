"""What the estimators that choose their own parameters share: folds, scorers, routing, and the sentences of a search."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, get_routing_for_object, process_routing
from sklearn.utils.validation import _check_method_params, _check_sample_weight

from maxmargin.data.rows import Array
from maxmargin.estimators import policy
from maxmargin.estimators.search import Fold
from maxmargin.model_selection.path import checked_values


def values_of(Cs: Any) -> Array:
    """The values of C: the list itself, or ``Cs`` values at equal ratios."""
    if isinstance(Cs, (int, np.integer)) and not isinstance(Cs, bool):
        if Cs < 1:
            raise ValueError(f"Cs must be positive numbers, or how many of them; got {Cs!r}.")
        return np.geomspace(policy.SEARCH.least_C, policy.SEARCH.greatest_C, int(Cs)) if Cs > 1 else np.ones(1)
    return checked_values(Cs)


def scorer_of(estimator: Any) -> Any:
    return get_scorer(estimator.scoring or "accuracy") if not callable(estimator.scoring) else estimator.scoring


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
    return router.add(splitter=check_cv(estimator.cv, classifier=True), method_mapping=to_split).add(
        scorer=scorer, method_mapping=to_score
    )


def folds_of(search: Any, model: Any, X: Any, y: Array, sample_weight: Any, params: Any) -> list[Fold]:
    """One fold for each part of ``search.cv``, with a copy of ``model``."""
    weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
    splitter = check_cv(search.cv, y, classifier=True)
    folds, classes = [], np.unique(y)
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


def adopt(search: Any, model: Any) -> None:
    """Take over what the model has learned."""
    learned = {name: value for name, value in vars(model).items() if name.endswith("_")}
    vars(search).update(learned)
