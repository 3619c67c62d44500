"""Valid files of every kind, small, made once for each run."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from scipy import sparse

from fuzz.mutations import DEEP, NESTED
from maxmargin import SVC, SVR, LinearOneClassSVM, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.data.rows import Array
from maxmargin.io import save_model, write_liblinear, write_libsvm, write_svmlight
from maxmargin.models.checkpoint import Checkpoint, Checkpointed
from maxmargin.models.model_file import _digest
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solving.driver import solve

TEXTS = (
    b"1 1:0.5 3:2 7:1e-3\n-1 2:1 5:-0.25\n+1 1:1 2:2 3:3\n",
    b"# a comment\n1 qid:1 1:.5 2:1.5E+2 # more\r\n\r\n-1.5 qid:2 4:123456789.123456789\r\n",
    b"0 0:1 1:2\n3 5:0.1\n\n7\n",
    b"2 1:4.9406564584124654e-324 2:1.7976931348623157e308\n-2 1:0.1 9:9007199254740993\n",
)
KERNEL_VALUES = (b"1 0:1 1:2 2:0.5 3:0\n-1 0:2 1:0.5 2:1 3:0.25\n1 0:3 2:0.25 3:1.5\n",)
TABLE = b"a,b,kind\n1,2.5,good\n-3,0.5,bad\n4e-1,7,good\n0,1,bad\n"


OF_LIBLINEAR = ("linear", "linear regression", "linear one class", "linear l1", "linear all classes")
OF_LIBSVM = ("linear", "kernel sparse", "kernel dense", "nu classes", "regression", "one class", "linear regression")


class Model(NamedTuple):
    """A native model, taken apart."""

    content: bytes
    header: Any
    tensors: dict[str, Array]


def data() -> tuple[Array, Array]:
    X = np.random.default_rng(0).normal(size=(24, 4)).round(2)
    return X, np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1, -1)


def models() -> dict[str, Any]:
    X, y = data()
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    return {
        "linear": LinearSVC(tol=1e-2).fit(X, y),
        "linear sharp": LinearSVC(tol=1e-2, sharp_proofs=True, class_weight={-1: 1.0, 1: 2.0}).fit(X, y),
        "linear words": LinearSVC(tol=1e-2).fit(X, np.array(["no", "yes", "perhaps"])[three]),
        "linear l1": LinearSVC(tol=1e-2, penalty="l1").fit(X, y),
        "linear all classes": LinearSVC(tol=1e-2, multi_class="crammer_singer").fit(X, three),
        "kernel sparse": SVC(gamma=0.3).fit(sparse.csr_matrix(X), three),
        "kernel dense": SVC(kernel="poly").fit(X, y),
        "kernel values": SVC(kernel="precomputed").fit(X @ X.T, y),
        **others(X, y),
    }


def others(X: Array, y: Array) -> dict[str, Any]:
    """Regression, one class and nu."""
    t = X[:, 0] - 2.0 * X[:, 1]
    return {
        "linear regression": LinearSVR(tol=1e-2, penalize_intercept=False).fit(X, t),
        "linear regressions": LinearSVR(tol=1e-2).fit(X, np.column_stack([t, -t])),
        "linear one class": LinearOneClassSVM(tol=1e-2).fit(X),
        "regression": SVR(gamma=0.3).fit(sparse.csr_matrix(X), t),
        "regression with weights": SVR(kernel="poly", degree=2, loss="quantile").fit(X, np.column_stack([t, -t])),
        "nu classes": NuSVC(gamma=0.3, nu=0.2).fit(X, np.digitize(X[:, 0], [-0.5, 0.5])),
        "nu regression": NuSVR(gamma=0.3).fit(X, np.column_stack([t, -t])),
        "one class": OneClassSVM(gamma=0.3).fit(sparse.csr_matrix(X)),
        "one class of values": OneClassSVM(kernel="precomputed").fit(X @ X.T),
    }


def written(write: Any, model: Any, folder: Path) -> bytes:
    write(model, folder / "seed")
    return (folder / "seed").read_bytes()


def native(folder: Path) -> dict[str, Model]:
    return {name: taken_apart(written(save_model, model, folder)) for name, model in models().items()}


def taken_apart(content: bytes) -> Model:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["maxmargin"])
    return Model(content, header, load_tensors(content))


def put_together(header: Any, tensors: dict[str, Array]) -> bytes:
    """A model file with a digest that is right, whatever it holds."""
    text = json.dumps(header).replace(f'"{NESTED}"', DEEP)
    arrays = {key: np.ascontiguousarray(array) for key, array in tensors.items()}
    return save_tensors(arrays, {"maxmargin": text, "sha256": _digest(text, arrays)})


def text_models(folder: Path) -> dict[str, list[bytes]]:
    made = models()
    return {
        "LIBLINEAR": [
            *(written(write_liblinear, made[name], folder) for name in OF_LIBLINEAR),
            written(write_liblinear, _three(), folder),
        ],
        "LIBSVM": [written(write_libsvm, made[name], folder) for name in OF_LIBSVM] + [_one_regression(folder)],
    }


def _one_regression(folder: Path) -> bytes:
    X, _ = data()
    return written(write_libsvm, NuSVR(gamma=0.3).fit(X, X[:, 0]), folder)


def _three() -> Any:
    X, _ = data()
    return LinearSVC(tol=1e-2).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))


def checkpoint(folder: Path) -> bytes:
    X, y = data()
    path = folder / "seed.checkpoint"
    solve(LinearProblem.build(X, y), Checkpointed(DCD(), Checkpoint.open(path), seconds=0.0), tol=1e-3)
    return path.read_bytes()


def text_of_data(folder: Path) -> bytes:
    X, y = data()
    return written(lambda _, path: write_svmlight(X, y, path), None, folder)


def matrices() -> list[dict[str, Array]]:
    """The arrays of .npz files in three formats."""
    X, y = data()
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    csr, csc, coo = sparse.csr_matrix(X), sparse.csc_matrix(X), sparse.coo_matrix(X)
    parts: list[dict[str, Any]] = [
        {"data": m.data, "indices": m.indices, "indptr": m.indptr, "format": np.array(m.format.encode())} for m in (csr, csc)
    ]
    parts.append({"data": coo.data, "row": coo.row, "col": coo.col, "format": np.array(b"coo")})
    return [{**part, "shape": np.array(X.shape), "y": y} for part in parts]


def parquet() -> bytes:
    import pandas as pd

    buffer = io.BytesIO()
    pd.read_csv(io.BytesIO(TABLE)).to_parquet(buffer)
    return buffer.getvalue()


def other_parquets() -> list[bytes]:
    """Tables that are valid, and hold what no data may: words, dates, lists, missing and complex values."""
    import pandas as pd

    tables: list[dict[str, Any]] = [
        {"a": ["x", "y"], "kind": [1, 2]},
        {"a": pd.to_datetime(["2020-01-01", "2020-01-02"]), "kind": [1, 2]},
        {"a": [[1.0], [2.0]], "kind": [1, 2]},
        {"a": [1.0, None], "kind": [1, 2]},
        {"a": [1.0, 2.0], "kind": [None, "b"]},
        {"a": [2**60, 1], "kind": [1, 2]},
        {"a": [1.0, 2.0], "kind": [[1], [2]]},
        {"a": pd.array([1, None], dtype="Int64"), "kind": [1, 2]},
    ]
    contents = []
    for table in tables:
        buffer = io.BytesIO()
        pd.DataFrame(table).to_parquet(buffer)
        contents.append(buffer.getvalue())
    return contents
