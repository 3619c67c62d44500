"""
Where labels are proved
=======================

The certificate bounds how far the weights can be from the exact optimum. So for every point of the plane it can be decided
whether the exact optimum would give it the same label. Where that is not proved, the picture is hatched.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from maxmargin import SVC, CertifiedRegionDisplay

X, y = make_moons(300, noise=0.3, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", sharey=True)
for ax, tol in zip(axes, (1e-4, 1e-7), strict=True):
    model = SVC(C=100.0, tol=tol, solver="batched-smo").fit(X, y)
    display = CertifiedRegionDisplay.from_estimator(model, X, y=y, ax=ax)
    ax.set_title(f"gap {model.relative_gap_:.0e}: {display.proved.mean():.1%} proved")
    ax.get_legend().remove()

# %%
# The left model predicts nearly as well as the right one. But only of the right one can you say that its labels are those of
# the SVM that you asked for, and not of the place where a solver happened to stop.
