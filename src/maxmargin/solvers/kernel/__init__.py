"""Solvers of kernel problems.

===========================================================  =======================================
paper                                                        here
===========================================================  =======================================
Zimmert et al., 2015: Algorithm 1                            ``smo.py``, ``smo_loops.py``
Perez-Cruz et al.: IRWLS-SVC                                 ``irwls/``
===========================================================  =======================================

``batched_smo`` has working sets of a thousand, ``held_smo`` solves few samples whose kernel matrix is held, ``factored``
solves matrices
of low rank by Newton's method. ``auto`` chooses among them and switches.
"""
