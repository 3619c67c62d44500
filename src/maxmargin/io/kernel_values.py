"""Files of kernel values, for ``kernel="precomputed"``: a line for each sample, a column for each training sample.

Text is as LIBSVM has it for its -t 4: ``label 0:number 1:k(x, x_1) 2:k(x, x_2) ...``, where feature 0 numbers the sample. It
may be left out, and so may values of zero. In other files (.npz, .csv, .parquet) the matrix is the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.io import policy
from maxmargin.io.files import MalformedFile, windows_of
from maxmargin.io.svmlight import read_svmlight, stream_svmlight
from maxmargin.io.tables import is_text, read_data
from maxmargin.problem.kernel import unequal_pair


def read_kernel(path: str | os.PathLike[str], *, label_column: str | None = None, dtype: Any = np.float64) -> tuple[Any, Array]:
    """The kernel of the training samples with each other, and their labels: square, symmetric and finite, or refused."""
    path = Path(path)
    if not is_text(path):
        return read_data(path, label_column=label_column, dtype=dtype)  # the estimator checks it
    numbered, y = read_svmlight(path, zero_based=True, dtype=dtype)
    K = numbered[:, 1:]
    K.resize(K.shape[0], max(K.shape))
    if K.shape[1] > len(y):
        i = int(np.argmax(np.diff(K[:, len(y) :].indptr) > 0))
        sentence = f"a kernel value with sample {K[[i]].indices.max() + 1}, but there are {len(y)} samples: it is not square"
        raise MalformedFile(path, sentence, line_of_sample(path, i))
    pair = unequal_pair(K)
    if pair is not None:
        i, j = pair
        sentence = f"sample {i + 1} has {K[i, j]:.9g} with sample {j + 1}, which has {K[j, i]:.9g} with it: it is not symmetric"
        raise MalformedFile(path, sentence, line_of_sample(path, i))
    return K, y


def stream_kernel(
    path: str | os.PathLike[str], *, n_samples: int, label_column: str | None = None
) -> Iterator[tuple[Any, Array]]:
    """Kernel values of any samples with the ``n_samples`` training samples, piece by piece."""
    path = Path(path)
    if not is_text(path):
        yield read_data(path, label_column=label_column)
        return
    for numbered, y in stream_svmlight(path, n_features=n_samples + 1, zero_based=True):
        yield numbered[:, 1:], y


def line_of_sample(path: Path, sample: int) -> int:
    """Samples count from 0, lines from 1; comments and empty lines are no samples."""
    place, seen = 0, -1
    for window in windows_of(path, policy.READING.window_bytes):
        for line in window.tobytes().removesuffix(b"\n").split(b"\n"):
            place, seen = place + 1, seen + bool(line.split(b"#")[0].strip())
            if seen == sample:
                return place
    return place
