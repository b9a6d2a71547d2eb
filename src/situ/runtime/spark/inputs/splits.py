"""Parquet files in splits: what a task reads by itself, with Arrow.

The driver reads footers, once. A split names a file and neighbouring row groups of it, and says what their statistics
say: how many rows there are, between which times, and whether all of them are events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa

from situ.graph.query import Stream
from situ.io.files.parquet import CHUNK_ROWS, ParquetFile, RowGroups
from situ.io.files.root import Root
from situ.io.rows.conform import Conformed, checked_columns, rejected_table
from situ.kernel.operator import Conditions
from situ.runtime.spark.inputs.ruled_out import Bounds, may_hold_somewhere


@dataclass(frozen=True, slots=True)
class Split:
    """Neighbouring row groups of a file, of which the first row has the number `first_row` there. `time_range`: no
    event lies outside of these times; None if that is not known. `all_events`: no row is rejected.
    `is_apart`: no other split of the stream has events between these times."""

    path: str
    groups: tuple[int, ...]
    first_row: int
    rows: int
    time_range: tuple[int, int] | None
    all_events: bool
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class SplitFiles:
    """The files of a stream: where somebody said they are, and their splits."""

    root: Root
    splits: tuple[Split, ...]


def splits_of(file: ParquetFile, path: str, stream: Stream) -> Iterator[Split]:
    """The splits of a file, about CHUNK_ROWS rows each; `path` is where workers find it."""
    is_timed_only = checked_columns(stream, file.conversions) == {stream.time}
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    first_rows = [0, *accumulate(sizes)]
    ranges = {group: file.time_range(group, stream) for group, rows in enumerate(sizes) if rows}
    begin = 0
    for end in range(1, len(sizes) + 1):
        if end < len(sizes) and first_rows[end + 1] - first_rows[begin] <= CHUNK_ROWS:
            continue
        groups = tuple(group for group in range(begin, end) if sizes[group])
        if groups:
            time_range = _span([ranges[group] for group in groups])
            rows = first_rows[end] - first_rows[begin]
            yield Split(path, groups, first_rows[begin], rows, time_range, is_timed_only and time_range is not None)
        begin = end


def told_apart(splits: Sequence[Split]) -> tuple[Split, ...]:
    """The splits of a stream, which say whether they lie apart from each other."""
    if any(split.time_range is None for split in splits):
        return tuple(splits)
    ranges = [split.time_range or (0, 0) for split in splits]
    order = sorted(range(len(splits)), key=ranges.__getitem__)
    is_apart = [True] * len(splits)
    last_us, last = None, -1
    for number in order:
        first_us, end_us = ranges[number]
        if last_us is not None and first_us <= last_us:
            is_apart[number] = is_apart[last] = False
        if last_us is None or end_us > last_us:
            last_us, last = end_us, number
    return tuple(replace(split, is_apart=apart) for split, apart in zip(splits, is_apart, strict=True))


def _span(ranges: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    bounded = [range_ for range_ in ranges if range_ is not None]
    if len(bounded) < len(ranges):
        return None
    return min(first for first, _ in bounded), max(last for _, last in bounded)


# ---- in a task


@dataclass
class SplitReader:
    """Opens the files of splits, each once. `tests`: rows that fulfil none of them need not be read; None: all rows."""

    stream: Stream
    root: Root
    tests: Sequence[Conditions] | None = None
    _files: dict[str, ParquetFile] = field(default_factory=dict)

    def row_groups(self, split: Split) -> RowGroups:
        """What there is to read of a split. Row groups that statistics rule out are left out, if no row of them is to
        be rejected."""
        if split.path not in self._files:
            self._files[split.path] = ParquetFile.checked(Path(split.path), self.stream)
        file, groups, tests = self._files[split.path], split.groups, self.tests
        if tests is not None and split.all_events:
            groups = tuple(group for group in groups if may_hold_somewhere(tests, self._bounds(file, group)))
        return RowGroups(file, self.stream, groups, split.first_row)

    def _bounds(self, file: ParquetFile, group: int) -> Bounds:
        return lambda attribute: file.bounds(group, attribute, self.stream)

    def with_shown_places(self, part: Conformed) -> Conformed:
        """The rejected rows of a part with places as the user would write them."""
        if part.rejected.num_rows == 0:
            return part
        reasons, rows, places = (column.to_pylist() for column in part.rejected.columns)
        return Conformed(part.events, part.times, rejected_table(reasons, rows, list(map(self.root.shown, places))))


class SplitChunk:
    """A split as a chunk: of its events those from `since_us` on and up to `until_us`, and its rejected rows if
    `rejects`."""

    def __init__(self, reader: SplitReader, split: Split, since_us: int, until_us: int, rejects: bool) -> None:
        assert split.time_range is not None
        self.rows = split.rows
        self.time_range = max(split.time_range[0], since_us), min(split.time_range[1], until_us)
        self._reader, self._split, self._rejects = reader, split, rejects
        self._is_whole = self.time_range == split.time_range
        self._row_groups: RowGroups | None = None

    def read(self, columns: Sequence[str]) -> Conformed:
        if self._row_groups is None:
            self._row_groups = self._reader.row_groups(self._split)
        part = self._row_groups.read(columns)
        part = self._reader.with_shown_places(part) if self._rejects else _without_rejected(part)
        return part if self._is_whole else events_between(part, *self.time_range)


def events_between(part: Conformed, first_us: int, last_us: int) -> Conformed:
    """The events of a part between two times, both included, in their order.

    >>> times = np.array([1, 3, 5])
    >>> part = Conformed(pa.table({"n": [0, 1, 2]}), times, rejected_table([], [], []))
    >>> events_between(part, 2, 4).events.column("n").to_pylist()
    [1]
    """
    is_inside = (part.times >= first_us) & (part.times <= last_us)
    rows = np.flatnonzero(is_inside)
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows):  # in order of time: a view is enough
        begin, end = int(rows[0]), int(rows[-1]) + 1
        return Conformed(part.events.slice(begin, end - begin), part.times[begin:end], part.rejected)
    return Conformed(part.events.filter(pa.array(is_inside)), part.times[is_inside], part.rejected)


def _without_rejected(part: Conformed) -> Conformed:
    return Conformed(part.events, part.times, part.rejected.slice(0, 0))
