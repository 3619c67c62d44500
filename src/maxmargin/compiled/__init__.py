"""The loops, in Numba. Each file is read beside the module that calls it."""
