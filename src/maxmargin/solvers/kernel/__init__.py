"""Solvers of kernel problems.

===========================================================  =======================================
paper                                                        here
===========================================================  =======================================
Zimmert et al., 2015: Algorithm 1                            ``smo.py``, ``smo_loops.py``
Perez-Cruz et al.: IRWLS-SVC                                 ``irwls/``
===========================================================  =======================================

===================  ==================================================================================================
``auto``             the default: chooses among the others, and hands points over from one to the next
``batched_smo``      SMO on working sets of a thousand; where it stands is in ``batched_smo_state``
``held_smo``         SMO and least squares for few samples, whose kernel matrix is held
``factored``         Newton's method where the kernel matrix has a low rank
``nu_smo``           batched SMO for the problems with nu
``nu_program``       what the interior-point method takes, where SMO gives up on these or is slower
``signed_point``     s, its box and f = K s, with the gap and the dual value: what batched SMO and IRWLS share
``active_rows``      kernel rows of the samples that a solver still looks at
``position_rows``    kernel rows of SMO, in the order in which it keeps its samples
===================  ==================================================================================================
"""
