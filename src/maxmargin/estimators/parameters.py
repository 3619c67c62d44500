"""What an estimator says when it is given a parameter that it does not have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
Model = TypeVar("Model")

CALIBRATION = "For probabilities wrap the model in sklearn.calibration.CalibratedClassifierCV."
KERNELS = "Kernels are those of maxmargin.SVC."
LINEAR = "It is a parameter of maxmargin.LinearSVC."
REPLACEMENTS = {
    "LinearSVC": {"probability": CALIBRATION} | dict.fromkeys(("kernel", "gamma", "degree", "coef0", "nu"), KERNELS),
    "SVC": {"probability": CALIBRATION, "nu": "maxmargin.SVC trains with C."}
    | dict.fromkeys(("loss", "penalty", "dual", "intercept_scaling", "multi_class", "penalize_intercept"), LINEAR),
}
"""What stands in for parameters of scikit-learn, and of the other estimator, by the name of the class."""


def explained(init: Callable[Concatenate[Model, P], None]) -> Callable[Concatenate[Model, P], None]:
    """``__init__`` that names the class and the replacement of a parameter that is not there."""
    known = inspect.signature(init).parameters

    @wraps(init)
    def checked(self: Model, /, *args: P.args, **parameters: P.kwargs) -> None:
        for name in parameters:
            if name not in known:
                raise TypeError(_sentence(type(self), name))
        init(self, *args, **parameters)

    return checked


def _sentence(cls: type, name: str) -> str:
    hints = [table[name] for base in cls.__mro__ for table in [REPLACEMENTS.get(base.__name__, {})] if name in table]
    return " ".join([f"{cls.__name__} has no parameter {name!r}.", *hints[:1]])
