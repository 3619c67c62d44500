"""Measurements against peers and against the papers: one script a claim, its results in ``benchmarks/results``."""
