"""Files that are moved into a directory, each read once, by its name, in the order in which they were seen.

Which files those were stands in a list in the site's directory, a line for each. The position is a line of that list
and a row of its file, so that it stays small however many files have come. The list is brought to the disk now and
then; until that, the position has the names itself, because to wait for the disk at each file would take longer than
to read most of them.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from situ.core.errors import StateError
from situ.core.types import to_arrow
from situ.graph.query import Stream
from situ.io.files.arriving import ArrivingFileReader, check_files, require_directory
from situ.io.files.root import Root
from situ.io.permissions import PRIVATE
from situ.io.rows.ahead import reject_ahead
from situ.io.rows.conform import Conformed
from situ.io.whole_file import write_whole
from situ.runtime.sites.sources.directory_watch import DirectoryWatch
from situ.runtime.sites.sources.source import (
    OTHER_SOURCE,
    SourceRows,
    position_of_text,
    position_to_text,
    slices,
)

#: A directory whose last change is so long ago, and has been seen, has no other files than then.
_SETTLED_NS = 2_000_000_000
#: How long a file is waited for before the directory is looked at again, where the system tells of files and elsewhere.
_TOLD_S, _LOOK_S = 0.05, 0.005
#: It is looked at so often, however many files are told: others may come over a network file system.
_LOOK_AGAIN_S = 5.0
#: Names that a position has itself, at most.
_NAMES = 64


class ArrivingFiles:
    """A directory. `work` is where the list of its files is kept. With `once`, reading ends with what is there;
    the stream does not: more may be read another time.

    When it is first opened, files that are there and do not fit the stream are an InputError: most likely the
    declaration is wrong. Rows of such files that come later are rejected.
    """

    def __init__(self, directory: Path, stream: Stream, work: Path, once: bool = False) -> None:
        require_directory(directory)
        self._directory, self._once = directory, once
        self._list = work / "files.jsonl"
        if not self._list.exists():
            check_files(directory, stream)
            PRIVATE.make_directory(work)
        self._is_flat, self._scanned_ns, self._looked_s = False, 0, 0.0
        #: Files that were read, and of these the last ones, which may not be on the disk of the list.
        self._read, self._recent = 0, deque[str]()
        self._reader = ArrivingFileReader(stream, Root.of(directory))
        self._no_events = pa.schema([(a.name, to_arrow(a.type)) for a in stream.attributes]).empty_table()

    def read(self, position: str | None) -> Iterator[SourceRows | None]:
        place = {} if position is None else position_of_text(position, str(self._directory))
        names, row = self._restored_list(place), int(place.get("row", 0))
        self._read = int(place.get("file", 0))
        seen, unread = {*names}, deque(names[self._read :])
        del names
        watch = DirectoryWatch(self._directory)
        try:
            arrived = self._scan(seen)
            while True:
                self._append(arrived)
                unread.extend(arrived)
                seen.update(arrived)
                while unread:
                    yield from self._read_file(unread.popleft(), row)
                    row = 0
                arrived = self._arrived(watch, seen)
                if not arrived:
                    if self._once:
                        return
                    yield None
        finally:
            watch.close()

    def taken(self, position: str) -> None:
        """Files stay where they are."""

    def close(self) -> None:
        """Nothing is open between two reads."""

    def _read_file(self, name: str, first_row: int) -> Iterator[SourceRows]:
        """The rows of a file from a row on; rejected ones count as rows, too."""
        row = 0
        pieces = (piece for part in self._parts(self._directory / name) for piece in slices(part))
        last: SourceRows | None = None
        self._recent.append(name)
        for piece in pieces:
            begin, row = row, row + len(piece.times) + piece.rejected.num_rows
            if last is not None:
                yield last
            last = None
            if begin >= first_row and row > begin:
                last = SourceRows(piece, self._position(row))
        self._read += 1
        yield SourceRows(None if last is None else last.rows, self._position(0))
        if len(self._recent) >= _NAMES:
            self._bring_to_disk()

    def _position(self, row: int) -> str:
        return position_to_text({"file": self._read, "row": row, "names": list(self._recent)})

    def _parts(self, file: Path) -> Iterator[Conformed]:
        for part in self._reader.read(file):
            if not part.events.num_columns:  # a file of which nothing is an event
                part = Conformed(self._no_events, part.times, part.rejected)
            yield reject_ahead(part, self._reader.stream, round(time.time() * 1e6), str(file))

    def _restored_list(self, place: dict[str, Any]) -> list[str]:
        """The list, as a position knows it. What was lost with the power of the machine stands in the position; names
        after that were not read, and are found again."""
        recent = list(place.get("names", ()))
        begin = int(place.get("file", 0)) + (int(place.get("row", 0)) > 0) - len(recent)
        if not self._list.exists():
            PRIVATE.open_new(self._list).close()
        names = whole_lines(self._list.read_bytes())
        if begin > len(names):
            raise StateError(
                f"{begin} files were read, and the list has {len(names)}", place=str(self._list), remedy=OTHER_SOURCE
            )
        if names[begin : begin + len(recent)] != recent:
            names = [*names[:begin], *recent]
        write_whole(self._list, "".join(json.dumps(name) + "\n" for name in names))
        return names

    def _append(self, names: list[str]) -> None:
        if names:
            with self._list.open("ab") as file:
                file.write(b"".join(json.dumps(name).encode() + b"\n" for name in names))

    def _bring_to_disk(self) -> None:
        with self._list.open("ab") as file:
            os.fsync(file.fileno())
        self._recent.clear()

    def _arrived(self, watch: DirectoryWatch, seen: set[str]) -> list[str]:
        """Names of files that were not there before, the oldest first; waits a moment for them."""
        if self._once:
            return self._scan(seen)
        told = watch.names(_TOLD_S if watch.works else _LOOK_S)
        is_time = not self._is_flat or time.monotonic() > self._looked_s + _LOOK_AGAIN_S
        if not told or is_time:  # nothing, or more than was told
            return self._scan(seen)
        arrived = {name for name in told if not name.startswith((".", "_"))} - seen
        dated: list[tuple[int, str]] = []
        for name in arrived:
            with suppress(FileNotFoundError):  # moved on already
                dated.append(((self._directory / name).stat().st_mtime_ns, name))
        return [name for _, name in sorted(dated)]

    def _scan(self, seen: set[str]) -> list[str]:
        """Looks for names of files that were not there before, also in folders below."""
        self._looked_s = time.monotonic()
        changed_ns = self._directory.stat().st_mtime_ns
        # Times of directories are coarse: one that has changed just now may change again without a sign of it.
        if self._is_flat and changed_ns == self._scanned_ns and time.time_ns() - changed_ns > _SETTLED_NS:
            return []
        found: list[tuple[int, str]] = []
        folders, self._is_flat, self._scanned_ns = [""], True, changed_ns
        while folders:
            folder = folders.pop()
            for entry in os.scandir(self._directory / folder):
                if entry.name.startswith((".", "_")) or (name := folder + entry.name) in seen:
                    continue
                if entry.is_dir():
                    folders.append(f"{name}/")
                    self._is_flat = False
                else:
                    found.append((entry.stat().st_mtime_ns, name))
        return [name for _, name in sorted(found)]


def whole_lines(data: bytes) -> list[str]:
    """The names in a list, up to the first line that was not written whole.

    >>> whole_lines(b'"a.csv"\\n"b.c')
    ['a.csv']
    """
    names: list[str] = []
    for line in data.split(b"\n")[:-1]:
        try:
            name = json.loads(line)
        except ValueError:
            break
        if not isinstance(name, str):
            break
        names.append(name)
    return names
