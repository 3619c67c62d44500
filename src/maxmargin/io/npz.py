"""scipy's .npz files with the labels beside the matrix, checked in full before anything is converted.

``scipy.sparse.load_npz`` trusts the indices of a file, and a conversion then reads and writes where they point. This module
reads an array only if its header agrees with the size of its member of the archive. It makes a matrix only of indices that are
whole numbers and in range.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array, sound
from maxmargin.io import policy
from maxmargin.io.files import MalformedFile, explained, is_regular
from maxmargin.io.memory import check_room, check_width

COMPRESSED = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix}
FORMATS = (*COMPRESSED, "coo")


def read_npz(path: str | os.PathLike[str], dtype: Any) -> tuple[Any, Array]:
    """A matrix in CSR and its labels."""
    path = Path(path)
    if not is_regular(path):
        raise MalformedFile(path, "an .npz file must be a regular file")
    with explained(path, "it is no sparse matrix of scipy's, or it is damaged"), zipfile.ZipFile(path) as archive:
        members = _Members(path, archive)
        X = members.matrix()
        y = members.array("y", "biufU", 1)
        if len(y) != X.shape[0]:
            raise MalformedFile(path, f"y has {len(y)} labels for {X.shape[0]} rows")
        _check_finite(path, "y", y)
        check_width(path, X.shape[1])
        return sound(X).tocsr().astype(dtype, copy=False), y


class _Members(NamedTuple):
    path: Path
    archive: zipfile.ZipFile

    def matrix(self) -> Any:
        """The matrix as it is in the file, not checked yet."""
        self._check_sizes()
        form, shape = self._format(), self._shape()
        data = self.array("data", "biuf", 1)
        _check_finite(self.path, "data", data)
        if form == "coo":
            places = tuple(self.array(name, "iu", 1) for name in ("row", "col"))
            self._check_lengths({"data": data, "row": places[0], "col": places[1]})
            return sparse.coo_matrix((_as_float(self.path, data), places), shape=shape)
        indices, indptr = self.array("indices", "iu", 1), self.array("indptr", "iu", 1)
        self._check_lengths({"data": data, "indices": indices})
        if len(indptr) != (shape[0] if form == "csr" else shape[1]) + 1:
            raise MalformedFile(self.path, f"indptr has {len(indptr)} numbers for a matrix of shape {shape}")
        return COMPRESSED[form]((_as_float(self.path, data), indices, indptr), shape=shape)

    def array(self, name: str, kinds: str, n_dimensions: int) -> Array:
        """One member, if its type, shape and length are what they should be."""
        if f"{name}.npy" not in self.archive.namelist():
            beside = " with the labels beside those of the matrix" if name == "y" else ""
            raise MalformedFile(self.path, f"it has no array {name!r}{beside}")
        with self.archive.open(f"{name}.npy") as file:
            shape, _, dtype = _header(file)
            if dtype.kind not in kinds or (dtype.kind != "U" and dtype.itemsize > 8):
                raise MalformedFile(self.path, f"the array {name!r} is of type {dtype}, which is not read")
            if len(shape) != n_dimensions:
                raise MalformedFile(self.path, f"the array {name!r} has {len(shape)} dimensions where {n_dimensions} belong")
            content = file.read()
        if len(content) != int(np.prod(shape, dtype=object)) * dtype.itemsize:
            raise MalformedFile(self.path, f"the array {name!r} has {len(content)} bytes, which do not fit its shape {shape}")
        array = np.frombuffer(content, dtype).reshape(shape)
        return array.astype(dtype.newbyteorder("="), copy=False)

    def _check_sizes(self) -> None:
        n_bytes = sum(member.file_size for member in self.archive.infolist())
        check_room(self.path, policy.MEMORY.npz_copies * n_bytes, "its content")

    def _format(self) -> str:
        raw = self.array("format", "SU", 0).item()
        name = raw.decode("ascii") if isinstance(raw, bytes) else raw
        if name not in FORMATS:
            raise MalformedFile(self.path, f"the format {name[:20]!r} is not read; {', '.join(FORMATS)} are")
        return str(name)

    def _shape(self) -> tuple[int, int]:
        shape = self.array("shape", "iu", 1).tolist()
        if len(shape) != 2 or min(shape) < 1:
            raise MalformedFile(self.path, f"the shape must be two positive numbers; it is {shape[:3]}")
        return shape[0], shape[1]

    def _check_lengths(self, arrays: Mapping[str, Array]) -> None:
        if len({len(array) for array in arrays.values()}) > 1:
            lengths = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
            raise MalformedFile(self.path, f"arrays that belong together differ in length: {lengths}")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"arrays of version {version} are not read")
    return read[version](file, max_header_size=policy.READING.npz_header_bytes)


def _check_finite(path: Path, name: str, array: Array) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise MalformedFile(path, f"the array {name!r} holds a value that is not finite")


def _as_float(path: Path, data: Array) -> Array:
    """The numbers as float64. Whole numbers that float64 does not hold exactly are refused, not rounded in silence."""
    if data.dtype.kind == "f":
        return data
    values = data.astype(np.float64)
    if data.dtype.itemsize == 8 and np.any(np.abs(values) >= 2.0**53):
        raise MalformedFile(path, "the array 'data' holds whole numbers of 2^53 and more, which float64 does not hold exactly")
    return values
