"""Results as part files: DIRECTORY/<name>/part-00000.parquet, complete or not there at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, assert_never

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from situ.core.errors import SituError
from situ.io.files.by_suffix import Format
from situ.io.files.json_text import (
    base64_text,
    column_to_json,
    duration_micros,
    iso_timestamps,
    rows_to_json,
    single_chunk,
)
from situ.io.permissions import PRIVATE, Permissions
from situ.io.sink_names import FolderNames

SUFFIX: dict[Format, str] = {"parquet": ".parquet", "csv": ".csv", "json": ".jsonl"}
_PART = re.compile(r"\.?part-\d{5,}\.(parquet|csv|jsonl)(\.tmp)?")


def write(
    tables: Iterable[pa.Table], directory: str | Path, name: str, format: Format, *, overwrite: bool = False
) -> None:
    """All tables of one result, each as a part file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write([pa.table({"n": [1, 2]})], directory, "Jam", "json")
    ...     Path(directory, "Jam", "part-00000.jsonl").read_text()
    '{"n": 1}\\n{"n": 2}\\n'
    """
    with DirectorySink(directory, format, overwrite=overwrite) as sink:
        for table in tables:
            sink.write(name, table)


class DirectorySink:
    """Part files in one directory per result. A part is written under a hidden name and then renamed."""

    def __init__(
        self,
        directory: str | Path,
        format: Format,
        *,
        overwrite: bool = False,
        permissions: Permissions = PRIVATE,
    ) -> None:
        self._directory, self._format, self._permissions = Path(directory), format, permissions
        self._parts: dict[str, int] = {}
        self._closed = False
        _make_room(self._directory, overwrite)

    def write(self, name: str, table: pa.Table) -> None:
        """One more part. The first is written even without rows, so that a reader finds the columns."""
        if self._closed:
            raise ValueError("the sink is closed")
        number = self._parts.get(name, 0)
        if number and table.num_rows == 0:
            return
        directory = result_folder(self._directory, name)
        self._permissions.make_directory(directory)
        part = directory / f"part-{number:05d}{SUFFIX[self._format]}"
        unfinished = part.with_name(f".{part.name}.tmp")
        try:
            with self._permissions.open_new(unfinished) as file:
                _write_table(table, file, self._format)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(part)
        finally:
            unfinished.unlink(missing_ok=True)
        self._parts[name] = number + 1

    def close(self) -> None:
        """No more parts; those that are there are complete already."""
        self._closed = True

    def __enter__(self) -> DirectorySink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TableWriter:
    """Tables of one schema into one file, one after the other."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, format: Format) -> None:
        self._file, self._format = file, format
        self._writer: pq.ParquetWriter | pyarrow.csv.CSVWriter | None = None
        match format:
            case "parquet":
                self._writer = pq.ParquetWriter(file, schema)
            case "csv":
                self._writer = pyarrow.csv.CSVWriter(file, _csv_table(schema.empty_table()).schema)
            case "json":
                pass
            case _:
                assert_never(format)

    def write(self, table: pa.Table) -> None:
        if self._writer is not None:
            self._writer.write_table(_csv_table(table) if self._format == "csv" else table)
        elif table.num_rows:
            self._file.write("\n".join(rows_to_json(table).to_pylist()).encode() + b"\n")

    def close(self) -> None:
        """The file itself stays open."""
        if self._writer is not None:
            self._writer.close()


def result_folder(directory: Path, name: str) -> Path:
    """The folder of a result, which is never outside of the directory, whatever the name."""
    # `situ run` has refused such a name when it read the query; a program of the user's may get here without.
    if fault := FolderNames().fault("late", name):
        raise SituError(f"{name!r} cannot be a folder: the name {fault}", place=str(directory))
    return directory / name


def _write_table(table: pa.Table, file: BinaryIO, format: Format) -> None:
    writer = TableWriter(file, table.schema, format)
    writer.write(table)
    writer.close()


def _csv_table(table: pa.Table) -> pa.Table:
    return pa.table([_csv_column(single_chunk(column)) for column in table.columns], names=table.column_names)


def _csv_column(column: pa.Array) -> pa.Array:
    """What CSV has no form for, as text: ISO timestamps, microseconds, base64 bytes, JSON for lists and structs."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return iso_timestamps(column)
    if pa.types.is_duration(kind):
        return duration_micros(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return base64_text(column)
    if pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_nested(kind):
        return pa.compute.if_else(column.is_valid(), column_to_json(column), None)
    return column


def _make_room(directory: Path, overwrite: bool) -> None:
    """Old results and new ones never mix. Only what situ itself wrote is ever deleted."""
    if directory.exists() and not directory.is_dir():
        raise SituError("the output is to be a directory, but this is a file", place=str(directory))
    files = [file for file in directory.rglob("*") if not file.is_dir()] if directory.exists() else []
    if not files:
        return
    if not overwrite:
        raise SituError(
            "the output directory is not empty, and new results would mix with old ones",
            place=str(directory),
            remedy="Choose another directory, or ask for overwriting.",
        )
    foreign = [file for file in files if not _PART.fullmatch(file.name) or file.parent.parent != directory]
    if foreign:
        raise SituError(
            f"the output directory holds files that situ did not write, such as {foreign[0].name}",
            place=str(directory),
            remedy="Choose another directory, or remove them yourself.",
        )
    for file in files:
        file.unlink()
