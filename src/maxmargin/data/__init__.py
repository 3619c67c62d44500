"""What a loop sees: rows of X, random numbers, threads, and what ends a computation early.

A loop takes ``CsrRows`` or ``DenseRows`` and asks for products of rows by the functions of ``row_loops``. Everybody imports
from
here; nothing here imports from another room.
"""
