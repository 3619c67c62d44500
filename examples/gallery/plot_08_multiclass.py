"""
Several classes, a certificate for each
=======================================

``LinearSVC`` solves one problem for each class against the rest, ``SVC`` one for each pair. Each problem has its own
certificate, and ``relative_gap_`` is the worst.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

from maxmargin import SVC, CertifiedRegionDisplay, LinearSVC

wine = load_wine(as_frame=True)
X, y = wine.data[["alcohol", "flavanoids"]], wine.target
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", sharey=True)
for ax, model in zip(axes, (LinearSVC(), SVC()), strict=True):
    CertifiedRegionDisplay.from_estimator(model.fit(X, y), X, y=y, ax=ax)
    ax.set_title(f"{type(model).__name__}: the worst gap is {model.relative_gap_:.0e}")
    ax.get_legend().remove()

for certificate in model.certificate_:
    print(certificate)
