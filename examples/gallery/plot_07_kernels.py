"""
Kernels
=======

The same data with four kernels. Each fit ends with a certificate for the kernel's own problem.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_circles

from maxmargin import SVC, MarginDisplay

X, y = make_circles(150, noise=0.12, factor=0.45, random_state=1)
kernels = {"linear": {}, "poly": {"degree": 2, "coef0": 1.0}, "rbf": {}, "rbf, gamma = 20": {"gamma": 20.0}}
figure, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained")
for ax, (name, settings) in zip(axes.flat, kernels.items(), strict=True):
    model = SVC(kernel=name.partition(",")[0], tol=1e-8, **settings).fit(X, y)
    MarginDisplay.from_estimator(model, X, y, ax=ax)
    ax.set_title(f"{name} (gap {model.relative_gap_:.0e})")
    ax.get_legend().remove()
