"""Every reader: how a case is made from its number, and what must be true of the answer.

A case ends as "accepted" or "refused". A refusal is a MalformedFile whose message begins with the file. Whatever else happens
is a finding: another error, an answer that differs from a plain reading, an altered model that is accepted.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import zipfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from scipy import sparse

from fuzz import seeds
from fuzz.mutations import TYPES, mutated_array, mutated_bytes, mutated_tree, mutated_words
from fuzz.oracles import dense_from_parts, fields_of_lines, svmlight_reading
from maxmargin.data.rows import Array
from maxmargin.io import MalformedFile, load_model, read_data, read_liblinear, read_libsvm, read_svmlight, stream_svmlight
from maxmargin.io.kernel_values import read_kernel
from maxmargin.models.checkpoint import Checkpoint
from maxmargin.problem import policy

READERS = "src/maxmargin/io"
MODELS = "src/maxmargin/models"
COMMON = (f"{READERS}/files.py", f"{READERS}/memory.py", "src/maxmargin/data/rows.py")
SVMLIGHT = (*COMMON, f"{READERS}/svmlight.py", f"{READERS}/text.py", "src/maxmargin/io/svmlight_loops.py")
LAYOUTS = ("layout", "linear_layouts", "kernel_layouts", "layouts")
NATIVE = (*COMMON, f"{READERS}/schema.py", *(f"{MODELS}/{name}.py" for name in ("model_file", "headers", *LAYOUTS, "tensors")))
TEXT_MODELS = (*COMMON, *(f"{MODELS}/{name}.py" for name in ("text_lines", "liblinear", "libsvm", "libsvm_outputs")))
TABLES = (*COMMON, f"{READERS}/tables.py")

IMPOSSIBLE = (KeyError, ValueError, TypeError, SafetensorError)
"""What is raised where no such file can be made."""
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}

Case = Callable[[random.Random, Path], str]


@dataclass(frozen=True)
class Target:
    """``share`` is how many of a hundred cases are its own."""

    name: str
    share: int
    modules: tuple[str, ...]
    case: Case


class Wrong(AssertionError):
    """An answer that is not true."""


def ask(condition: Any, sentence: str) -> None:
    if not condition:
        raise Wrong(sentence)


def answer_of(read: Callable[[], Any], path: Path) -> Any:
    """What a reader returns, or None where it refuses the file in a sentence that begins with its name."""
    try:
        return read()
    except MalformedFile as error:
        ask(str(error).startswith(str(path)), f"the sentence does not begin with the file: {error}")
        ask(not isinstance(error.__cause__, MemoryError), f"too much memory: {error.__cause__}")
        return None


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def svmlight_case(chance: random.Random, folder: Path) -> str:
    mutate = chance.choice((mutated_bytes, mutated_bytes, mutated_words))
    content = mutate(chance.choice(seeds.TEXTS), chance)
    return check_svmlight(put(folder / "mutant", content), content)


def check_svmlight(path: Path, content: bytes) -> str:
    expected = svmlight_reading(content)
    answer = answer_of(lambda: read_svmlight(path, zero_based=True), path)
    if answer is None:
        too_wide = expected is not None and max((max(row, default=0) for row in expected[1]), default=0) > 10**8
        ask(expected is None or too_wide, f"refused, but it is well formed: {content!r}")
        return "refused"
    ask(expected is not None, f"accepted, but it is malformed: {content!r}")
    check_rows(answer[0], answer[1], expected, content)
    return "accepted"


def check_rows(X: Any, y: Array, expected: Any, content: bytes) -> None:
    labels, rows = expected
    ask(y.tolist() == labels, f"other labels: {content!r}")
    indptr, indices, values = X.indptr.tolist(), X.indices.tolist(), X.data.tolist()
    for i, row in enumerate(rows):
        part = slice(indptr[i], indptr[i + 1])
        ask(dict(zip(indices[part], values[part], strict=True)) == row, f"another row {i}: {content!r}")


def stream_case(chance: random.Random, folder: Path) -> str:
    """As ``predict`` reads: the width is known, and an index beyond it is refused."""
    content = mutated_bytes(chance.choice(seeds.TEXTS), chance)
    path = put(folder / "mutant", content)
    expected = svmlight_reading(content)
    answer = answer_of(lambda: list(stream_svmlight(path, n_features=12, zero_based=True)), path)
    fits = expected is not None and all(max(row, default=0) < 12 for row in expected[1])
    ask(fits == (answer is not None), f"{'refused' if fits else 'accepted'} wrongly: {content!r}")
    if answer is None:
        return "refused"
    ask(len(answer) == 1 and answer[0][0].shape[1] == 12, f"another shape: {content!r}")
    check_rows(answer[0][0], answer[0][1], expected, content)
    return "accepted"


def packed_case(chance: random.Random, folder: Path) -> str:
    """The text or the archive is altered; what an altered archive may hold is known only to its library."""
    suffix = chance.choice([*PACKERS])
    text = chance.choice(seeds.TEXTS)
    if chance.random() < 0.5:
        text = mutated_bytes(text, chance)
        return check_svmlight(put(folder / f"mutant{suffix}", PACKERS[suffix](text)), text)
    path = put(folder / f"mutant{suffix}", mutated_bytes(PACKERS[suffix](text) * chance.choice((1, 1, 2)), chance))
    answer = answer_of(lambda: read_svmlight(path, zero_based=True), path)
    if answer is None:
        return "refused"
    X, y = answer
    ask(np.isfinite(X.data).all() and np.isfinite(y).all(), "a value that is not finite")
    return "accepted"


def kernel_values_case(chance: random.Random, folder: Path) -> str:
    content = chance.choice((mutated_bytes, mutated_words))(chance.choice(seeds.KERNEL_VALUES), chance)
    path = put(folder / "mutant", content)
    answer = answer_of(lambda: read_kernel(path), path)
    if answer is None:
        return "refused"
    K, y = answer
    ask(K.shape == (len(y), len(y)), f"not square: {content!r}")
    dense = K.toarray()
    ask(np.abs(dense - dense.T).max() <= policy.KERNEL.symmetry * np.abs(dense).max(), f"not symmetric: {content!r}")
    return "accepted"


def npz_case(chance: random.Random, folder: Path) -> str:
    parts = dict(chance.choice(NPZ_PARTS))
    path = folder / "mutant.npz"
    if chance.random() < 0.3:
        put(path, mutated_bytes(_archive(parts, chance), chance))
        parts = {}
    else:
        for name in chance.sample([*parts], chance.choice((1, 1, 2))):
            parts[name] = _mutated_part(name, parts[name], chance)
        put(path, _archive(parts, chance))
    answer = answer_of(lambda: read_data(path), path)
    if answer is None:
        return "refused"
    check_matrix(answer[0], answer[1], parts)
    return "accepted"


def check_matrix(X: Any, y: Array, parts: dict[str, Array]) -> None:
    n, d = X.shape
    starts, indices = X.indptr.astype(object), X.indices.astype(object)
    ask(len(starts) == n + 1 and starts[0] == 0 and starts[-1] == len(indices) == len(X.data), "indptr is wrong")
    ask(all(a <= b for a, b in pairwise(starts)), "indptr falls")
    ask(all(0 <= j < d for j in indices), "an index out of range")
    ask(X.dtype == np.float64 and np.isfinite(X.data).all() and y.shape == (n,), "values or labels are wrong")
    if parts and d < 1000:
        ask(np.array_equal(X.toarray(), dense_from_parts(parts)), "another matrix than that of the file")
        ask(np.array_equal(y, parts["y"]), "other labels than those of the file")


def _mutated_part(name: str, array: Array, chance: random.Random) -> Array:
    if name == "format":
        return np.array(chance.choice((b"csr", b"csc", b"coo", b"bsr", b"dia", b"xyz", b"", "csr", b"\xff", 3)))
    if name == "shape" and chance.random() < 0.5:
        return np.array([chance.choice((0, 1, 3, 24, 25, -1, 2**31, 2**62)), chance.choice((0, 1, 4, 5, 2**31, 10**12))])
    return mutated_array(array, chance)


def _archive(parts: dict[str, Array], chance: random.Random) -> bytes:
    """A zip file as NumPy writes it, or with a header, a flag or a method that lies."""
    buffer = io.BytesIO()
    method = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    lie = chance.choice([*parts]) if chance.random() < 0.15 else None
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, array in parts.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=True)
            content = member.getvalue()
            archive.writestr(f"{name}.npy", _with_another_header(content, chance) if name == lie else content)
    content = buffer.getvalue()
    return _with_another_flag(content, chance) if chance.random() < 0.05 else content


def _with_another_header(content: bytes, chance: random.Random) -> bytes:
    end = content.index(b"\n") + 1
    shape = chance.choice(("(10000000000,)", "(2147483647, 1)", "()", "(-1,)", "(1, 2, 3)", "('a',)", "(1e3,)", "(" * 500))
    text = f"{{'descr': '<{chance.choice(TYPES)}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return content[:8] + struct.pack("<H", len(text)) + text + content[end:]


def _with_another_flag(content: bytes, chance: random.Random) -> bytes:
    """Encrypted, or packed by a method that is not known, in every header of the archive."""
    data = bytearray(content)
    offset, value = chance.choice(((6, 1), (6, 8), (8, 99), (8, 12), (8, 14)))
    for mark, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        at = data.find(mark)
        while at >= 0:
            data[at + offset + shift] = value
            at = data.find(mark, at + 4)
    return bytes(data)


def csv_case(chance: random.Random, folder: Path) -> str:
    content = mutated_bytes(seeds.TABLE, chance)
    path = put(folder / "mutant.csv", content)
    answer = answer_of(lambda: read_data(path, label_column="kind"), path)
    if answer is None:
        return "refused"
    X, y = answer
    counts = fields_of_lines(content)
    ask(np.isfinite(X.to_numpy()).all() and len(X) == len(y), f"values or labels are wrong: {content!r}")
    if counts is not None and b'"' not in content and b"\0" not in content and b"\r" not in content:
        ask(max(counts[1:], default=0) <= counts[0], f"more fields than names: {content!r}")
        ask(X.shape[1] == counts[0] - 1, f"another number of columns: {content!r}")
    return "accepted"


def parquet_case(chance: random.Random, folder: Path) -> str:
    content = PARQUET if chance.random() < 0.5 else chance.choice(OTHER_PARQUETS)
    path = put(folder / "mutant.parquet", mutated_bytes(content, chance) if chance.random() < 0.9 else content)
    answer = answer_of(lambda: read_data(path, label_column="kind"), path)
    if answer is None:
        return "refused"
    X, y = answer
    ask(np.isfinite(X.to_numpy()).all() and len(X) == len(y), "values or labels are wrong")
    return "accepted"


def native_case(kind: str) -> Case:
    """Bytes: refused, unless nothing that matters has changed. A header with its digest: refused, or a model that predicts."""

    def case(chance: random.Random, folder: Path) -> str:
        model = NATIVE_MODELS[kind]
        path = folder / "mutant"
        if chance.random() < 0.4:
            put(path, mutated_bytes(model.content, chance))
            answer = answer_of(lambda: load_model(path), path)
            ask(answer is None or _same(path, model), "an altered model was accepted")
        else:
            header, tensors = deepcopy(model.header), dict(model.tensors)
            if chance.random() < 0.6:
                header = mutated_tree(header, chance)
            else:
                name = chance.choice([*tensors])
                tensors[name] = mutated_array(tensors[name], chance)
            try:
                content = seeds.put_together(header, tensors)
            except IMPOSSIBLE:
                return "impossible"
            put(path, content)
            answer = answer_of(lambda: load_model(path), path)
            if answer is not None:
                check_predicts(answer)
        return "refused" if answer is None else "accepted"

    return case


def _same(path: Path, model: seeds.Model) -> bool:
    """Whether a file holds the same header and arrays: blanks in the JSON around them do not matter."""
    other = seeds.taken_apart(path.read_bytes())
    if other.header != model.header or other.tensors.keys() != model.tensors.keys():
        return False
    return all(np.array_equal(other.tensors[key], array) for key, array in model.tensors.items())


def check_predicts(model: Any) -> None:
    d = model.n_features_in_
    X = np.eye(2, d) if d <= 1000 else sparse.csr_matrix((2, d))
    with np.errstate(all="ignore"):
        labels = model.predict(X)
    if hasattr(model, "offset_"):
        ask(labels.shape == (2,) and set(labels.tolist()) <= {1, -1}, "labels that are not 1 or -1")
    elif not hasattr(model, "classes_"):
        ask(labels.shape in ((2,), (2, len(model.intercept_))), "not a value for each sample and output")
    else:
        ask(labels.shape == (2,) and set(labels.tolist()) <= set(model.classes_.tolist()), "labels that are no classes")
    if hasattr(model, "certificate_") and getattr(model, "kernel", None) != "precomputed":
        with np.errstate(all="ignore"):
            model.certified_predict(X)


def text_model_case(kind: str) -> Case:
    read = {"LIBLINEAR": read_liblinear, "LIBSVM": read_libsvm}[kind]

    def case(chance: random.Random, folder: Path) -> str:
        content = chance.choice((mutated_bytes, mutated_words))(chance.choice(MODELS_OF_OTHERS[kind]), chance)
        path = put(folder / "mutant", content)
        model = answer_of(lambda: read(path), path)
        if model is None:
            return "refused"
        ask(np.isfinite(model.dual_coef_ if hasattr(model, "kernel") else model.coef_).all(), f"not finite: {content!r}")
        ask(np.isfinite(model.intercept_).all(), f"an intercept that is not finite: {content!r}")
        if kind == "LIBSVM":
            ask(_indices_are_whole(content), f"an index that is no whole number: {content!r}")
        check_predicts(model)
        return "accepted"

    return case


def _indices_are_whole(content: bytes) -> bool:
    words = content.partition(b"\nSV\n")[2].split()
    return all(word.partition(b":")[0].lstrip(b"+").isdigit() for word in words if b":" in word)


def checkpoint_case(chance: random.Random, folder: Path) -> str:
    if chance.random() < 0.5:
        content = mutated_bytes(CHECKPOINT, chance)
    else:
        tensors = {name: mutated_array(array, chance) for name, array in CHECKPOINT_ARRAYS.items()}
        metadata = chance.choice(({"maxmargin": "checkpoint 1"}, {"maxmargin": "checkpoint 2"}, {}, None))
        try:
            content = save_tensors({k: np.ascontiguousarray(a) for k, a in tensors.items()}, metadata)
        except IMPOSSIBLE:
            return "impossible"
    path = put(folder / "mutant", content)
    answer = answer_of(lambda: Checkpoint.open(path), path)
    if answer is None:
        return "refused"
    ask(all(alpha.ndim == 1 and alpha.dtype == np.float64 for alpha in answer.alphas.values()), "an alpha that is no vector")
    return "accepted"


def prepare(folder: Path) -> None:
    """The seeds that take a fit to make."""
    global NATIVE_MODELS, MODELS_OF_OTHERS, CHECKPOINT, CHECKPOINT_ARRAYS, PARQUET, OTHER_PARQUETS, NPZ_PARTS
    NATIVE_MODELS, MODELS_OF_OTHERS = seeds.native(folder), seeds.text_models(folder)
    CHECKPOINT = seeds.checkpoint(folder)
    CHECKPOINT_ARRAYS = load_tensors(CHECKPOINT)
    PARQUET, OTHER_PARQUETS, NPZ_PARTS = seeds.parquet(), seeds.other_parquets(), seeds.matrices()


NATIVE_MODELS: dict[str, seeds.Model] = {}
MODELS_OF_OTHERS: dict[str, list[bytes]] = {}
CHECKPOINT, PARQUET = b"", b""
CHECKPOINT_ARRAYS: dict[str, Array] = {}
OTHER_PARQUETS: list[bytes] = []
NPZ_PARTS: list[dict[str, Array]] = []

TARGETS = [
    Target("svmlight text", 17, SVMLIGHT, svmlight_case),
    Target("svmlight text in pieces", 6, SVMLIGHT, stream_case),
    Target("packed svmlight text", 8, SVMLIGHT, packed_case),
    Target("kernel values", 5, (*SVMLIGHT, f"{READERS}/kernel_values.py"), kernel_values_case),
    Target("npz", 10, (*COMMON, f"{READERS}/npz.py"), npz_case),
    Target("csv", 5, TABLES, csv_case),
    Target("parquet", 5, TABLES, parquet_case),
    *(
        Target(f"native model, {kind}", 3, NATIVE, native_case(kind))
        for kind in ("linear", "linear sharp", "linear words", "kernel sparse", "kernel dense", "kernel values")
    ),
    *(
        Target(f"native model, {kind}", 1, NATIVE, native_case(kind))
        for kind in (
            "linear l1",
            "linear all classes",
            "linear regression",
            "linear regressions",
            "linear one class",
            "regression",
            "regression with weights",
            "nu classes",
            "nu regression",
            "one class",
            "one class of values",
        )
    ),
    Target("LIBLINEAR model", 5, TEXT_MODELS, text_model_case("LIBLINEAR")),
    Target("LIBSVM model", 6, TEXT_MODELS, text_model_case("LIBSVM")),
    Target("checkpoint", 3, (*NATIVE, f"{MODELS}/checkpoint.py"), checkpoint_case),
]
