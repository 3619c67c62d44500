"""Safe screening and shrinking: J. Zimmert, C. Schroeder de Witt, G. Kerg, M. Kloft, "Safe screening for support vector
machines", 2015.

=======================================================  =========================================
in the paper                                             here
=======================================================  =========================================
duality gap G_D, Corollary 4.2 (ball), Corollary 4.3     ``rules.gap_terms``, ``gap_ball``, ``gradient_reach``
section 5, the safe rule                                 ``rules.safe_rule``, ``shrinking.Safe``
the f-safe rule (1)                                      ``rules.f_safe_rule``, ``shrinking.FSafe``
rule (1) to the letter                                   ``shrinking.FSafeAsPrinted``
Joachims' shrinking                                      ``shrinking.Joachims``
Algorithm 1                                              ``maxmargin.solvers.kernel.smo``
=======================================================  =========================================
"""
