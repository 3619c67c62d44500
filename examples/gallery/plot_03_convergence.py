"""
The gap against time
====================

``trace_`` has a row for each certificate of a fit. The display draws them; the colours are the solvers that were at work.
There are ten classes, and a line for each against the rest.
"""

from sklearn.datasets import load_digits

from maxmargin import ConvergenceDisplay, LinearSVC

digits = load_digits()
X, y = digits.data / 16.0, digits.target
model = LinearSVC(loss="hinge", C=100.0, tol=1e-8)
model.fit(X, y)  # compiled code is loaded once, and not timed
ConvergenceDisplay.from_estimator(model.fit(X, y))

# %%
# Why each solver was chosen is in the trace too.

for solver, reason in dict.fromkeys((row.solver, row.reason) for trace in model.trace_ for row in trace):
    print(f"{solver}: {reason}")
