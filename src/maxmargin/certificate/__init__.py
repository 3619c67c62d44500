"""The judge: the duality gap of an answer, recomputed from the data, and what follows from it.

It imports ``problem`` and ``data`` and nothing else. No solver's loop feeds it, and no loop here uses fast-math.

==================================================  =================================
what                                                where
==================================================  =================================
the gap of a linear problem                         ``linear.py``
its sums over rows, for all rows or a part          ``linear_sums.py``
from these sums to a certificate                    ``linear_verdict.py``
the same in twice the precision                     ``precise_linear_loops.py``
the gap of a kernel problem, its kernel sums        ``kernel.py``, ``kernel_sums.py``
the gap of a problem with nu                        ``nu.py``, ``nu_pair.py``
whether w = 0 is optimal                            ``zero.py``
single weights that are bounded                     ``weight_bounds.py``
the gap of a model that somebody else made          ``model.py``, ``nu_model.py``
how far the intercept can be from the optimal one   ``intercept.py``
predictions that the optimum is proved to share     ``predictions.py``, ``ellipsoid.py``
==================================================  =================================
"""
