"""A site that kills itself with SIGKILL, once, at a point of its life: `python killed_site.py POINT NUMBER site ...`.

POINT is `before` or `after` the commit of that number is on disk, or `sent`: when so many frames were given to the
wire. `full`: in its first life, no file may grow beyond that number of bytes. A file beside the journal remembers that
it has happened. Sources are read in small pieces.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from situ.cli.app import main
from situ.runtime.sites.sources import bounded_files
from situ.runtime.sites.sources.source import slices
from situ.runtime.sites.sqlite_journal import SqliteJournal
from situ.runtime.sites.wire import outgoing

PIECE_ROWS = 100


def kill_once(directory: Path) -> None:
    mark = directory / "was-killed"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def prepare(point: str, number: int, directory: Path) -> None:
    if point == "full" and not (directory / "was-killed").exists():
        (directory / "was-killed").touch()
        resource.setrlimit(resource.RLIMIT_FSIZE, (number, resource.RLIM_INFINITY))
    commit, to_wire = SqliteJournal.commit, outgoing.to_wire
    counts = {"commits": 0, "frames": 0}

    def counted_commit(self: SqliteJournal, *arguments: Any) -> None:
        counts["commits"] += 1
        if point == "before" and counts["commits"] == number:
            kill_once(directory)
        commit(self, *arguments)
        if point == "after" and counts["commits"] == number:
            kill_once(directory)

    def counted_to_wire(frame: Any) -> Any:
        counts["frames"] += 1
        if point == "sent" and counts["frames"] == number:
            kill_once(directory)
        return to_wire(frame)

    SqliteJournal.commit = counted_commit  # type: ignore[method-assign]
    outgoing.to_wire = counted_to_wire


if __name__ == "__main__":
    point, number = sys.argv[1], int(sys.argv[2])
    bounded_files.slices = partial(slices, most=PIECE_ROWS)  # type: ignore[assignment]
    sys.argv = ["situ", *sys.argv[3:]]
    prepare(point, number, Path(sys.argv[sys.argv.index("--dir") + 1]))
    main()
