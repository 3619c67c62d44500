"""Which penalties, losses and formulations a linear classifier takes together, in scikit-learn's words where it has them."""

from __future__ import annotations

import math
from typing import Any

from maxmargin.estimators import checks
from maxmargin.problem.penalties import L1, L2, Penalty, penalty_of

PENALTIES = ("l1", "l2", "elasticnet")


def penalty_of_model(model: Any) -> Penalty:
    """The penalty that ``penalty`` and ``l1_ratio`` name."""
    if model.penalty == "elasticnet":
        return penalty_of(float(model.l1_ratio))
    return L1() if model.penalty == "l1" else L2()


def check_penalty(model: Any) -> None:
    """``penalty``, ``l1_ratio``, and what goes with them. Crammer and Singer's formulation ignores them, as in
    scikit-learn."""
    checks.one_of("penalty", model.penalty, PENALTIES)
    if model.multi_class == "crammer_singer" or model.penalty == "l2":
        return
    if model.penalty == "elasticnet":
        checks.number("l1_ratio", model.l1_ratio, at_least=0.0)
        if model.l1_ratio > 1.0:
            raise ValueError(f"l1_ratio must be between 0 and 1; got {model.l1_ratio!r}.")
    if model.loss != "squared_hinge":
        _refuse(model, f"The combination of penalty='{model.penalty}' and loss='{model.loss}' is not supported")
    if model.dual is True:
        _refuse(
            model,
            f"The combination of penalty='{model.penalty}' and loss='{model.loss}' are not supported when dual={model.dual}",
        )
    if math.isinf(model.C):
        raise ValueError(f"C = infinity (the hard margin) goes with penalty='l2'; got penalty={model.penalty!r}.")
    if model.sharp_proofs:
        raise ValueError(f"sharp_proofs=True goes with penalty='l2'; got penalty={model.penalty!r}.")


def _refuse(model: Any, sentence: str) -> None:
    """scikit-learn's message."""
    raise ValueError(
        f"Unsupported set of arguments: {sentence}, "
        f"Parameters: penalty={model.penalty!r}, loss={model.loss!r}, dual={model.dual!r}"
    )
