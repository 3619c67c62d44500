"""Support vector machines trained to a certified optimum.

Names are loaded when they are first used: ``import maxmargin`` itself loads neither Numba nor scikit-learn.
"""

from __future__ import annotations

from maxmargin._lazy import lazy_names

TYPE_CHECKING = False  # type checkers know the name; the import of typing takes longer than all else here

__version__ = "0.1.0"

_HOMES = {
    "solve": "maxmargin.solving.driver",
    "path": "maxmargin.model_selection.path",
    "Path": "maxmargin.model_selection.path",
    "leave_one_out": "maxmargin.model_selection.leave_one_out",
    "LeaveOneOut": "maxmargin.model_selection.leave_one_out",
    "LinearSVC": "maxmargin.estimators.linear_svc",
    "LinearSVR": "maxmargin.estimators.linear_svr",
    "LinearOneClassSVM": "maxmargin.estimators.linear_one_class_svm",
    "LinearSVCCV": "maxmargin.estimators.linear_svc_cv",
    "LinearSVRCV": "maxmargin.estimators.linear_svr_cv",
    "LinearProblem": "maxmargin.problem.linear",
    "Hinge": "maxmargin.problem.losses",
    "SquaredHinge": "maxmargin.problem.losses",
    "LeastSquares": "maxmargin.problem.losses",
    "Huber": "maxmargin.problem.losses",
    "EpsilonInsensitive": "maxmargin.problem.regression_losses",
    "SquaredEpsilonInsensitive": "maxmargin.problem.regression_losses",
    "Quantile": "maxmargin.problem.regression_losses",
    "Shortfall": "maxmargin.problem.one_class",
    "L1": "maxmargin.problem.penalties",
    "L2": "maxmargin.problem.penalties",
    "ElasticNet": "maxmargin.problem.penalties",
    "one_class_problem": "maxmargin.problem.one_class",
    "InseparableError": "maxmargin.certificate.hard_margin",
    "Certificate": "maxmargin.certificate.certificate",
    "certify": "maxmargin.certificate.linear",
    "judge": "maxmargin.models.judging",
    "Solution": "maxmargin.solving.solution",
    "Status": "maxmargin.solving.solution",
    "Progress": "maxmargin.solving.solution",
    "Auto": "maxmargin.solvers.linear.auto",
    "AVSF": "maxmargin.solvers.linear.avsf",
    "DCD": "maxmargin.solvers.linear.dcd",
    "Newton": "maxmargin.solvers.linear.newton.newton",
    "PairDescent": "maxmargin.solvers.linear.pair_descent",
    "Pegasos": "maxmargin.solvers.linear.pegasos",
    "PrunedGradient": "maxmargin.solvers.linear.pruned_gradient",
    "SparseNewton": "maxmargin.solvers.linear.sparse_newton.sparse_newton",
    "PrunedLoss": "maxmargin.margin_bounds.pruned_loss",
    "SortedSums": "maxmargin.margin_bounds.sorted_sums",
    "PrintedEvaluation": "maxmargin.margin_bounds.sorted_sums",
    "PrintedBounds": "maxmargin.solvers.linear.pegasos_as_printed",
    "Resort": "maxmargin.margin_bounds.sorted_sums",
    "Spheres": "maxmargin.margin_bounds.spheres",
    "Order": "maxmargin.solvers.linear.dcd",
    "Shrinking": "maxmargin.solvers.linear.dcd",
    "SVC": "maxmargin.estimators.svc",
    "SVR": "maxmargin.estimators.svr",
    "NuSVC": "maxmargin.estimators.nu_svc",
    "NuSVR": "maxmargin.estimators.nu_svr",
    "OneClassSVM": "maxmargin.estimators.one_class_svm",
    "NuProblem": "maxmargin.problem.nu",
    "certify_nu": "maxmargin.certificate.nu",
    "NuSMO": "maxmargin.solvers.kernel.nu_smo",
    "SVCCV": "maxmargin.estimators.svc_cv",
    "SVRCV": "maxmargin.estimators.svr_cv",
    "KernelProblem": "maxmargin.problem.kernel",
    "certify_kernel": "maxmargin.certificate.kernel",
    "KernelVerdict": "maxmargin.certificate.kernel",
    "Linear": "maxmargin.problem.kernels",
    "RBF": "maxmargin.problem.kernels",
    "Polynomial": "maxmargin.problem.kernels",
    "Sigmoid": "maxmargin.problem.kernels",
    "Precomputed": "maxmargin.problem.kernels",
    "Custom": "maxmargin.problem.kernels",
    "SMO": "maxmargin.solvers.kernel.smo",
    "BatchedSMO": "maxmargin.solvers.kernel.batched_smo",
    "IRWLS": "maxmargin.solvers.kernel.irwls.irwls",
    "ActiveSetNewton": "maxmargin.solvers.kernel.irwls.engines",
    "Table1": "maxmargin.solvers.kernel.irwls.table_1",
    "Largest": "maxmargin.solvers.kernel.irwls.selection",
    "Smallest": "maxmargin.solvers.kernel.irwls.selection",
    "RandomViolators": "maxmargin.solvers.kernel.irwls.selection",
    "NoShrinking": "maxmargin.screening.shrinking",
    "Joachims": "maxmargin.screening.shrinking",
    "Safe": "maxmargin.screening.shrinking",
    "FSafe": "maxmargin.screening.shrinking",
    "FSafeAsPrinted": "maxmargin.screening.shrinking",
    "ConvergenceDisplay": "maxmargin.displays.convergence",
    "ModelSelectionDisplay": "maxmargin.displays.model_selection",
    "PathDisplay": "maxmargin.displays.model_selection",
    "CertifiedRegionDisplay": "maxmargin.displays.region",
    "MarginDisplay": "maxmargin.displays.margin",
    "Report": "maxmargin.displays.report",
    "LabelStream": "maxmargin.estimators.streams",
    "MovedTooFar": "maxmargin.estimators.streams",
}

