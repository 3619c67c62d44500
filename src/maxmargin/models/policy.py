"""The limits of the readers of models, each with its unit. Tests replace ``LIMITS`` as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelLimits:
    """What a model file of a stranger may ask for."""

    most_degree: int = 1000
    """The highest degree of a polynomial kernel. Already 2^1000 is near the end of float64."""
    most_labels_bytes: int = 1 << 26
    """Bytes that the labels may take as an array of texts of one length."""
    most_sparse_features: int = 1 << 27
    """Features of sparse support vectors: a dense vector of as many, which prediction may need, takes a gigabyte."""
    most_header_bytes: int = 1 << 25
    """Bytes of the longest header that is read. As objects of Python it takes up to twenty times as much."""
    copies: int = 3
    """Times that the arrays of a file are in memory while it is read."""
    most_text_features: int = 1 << 27
    """Features of a text model. A dense vector of as many takes a gigabyte: a greater index is an accident or an attack."""
    most_line_bytes: int = 1 << 24
    """Bytes of the longest line of a text model: a support vector with a million features. As objects of Python it takes some
    thirty times as much."""
    most_names: int = 100
    """Lines of the header of a text model; LIBSVM's have ten."""
    free_weights: int = 1 << 23
    """Weights (64 MB) that LIBSVM's linear model may always become as one dense vector."""
    weights_a_value: int = 64
    """Weights that it may become for each value in the file: two words of text cannot ask for a gigabyte."""


LIMITS = ModelLimits()
