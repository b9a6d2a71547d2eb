"""Parquet files as a source: row groups, columns on demand."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from situ.core.errors import InputError
from situ.core.types import INT, STRING
from situ.graph.query import Stream
from situ.io.rows.conform import (
    Conformed,
    Verdict,
    asked_columns,
    attribute_columns,
    checked_columns,
    conversions_to,
    convert_columns,
    judge,
    rejected_rows,
    type_found,
)
from situ.io.rows.conversions import Conversion

#: Row groups are put together up to this size: large enough that a chunk's fixed costs vanish, small enough
#: that a few chunks fit in memory.
CHUNK_ROWS = 1_000_000
#: Read at a time where a few rows are looked at.
PAGE_BUFFER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A file whose footer has been read and checked; it is opened again for each read, so that no limit on open
    files limits the number of files."""

    path: Path
    metadata: pq.FileMetaData
    schema: pa.Schema
    conversions: dict[str, Conversion]

    @classmethod
    def checked(cls, path: Path, stream: Stream) -> ParquetFile:
        """InputError unless it is Parquet and has the stream's columns."""
        with open_parquet(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
        return cls(path, metadata, schema, conversions_to(stream, schema, str(path)))

    def read(self, row_groups: Sequence[int], columns: Collection[str] | None) -> pa.Table:
        """The columns (None: all) of some row groups; of `position.x`, only this field is read."""
        names = None if columns is None else sorted(columns)
        with _errors_as_input_errors(self.path), _open(self.path, self.metadata) as file:
            table = file.read_row_groups(row_groups, columns=names, use_threads=True)
            table.validate(full=True)  # text of a damaged page need not be UTF-8
            return table

    def time_range(self, row_group: int, stream: Stream) -> tuple[int, int] | None:
        """The first and the last time of a row group, from the file's statistics; None unless these cover every row and
        mean what the conversion makes of the values."""
        time = next(attribute for attribute in stream.attributes if attribute.name == stream.time)
        time_type = type_found(time, stream, self.schema, str(self.path))
        if not (pa.types.is_timestamp(time_type) or pa.types.is_signed_integer(time_type)):
            return None
        statistics = self._statistics(row_group, time.column)
        if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
            return None
        ends = {stream.time: pa.array([statistics.min_raw, statistics.max_raw], time_type)}
        verdict = judge(*convert_columns(ends, stream, self.conversions), stream)
        return None if verdict.reasons else (int(verdict.times[0]), int(verdict.times[1]))

    def is_all_events(self, stream: Stream) -> bool:
        """Whether the footer shows that every row is an event: only the time might not fit, and statistics say that it
        does. False where that is not known. Times without a zone are judged as UTC."""
        if checked_columns(stream, self.conversions) != {stream.time}:
            return False
        groups = [group for group in range(self.metadata.num_row_groups) if self.metadata.row_group(group).num_rows]
        return all(self.time_range(group, stream) is not None for group in groups)

    def bounds(self, row_group: int, attribute: str, stream: Stream) -> tuple[int, int] | tuple[str, str] | None:
        """The smallest and the largest value of an attribute in a row group, where it is declared as int or string and
        its column is one; None where they are not known."""
        (declared,) = (a for a in stream.attributes if a.name == attribute)
        type_ = type_found(declared, stream, self.schema, str(self.path))
        is_whole = declared.type is INT and pa.types.is_signed_integer(type_)
        if not is_whole and not (declared.type is STRING and pa.types.is_string(type_)):
            return None
        statistics = self._statistics(row_group, declared.column)
        if statistics is None or not statistics.has_min_max:
            return None
        bounds: tuple[int, int] | tuple[str, str] = statistics.min, statistics.max
        return bounds if isinstance(statistics.min, int if is_whole else str) else None

    def _statistics(self, row_group: int, column: str) -> pq.Statistics | None:
        """What the footer says of a column, if its name says which one it is."""
        columns = [i for i in range(len(self.metadata.schema)) if self.metadata.schema.column(i).path == column]
        if len(columns) != 1:  # a name with a dot looks like a nested field
            return None
        self._require_readable(row_group, column)
        return self.metadata.row_group(row_group).column(columns[0]).statistics

    def _require_readable(self, row_group: int, column: str) -> None:
        """InputError if a column's part of the footer is damaged. Arrow ends the process where statistics of such a
        footer are asked for, but not where rows are: so one is read first. It takes a hundredth of reading all."""
        with _errors_as_input_errors(self.path), _open(self.path, self.metadata, page_by_page=True) as file:
            rows = file.iter_batches(batch_size=1, row_groups=[row_group], columns=[column], use_threads=False)
            next(rows, None)


class RowGroups:
    """Neighbouring row groups of one file.

    The first read decides which rows are events, by every column in which a value may not fit, so that later reads
    of other columns give the same events. Columns that always fit are read only when asked for.
    """

    def __init__(self, file: ParquetFile, stream: Stream, groups: Sequence[int], first_row: int) -> None:
        self.groups = groups
        self.rows = sum(file.metadata.row_group(group).num_rows for group in groups)
        self._file, self._stream, self._first_row = file, stream, first_row
        self._decided: tuple[Verdict, pa.Table] | None = None

    @property
    def time_range(self) -> tuple[int, int] | None:
        filled = [group for group in self.groups if self._file.metadata.row_group(group).num_rows]
        return _span([self._file.time_range(group, self._stream) for group in filled])

    def read(self, columns: Sequence[str]) -> Conformed:
        wanted_columns = asked_columns(self._stream, columns)
        file, stream = self._file, self._stream
        names = {*wanted_columns} if self._decided else {*wanted_columns, *checked_columns(stream, file.conversions)}
        table = file.read(self.groups, {a.column for a in stream.attributes if a.name in names})
        converted, misfits = convert_columns(attribute_columns(table, stream, names), stream, file.conversions)
        if self._decided is None:
            verdict = judge(converted, misfits, stream)
            rejected = rejected_rows(
                verdict.reasons, lambda: file.read(self.groups, None), str(file.path), self._first_row
            )
            self._decided = verdict, rejected
        verdict, rejected = self._decided
        return Conformed(verdict.select(converted, wanted_columns), verdict.times, rejected)


class ParquetChunk:
    """Row groups of one file, or of several small files."""

    def __init__(self, parts: Sequence[RowGroups]) -> None:
        self._parts = parts
        self.rows = sum(part.rows for part in parts)

    @property
    def time_range(self) -> tuple[int, int] | None:
        return _span([part.time_range for part in self._parts if part.rows])

    def read(self, columns: Sequence[str]) -> Conformed:
        return Conformed.concat([part.read(columns) for part in self._parts])


class ParquetSource:
    """Files whose footers were checked when the source was opened."""

    def __init__(self, paths: Sequence[Path], stream: Stream) -> None:
        self._stream = stream
        self._files = [ParquetFile.checked(path, stream) for path in paths]
        self.rows: int | None = sum(file.metadata.num_rows for file in self._files)

    def chunks(self) -> Iterator[ParquetChunk]:
        parts: list[RowGroups] = []
        rows = 0
        for part in self._row_groups():
            if parts and rows + part.rows > CHUNK_ROWS:
                yield ParquetChunk(parts)
                parts, rows = [], 0
            parts.append(part)
            rows += part.rows
        if parts:
            yield ParquetChunk(parts)

    def _row_groups(self) -> Iterator[RowGroups]:
        """Per file, as many neighbouring row groups together as make a chunk."""
        for file in self._files:
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            first_rows = [0, *accumulate(sizes)]
            start = 0
            for i in range(1, len(sizes) + 1):
                if i == len(sizes) or first_rows[i + 1] - first_rows[start] > CHUNK_ROWS:
                    yield RowGroups(file, self._stream, range(start, i), first_rows[start])
                    start = i


def _span(ranges: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    """The range that holds all of them; None if there are none, or one is not known."""
    bounded = [r for r in ranges if r is not None]
    if not bounded or len(bounded) < len(ranges):
        return None
    return min(first for first, _ in bounded), max(last for _, last in bounded)


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """A file; InputError if it is no Parquet, also where that shows later."""
    with _errors_as_input_errors(path), _open(path) as file:
        yield file


def _open(path: Path, metadata: pq.FileMetaData | None = None, page_by_page: bool = False) -> pq.ParquetFile:
    # Measured on 8 files of 1 million rows, 2 cores, read by 2 threads: mapped memory 0.08 s, pre-buffered 0.10 s,
    # plain 0.13 s. Mapping loses: it kills the process where somebody shortens the file meanwhile.
    # Int96 is read in microseconds, because in nanoseconds years after 2262 wrap around silently.
    return pq.ParquetFile(
        path,
        metadata=metadata,
        pre_buffer=not page_by_page,
        buffer_size=PAGE_BUFFER_BYTES if page_by_page else 0,
        memory_map=False,
        coerce_int96_timestamp_unit="us",
    )


@contextmanager
def _errors_as_input_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, ValueError, OSError, MemoryError) as error:  # ValueError: a name that is not UTF-8
        raise InputError(
            f"cannot be read as Parquet: {(str(error) or type(error).__name__).splitlines()[0]}",
            place=str(path),
            remedy="The file is of another format, cut off or damaged: write it again, or give it the right suffix.",
        ) from error
