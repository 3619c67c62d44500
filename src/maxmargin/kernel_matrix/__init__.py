"""Kernel values, fast, for solvers and prediction; never for a certificate.

=============  ===============================================================================================
``matrix``     KernelMatrix: the values of some points, computed when they are asked for, and kept
``tiles``      how values are computed: dot products of a tile, and the kernel function of them
``rows``       the rows that a kernel matrix keeps
``shared``     the values that the pairs of classes of one fit share
``outputs``    prediction
=============  ===============================================================================================
"""