_MODULES = {"dask": "maxmargin.estimators.dask_svc", "streams": "maxmargin.estimators.streams"}
"""Public modules that have no file of their own."""

__all__ = ["__version__", *_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES, _MODULES)

if TYPE_CHECKING:
    from maxmargin.certificate.certificate import Certificate as Certificate
    from maxmargin.certificate.hard_margin import InseparableError as InseparableError
    from maxmargin.certificate.kernel import KernelVerdict as KernelVerdict
    from maxmargin.certificate.kernel import certify_kernel as certify_kernel
    from maxmargin.certificate.linear import certify as certify
    from maxmargin.certificate.nu import certify_nu as certify_nu
    from maxmargin.displays.convergence import ConvergenceDisplay as ConvergenceDisplay
    from maxmargin.displays.margin import MarginDisplay as MarginDisplay
    from maxmargin.displays.model_selection import ModelSelectionDisplay as ModelSelectionDisplay
    from maxmargin.displays.model_selection import PathDisplay as PathDisplay
    from maxmargin.displays.region import CertifiedRegionDisplay as CertifiedRegionDisplay
    from maxmargin.displays.report import Report as Report
    from maxmargin.estimators.linear_one_class_svm import LinearOneClassSVM as LinearOneClassSVM
    from maxmargin.estimators.linear_svc import LinearSVC as LinearSVC
    from maxmargin.estimators.linear_svc_cv import LinearSVCCV as LinearSVCCV
    from maxmargin.estimators.linear_svr import LinearSVR as LinearSVR
    from maxmargin.estimators.linear_svr_cv import LinearSVRCV as LinearSVRCV
    from maxmargin.estimators.nu_svc import NuSVC as NuSVC
    from maxmargin.estimators.nu_svr import NuSVR as NuSVR
    from maxmargin.estimators.one_class_svm import OneClassSVM as OneClassSVM
    from maxmargin.estimators.streams import LabelStream as LabelStream
    from maxmargin.estimators.streams import MovedTooFar as MovedTooFar
    from maxmargin.estimators.svc import SVC as SVC
    from maxmargin.estimators.svc_cv import SVCCV as SVCCV
    from maxmargin.estimators.svr import SVR as SVR
    from maxmargin.estimators.svr_cv import SVRCV as SVRCV
    from maxmargin.margin_bounds.pruned_loss import PrunedLoss as PrunedLoss
    from maxmargin.margin_bounds.sorted_sums import PrintedEvaluation as PrintedEvaluation
    from maxmargin.margin_bounds.sorted_sums import Resort as Resort
    from maxmargin.margin_bounds.sorted_sums import SortedSums as SortedSums
    from maxmargin.margin_bounds.spheres import Spheres as Spheres
    from maxmargin.model_selection.leave_one_out import LeaveOneOut as LeaveOneOut
    from maxmargin.model_selection.leave_one_out import leave_one_out as leave_one_out
    from maxmargin.model_selection.path import Path as Path
    from maxmargin.model_selection.path import path as path
    from maxmargin.models.judging import judge as judge
    from maxmargin.problem.kernel import KernelProblem as KernelProblem
    from maxmargin.problem.kernels import RBF as RBF
    from maxmargin.problem.kernels import Custom as Custom
    from maxmargin.problem.kernels import Linear as Linear
    from maxmargin.problem.kernels import Polynomial as Polynomial
    from maxmargin.problem.kernels import Precomputed as Precomputed
    from maxmargin.problem.kernels import Sigmoid as Sigmoid
    from maxmargin.problem.linear import LinearProblem as LinearProblem
    from maxmargin.problem.losses import Hinge as Hinge
    from maxmargin.problem.losses import Huber as Huber
    from maxmargin.problem.losses import LeastSquares as LeastSquares
    from maxmargin.problem.losses import SquaredHinge as SquaredHinge
    from maxmargin.problem.nu import NuProblem as NuProblem
    from maxmargin.problem.one_class import Shortfall as Shortfall
    from maxmargin.problem.one_class import one_class_problem as one_class_problem
    from maxmargin.problem.penalties import L1 as L1
    from maxmargin.problem.penalties import L2 as L2
    from maxmargin.problem.penalties import ElasticNet as ElasticNet
    from maxmargin.problem.regression_losses import EpsilonInsensitive as EpsilonInsensitive
    from maxmargin.problem.regression_losses import Quantile as Quantile
    from maxmargin.problem.regression_losses import SquaredEpsilonInsensitive as SquaredEpsilonInsensitive
    from maxmargin.screening.shrinking import FSafe as FSafe
    from maxmargin.screening.shrinking import FSafeAsPrinted as FSafeAsPrinted
    from maxmargin.screening.shrinking import Joachims as Joachims
    from maxmargin.screening.shrinking import NoShrinking as NoShrinking
    from maxmargin.screening.shrinking import Safe as Safe
    from maxmargin.solvers.kernel.batched_smo import BatchedSMO as BatchedSMO
    from maxmargin.solvers.kernel.irwls.engines import ActiveSetNewton as ActiveSetNewton
    from maxmargin.solvers.kernel.irwls.irwls import IRWLS as IRWLS
    from maxmargin.solvers.kernel.irwls.selection import Largest as Largest
    from maxmargin.solvers.kernel.irwls.selection import RandomViolators as RandomViolators
    from maxmargin.solvers.kernel.irwls.selection import Smallest as Smallest
    from maxmargin.solvers.kernel.irwls.table_1 import Table1 as Table1
    from maxmargin.solvers.kernel.nu_smo import NuSMO as NuSMO
    from maxmargin.solvers.kernel.smo import SMO as SMO
    from maxmargin.solvers.linear.auto import Auto as Auto
    from maxmargin.solvers.linear.avsf import AVSF as AVSF
    from maxmargin.solvers.linear.dcd import DCD as DCD
    from maxmargin.solvers.linear.dcd import Order as Order
    from maxmargin.solvers.linear.dcd import Shrinking as Shrinking
    from maxmargin.solvers.linear.newton.newton import Newton as Newton
    from maxmargin.solvers.linear.pair_descent import PairDescent as PairDescent
    from maxmargin.solvers.linear.pegasos import Pegasos as Pegasos
    from maxmargin.solvers.linear.pegasos_as_printed import PrintedBounds as PrintedBounds
    from maxmargin.solvers.linear.pruned_gradient import PrunedGradient as PrunedGradient
    from maxmargin.solvers.linear.sparse_newton.sparse_newton import SparseNewton as SparseNewton
    from maxmargin.solving.driver import solve as solve
    from maxmargin.solving.solution import Progress as Progress
    from maxmargin.solving.solution import Solution as Solution
    from maxmargin.solving.solution import Status as Status
