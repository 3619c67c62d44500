"""Support vector machines trained to a certified optimum.

Names are loaded when they are first used: ``import maxmargin`` itself loads neither Numba nor scikit-learn.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from maxmargin.lazy import lazy_names

__version__ = "0.1.0"

_HOMES = {
    "LinearSVC": "maxmargin.estimators.linear_svc",
    "LinearProblem": "maxmargin.problem",
    "Hinge": "maxmargin.losses",
    "SquaredHinge": "maxmargin.losses",
    "LeastSquares": "maxmargin.losses",
    "Certificate": "maxmargin.certificate",
    "certify": "maxmargin.certificate",
    "Solution": "maxmargin.solution",
    "Status": "maxmargin.solution",
    "Progress": "maxmargin.solution",
    "Auto": "maxmargin.solvers.auto",
    "AVSF": "maxmargin.solvers.avsf",
    "DCD": "maxmargin.solvers.dcd",
    "Newton": "maxmargin.solvers.newton",
    "Order": "maxmargin.solvers.dcd",
    "Shrinking": "maxmargin.solvers.dcd",
}

__all__ = ["__version__", "solve", *_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

if TYPE_CHECKING:
    from maxmargin.certificate import Certificate as Certificate
    from maxmargin.certificate import certify as certify
    from maxmargin.estimators.linear_svc import LinearSVC as LinearSVC
    from maxmargin.losses import Hinge as Hinge
    from maxmargin.losses import LeastSquares as LeastSquares
    from maxmargin.losses import SquaredHinge as SquaredHinge
    from maxmargin.problem import LinearProblem as LinearProblem
    from maxmargin.solution import Progress as Progress
    from maxmargin.solution import Solution as Solution
    from maxmargin.solution import Status as Status
    from maxmargin.solve import solve as solve
    from maxmargin.solvers.auto import Auto as Auto
    from maxmargin.solvers.avsf import AVSF as AVSF
    from maxmargin.solvers.dcd import DCD as DCD
    from maxmargin.solvers.dcd import Order as Order
    from maxmargin.solvers.dcd import Shrinking as Shrinking
    from maxmargin.solvers.newton import Newton as Newton


class _Package(ModuleType):
    """``maxmargin.solve`` is the function, also after the import system has bound the submodule of that name here."""

    @property
    def solve(self) -> Any:
        return import_module("maxmargin.solve").solve

    @solve.setter
    def solve(self, submodule: ModuleType) -> None:
        """The name belongs to the function."""


sys.modules[__name__].__class__ = _Package
