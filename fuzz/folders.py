"""Blocks on a disk, and the checkpoints of fits by blocks: a list or a file that is altered, with checksums that are right."""

from __future__ import annotations

import json
import random
import shutil
import zlib
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as save_tensors
from scipy import sparse

from fuzz import seeds
from fuzz.mutations import DEEP, NESTED, mutated_array, mutated_bytes, mutated_tree
from fuzz.targets import COMMON, IMPOSSIBLE, READERS, Target, answer_of, ask, put
from maxmargin.io import Blocks, MalformedFile, to_blocks
from maxmargin.problem.losses import Hinge
from maxmargin.scale_out.block_list import LIST
from maxmargin.scale_out.checkpoint import PassesCheckpoint, SavedTo
from maxmargin.scale_out.executors import OnDisk
from maxmargin.scale_out.passes import Framing

MODULES = (*COMMON, f"{READERS}/schema.py", *(f"src/maxmargin/scale_out/{name}.py" for name in ("block_list", "blocks")))
VALID: dict[str, dict[str, bytes]] = {}
"""The files of valid folders, by what is in them."""


def prepare(folder: Path) -> None:
    """Blocks of a sparse X, of a dense one with weights, and of labels that are words."""
    X, y = seeds.data()
    kinds: dict[str, dict[str, Any]] = {
        "sparse": {"source": sparse.csr_matrix(X), "y": y},
        "dense": {"source": X, "y": y, "sample_weight": np.ones(len(y))},
        "words": {"source": X, "y": np.array(["no", "yes"])[(y > 0).astype(int)]},
    }
    for kind, words in kinds.items():
        home = folder / f"blocks-{kind}"
        to_blocks(folder=home, block_bytes=400, **words)
        VALID[kind] = {path.name: path.read_bytes() for path in home.iterdir()}


def blocks_case(chance: random.Random, folder: Path) -> str:
    """The list as bytes or as a tree, or the numbers of a block under a new checksum. What is accepted can be used."""
    home = folder / "blocks"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    files = dict(VALID[chance.choice([*VALID])])
    match chance.randrange(4):
        case 0:
            files[LIST] = mutated_bytes(files[LIST], chance)
        case 1:
            files = _with_other_bytes(files, chance)
        case _:
            tree = mutated_tree(deepcopy(json.loads(files[LIST])), chance)
            files[LIST] = json.dumps(tree).replace(f'"{NESTED}"', DEEP).encode("utf-8", "surrogatepass")
    for name, content in files.items():
        put(home / name, content)
    try:
        blocks = Blocks(home)
        for block in blocks:
            check_block(block, blocks)
    except MalformedFile as error:
        ask(str(error).startswith(str(home)), f"the sentence does not begin with the file: {error}")
        return "refused"
    return "accepted"


def _with_other_bytes(files: dict[str, bytes], chance: random.Random) -> dict[str, bytes]:
    """One block altered; half of the time its checksum is made right."""
    description = json.loads(files[LIST])
    entry = chance.choice(description["blocks"])
    content = mutated_bytes(files[entry["file"]], chance)
    if chance.random() < 0.5:
        content = content[: entry["n_bytes"]].ljust(entry["n_bytes"], b"\1")
        entry["checksum"] = zlib.crc32(content)
    return {**files, entry["file"]: content, LIST: json.dumps(description).encode()}


def check_block(block: Any, blocks: Blocks) -> None:
    """What the compiled loops trust."""
    X, n = block.X, len(block.y)
    ask(X.shape == (n, blocks.n_features), "another shape")
    stored = X
    if sparse.issparse(X):
        stored, starts = X.data, X.indptr.astype(object)
        ask(len(starts) == n + 1 and starts[0] == 0 and starts[-1] <= len(X.indices) == len(stored), "indptr is wrong")
        ask(all(a <= b for a, b in pairwise(starts)), "indptr falls")
        ask(all(0 <= j < X.shape[1] for j in X.indices.astype(object)), "an index out of range")
    ask(stored.dtype in (np.float64, np.float32) and np.isfinite(stored).all(), "values are wrong")
    ask(blocks.classes is None or np.isin(block.y, blocks.classes).all(), "a label that is no class")


def checkpoint_case(chance: random.Random, folder: Path) -> str:
    """A checkpoint of a fit by blocks: bytes, or other arrays under the same key."""
    home = folder / "blocks-sparse"
    blocks, framing = Blocks(home), Framing(Hinge(), 1.0, 1.0, 4, 1)
    tensors = {"fit": np.frombuffer(b"this", np.uint8), "alpha 0": np.full(blocks.n_samples, 0.5), "w 0": np.ones(5)}
    if chance.random() < 0.7:
        name = chance.choice([*tensors])
        tensors[name] = mutated_array(tensors[name], chance)
    try:
        content = save_tensors({name: np.ascontiguousarray(array) for name, array in tensors.items()})
    except IMPOSSIBLE:
        return "impossible"
    path = put(folder / "mutant", content if chance.random() < 0.6 else mutated_bytes(content, chance))
    executor = OnDisk(blocks, [framing])
    answer = answer_of(lambda: PassesCheckpoint.open(SavedTo.of(path), "this", executor), path)
    if answer is None:
        return "refused"
    ask(
        all(len(m.alpha) == entry.n_rows for m, entry in zip(executor.memories[0], blocks.entries, strict=True)),
        "alpha is short",
    )
    ask(len(answer.starts[0]) in (0, 5), "w is of another length")
    return "accepted"


TARGETS = [
    Target("blocks", 3, MODULES, blocks_case),
    Target("checkpoint of blocks", 1, (*MODULES, "src/maxmargin/scale_out/checkpoint.py"), checkpoint_case),
]
