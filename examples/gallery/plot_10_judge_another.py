"""
Judge somebody else's model
===========================

``certify`` needs weights and a dual point, wherever they come from. Here it says how far scikit-learn's ``LinearSVC`` is from
the optimum at each of its tolerances.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC as TheirSVC

from maxmargin import Hinge, LinearProblem, certify, solve

digits = load_digits()
X, y = digits.data / 16.0, digits.target == 8
problem = LinearProblem.build(X, np.where(y, 1, -1), 10.0, Hinge(), intercept_scaling=1.0)
alpha = solve(problem, tol=1e-10).alpha

tolerances, gaps = 10.0 ** -np.arange(0, 6), []
for tol in tolerances:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = TheirSVC(loss="hinge", C=10.0, tol=tol, random_state=0).fit(X, y)
    gaps.append(certify(problem, np.append(model.coef_[0], model.intercept_), alpha).relative_gap)

figure, ax = plt.subplots(layout="constrained")
ax.loglog(tolerances, gaps, "s-", color="#D55E00", label="what is proved of scikit-learn's answer")
ax.loglog(tolerances, tolerances, ":", color="#8C8C8C", label="if tol were the relative gap")
ax.invert_xaxis()
ax.set(xlabel="tol that was asked for", ylabel="distance from the optimum (relative gap)")
ax.legend(frameon=False)
