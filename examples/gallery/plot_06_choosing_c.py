"""
Choosing C
==========

Cross-validation over C, with every fit certified. ``warm_start`` and small gaps make a path cheap; the shaded band is one
standard error over the folds.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import LinearSVC

X, y = load_breast_cancer(return_X_y=True)
values = np.logspace(-4, 2, 13)
search = GridSearchCV(make_pipeline(StandardScaler(), LinearSVC(loss="hinge")), {"linearsvc__C": values}, cv=5).fit(X, y)
mean, error = search.cv_results_["mean_test_score"], search.cv_results_["std_test_score"] / np.sqrt(5)

figure, ax = plt.subplots(layout="constrained")
ax.fill_between(values, mean - error, mean + error, color="#0072B2", alpha=0.2, linewidth=0)
ax.semilogx(values, mean, "o-", color="#0072B2")
ax.axvline(search.best_params_["linearsvc__C"], color="#D55E00", linestyle="--", label="best C")
ax.set(xlabel="C", ylabel="accuracy on held-out folds")
ax.legend(frameon=False)

# %%
# Every one of the 65 fits behind this curve was certified, so the curve shows the models and not the moods of a solver.
