"""The sizes and limits of the readers, each with its unit. Tests replace ``READING``, ``MEMORY`` and ``HEADERS`` as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadingPolicy:
    """How much of a file is in hand at a time."""

    block_bytes: int = 1 << 22
    """Bytes that are read or decompressed at a time."""
    packed_bytes: int = 1 << 10
    """Bytes of a .zst file that are unpacked at a time. Four bytes can stand for 128 kB, so that at most 32 MB come out."""
    xz_memory_bytes: int = 1 << 27
    """Bytes that the decoder of .xz files may use; ``xz -9`` needs 65 MB."""
    most_line_bytes: int = 1 << 26
    """Bytes of the longest line of a data file: some five million features. A longer one is no text, or an attack."""
    chunk_bytes: int = 1 << 22
    """Bytes of text that one thread parses at a time, and the rest of a line."""
    window_bytes: int = 1 << 25
    """Bytes of a stream that are parsed at a time: two of them are in memory."""
    counted_bytes: int = 1 << 16
    """Bytes whose line ends are counted at a time."""
    search_bytes: int = 1 << 12
    """Bytes that are searched for the end of a line at a time."""
    undecided_numbers: int = 1024
    """Room, at first, for numbers of a chunk that only Python's own parser can round."""
    npz_header_bytes: int = 10_000
    """The longest header of an array that NumPy itself reads from a file that it does not trust."""


@dataclass(frozen=True)
class MemoryPolicy:
    """What the content of a file may take, and how much each kind of file needs."""

    share_of_memory: float = 0.75
    """The part of the machine's memory that the content of one file may take. The rest is for the fit."""
    vectors_of_a_fit: int = 4
    """Vectors of float64 as wide as the data that a linear fit holds at least: the weights of the solver, the best weights so
    far, those of the certificate, and one more to work with."""
    npz_copies: int = 3
    """Times that the content of an .npz file is in memory while it is converted."""
    bytes_a_csv_character: int = 16
    """Memory that pandas needs at most for each byte of a .csv file: two characters (1,) become a number of 8 bytes, twice."""
    bytes_a_parquet_value: int = 32
    """Memory for each value of a .parquet file: eight bytes in Arrow, in pandas and in the matrix, and some more."""


@dataclass(frozen=True)
class HeaderPolicy:
    """What the header of a file may say, and how much of it a complaint repeats."""

    most_characters: int = 10_000
    """Characters of one text of a header: a label, the name of a feature."""
    shown_characters: int = 60
    """Characters of a wrong value that a complaint repeats."""
    bytes_a_character: int = 32
    """Memory that a header takes as objects of Python for each character of its text: a list of small lists takes the most."""


READING = ReadingPolicy()
MEMORY = MemoryPolicy()
HEADERS = HeaderPolicy()
