"""How much memory a reader may use. What a file asks for is compared with what the machine has before anything is allocated."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from maxmargin.io import policy
from maxmargin.io.files import MalformedFile

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""The files in which Linux says how much memory a container may use: cgroups version 2 and version 1."""


def check_room(path: str | os.PathLike[str], n_bytes: int, what: str) -> None:
    """Refuse a file whose content would need more than a stated share of the memory."""
    allowed = int(policy.MEMORY.share_of_memory * memory_bytes())
    if n_bytes > allowed:
        raise MalformedFile(path, f"{what} would need {_gigabytes(n_bytes)}; {_gigabytes(allowed)} may be used here")


def check_width(path: str | os.PathLike[str], n_features: int, line: int | None = None, column: int | None = None) -> None:
    """Refuse data so wide that the weights of a linear fit would not fit in memory."""
    needed = 8 * policy.MEMORY.vectors_of_a_fit * n_features
    allowed = int(policy.MEMORY.share_of_memory * memory_bytes())
    if needed > allowed:
        sentence = f"a fit with {n_features} features would need {_gigabytes(needed)}; {_gigabytes(allowed)} may be used here"
        raise MalformedFile(path, sentence, line, column)


@cache
def memory_bytes() -> int:
    """The memory of the machine, or of the container or the process where those have a limit of their own."""
    return min([_physical_bytes(), *_container_limits(), *_process_limits()])


def _physical_bytes() -> int:
    if not hasattr(os, "sysconf"):  # not a POSIX system: no limit is known
        return 1 << 62
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _container_limits() -> list[int]:
    texts = [Path(name).read_text().strip() for name in CGROUP_LIMITS if os.access(name, os.R_OK)]
    return [int(text) for text in texts if text.isdigit()]  # "max" is no limit


def _process_limits() -> list[int]:
    try:
        import resource
    except ImportError:  # not a POSIX system
        return []
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return [] if limit == resource.RLIM_INFINITY else [limit]


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB"
