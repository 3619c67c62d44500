"""One door for data files of every kind: svmlight text, scipy's .npz, and tables with a named column of labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.io import policy
from maxmargin.io.files import MalformedFile, explained, is_regular
from maxmargin.io.memory import check_room
from maxmargin.io.npz import read_npz
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
        return read_npz(path, dtype)
    return read_svmlight(path, n_features=n_features, zero_based=zero_based, dtype=dtype)


def _read_table(path: Path, label_column: str | None, dtype: Any) -> Any:
    name = _check_table(path, label_column)
    with explained(path, "it cannot be read as a table"):
        return columns_of(path, _csv(path) if path.suffix == ".csv" else _parquet(path), name, dtype)


def table_pieces(path: Path, label_column: str | None, dtype: Any, n_bytes: int) -> Iterator[Any]:
    """The same piece by piece: X and y of some rows at a time, which take about ``n_bytes`` bytes."""
    name, start = _check_table(path, label_column), 0
    with explained(path, "it cannot be read as a table"):
        for table in _csv_pieces(path, n_bytes) if path.suffix == ".csv" else _parquet_pieces(path, n_bytes):
            yield columns_of(path, table, name, dtype, start)
            start += len(table)


def _check_table(path: Path, label_column: str | None) -> str:
    """The column of the labels, if tables can be read and this file may be one."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise ImportError("Reading tables needs pandas (and pyarrow for .parquet): pip install maxmargin[files].") from None
    if label_column is None:
        raise ValueError(f"Which column of {path} holds the labels? Name it (label_column, or --label-column).")
    if not is_regular(path):
        raise MalformedFile(path, f"a {path.suffix} file must be a regular file")
    return label_column


def columns_of(path: Path, table: Any, label_column: str, dtype: Any, start: int = 0) -> Any:
    """X and y of some rows of a table, the first of which is row ``start`` of the file."""
    if label_column not in table.columns:
        raise MalformedFile(path, f"it has no column {label_column!r}; it has {', '.join(map(repr, table.columns[:8]))}")
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise MalformedFile(path, f"it has two columns {str(twice)!r}")
    y = table.pop(label_column).to_numpy()
    _check_labels(path, label_column, y, start)
    for name in table.columns:
        _check_numbers(path, table[name], start)
    return table.astype(dtype), y


def _csv(path: Path) -> Any:
    """A line with more fields than names is refused: pandas would take its first fields for names of the rows, or drop some."""
    import pandas as pd

    check_room(path, policy.MEMORY.bytes_a_csv_character * os.stat(path).st_size, "its content")
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(path, index_col=False)


def _csv_pieces(path: Path, n_bytes: int) -> Iterator[Any]:
    import pandas as pd

    n_columns = len(pd.read_csv(path, index_col=False, nrows=0).columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        with pd.read_csv(path, index_col=False, chunksize=_rows_in(n_bytes, n_columns), low_memory=False) as pieces:
            yield from pieces


def _parquet_pieces(path: Path, n_bytes: int) -> Iterator[Any]:
    """Batches of rows: of each only as much is unpacked as was asked for."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_rows_in(n_bytes, len(file.schema_arrow.names))):
            yield batch.to_pandas()


def _rows_in(n_bytes: int, n_columns: int) -> int:
    """Rows of a table, one column of which are labels."""
    return max(1, n_bytes // (8 * max(1, n_columns - 1)))


def _parquet(path: Path) -> Any:
    """The footer says how many values there are before any is unpacked."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        n_values = file.metadata.num_rows * max(1, file.metadata.num_columns)
        sizes = (file.metadata.row_group(k).total_byte_size for k in range(file.metadata.num_row_groups))
        check_room(path, policy.MEMORY.bytes_a_parquet_value * n_values + sum(sizes), "its content")
        return file.read().to_pandas()


def _check_labels(path: Path, name: str, y: Any, start: int) -> None:
    if y.dtype.kind not in "biufO" and not str(y.dtype).startswith("str"):
        raise MalformedFile(path, f"the labels in {name!r} are of type {y.dtype}, which is not read")
    if y.dtype.kind == "O" and not all(isinstance(label, (str, bool, int)) for label in y.tolist()):
        raise MalformedFile(path, f"the labels in {name!r} must be numbers or words, and none may be missing")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise MalformedFile(path, f"a label in {name!r} is missing or not finite", _line(path, ~np.isfinite(y), start))


def _check_numbers(path: Path, column: Any, start: int) -> None:
    """Finite real numbers, and none that float64 would round."""
    import pandas as pd

    if column.dtype.kind == "O" or str(column.dtype).startswith("str"):
        _refuse_words(path, column, start)
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_complex_dtype(column):
        raise MalformedFile(path, f"column {str(column.name)!r} does not hold numbers")
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.isfinite(values).all():
        sentence = f"column {str(column.name)!r} holds a value that is missing or not finite"
        raise MalformedFile(path, sentence, _line(path, ~np.isfinite(values), start))
    if column.dtype.kind in "iu" and np.any(np.abs(values) >= 2.0**53):
        raise MalformedFile(
            path, f"column {str(column.name)!r} holds whole numbers of 2^53 and more, which float64 would round"
        )


def _refuse_words(path: Path, column: Any, start: int) -> None:
    """Raise if the column holds something that is no number: the first such value is named."""
    import pandas as pd

    is_wrong = (pd.to_numeric(column, errors="coerce").isna() & column.notna()).to_numpy()
    if is_wrong.any():
        value = str(column[is_wrong].iloc[0])[:40]
        raise MalformedFile(
            path, f"column {str(column.name)!r} holds {value!r}, which is not a number", _line(path, is_wrong, start)
        )


def _line(path: Path, is_wrong: Any, start: int) -> int | None:
    """The line of the first sample that is wrong: of a .csv file, after the line of names. The samples begin with row
    ``start``."""
    return 2 + start + int(np.argmax(is_wrong)) if path.suffix == ".csv" else None
