"""Mutate valid svmlight files and models, and check what the readers make of them (``make fuzz``).

No crash: the only exception is MalformedFile, with a message that names the file. No hang: the slowest answer is recorded. No
wrong acceptance: what ``read_svmlight`` accepts, a plain Python reading of the same bytes accepts with the same numbers, and
the other way round; a native model is refused whenever a byte differs; a text model that is accepted holds finite numbers.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin import SVC, LinearSVC
from maxmargin.io import (
    MalformedFile,
    load_model,
    read_liblinear,
    read_libsvm,
    read_svmlight,
    save_model,
    write_liblinear,
    write_libsvm,
)

RECORD = Path(__file__).with_name("RECORD.md")
SLOW_SECONDS = 5.0

NUMBER = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
FEATURE = re.compile(rb"(\d+):(" + NUMBER.pattern + rb")")
QUERY = re.compile(rb"qid:(\d+)")
BLANK = re.compile(rb"[ \t\r]+")
SEEDS = (
    b"1 1:0.5 3:2 7:1e-3\n-1 2:1 5:-0.25\n+1 1:1 2:2 3:3\n",
    b"# a comment\n1 qid:1 1:.5 2:1.5E+2 # more\r\n\r\n-1.5 qid:2 4:123456789.123456789\r\n",
    b"0 0:1 1:2\n3 5:0.1\n\n7\n",
    b"2 1:4.9406564584124654e-324 2:1.7976931348623157e308\n-2 1:0.1 9:9007199254740993\n",
)
TOKENS = (*b"nan inf -inf : :: 1e999 qid: # \n \r \x00 \xff , 0: 99999999999:1 - + e .".split(b" "), b" ")


def plain_reading(content: bytes) -> tuple[list[float], list[dict[int, float]]] | None:
    """The labels and features of a file by regular expressions and ``float``, or None where it is malformed."""
    labels, rows = [], []
    for line in content.split(b"\n"):
        words = BLANK.sub(b" ", line.split(b"#")[0]).strip(b" ").split(b" ")
        if words == [b""]:
            continue
        if not NUMBER.fullmatch(words[0]) or not np.isfinite(float(words[0])):
            return None
        row: dict[int, float] = {}
        for word in words[1:]:
            query, feature = QUERY.fullmatch(word), FEATURE.fullmatch(word)
            if query and not row and int(query[1]) < 2**31:
                continue
            if not feature or int(feature[1]) >= 2**31 or (row and int(feature[1]) <= max(row)):
                return None
            if not np.isfinite(float(feature[2])):
                return None
            row[int(feature[1])] = float(feature[2])
        labels.append(float(words[0]))
        rows.append(row)
    return (labels, rows) if labels else None


def check_svmlight(path: Path, content: bytes) -> str:
    expected = plain_reading(content)
    try:
        X, y = read_svmlight(path, zero_based=True)
    except MalformedFile as error:
        assert str(error).startswith(str(path)), error
        assert expected is None, f"refused, but it is well formed: {error}\n{content!r}"
        return "refused"
    assert expected is not None, f"accepted, but it is malformed\n{content!r}"
    labels, rows = expected
    assert y.tolist() == labels, content
    for i, row in enumerate(rows):
        found = dict(zip(X[[i]].indices.tolist(), X[[i]].data.tolist(), strict=True))
        assert found == row, content
    return "accepted"


def check_native(original: bytes) -> Callable[[Path, bytes], str]:
    def check(path: Path, content: bytes) -> str:
        try:
            load_model(path)
        except MalformedFile as error:
            assert str(error).startswith(str(path)), error
            return "refused"
        assert content == original, "an altered model was accepted"
        return "accepted"

    return check


def check_text(read: Callable[[Path], Any]) -> Callable[[Path, bytes], str]:
    def check(path: Path, content: bytes) -> str:
        try:
            model = read(path)
        except MalformedFile as error:
            assert str(error).startswith(str(path)), error
            return "refused"
        assert np.isfinite(model.dual_coef_ if isinstance(model, SVC) else model.coef_).all(), content
        assert np.isfinite(model.intercept_).all(), content
        with np.errstate(all="ignore"):
            assert model.predict(sparse.csr_matrix((1, model.n_features_in_))).shape == (1,)
        return "accepted"

    return check


def mutated(content: bytes, chance: random.Random) -> bytes:
    """One to four small accidents."""
    data = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if data:
                data[at % len(data)] = chance.randrange(256)
            case 1:
                data[at:at] = chance.choice(TOKENS)
            case 2:
                del data[at : at + chance.randint(1, 8)]
            case 3:
                data[at:at] = data[chance.randrange(len(data) + 1) :][: chance.randint(1, 20)]
            case 4:
                del data[at:]
            case _ if data:
                data[at % len(data)] = ord(chance.choice("0123456789.:-+eE \n"))
    return bytes(data)


def targets(folder: Path) -> dict[str, tuple[list[bytes], Callable[[Path, bytes], str]]]:
    """What is mutated, and how each answer is checked."""
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = LinearSVC(tol=1e-2).fit(X, np.where(X[:, 0] > 0, 1, -1))
    machine = SVC(gamma=0.3).fit(sparse.csr_matrix(X), np.digitize(X[:, 0], [-0.5, 0.5]))
    contents = {}
    for name, write, written in (
        ("native", save_model, model),
        ("liblinear", write_liblinear, model),
        ("libsvm", write_libsvm, model),
        ("native kernel", save_model, machine),
        ("libsvm kernel", write_libsvm, machine),
    ):
        write(written, folder / name)
        contents[name] = (folder / name).read_bytes()
    return {
        "svmlight files": (list(SEEDS), check_svmlight),
        "native models": ([contents["native"]], check_native(contents["native"])),
        "LIBLINEAR models": ([contents["liblinear"]], check_text(read_liblinear)),
        "LIBSVM models": ([contents["libsvm"]], check_text(read_libsvm)),
        "native kernel models": ([contents["native kernel"]], check_native(contents["native kernel"])),
        "LIBSVM kernel models": ([contents["libsvm kernel"]], check_text(read_libsvm)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("error")
    chance, slowest = random.Random(options.seed), 0.0
    outcomes: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "mutant"
        kinds = targets(folder)
        names = [*kinds, *["svmlight files"] * 4]  # the parser gets half of them
        for _ in range(options.mutations):
            kind = chance.choice(names)
            seeds, check = kinds[kind]
            content = mutated(chance.choice(seeds), chance)
            path.write_bytes(content)
            started = time.process_time()
            outcomes.setdefault(kind, Counter())[check(path, content)] += 1
            slowest = max(slowest, time.process_time() - started)
            assert slowest < SLOW_SECONDS, content
    rows = "".join(
        f"| {kind} | {sum(c.values())} | {c['accepted']} | {c['refused']} |\n" for kind, c in sorted(outcomes.items())
    )
    record = (
        f"# Fuzzing record\n\n`python -m fuzz.mutate --mutations {options.mutations} --seed {options.seed}`: no crash, no hang "
        f"(slowest answer {slowest:.2f} s of processor time, compilation included), no wrong acceptance, no wrong refusal.\n\n"
        f"| what | mutations | accepted | refused |\n|---|---:|---:|---:|\n{rows}"
    )
    RECORD.write_text(record)
    print(record)


if __name__ == "__main__":
    main()
