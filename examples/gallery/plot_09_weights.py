"""
Weights of samples and of classes
=================================

A sample of weight two is that sample twice, and a class weight is a weight for each of its samples.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs

from maxmargin import LinearSVC, MarginDisplay

X, y = make_blobs([120, 20], centers=[[0, 0], [2, 1.5]], cluster_std=1.1, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", sharey=True)
for ax, class_weight in zip(axes, (None, "balanced"), strict=True):
    model = LinearSVC(loss="hinge", class_weight=class_weight).fit(X, y)
    MarginDisplay.from_estimator(model, X, y, ax=ax)
    found = (model.predict(X)[y == 1] == 1).sum()
    ax.set_title(f"class_weight={class_weight!r}: {found} of 20 found")
    ax.get_legend().remove()
