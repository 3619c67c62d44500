"""
More proofs from the same gap
=============================

``sharp_proofs=True`` keeps an ellipsoid around the exact optimum in place of a ball. It proves far more labels at the
same gap.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LinearSVC

digits = load_digits()
X, y = digits.data / 16.0, digits.target == 8
shares: dict[bool, list[float]] = {False: [], True: []}
gaps: list[float] = []
warnings.simplefilter("ignore", ConvergenceWarning)  # the fits are stopped early on purpose
for epochs in (5, 20, 40, 80, 120, 160, 200, 240):
    for sharp in shares:
        model = LinearSVC(loss="hinge", solver="dcd", tol=1e-14, max_iter=epochs, sharp_proofs=sharp).fit(X, y)
        shares[sharp].append(float(np.mean(model.certified_predict(X).proved)))
    gaps.append(model.relative_gap_)

figure, ax = plt.subplots(layout="constrained")
ax.semilogx(gaps, shares[True], "o-", color="#0072B2", label="sharp_proofs=True: ellipsoid")
ax.semilogx(gaps, shares[False], "s-", color="#D55E00", label="ball")
ax.invert_xaxis()
ax.set(xlabel="relative gap", ylabel="share of the labels that are proved", ylim=(-0.03, 1.03))
ax.legend(frameon=False)
