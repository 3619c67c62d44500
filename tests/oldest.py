"""Print the lower bounds of pyproject.toml as pins: ``numpy>=1.26`` becomes ``numpy==1.26``. Used by ``make test-oldest``."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
bounds = [*project["dependencies"], *extras["test"], *extras["dask"]]
pins = sorted({re.sub(r"\s*>=\s*", "==", bound) for bound in bounds})
if loose := [pin for pin in pins if "==" not in pin]:
    raise SystemExit(f"No lower bound: {', '.join(loose)}.")
pins.append("pyparsing==3.1.0")  # which matplotlib asks for without an upper bound; 3.8 calls what pyparsing 3.3 warns of
print("\n".join(pins))
