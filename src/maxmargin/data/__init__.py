"""What a loop sees: rows of X, random numbers, threads, and what ends a computation early.

==============================================  ==============================================================================
what                                            file
==============================================  ==============================================================================
the matrix X as a loop sees it                  ``rows.py``; products of its rows with a vector in ``row_loops.py``
random numbers, a + b without rounding          ``random_loops.py``, ``error_free_loops.py``
threads, deadlines and Ctrl-C                   ``threads.py``, ``limits.py``
compiling, and its cache on disk                ``caching.py``, ``compiling.py``, ``by_type.py``
==============================================  ==============================================================================

Every other folder imports from this one. This one imports from no other.
"""
