"""Fuzzing and soaking: mutated files for every reader and command, random problems against exact arithmetic.

``python -m fuzz.run`` and ``python -m fuzz.soak`` work in slices of a given time and keep what is done in a state file.
"""
