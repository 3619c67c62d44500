"""F. Perez-Cruz, P. L. Alarcon-Diana, A. Navia-Vazquez, A. Artes-Rodriguez, "Fast training of support vector classifiers".

=====================================================  ======================================================
in the paper                                           here
=====================================================  ======================================================
Table 1, steps 0 to 6                                  ``table_1.py``, ``table_1_loop.py``
the chunking scheme with G_in and G_b,in               ``irwls.py``, ``state.py``, ``chunk_loops.py``
stopping conditions (9) to (11)                        ``state.py``
section 3: largest, smallest, random                   ``selection.py``, ``selection_loops.py``
our engine in place of Table 1: active-set Newton      ``active_set_newton.py``, ``active_set_newton_loop.py``
=====================================================  ======================================================

``engines`` solve a working set, ``start`` guesses which samples are free, ``free_factor`` keeps their Cholesky factor.
``pair_loops`` moves pairs of variables before the systems of a small working set.
"""
