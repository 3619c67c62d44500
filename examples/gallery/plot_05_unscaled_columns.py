"""
Columns as they come
====================

A solver that stops by its own rule depends on the units of the columns. Here the same table is given in one unit after another,
and both libraries are asked for the same model.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC as TheirSVC

from maxmargin import Hinge, LinearProblem, LinearSVC, certify, solve

data = load_breast_cancer()
units = 10.0 ** np.arange(-2, 4)
ours, theirs = [], []
for unit in units:
    X = data.data[:, :6] * np.array([1.0, 1.0, unit, unit, 1.0, 1.0])
    problem = LinearProblem.build(X, np.where(data.target, 1, -1), 1.0, Hinge(), intercept_scaling=1.0)
    alpha = solve(problem, tol=1e-9).alpha
    ours.append(LinearSVC(loss="hinge").fit(X, data.target).relative_gap_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        rival = TheirSVC(loss="hinge", random_state=0).fit(X, data.target)
    theirs.append(certify(problem, np.append(rival.coef_[0], rival.intercept_), alpha).relative_gap)

figure, ax = plt.subplots(layout="constrained")
ax.loglog(units, np.maximum(ours, 1e-17), "o-", color="#0072B2", label="maxmargin, certified")
ax.loglog(units, theirs, "s-", color="#D55E00", label="scikit-learn, judged by our certificate")
ax.set(xlabel="unit of two of the columns", ylabel="distance from the optimum (relative gap)")
ax.legend(frameon=False)
