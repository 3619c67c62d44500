"""Kernel values, fast, for solvers and prediction; never for a certificate.

``blocks`` makes tiles of values, ``rows`` keeps rows of them, ``shared`` serves the pairs of classes that share samples, and
``outputs`` predicts.
"""
