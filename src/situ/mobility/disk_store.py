"""The event store on disk: Parquet files by type, slice of time and cell of a grid, with the answers of EventStore.

    DIRECTORY/store.json                                  what is valid: adds that are complete, evictions
    DIRECTORY/type=Car/slice=28/cell=3_-1/00000012-00000012.parquet      of which adds

An add writes its files, each under a hidden name that is then changed, and last of all `store.json`, which says how
many adds are complete. Files of an add that was cut short are deleted when the store is opened again. Where many files
have come together they are merged; if that is cut short, the parts are still there or are deleted when the store is
opened again, as the name of the merged file says that it holds them. One process writes at a time.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from situ.core.errors import StateError
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import EXTENT, Batch
from situ.mobility.store import EVER, TIME, Region, StoredEvents, X, Y, check_columns, in_order, merge

#: With which add an event came, and where it stood among those that came with it.
_ADD, _ROW = _CAME = ("_add", "_row")
#: Regions are looked for so much farther out, so that rounding leaves no event on a border out.
ROUNDING_M = 1e-3
#: More files of one slice and cell are merged.
MOST_FILES = 16
_STATE = "store.json"
_NOWHERE = "none"


@dataclass(frozen=True, slots=True)
class _State:
    """What `store.json` says."""

    slice_us: int
    cell_m: float
    adds: int = 0
    evicted_us: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _File:
    """A file, and what its path says: adds from the first to the last, the slice of time, and the cell (None: events
    without a place)."""

    path: Path
    first: int
    last: int
    slice: int
    cell: tuple[int, int] | None

    @classmethod
    def of(cls, path: Path) -> _File:
        slice_, cell = (part.split("=", 1)[1] for part in path.parts[-3:-1])
        at = None if cell == _NOWHERE else (int(cell.split("_")[0]), int(cell.split("_")[1]))
        first, last = path.stem.split("-")
        return cls(path, int(first), int(last), int(slice_), at)


@dataclass(frozen=True, slots=True)
class _Statistics:
    """What the footer of a file says. An event of it can be in a region only if some `x_min` is not left of the region
    and some `x_max` is not right of it; so there is the largest of the one, and the smallest of the other."""

    rows: int
    earliest_us: float
    latest_us: float
    largest_x_min: float
    smallest_x_max: float
    largest_y_min: float
    smallest_y_max: float

    @classmethod
    def of(cls, path: Path) -> _Statistics:
        footer = pq.read_metadata(path)
        x_min, y_min, x_max, y_max = EXTENT if EXTENT[0] in footer.schema.names else (X, Y, X, Y)
        sides = (
            _bounds(footer, x_min)[1],
            _bounds(footer, x_max)[0],
            _bounds(footer, y_min)[1],
            _bounds(footer, y_max)[0],
        )
        return cls(footer.num_rows, *_bounds(footer, TIME), *sides)


class DiskStore:
    """Events in a directory, which is made if it is not there. Its slices and cells are those of the first time.

    >>> import tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> store = DiskStore(directory.name)
    >>> store.add("Car", Batch(np.array([7, 3]), {"id": pa.array([1, 2])}), np.array([0.0, 9.0]), np.zeros(2))
    >>> DiskStore(directory.name).inside("Car", 0, 9, Region(9.0, 0.0, 5.0, 5.0, False)).columns["id"].to_pylist()
    [2]
    >>> directory.cleanup()
    """

    def __init__(self, directory: str | Path, slice_us: int = 60_000_000, cell_m: float = 500.0) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        if (self._directory / _STATE).exists():
            self._state = _read_state(self._directory / _STATE)
        else:
            self._save(_State(slice_us, cell_m))
        self._files: dict[str, list[_File]] = {}
        self._statistics: dict[Path, _Statistics] = {}
        for directory in sorted(self._directory.glob("type=*/slice=*/cell=*")):
            self._open(directory)
        for event_type in self._files:
            self._delete_evicted(event_type)

    def _open(self, directory: Path) -> None:
        """The files of a slice and cell, without what was cut short or is in a merged file too."""
        event_type = unquote(directory.parts[-3].split("=", 1)[1])
        files = []
        for path in sorted(directory.iterdir()):
            if path.name.startswith(".") or _File.of(path).last >= self._state.adds:
                path.unlink()
            else:
                files.append(_File.of(path))
        for file in files:
            if any(o.first <= file.first and file.last <= o.last and o != file for o in files):
                file.path.unlink()
            else:
                self._files.setdefault(event_type, []).append(file)

    def add(self, event_type: str, batch: Batch, x: F64, y: F64) -> None:
        """As EventStore.add; the events are on disk when it returns."""
        known = self._files.get(event_type)
        if known:
            names = set(pq.read_schema(known[0].path).names) - {TIME, X, Y, *_CAME}
            check_columns(event_type, names, batch.columns)
        events = in_order(StoredEvents(batch, x, y))
        events = events.between(self._state.evicted_us.get(event_type, EVER), np.iinfo(np.int64).max)
        number = self._state.adds
        added = [self._write(event_type, number, *part) for part in self._parts(events)]
        self._save(replace(self._state, adds=number + 1))
        files = self._files.setdefault(event_type, [])
        files.extend(added)
        count = Counter(file.path.parent for file in files)
        for directory in {file.path.parent for file in added if count[file.path.parent] > MOST_FILES}:
            self._merge(event_type, directory)

    def located(self, event_type: str, since_us: int, until_us: int) -> StoredEvents:
        """As EventStore.located."""
        return self._select(event_type, since_us, until_us, None)

    def inside(self, event_type: str, since_us: int, until_us: int, region: Region) -> Batch:
        """As EventStore.inside. Files that cannot hold such an event are not read."""
        found = self._select(event_type, since_us, until_us, region)
        return found.batch.take(found.inside(region))

    def evict(self, event_type: str, before_us: int) -> int:
        """Forget the events before a time, for good. Files are deleted when all their events are forgotten: how many
        events these had."""
        evicted_us = max(before_us, self._state.evicted_us.get(event_type, EVER))
        self._save(replace(self._state, evicted_us={**self._state.evicted_us, event_type: evicted_us}))
        return self._delete_evicted(event_type)

    def _delete_evicted(self, event_type: str) -> int:
        evicted_us = self._state.evicted_us.get(event_type, EVER)
        gone, left = 0, []
        for file in self._files.get(event_type, []):
            if file.slice * self._state.slice_us < evicted_us:
                statistics = self._statistics_of(file)
                if statistics.latest_us < evicted_us:
                    gone += statistics.rows
                    _delete(file.path)
                    del self._statistics[file.path]
                    continue
            left.append(file)
        self._files[event_type] = left
        return gone

    def _parts(self, events: StoredEvents) -> Iterator[tuple[int, tuple[int, int] | None, StoredEvents, I64]]:
        """Slice, cell, their events by time, and where these stood."""
        placed = np.isfinite(events.x) & np.isfinite(events.y)
        slices = events.batch.times // self._state.slice_us
        cells = [np.floor(np.where(placed, v, 0.0) / self._state.cell_m).astype(np.int64) for v in (events.x, events.y)]
        keys = np.stack([slices, placed.astype(np.int64), *cells])
        order = np.lexsort(keys[::-1])
        ordered = keys[:, order]
        begins = np.flatnonzero(np.any(np.diff(ordered, axis=1, prepend=ordered[:, :1] - 1) != 0, axis=0))
        for rows in np.split(order, begins[1:]) if len(order) else []:
            slice_, is_placed, column, row = (int(value) for value in keys[:, rows[0]])
            yield slice_, (column, row) if is_placed else None, events.take(rows), rows

    def _write(
        self, event_type: str, add: int, slice_: int, cell: tuple[int, int] | None, events: StoredEvents, rows: I64
    ) -> _File:
        named = _NOWHERE if cell is None else f"{cell[0]}_{cell[1]}"
        kind = f"type={quote(event_type, safe='')}"
        path = self._directory / kind / f"slice={slice_}" / f"cell={named}" / f"{add:08d}-{add:08d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = events.table().append_column(_ADD, pa.array(np.full(len(rows), add)))
        table = table.append_column(_ROW, pa.array(rows))
        _write_whole(path, lambda unfinished: pq.write_table(table, unfinished))
        return _File(path, add, add, slice_, cell)

    def _merge(self, event_type: str, directory: Path) -> None:
        """One file of all in a directory."""
        files = self._files[event_type]
        parts = [file for file in files if file.path.parent == directory]
        first, last = min(file.first for file in parts), max(file.last for file in parts)
        merged = directory / f"{first:08d}-{last:08d}.parquet"
        table = _read(parts)
        _write_whole(merged, lambda unfinished: pq.write_table(table, unfinished))
        for file in parts:
            file.path.unlink()
            self._statistics.pop(file.path, None)
        self._files[event_type] = [file for file in files if file.path.parent != directory] + [_File.of(merged)]

    def _save(self, state: _State) -> None:
        text = json.dumps(
            {
                "slice_us": state.slice_us,
                "cell_m": state.cell_m,
                "adds": state.adds,
                "evicted_us": dict(state.evicted_us),
            }
        )
        _write_whole(self._directory / _STATE, lambda unfinished: unfinished.write_text(text))
        self._state = state

    def _select(self, event_type: str, since_us: int, until_us: int, region: Region | None) -> StoredEvents:
        since_us = max(since_us, self._state.evicted_us.get(event_type, EVER))
        files = self._files.get(event_type, [])
        wanted = [file for file in files if self._may_hold(file, since_us, until_us, region)]
        if not files:
            return merge([])
        table = _read(wanted or files[:1])  # one is read for the columns that the type has
        return StoredEvents.of_table(table.drop_columns(list(_CAME))).between(since_us, until_us)

    def _may_hold(self, file: _File, since_us: int, until_us: int, region: Region | None) -> bool:
        """Whether a file can have such an event, by its path, and then by its statistics."""
        begin_us = file.slice * self._state.slice_us
        if begin_us > until_us or begin_us + self._state.slice_us <= since_us:
            return False
        if region is None:
            return True
        if file.cell is None or not self._touches(file.cell, region):
            return False
        known = self._statistics_of(file)
        return not (
            known.earliest_us > until_us
            or known.latest_us < since_us
            or known.largest_x_min < region.x - region.half_x - ROUNDING_M
            or known.smallest_x_max > region.x + region.half_x + ROUNDING_M
            or known.largest_y_min < region.y - region.half_y - ROUNDING_M
            or known.smallest_y_max > region.y + region.half_y + ROUNDING_M
        )

    def _statistics_of(self, file: _File) -> _Statistics:
        """Read once: a file never changes."""
        if file.path not in self._statistics:
            self._statistics[file.path] = _Statistics.of(file.path)
        return self._statistics[file.path]

    def _touches(self, cell: tuple[int, int], region: Region) -> bool:
        """Whether a cell and a region meet."""
        for at, middle, half in ((cell[0], region.x, region.half_x), (cell[1], region.y, region.half_y)):
            low, high = middle - half - ROUNDING_M, middle + half + ROUNDING_M
            if not math.floor(low / self._state.cell_m) <= at <= math.floor(high / self._state.cell_m):
                return False
        return True


def _read(files: Sequence[_File]) -> pa.Table:
    """The events of some files, by time; those of equal time as they came."""
    table = pa.concat_tables([pq.ParquetFile(file.path).read() for file in files])
    return table.sort_by([(name, "ascending") for name in (TIME, *_CAME)])


def _bounds(footer: pq.FileMetaData, name: str) -> tuple[float, float]:
    """The smallest and the largest value of a column; of one without any, everything."""
    index = footer.schema.names.index(name)
    found = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
    if any(statistics is None or not statistics.has_min_max for statistics in found):
        return -math.inf, math.inf
    lowest, highest = min(s.min_raw for s in found), max(s.max_raw for s in found)
    return lowest, highest


def _delete(path: Path) -> None:
    """A file, and the directories of its cell and slice if nothing else is in them."""
    path.unlink()
    for directory in path.parents[:2]:
        if any(directory.iterdir()):
            return
        directory.rmdir()


def _write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Under a hidden name first, so that whoever finds the file finds all of it."""
    unfinished = path.with_name(f".{path.name}.tmp")
    write(unfinished)
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.replace(path)


def _read_state(path: Path) -> _State:
    try:
        return _State(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise StateError(
            f"this does not describe an event store: {error}",
            place=str(path),
            remedy="Use another directory, or delete this one.",
        ) from error
