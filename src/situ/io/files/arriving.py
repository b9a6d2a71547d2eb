"""Files that come into a directory while it is read: what is there may not fit, be damaged, or be gone again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from situ.core.errors import InputError
from situ.graph.query import Stream
from situ.io.files.by_suffix import Format, files_of_one_format, format_of, open_checked_file
from situ.io.files.csv_lines import CsvFormat
from situ.io.files.json_lines import JsonFormat
from situ.io.files.lines import BLOCK_BYTES, open_text
from situ.io.files.parquet import ParquetFile
from situ.io.files.root import Root
from situ.io.files.source import read_ahead
from situ.io.messages import check_json_attributes
from situ.io.rows.conform import Conformed, rejected_rows, rejected_table

#: Of files that are there at the first start, so many are looked at before anything runs.
_CHECKED_FILES = 100
_REJECTED_ROWS = 10_000


def require_directory(directory: Path) -> None:
    if directory.is_file():
        remedy = f"Give its directory, {directory.parent}; files that come into it are read, too."
        raise InputError("is a file, not a directory into which files come", place=str(directory), remedy=remedy)
    if not directory.is_dir():
        remedy = "Make it, or correct the path. It may be empty: files that come are read."
        raise InputError("there is no such directory", place=str(directory), remedy=remedy)


def check_files(directory: Path, stream: Stream) -> None:
    """InputError, if files are there that do not fit the stream, or are of several formats."""
    if not any(file.is_file() and not is_hidden(file, directory) for file in directory.rglob("*")):
        return
    files, format_ = files_of_one_format(directory)
    files = files[:_CHECKED_FILES]
    match format_:
        case "parquet":
            for file in files:
                ParquetFile.checked(file, stream)
        case "csv":
            for file in files:
                CsvFormat.of_file(file, stream)
        case "json":
            JsonFormat.of_files(files, stream)


def is_hidden(file: Path, root: Path) -> bool:
    """
    >>> is_hidden(Path("in/_tmp/a.csv"), Path("in")), is_hidden(Path("_in/a.csv"), Path("_in"))
    (True, False)
    """
    return any(part.startswith((".", "_")) for part in file.relative_to(root).parts)


@dataclass(frozen=True)
class ArrivingFileReader:
    """Files below a root, one by one, as rows of a stream."""

    stream: Stream
    root: Root

    def read(self, file: Path) -> Iterator[Conformed]:
        """All of a file. What does not fit or is damaged is rejected; what a repeated batch may find mended is raised:
        a file that is not there, or must not be read."""
        try:
            yield from self._read(file)
        except InputError as error:
            place = self.root.shown(str(file))
            if not file.exists():
                remedy = "Bring it back: it is read when the query starts again."
                raise InputError("the file is gone, and was not read yet", place=place, remedy=remedy) from error
            if isinstance(error.__cause__, OSError) and error.__cause__.errno is not None:
                raise InputError(error.cause, place=place, remedy=error.remedy) from error
            yield from map(self._with_shown_places, _rejected_file(file, error))

    def _read(self, file: Path) -> Iterator[Conformed]:
        names = [attribute.name for attribute in self.stream.attributes]
        if format_of(file) == "json":
            check_json_attributes(self.stream, str(file))
        for _, part in read_ahead(open_checked_file(file, self.stream), names, ahead=1):
            yield self._with_shown_places(part)

    def _with_shown_places(self, part: Conformed) -> Conformed:
        if part.rejected.num_rows == 0:
            return part
        reasons, rows, places = (column.to_pylist() for column in part.rejected.columns)
        return Conformed(part.events, part.times, rejected_table(reasons, rows, list(map(self.root.shown, places))))


def _rejected_file(file: Path, error: InputError) -> Iterator[Conformed]:
    """Every row of a file whose header or schema does not fit; of one that cannot be read any further, one row."""
    damaged = isinstance(error.__cause__, OSError | pa.ArrowInvalid | pa.ArrowNotImplementedError)
    match None if damaged else _format_of(file):
        case "parquet":
            yield from _rejected_parquet(file, error.cause)
        case "csv":
            yield from _rejected_lines(file, error.cause)
        case _:
            yield _nothing_but(rejected_table([error.cause], pa.nulls(1, pa.string()), [str(file)]))


def _format_of(file: Path) -> Format | None:
    try:
        return format_of(file)
    except InputError:
        return None


def _rejected_parquet(file: Path, reason: str) -> Iterator[Conformed]:
    first = 0
    with pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(_REJECTED_ROWS):
            rows = dict.fromkeys(range(batch.num_rows), reason)
            yield _nothing_but(rejected_rows(rows, partial(pa.Table.from_batches, [batch]), str(file), first))
            first += batch.num_rows


def _rejected_lines(file: Path, reason: str) -> Iterator[Conformed]:
    """The lines, the header among them, as they stand there."""
    with open_text(file) as text:
        line, rest, data = 1, b"", text.read(BLOCK_BYTES)
        while data:
            following = text.read(BLOCK_BYTES)
            *lines, rest = (rest + data).split(b"\n")
            if not following:
                lines.append(rest)
            records = {n: record.rstrip(b"\r") for n, record in enumerate(lines, line) if record.strip()}
            texts = [record.decode("utf-8", errors="backslashreplace") for record in records.values()]
            yield _nothing_but(rejected_table([reason] * len(records), texts, [f"{file}:{n}" for n in records]))
            line, data = line + len(lines), following


def _nothing_but(rejected: pa.Table) -> Conformed:
    return Conformed(pa.table({}), np.empty(0, np.int64), rejected)
