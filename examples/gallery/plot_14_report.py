"""
A page about a model
====================

``model.report(X, y)`` makes one self-contained HTML page. A notebook shows it in place, ``save`` writes it, and
``maxmargin train --report FILE`` makes it on the command line.
"""

# sphinx_gallery_thumbnail_number = 1
from sklearn.datasets import load_digits

from maxmargin import ConvergenceDisplay, LinearSVC

X, y = load_digits(return_X_y=True)
model = LinearSVC(C=0.01).fit(X / 16.0, y)
ConvergenceDisplay.from_estimator(model)

# %%
# The page itself:

model.report(X / 16.0, y)
