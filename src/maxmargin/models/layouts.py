"""The layouts of model files, by the class that is written."""

from __future__ import annotations

from maxmargin.models import kernel_layouts, linear_layouts
from maxmargin.models.layout import Layout

LAYOUTS: dict[str, Layout] = {
    "LinearSVC": linear_layouts.LINEAR,
    "LinearClassifier": linear_layouts.LINEAR,
    "LinearSVR": linear_layouts.REGRESSION,
    "LinearRegressor": linear_layouts.REGRESSION,
    "LinearOneClassSVM": linear_layouts.ONE_CLASS,
    "LinearOneClass": linear_layouts.ONE_CLASS,
    "SVC": kernel_layouts.KERNEL,
    "KernelClassifier": kernel_layouts.KERNEL,
    "NuSVC": kernel_layouts.NU_CLASSES,
    "SVR": kernel_layouts.EPSILON_REGRESSION,
    "KernelRegressor": kernel_layouts.EPSILON_REGRESSION,
    "NuSVR": kernel_layouts.NU_REGRESSION,
    "OneClassSVM": kernel_layouts.ONE_CLASS,
}
"""The layout of the file for each class; the command line trains with classes that are not public."""
