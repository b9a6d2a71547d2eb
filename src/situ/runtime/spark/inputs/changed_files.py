"""Files of a source that have changed after Spark took note of them.

Spark reads a file once, by its name. What is added to it later, or replaces it, is never read, and Spark says nothing
about it. Its log of a source says when each file had last been changed, so a look at the files tells.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Between two looks. They may take one part in so many of the time, however many files there are.
PERIOD_S, SHARE = 10.0, 50


@dataclass
class ChangedFiles:
    """Looks at the files that Spark's logs name, below `logs`: DIR/spark/sources."""

    logs: Path
    clock: Callable[[], float] = time.monotonic
    _read_logs: set[Path] = field(default_factory=set, init=False)
    _modified_ms: dict[str, int] = field(default_factory=dict, init=False)
    _next_look: float = field(default=0.0, init=False)

    def look(self, *, now: bool = False) -> str:
        """A warning about files that have changed, each of them once; empty if there are none, or if it is not yet time
        for a look."""
        begun = self.clock()
        if begun < self._next_look and not now:
            return ""
        self._read_new_logs()
        changed = [path for path, modified_ms in self._modified_ms.items() if _differs(path, modified_ms)]
        for path in changed:
            del self._modified_ms[path]
        ended = self.clock()
        self._next_look = ended + max(PERIOD_S, SHARE * (ended - begun))
        return warning_of(changed)

    def _read_new_logs(self) -> None:
        new_logs = {path for path in self.logs.glob("*/*") if path.is_file() and path.name[0].isdigit()}
        for log in sorted(new_logs - self._read_logs):
            for path, modified_ms in _entries(log):
                self._modified_ms.setdefault(path, modified_ms)
            self._read_logs.add(log)


def warning_of(changed: list[str]) -> str:
    """
    >>> warning_of(["in/a.csv", "in/b.csv", "in/c.csv"])[:57]
    'in/a.csv and 2 more have changed after situ took note of '
    """
    if not changed:
        return ""
    others = f" and {len(changed) - 1} more have" if len(changed) > 1 else " has"
    return (
        f"{changed[0]}{others} changed after situ took note of it, and what is new there is not read: a file is read "
        "once, by its name. Move further events in as files of other names"
    )


def _differs(path: str, modified_ms: int) -> bool:
    try:
        return Path(path).stat().st_mtime_ns // 1_000_000 != modified_ms
    except OSError:  # it has been cleared away, or is of another machine
        return False


def _entries(log: Path) -> Iterator[tuple[str, int]]:
    """Path and time of the files in a log. Logs of sources that are no directories have other entries, or none."""
    try:
        lines = log.read_text(encoding="utf-8").splitlines()[1:]  # the first one is a version
    except (OSError, UnicodeDecodeError):  # gone since it was listed, or damaged: Spark says so
        return
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and {"path", "timestamp"} <= entry.keys():
            yield unquote(urlsplit(entry["path"]).path), entry["timestamp"]
