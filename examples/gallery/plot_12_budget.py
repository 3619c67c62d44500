"""
A fit with a budget
===================

``max_seconds`` and ``max_iter`` end a fit early. The answer is then the best one so far, and its certificate says how good
that is: never a guess.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LinearSVC

digits = load_digits()
X, y = digits.data / 16.0, digits.target == 8
budgets = [1, 2, 5, 10, 20, 50, 100]
warnings.simplefilter("ignore", ConvergenceWarning)  # it says that tol was not reached, which is the point here
models = [LinearSVC(loss="hinge", C=10.0, solver="dcd", tol=1e-9, max_iter=epochs).fit(X, y) for epochs in budgets]

figure, ax = plt.subplots(layout="constrained")
primal, dual = ([getattr(model.certificate_, name) for model in models] for name in ("primal", "dual"))
ax.fill_between(budgets, dual, primal, color="#E69F00", alpha=0.3, linewidth=0, label="the optimum is in here")
ax.semilogx(budgets, primal, "o-", color="#0072B2", label="objective of the model")
ax.semilogx(budgets, dual, "s-", color="#D55E00", label="proved bound")
ax.set(xlabel="max_iter, in passes over the data", ylabel="objective", ylim=(0.0, 3.0 * np.median(primal)))
ax.legend(frameon=False)
print(models[0].status_.value)
