"""Solvers of linear problems.

=====================================================================  ==============================
paper                                                                  here
=====================================================================  ==============================
Hsieh et al., ICML 2008: Algorithms 1 and 2, shrinking (16), rule (17)  ``dcd.py``, ``dcd_loop.py``
Glasmachers, Dogan, 2013: Algorithms 3 to 5                             ``avsf.py``, ``avsf_loop.py``
Guillory, Bilmes, 2007: gradient descent, Pegasos                       ``pruned_gradient.py``, ``pegasos.py``
=====================================================================  ==============================

``newton`` is semismooth Newton on the augmented Lagrangian. ``auto`` chooses among them and switches: ``switching`` says when,
``costs`` is the model that it compares them by, and ``phases`` are the methods at work, each of which hands over an alpha to
the next.
"""
