"""Semismooth Newton on the augmented Lagrangian, and on the primal for smooth losses.

=============================================================  =============================================
what                                                           where
=============================================================  =============================================
the method and its mathematics                                 ``newton.py``
what follows from an answer, wherever the samples are          ``standing.py``
its order, wherever the samples are                            ``iteration.py``
its samples in memory, and the best answer                     ``state.py``
its tuning constants                                           ``policy.py``
the whole method in one compiled call, for few features        ``small_newton.py``, ``small_newton_loop.py``
the same samples at one cost after another                     ``moving.py``, ``small_moving.py``
what it asks of the samples, in NumPy and compiled             ``passes.py``, ``pass_loops.py``
what a loss gives the dual                                     ``curves.py``
the matrix, and its factor                                     ``hessian.py``
directions without a matrix                                    ``conjugate_gradients.py``
which of the two a problem begins with                         ``direction_costs.py``
columns with few elements, settled after each step             ``rare_columns.py``, ``rare_column_loops.py``
the exact step along a direction                               ``line_search.py``
the size of rows and targets                                   ``scale.py``
the coordinates: centred columns, rotated rows                 ``frame.py``
columns that use up the digits of float64 and depend on others ``turned_columns.py``, ``wide_columns.py``
=============================================================  =============================================
"""
