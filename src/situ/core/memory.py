"""How much memory this machine, or the container that is taken for one, has; and how much of it a query may use."""

from __future__ import annotations

import os
import re
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from situ.core.errors import InputError, MemoryExceeded

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


#: By default a process uses so much of what it may have: others live beside it, and estimates are rough.
SHARE = 0.5


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """How much memory this process may use. Whoever is about to need much asks first (`require`), so that a query that
    asks for too much ends with a message, and not with the process."""

    limit_bytes: int

    @classmethod
    def of_process(cls, beside: int = 1) -> MemoryBudget:
        """Half of what the machine, the container or the process's own limit allows, if `beside` such processes share
        it."""
        own, _ = resource.getrlimit(resource.RLIMIT_AS)
        allowed = memory_bytes() // beside
        return cls(int(SHARE * (allowed if own == resource.RLIM_INFINITY else min(allowed, own))))

    def require(self, more_bytes: int, rule: str, cause: str, remedy: str) -> None:
        """MemoryExceeded, if so much more than is in use now would be too much.

        >>> MemoryBudget(2**50).require(1, "Rise", "it has many windows", "Use fewer.")
        >>> MemoryBudget(1).require(10**9, "Rise", "it has many windows", "Use fewer.")
        Traceback (most recent call last):
        situ.core.errors.MemoryExceeded: Rise needs 1.0 GB more memory, and may use 0.0 GB in all: it has many windows.
          Use fewer. Or allow more: `--memory`, or `memory` of an Engine.
        """
        if used_bytes() + more_bytes > self.limit_bytes:
            raise MemoryExceeded(
                f"{rule} needs {more_bytes / 1e9:.1f} GB more memory, and may use {self.limit_bytes / 1e9:.1f} GB "
                f"in all: {cause}",
                remedy=f"{remedy} Or allow more: `--memory`, or `memory` of an Engine.",
            )


def used_bytes() -> int:
    """The memory that this process has in use now."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE
    except OSError:  # not Linux: the most that it ever was
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def parse_memory(text: str) -> int:
    """Bytes of a size as people write it.

    >>> parse_memory("4GB"), parse_memory("500 MB"), parse_memory("2g")
    (4000000000, 500000000, 2147483648)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{text!r} is no amount of memory", remedy="Write it like 4GB, 500MB, or 2g as Java does.")
    return int(float(match[1]) * _UNITS[match[2].lower()])


_PAGE = os.sysconf("SC_PAGE_SIZE")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]b?)", re.IGNORECASE)
_UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
