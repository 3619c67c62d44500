"""Parts of a result file that one run makes anew while the others stay: a section is a heading of the second level."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.datasets import write_text
from benchmarks.measure import machine

MADE = re.compile(r"Wall-clock seconds, the minimum of interleaved repeats\.$")


def section(title: str, parts: Sequence[object]) -> str:
    """The text of a section, with the machine on which it was made: the file's own line may be of another run."""
    made = MADE.sub("Seconds are of the processor (`time.process_time`).", machine())
    return "\n\n".join([f"## {title}", *map(str, parts), f"*{made}*"])


def write_sections(path: Path, sections: Sequence[str]) -> None:
    """Put each section in the place of the one with its heading, or at the end of the file."""
    blocks = re.split(r"\n\n(?=## )", path.read_text(encoding="utf-8").rstrip("\n")) if path.exists() else []
    for text in sections:
        heading = text.partition("\n")[0]
        places = [k for k, block in enumerate(blocks) if block.partition("\n")[0] == heading]
        blocks[places[0] if places else len(blocks) : (places[0] if places else len(blocks)) + 1] = [text]
    write_text(path, "\n\n".join(blocks) + "\n")
    print(f"written: {len(sections)} sections of {path.name}")


def sections_of_others(path: Path, parts: Sequence[object]) -> list[str]:
    """The sections of the file that these parts do not make: another script has, and they are to stay."""
    own = {line for part in parts for line in str(part).split("\n") if line.startswith("## ")}
    blocks = re.split(r"\n\n(?=## )", path.read_text(encoding="utf-8").rstrip("\n"))[1:] if path.exists() else []
    return [block for block in blocks if block.partition("\n")[0] not in own]
