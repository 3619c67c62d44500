"""Semismooth Newton on the augmented Lagrangian (and on the primal for smooth losses).

``newton`` is the iteration, ``passes`` what it asks of the data, ``hessian`` its matrix, ``conjugate_gradients`` its
directions without
a matrix, ``frame`` the coordinates it works in, ``line_search`` the step.
"""
