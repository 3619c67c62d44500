"""One call solves one problem.

==============================================  ==================================
what                                            file
==============================================  ==================================
``solve``: solver and certificate in turns      ``driver.py``
small problems, whose first answer will do       ``at_once.py``
the best answer so far                          ``incumbent.py``
when a certificate is due, when to give up      ``policy.py``
C = infinity                                    ``hard_margin.py``
what comes back, and why the solve ended        ``solution.py``
==============================================  ==================================
"""
