"""One paper's algorithm, one file."""
