"""A record in pieces: what was done on which commit.

The counts in ``.cache`` are those of the code at hand, and are dropped when that code changes. A piece outlives them: it is
what one checkout has done, with the name of its commit, in ``PIECES.json`` beside this file. ``python -m fuzz.pieces FOLDER
COMMIT`` takes a piece from the ``.cache`` of a checkout of that commit. A second call for the same commit replaces the first.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fuzz.state import Progress

PIECES = Path(__file__).with_name("PIECES.json")
KINDS = {"fuzz": ("fuzz.json",), "soak": tuple(f"soak-{lane}.json" for lane in range(8)), "kills": ("kills.json",)}
"""The files of each kind of record."""

Piece = dict[str, Progress]
"""What was done of each target."""


def pieces(kind: str, path: Path = PIECES) -> dict[str, Piece]:
    """The pieces of one kind of record, by commit."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text()).get(kind, {})
    return {commit: {name: Progress(**progress) for name, progress in piece.items()} for commit, piece in sorted(found.items())}


def added(parts: list[Progress]) -> Progress:
    """What several pieces have done of one target."""
    total = Progress()
    for part in parts:
        for outcome, count in part.outcomes.items():
            total.outcomes[outcome] = total.outcomes.get(outcome, 0) + count
        total.findings += part.findings
        total.slowest_seconds = max(total.slowest_seconds, part.slowest_seconds)
        total.greatest_growth = max(total.greatest_growth, part.greatest_growth)
    return total


def take(folder: Path, kind: str) -> Piece:
    """What the checkout in ``folder`` has done, all lanes together."""
    states = [json.loads((folder / ".cache" / name).read_text()) for name in KINDS[kind] if (folder / ".cache" / name).exists()]
    names = dict.fromkeys(name for state in states for name in state)
    return {name: added([Progress(**state[name]) for state in states if name in state]) for name in names}


def keep(folder: Path, commit: str, path: Path = PIECES) -> None:
    """Add what a checkout has done to the pieces."""
    everything: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for kind in KINDS:
        piece = take(folder, kind)
        if any(progress.outcomes for progress in piece.values()):
            everything.setdefault(kind, {})[commit] = {name: asdict(progress) for name, progress in piece.items()}
    path.write_text(json.dumps(everything, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="A checkout that has run fuzz.run or fuzz.soak.")
    parser.add_argument("commit", help="The commit of that checkout.")
    options = parser.parse_args()
    keep(options.folder, options.commit)


if __name__ == "__main__":
    main()
