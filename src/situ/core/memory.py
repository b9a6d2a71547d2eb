"""How much memory this machine, or the container that is taken for one, has."""

from __future__ import annotations

import os
from pathlib import Path

#: Where Linux says what a container may use: control groups of version 2, and of version 1.
LIMITS = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes(limits: tuple[Path, ...] = LIMITS) -> int:
    """The machine's memory, or the container's if that is less.

    >>> memory_bytes() > 0
    True
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(limit for file in limits if (limit := _limit(file)) is not None)])


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None  # "max": no limit
