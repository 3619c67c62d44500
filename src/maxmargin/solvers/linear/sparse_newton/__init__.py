"""Newton's method on working sets of features, for penalties with a kink.

==========================================================  ===================
what                                                        where
==========================================================  ===================
working sets, gap-safe screening, active samples            state.py
the quadratic model with its L1 term                        model.py
the step length                                             search.py
X by columns                                                features.py
an alpha that is feasible in spite of its rounding          mending.py
smaller C first                                             ramp.py
an interior-point method, where kinks are many              inside.py
==========================================================  ===================

The pieces are those of Blitz (T. Johnson, C. Guestrin, ICML 2015) and of gap-safe rules (E. Ndiaye, O. Fercoq, A. Gramfort, J.
Salmon, JMLR 18, 2017): a small problem of the features that matter, a proof for the others."""
