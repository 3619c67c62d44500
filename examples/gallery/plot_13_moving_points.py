"""
Labels of points that move
==========================

A model that watches slow sensors need not look at all of them. ``LabelStream`` proves for most that their label cannot have
changed since they were last seen, and asks only for the others.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from maxmargin import SVC, LabelStream

X, y = make_moons(400, noise=0.15, random_state=0)
model = SVC(gamma=1.0, tol=1e-8).fit(X, y)
rng = np.random.default_rng(0)
points, step, looked = X.copy(), 0.01, []
stream = LabelStream(model, points, max_step=step)
for _ in range(60):
    direction = rng.normal(size=points.shape)
    points = points + 0.99 * step * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    update = stream.update(points)
    looked.append(len(update.looked_at))
assert (update.labels == model.predict(points)).all()

figure, ax = plt.subplots(layout="constrained")
ax.plot(np.arange(1, 61), looked, "o-", color="#0072B2", markersize=4)
ax.axhline(len(X), color="#8C8C8C", linestyle=":", label="all points")
ax.set(xlabel="update", ylabel="points looked at", ylim=(0, 1.1 * len(X)))
ax.legend(frameon=False)
