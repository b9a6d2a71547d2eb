"""A site that kills itself with SIGKILL, once, at a point of its life: `python killed_site.py POINT NUMBER site ...`,
or a site alone, `run ... --follow`.

POINT is `before` or `after` the commit of that number is on disk; `sent`: when so many frames were given to the wire;
`read`: when another site has said that events of Reading are safe there, and no more than that number of pieces was
read until then. `full`: in its first life, no file may grow beyond that number of bytes. A file beside the journal
remembers that it has happened. Sources are read in small pieces.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from situ.cli.app import main
from situ.runtime.sites.process.site_process import SiteProcess
from situ.runtime.sites.sources import bounded_files
from situ.runtime.sites.sources.bounded_files import BoundedFiles
from situ.runtime.sites.sources.source import SourceRows, slices
from situ.runtime.sites.sqlite_journal import SqliteJournal
from situ.runtime.sites.wire import outgoing
from situ.runtime.sites.wire.frames import Frame

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
    commit, to_wire, receive = SqliteJournal.commit, outgoing.to_wire, SiteProcess._receive
    read = BoundedFiles.read
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

    def first_pieces(self: BoundedFiles, position: str | None) -> Iterator[SourceRows | None]:
        for count, piece in enumerate(read(self, position)):
            if point == "read" and count == number and not (directory / "was-killed").exists():
                threading.Event().wait()  # for the kill
            yield piece

    def watched_receive(self: SiteProcess, peer: str, frame: Frame) -> None:
        receive(self, peer, frame)
        is_safe = frame.header["kind"] == "position" and frame.header["committed"]
        if point == "read" and is_safe and frame.header["log"].startswith("events/Reading/"):
            kill_once(directory)

    BoundedFiles.read = first_pieces  # type: ignore[method-assign]
    SiteProcess._receive = watched_receive  # type: ignore[method-assign]
    SqliteJournal.commit = counted_commit  # type: ignore[method-assign]
    outgoing.to_wire = counted_to_wire


if __name__ == "__main__":
    point, number = sys.argv[1], int(sys.argv[2])
    bounded_files.slices = partial(slices, most=PIECE_ROWS)  # type: ignore[assignment]
    sys.argv = ["situ", *sys.argv[3:]]
    directory = Path(sys.argv[sys.argv.index("--dir" if "--dir" in sys.argv else "--checkpoint") + 1])
    prepare(point, number, directory)
    main()
