"""Results of a streaming query as files, one for each micro-batch and table.

    DIR/<subscription>/batch-000000017.parquet
    DIR/_rejected/<stream>/batch-000000017.parquet      events that do not fit the schema, with the reason
    DIR/_late/<stream>/batch-000000017.parquet
    DIR/_timed_out/<subscription>/batch-000000017.parquet

A file is complete or not there. It has the name of its batch, so a batch that is repeated replaces what its first
attempt left, and whoever reads the directory finds every result once, without a log of what counts.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa
from pyspark.sql import DataFrame

from situ.core.errors import SituError, StateError
from situ.io.files.by_suffix import Format
from situ.io.files.part_files import SUFFIX, TableWriter, result_folder
from situ.io.files.root import Root
from situ.io.permissions import PRIVATE, Permissions
from situ.io.sink_names import KIND_FOLDERS
from situ.runtime.spark.sinks.result_packs import Result, ResultPacker, results_of
from situ.runtime.spark.sinks.result_tables import Tables
from situ.runtime.spark.stages.output import COMPLEX_EVENT

#: Whose results these are: the query of one checkpoint.
OWNER = ".situ-query"

_BATCH = re.compile(r"batch-(\d+)\.(parquet|csv|jsonl)")
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass
class FileSink:
    """The directory, as given and where it is; the process that writes may be another one than that which was told."""

    root: Root
    format: Format
    tables: Tables
    query: str
    permissions: Permissions = PRIVATE
    _written: int | None = field(default=None, init=False)  # the last batch; what comes after it is no repetition
    _filled: set[Path] = field(default_factory=set, init=False)  # folders of subscriptions that have a file

    @property
    def directory(self) -> Path:
        return Path(self.root.absolute)

    def write(self, events: DataFrame, batch: int) -> None:
        with results_of(events, ResultPacker(self.tables)) as results:
            self.write_results(results, batch)

    def write_results(self, results: Iterable[Result], batch: int) -> None:
        """All results of a batch. If this raises, the batch is to be repeated."""
        with self._clear_errors(batch):
            stale: list[Path] = []
            if self._written is None or batch <= self._written:
                self.claim()
                stale = left_by_batch(self.directory, batch)
            shown = {self.directory / name: name for name in self.tables.output.shown}
            with _BatchFiles(self.directory, batch, self.format, self.permissions) as files:
                for kind, name, table in results:
                    files.write(kind, name, table)
                # The first file of a subscription is written even without rows, so that a reader finds the columns.
                for folder in shown.keys() - files.folders:
                    if folder not in self._filled and not _has_other_batch(folder, batch):
                        files.write(COMPLEX_EVENT, shown[folder], self.tables.empty(COMPLEX_EVENT, shown[folder]))
                files.publish(stale)
            self._written = batch
            self._filled |= shown.keys()

    def check(self) -> None:
        """An error, if the directory holds what is not this query's."""
        directory, place = self.directory, self.root.given
        if directory.exists() and not directory.is_dir():
            raise SituError("the output is to be a directory, but this is a file", place=place)
        owner = directory / OWNER
        if owner.exists():
            if owner.read_text(encoding="utf-8").strip() != self.query:
                remedy = "Choose another directory, or go on with the checkpoint that these results belong to."
                raise StateError("the output directory holds results of another checkpoint", place=place, remedy=remedy)
        elif directory.is_dir() and any(path != _hidden(owner) for path in directory.iterdir()):
            remedy = "Choose another directory."
            cause = "the output directory is not empty, and new results would mix with what is there"
            raise SituError(cause, place=place, remedy=remedy)

    def claim(self) -> None:
        """Makes the directory this query's."""
        self.check()
        owner = self.directory / OWNER
        if owner.exists():
            return
        self.permissions.make_directory(self.directory)
        with self.permissions.open_new(_hidden(owner)) as file:
            file.write(f"{self.query}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        _hidden(owner).rename(owner)
        _sync_folder(self.directory.parent)

    @contextmanager
    def _clear_errors(self, batch: int) -> Iterator[None]:
        try:
            yield
        except ConnectionError:  # to Spark
            raise
        except OSError as error:
            remedy = "Mend that and start again: the batch is written then, and nothing is lost."
            if error.errno in _NO_ROOM:
                remedy = "Make room and start again: the batch is written then, and nothing is lost."
            cause = f"batch {batch} cannot be written: {error.strerror or error}"
            raise SituError(cause, place=self.root.given, remedy=remedy) from error


class _BatchFiles:
    """The files of one batch: first all of them under hidden names, then published."""

    def __init__(self, directory: Path, batch: int, file_format: Format, permissions: Permissions) -> None:
        self._directory, self._format, self._permissions = directory, file_format, permissions
        self._name = f"batch-{batch:09d}{SUFFIX[file_format]}"
        self._open: dict[Path, tuple[BinaryIO, TableWriter]] = {}

    @property
    def folders(self) -> set[Path]:
        return {path.parent for path in self._open}

    def write(self, kind: str, name: str, table: pa.Table) -> None:
        folder = self._directory if kind == COMPLEX_EVENT else self._directory / KIND_FOLDERS[kind]
        path = result_folder(folder, name) / self._name
        if path not in self._open:
            self._permissions.make_directory(path.parent)
            file = self._permissions.open_new(_hidden(path))
            try:
                self._open[path] = file, TableWriter(file, table.schema, self._format)
            except BaseException:
                file.close()
                raise
        self._open[path][1].write(table)

    def publish(self, stale: Iterable[Path]) -> None:
        """Puts the files in place of those that are there. When this returns, they are on the disk."""
        for file, writer in self._open.values():
            writer.close()
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for path in stale:
            if path not in self._open:
                path.unlink(missing_ok=True)
        for path in self._open:
            _hidden(path).rename(path)
        changed = [path.parents for path in [*stale, *self._open]]
        for folder in {folder for folders in changed for folder in folders if folder.is_relative_to(self._directory)}:
            _sync_folder(folder)
        self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What is not published is taken away."""
        for path, (file, writer) in self._open.items():
            with suppress(OSError, pa.ArrowException, ValueError):
                writer.close()
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                _hidden(path).unlink(missing_ok=True)


def left_by_batch(directory: Path, batch: int) -> list[Path]:
    """The files of an earlier attempt at a batch, in all folders and formats. Unfinished ones are taken away.

    StateError, if there are results of later batches: then the checkpoint is older than they are.
    """
    left_paths = []
    for path in [path for folder in _result_folders(directory) for path in folder.iterdir()]:
        number = _number(path)
        if number is not None and number > batch:
            raise StateError(
                f"there are results of batch {number} already, and the checkpoint is about to write batch {batch}",
                place=str(path),
                remedy="Bring back the checkpoint that goes with them, or choose another directory.",
            )
        if number == batch and path.name.startswith("."):
            path.unlink()
        elif number == batch:
            left_paths.append(path)
    return left_paths


def _has_other_batch(folder: Path, batch: int) -> bool:
    return folder.is_dir() and any(_number(path) not in (None, batch) for path in folder.iterdir())


def _result_folders(directory: Path) -> Iterator[Path]:
    for folder in directory.iterdir():
        if folder.is_dir():
            yield folder
            if folder.name in KIND_FOLDERS.values():
                yield from (inner for inner in folder.iterdir() if inner.is_dir())


def _number(path: Path) -> int | None:
    """The batch that a file is of, finished or not.

    >>> _number(Path("Jam/batch-000000017.csv")), _number(Path("Jam/.batch-000000017.csv.tmp")), _number(Path("a.csv"))
    (17, 17, None)
    """
    batch = _BATCH.fullmatch(path.name.removeprefix(".").removesuffix(".tmp"))
    return int(batch[1]) if batch else None


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def _sync_folder(folder: Path) -> None:
    """So that names are on the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
