"""What is done: numbers of cases by target, in a file that git ignores, so that a record can be made in pieces.

Case number n of a target is the same on every machine. The counts of a target are dropped when the code that it tests changes;
comments and docstrings do not count as code.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".cache"


@dataclass
class Progress:
    """Of one target."""

    digest: str = ""
    next_case: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    slowest_seconds: float = 0.0
    greatest_growth: int = 0
    """Bytes of address space that a worker took beyond what it had before its first case."""

    @property
    def n_cases(self) -> int:
        """Mutations of which no file can be made do not count."""
        return sum(self.outcomes.values()) - self.outcomes.get("impossible", 0) + len(self.findings)


@dataclass
class State:
    path: Path
    targets: dict[str, Progress] = field(default_factory=dict)

    @classmethod
    def open(cls, name: str) -> State:
        path = FOLDER / name
        if not path.exists():
            return cls(path)
        return cls(path, {key: Progress(**value) for key, value in json.loads(path.read_text()).items()})

    def of(self, target: str, digest: str) -> Progress:
        """What is done of a target, with the code as it is now."""
        if target not in self.targets or self.targets[target].digest != digest:
            self.targets[target] = Progress(digest)
        return self.targets[target]

    def save(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        unfinished = self.path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({key: asdict(value) for key, value in self.targets.items()}, indent=1))
        os.replace(unfinished, self.path)


def check_home() -> None:
    """The digests are those of the sources here: what is installed from elsewhere must not be tested in their place."""
    import maxmargin

    if not Path(maxmargin.__file__).is_relative_to(ROOT):
        raise RuntimeError(f"maxmargin is imported from {maxmargin.__file__}, not from {ROOT}: set PYTHONPATH.")


def digest_of(modules: tuple[str, ...]) -> str:
    """A digest of the code of some modules of the project, named from its root."""
    digest = hashlib.sha256()
    for name in sorted(modules):
        tree = ast.parse((ROOT / name).read_text())
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                node.body = [each for each in body if not _is_docstring(each)]  # type: ignore[attr-defined]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:16]


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
