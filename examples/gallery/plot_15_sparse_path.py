"""
Features along C
================

With an L1 penalty a small C uses few features. The path has a model for every C of a range, each with a proved gap, and shows
in which order the features come.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from maxmargin import LinearSVC
from maxmargin import path as path_over_C

data = load_breast_cancer()
X = StandardScaler().fit_transform(data.data)
path = path_over_C(LinearSVC(penalty="l1"), X, data.target, C_range=(1e-3, 0.1), tol=1e-2)

figure, ax = plt.subplots(layout="constrained")
ax.semilogx(path.Cs, path.coefs, linewidth=1.2)
ax.set(xlabel="C", ylabel="weights")
counts = ax.twinx()
counts.plot(path.Cs, path.n_nonzero, color="#8C8C8C", linestyle=":")
counts.set_ylabel("weights that are not zero (dotted)")

# %%
# The first features to come, and the gap that is proved at every C, not at the fits alone:

first = [path.Cs[np.flatnonzero(weights)[0]] if weights.any() else np.inf for weights in path.coefs.T]
print([str(data.feature_names[j]) for j in np.argsort(first, kind="stable")[:4]])
print(path.is_certified, path)
