"""The families of machines that ``train`` makes: what their targets are, and the classes that train and that predict.

A family has two classes. The plain one does without scikit-learn and trains on what our own reader has checked; the public one
checks any data, and predicts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any


class Targets(Enum):
    """What stands first on a line of the data."""

    CLASSES = "classes"
    NUMBERS = "numbers"
    NOTHING = "nothing that is looked at"


@dataclass(frozen=True)
class Family:
    """``plain`` and ``public`` are names of classes with their modules in ``maxmargin.estimators``. ``lacks`` has the
    parameters that the others share and this one does not have."""

    plain: str
    public: str
    targets: Targets
    lacks: tuple[str, ...] = ()
    has_warm_start: bool = True

    def estimator_for(self, path: Path) -> Any:
        """The class that trains. Our own reader has checked svmlight text already; other files are checked by scikit-learn."""
        from maxmargin.io.tables import is_text

        return _class_named(self.plain if is_text(path) else self.public)

    def public_estimator(self) -> Any:
        """The class of scikit-learn's kind, which predicts."""
        return _class_named(self.public)


LINEAR_CLASSES = Family("linear_classifier.LinearClassifier", "linear_svc.LinearSVC", Targets.CLASSES)
KERNEL_CLASSES = Family("kernel_classifier.KernelClassifier", "svc.SVC", Targets.CLASSES)
NU_CLASSES = Family("nu_svc.NuSVC", "nu_svc.NuSVC", Targets.CLASSES, lacks=("C",), has_warm_start=False)
KERNEL_REGRESSION = Family("kernel_regressor.KernelRegressor", "svr.SVR", Targets.NUMBERS, lacks=("random_state",))
NU_REGRESSION = Family("nu_svr.NuSVR", "nu_svr.NuSVR", Targets.NUMBERS, lacks=("random_state",), has_warm_start=False)
KERNEL_ONE_CLASS = Family(
    "one_class_svm.OneClassSVM",
    "one_class_svm.OneClassSVM",
    Targets.NOTHING,
    lacks=("C", "n_jobs", "random_state"),
    has_warm_start=False,
)
LINEAR_REGRESSION = Family("linear_regressor.LinearRegressor", "linear_svr.LinearSVR", Targets.NUMBERS)
LINEAR_ONE_CLASS = Family(
    "linear_one_class.LinearOneClass", "linear_one_class_svm.LinearOneClassSVM", Targets.NOTHING, lacks=("C", "n_jobs")
)

FAMILY_OF_KERNEL_TYPE = {
    0: KERNEL_CLASSES,
    1: NU_CLASSES,
    2: KERNEL_ONE_CLASS,
    3: KERNEL_REGRESSION,
    4: NU_REGRESSION,
}
"""LIBSVM's -s, where there is a -t."""


def _class_named(name: str) -> Any:
    module, _, kind = name.partition(".")
    return getattr(import_module(f"maxmargin.estimators.{module}"), kind)
