"""Bounds on the change in the margin: A. Guillory, J. Bilmes, "Practical methods for exploiting bounds on change in the
margin", 2007.

=========================================================  =================================================
in the paper                                               here
=========================================================  =================================================
the bound (2), Huber loss (5), zero-one loss               ``bound.py``
Algorithms 1 and 2, our variant: one sum, counting sort    ``pruned_loss.py``
Algorithms 1 and 2 as printed, SortPeriod (3) and (4)      ``sorted_sums.py``
Algorithm 3 as printed                                     ``maxmargin.solvers.linear.pegasos_as_printed``
section 5: spheres with another centre                     ``spheres.py``, ``coded_centres.py``
section 5: the kernel form (6)                             ``kernel.py``
gradient descent with step halving                         ``maxmargin.solvers.linear.pruned_gradient``
Pegasos                                                    ``maxmargin.solvers.linear.pegasos``
=========================================================  =================================================
"""
