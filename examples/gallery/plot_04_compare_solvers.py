"""
Several solvers, one problem
============================

Every solver takes the same problem and is judged by the same certificate, so their curves can be compared.
"""

import numpy as np
from sklearn.datasets import load_digits

from maxmargin import ConvergenceDisplay, Hinge, LinearProblem, solve

digits = load_digits()
problem = LinearProblem.build(digits.data / 16.0, np.where(digits.target == 8, 1, -1), 1.0, Hinge(), intercept_scaling=1.0)
for name in ("dcd", "avsf", "newton"):
    solve(problem, name, tol=1e-2)  # compiled code is loaded once, and not timed
solutions = {name: solve(problem, name, tol=1e-6, max_seconds=5) for name in ("dcd", "avsf", "newton")}
ConvergenceDisplay.from_solutions(solutions, target=1e-6)

# %%
# Which solver is done first depends on the data, on C and on ``tol``. ``solver="auto"`` decides that while it runs.

for name, solution in solutions.items():
    print(f"{name:8s}{solution}")
