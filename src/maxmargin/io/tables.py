"""One door for data files of every kind: svmlight text, scipy's .npz, and tables with a named column of labels."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.io.files import MalformedFile
from maxmargin.io.svmlight import read_svmlight

TABLES = (".csv", ".parquet")


def is_text(path: Path) -> bool:
    """Whether ``read_data`` reads it as svmlight text."""
    return path.suffix not in (*TABLES, ".npz")


def read_data(
    path: str | os.PathLike[str],
    *,
    label_column: str | None = None,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    dtype: Any = np.float64,
) -> Any:
    """X and y from a file, by its ending: .csv and .parquet need ``label_column``, .npz holds ``y`` beside scipy's arrays."""
    path = Path(path)
    if path.suffix in TABLES:
        return _read_table(path, label_column, dtype)
    if label_column is not None:
        raise ValueError(f"A label column is for .csv and .parquet files; {path} is neither.")
    if path.suffix == ".npz":
        return _read_npz(path, dtype)
    return read_svmlight(path, n_features=n_features, zero_based=zero_based, dtype=dtype)


def _read_npz(path: Path, dtype: Any) -> Any:
    try:
        with open(path, "rb") as file:
            X = sparse.load_npz(file).tocsr().astype(dtype, copy=False)
            file.seek(0)
            labels = np.load(file, allow_pickle=False).get("y")
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise MalformedFile(path, f"it is no sparse matrix of scipy's, or it is damaged ({error})") from error
    if labels is None:
        raise MalformedFile(path, "it has no array 'y' with the labels beside those of the matrix")
    return X, labels


def _read_table(path: Path, label_column: str | None, dtype: Any) -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise ImportError("Reading tables needs pandas (and pyarrow for .parquet): pip install maxmargin[files].") from None
    if label_column is None:
        raise ValueError(f"Which column of {path} holds the labels? Name it (--label-column).")
    try:
        table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except (ValueError, OSError, pd.errors.ParserError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise MalformedFile(path, f"it cannot be read as a table ({error})") from error
    if label_column not in table.columns:
        raise MalformedFile(path, f"it has no column {label_column!r}; it has {', '.join(map(repr, table.columns[:8]))}")
    y = table.pop(label_column).to_numpy()
    words = [str(name) for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])]
    if words:
        raise MalformedFile(path, f"column {words[0]!r} does not hold numbers")
    return table.astype(dtype), y
