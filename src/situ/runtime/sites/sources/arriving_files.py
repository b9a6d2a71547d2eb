"""Files that are moved into a directory, each read once, by its name, in the order in which they were seen.

Which files those were stands in a list in the site's directory, a line for each, written before a file is read. The
position is a line of that list and a row of its file, so that it stays small however many files have come.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from situ.core.errors import StateError
from situ.core.types import to_arrow
from situ.graph.query import Stream
from situ.io.files.arriving import ArrivingFileReader, check_files, require_directory
from situ.io.files.root import Root
from situ.io.permissions import PRIVATE
from situ.io.rows.ahead import reject_ahead
from situ.io.rows.conform import Conformed
from situ.runtime.sites.sources.source import (
    OTHER_SOURCE,
    SourceRows,
    position_of_text,
    position_to_text,
    slices,
)

#: A directory whose last change is so long ago, and has been seen, has no other files than then.
_SETTLED_NS = 2_000_000_000


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
        self._is_flat, self._scanned_ns = False, 0
        self._reader = ArrivingFileReader(stream, Root.of(directory))
        self._no_events = pa.schema([(a.name, to_arrow(a.type)) for a in stream.attributes]).empty_table()

    def read(self, position: str | None) -> Iterator[SourceRows | None]:
        line, row = self._place_of(position)
        names = self._names()
        if line > len(names):
            raise StateError(
                f"{line} files were read, and the list has {len(names)}", place=str(self._list), remedy=OTHER_SOURCE
            )
        seen = {*names}
        while True:
            while line < len(names):
                yield from self._read_file(line, names[line], row)
                line, row = line + 1, 0
            arrived = self._arrived(seen)
            if not arrived:
                if self._once:
                    return
                yield None
                continue
            self._append(arrived)
            names += arrived
            seen |= {*arrived}

    def taken(self, position: str) -> None:
        """Files stay where they are."""

    def close(self) -> None:
        """Nothing is open between two reads."""

    def _read_file(self, line: int, name: str, first_row: int) -> Iterator[SourceRows]:
        """The rows of a file from a row on; rejected ones count as rows, too."""
        row = 0
        pieces = (piece for part in self._parts(self._directory / name) for piece in slices(part))
        last: SourceRows | None = None
        for piece in pieces:
            begin, row = row, row + len(piece.times) + piece.rejected.num_rows
            if last is not None:
                yield last
            last = None
            if begin >= first_row and row > begin:
                last = SourceRows(piece, position_to_text({"file": line, "row": row}))
        end = position_to_text({"file": line + 1, "row": 0})
        yield SourceRows(None, end) if last is None else SourceRows(last.rows, end)

    def _parts(self, file: Path) -> Iterator[Conformed]:
        for part in self._reader.read(file):
            if not part.events.num_columns:  # a file of which nothing is an event
                part = Conformed(self._no_events, part.times, part.rejected)
            yield reject_ahead(part, self._reader.stream, round(time.time() * 1e6), str(file))

    def _place_of(self, position: str | None) -> tuple[int, int]:
        if position is None:
            return 0, 0
        place = position_of_text(position, str(self._directory))
        return int(place.get("file", 0)), int(place.get("row", 0))

    def _names(self) -> list[str]:
        """The list, without a last line that was not written whole."""
        if not self._list.exists():
            PRIVATE.open_new(self._list).close()
        *lines, rest = self._list.read_bytes().split(b"\n")
        if rest:
            with self._list.open("r+b") as file:
                file.truncate(self._list.stat().st_size - len(rest))
        return [json.loads(line) for line in lines]

    def _append(self, names: list[str]) -> None:
        with self._list.open("ab") as file:
            file.write(b"".join(json.dumps(name).encode() + b"\n" for name in names))
            file.flush()
            os.fsync(file.fileno())

    def _arrived(self, seen: set[str]) -> list[str]:
        """Names of files that were not there before, the oldest first."""
        changed_ns = self._directory.stat().st_mtime_ns
        # Times of directories are coarse: one that has changed just now may change again without a sign of it.
        if self._is_flat and changed_ns == self._scanned_ns and time.time_ns() - changed_ns > _SETTLED_NS:
            return []
        found: list[tuple[int, str]] = []
        folders, self._is_flat, self._scanned_ns = [self._directory], True, changed_ns
        while folders:
            folder = folders.pop()
            for entry in os.scandir(folder):
                if entry.name.startswith((".", "_")):
                    continue
                if entry.is_dir():
                    folders.append(Path(entry.path))
                    self._is_flat = False
                elif (name := str(Path(entry.path).relative_to(self._directory))) not in seen:
                    found.append((entry.stat().st_mtime_ns, name))
        return [name for _, name in sorted(found)]
