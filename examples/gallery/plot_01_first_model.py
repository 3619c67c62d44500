"""
A first model and its certificate
=================================

Fit, print the certificate, and draw the boundary with its support vectors.
"""

from sklearn.datasets import make_blobs

from maxmargin import LinearSVC, MarginDisplay

X, y = make_blobs(80, centers=2, cluster_std=1.6, random_state=4)
model = LinearSVC(loss="hinge", tol=1e-8).fit(X, y)
print(model.certificate_)

# %%
# The dashed lines have margin one. Only the samples with a ring hold the boundary in place: without all others the fit
# would be the same.

MarginDisplay.from_estimator(model, X, y)
