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
    "Huber": "maxmargin.losses",
    "Certificate": "maxmargin.certificate",
    "certify": "maxmargin.certificate",
    "Solution": "maxmargin.solution",
    "Status": "maxmargin.solution",
    "Progress": "maxmargin.solution",
    "Auto": "maxmargin.solvers.auto",
    "AVSF": "maxmargin.solvers.avsf",
    "DCD": "maxmargin.solvers.dcd",
    "Newton": "maxmargin.solvers.newton",
    "Pegasos": "maxmargin.solvers.pegasos",
    "PrunedGradient": "maxmargin.solvers.pruned_gradient",
    "PrunedLoss": "maxmargin.margin_bounds",
    "SortedSums": "maxmargin.sorted_sums",
    "PrintedEvaluation": "maxmargin.sorted_sums",
    "PrintedBounds": "maxmargin.solvers.pegasos_as_printed",
    "Resort": "maxmargin.sorted_sums",
    "Spheres": "maxmargin.spheres",
    "Order": "maxmargin.solvers.dcd",
    "Shrinking": "maxmargin.solvers.dcd",
    "SVC": "maxmargin.estimators.svc",
    "KernelProblem": "maxmargin.kernel_problem",
    "certify_kernel": "maxmargin.kernel_certificate",
    "KernelVerdict": "maxmargin.kernel_certificate",
    "Linear": "maxmargin.kernels",
    "RBF": "maxmargin.kernels",
    "Polynomial": "maxmargin.kernels",
    "Sigmoid": "maxmargin.kernels",
    "Precomputed": "maxmargin.kernels",
    "Custom": "maxmargin.kernels",
    "SMO": "maxmargin.solvers.smo",
    "BatchedSMO": "maxmargin.solvers.batched_smo",
    "IRWLS": "maxmargin.solvers.irwls",
    "Largest": "maxmargin.solvers.selection",
    "Smallest": "maxmargin.solvers.selection",
    "RandomViolators": "maxmargin.solvers.selection",
    "NoShrinking": "maxmargin.solvers.shrinking",
    "Joachims": "maxmargin.solvers.shrinking",
    "Safe": "maxmargin.solvers.shrinking",
    "FSafe": "maxmargin.solvers.shrinking",
    "FSafeAsPrinted": "maxmargin.solvers.shrinking",
}

__all__ = ["__version__", "solve", *_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

if TYPE_CHECKING:
    from maxmargin.certificate import Certificate as Certificate
    from maxmargin.certificate import certify as certify
    from maxmargin.estimators.linear_svc import LinearSVC as LinearSVC
    from maxmargin.estimators.svc import SVC as SVC
    from maxmargin.kernel_certificate import KernelVerdict as KernelVerdict
    from maxmargin.kernel_certificate import certify_kernel as certify_kernel
    from maxmargin.kernel_problem import KernelProblem as KernelProblem
    from maxmargin.kernels import RBF as RBF
    from maxmargin.kernels import Custom as Custom
    from maxmargin.kernels import Linear as Linear
    from maxmargin.kernels import Polynomial as Polynomial
    from maxmargin.kernels import Precomputed as Precomputed
    from maxmargin.kernels import Sigmoid as Sigmoid
    from maxmargin.losses import Hinge as Hinge
    from maxmargin.losses import Huber as Huber
    from maxmargin.losses import LeastSquares as LeastSquares
    from maxmargin.losses import SquaredHinge as SquaredHinge
    from maxmargin.margin_bounds import PrunedLoss as PrunedLoss
    from maxmargin.problem import LinearProblem as LinearProblem
    from maxmargin.solution import Progress as Progress
    from maxmargin.solution import Solution as Solution
    from maxmargin.solution import Status as Status
    from maxmargin.solve import solve as solve
    from maxmargin.solvers.auto import Auto as Auto
    from maxmargin.solvers.avsf import AVSF as AVSF
    from maxmargin.solvers.batched_smo import BatchedSMO as BatchedSMO
    from maxmargin.solvers.dcd import DCD as DCD
    from maxmargin.solvers.dcd import Order as Order
    from maxmargin.solvers.dcd import Shrinking as Shrinking
    from maxmargin.solvers.irwls import IRWLS as IRWLS
    from maxmargin.solvers.newton import Newton as Newton
    from maxmargin.solvers.pegasos import Pegasos as Pegasos
    from maxmargin.solvers.pegasos_as_printed import PrintedBounds as PrintedBounds
    from maxmargin.solvers.pruned_gradient import PrunedGradient as PrunedGradient
    from maxmargin.solvers.selection import Largest as Largest
    from maxmargin.solvers.selection import RandomViolators as RandomViolators
    from maxmargin.solvers.selection import Smallest as Smallest
    from maxmargin.solvers.shrinking import FSafe as FSafe
    from maxmargin.solvers.shrinking import FSafeAsPrinted as FSafeAsPrinted
    from maxmargin.solvers.shrinking import Joachims as Joachims
    from maxmargin.solvers.shrinking import NoShrinking as NoShrinking
    from maxmargin.solvers.shrinking import Safe as Safe
    from maxmargin.solvers.smo import SMO as SMO
    from maxmargin.sorted_sums import PrintedEvaluation as PrintedEvaluation
    from maxmargin.sorted_sums import Resort as Resort
    from maxmargin.sorted_sums import SortedSums as SortedSums
    from maxmargin.spheres import Spheres as Spheres


class _Package(ModuleType):
    """``maxmargin.solve`` is the function, also after the import system has bound the submodule of that name here."""

    @property
    def solve(self) -> Any:
        return import_module("maxmargin.solve").solve

    @solve.setter
    def solve(self, submodule: ModuleType) -> None:
        """The name belongs to the function."""


sys.modules[__name__].__class__ = _Package
