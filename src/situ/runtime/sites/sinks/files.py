"""Results of a site as part files, in the folders that `situ run` has.

    DIR/<subscription>/part-001000000000000000.parquet
    DIR/_late/<stream>/part-..., _rejected/, _timed_out/

The digits of a part are the version of the plan, the origin among the sites of the plan, and the number of its first
row in the log. So parts in order of their names are rows in order of their numbers, and what is written again takes its
own place.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from situ.core.errors import SituError
from situ.io.files.by_suffix import Format
from situ.io.files.part_files import SUFFIX, TableWriter, result_folder
from situ.io.permissions import PRIVATE, Permissions
from situ.io.sink_names import KIND_FOLDERS
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.sinks.sink import NumberedRows

_PART = re.compile(r"part-(\d{6})(\d{12})\.(parquet|csv|jsonl)")


class FileLogSink:
    """A directory. `origins` has the places of sites in the names of parts: those of the plan's sites, in order."""

    def __init__(
        self, directory: Path, format: Format, origins: dict[str, int], permissions: Permissions = PRIVATE
    ) -> None:
        if directory.exists() and not directory.is_dir():
            raise SituError("the output is to be a directory, but this is a file", place=str(directory))
        self._directory, self._format, self._origins, self._permissions = directory, format, origins, permissions
        #: By folder and log, the numbers of parts that were there at the start: some may have to go.
        self._left: dict[Path, dict[str, list[int]]] = {}

    def write(self, results: NumberedRows) -> None:
        if not results.rows.num_rows:
            return
        folder = self.folder(results.log)
        left = self._left_by_earlier_life(folder)
        log = self._digits(results.log)
        part = folder / f"part-{log}{results.first:012d}{SUFFIX[self._format]}"
        write_part(part, results.rows, self._format, self._permissions)
        # What an earlier life wrote of these numbers, cut otherwise, is in the new part.
        for first in [n for n in left[log] if results.first < n < results.following]:
            (folder / f"part-{log}{first:012d}{SUFFIX[self._format]}").unlink(missing_ok=True)

    def close(self) -> None:
        """Every part is complete already."""

    def folder(self, log: LogName) -> Path:
        parent = self._directory if log.kind == "events" else self._directory / KIND_FOLDERS[log.kind]
        return result_folder(parent, log.type)

    def _digits(self, log: LogName) -> str:
        return f"{log.version % 1000:03d}{self._origins[log.origin] % 1000:03d}"

    def _left_by_earlier_life(self, folder: Path) -> dict[str, list[int]]:
        if folder not in self._left:
            self._permissions.make_directory(folder)
            left: dict[str, list[int]] = defaultdict(list)
            for file in folder.iterdir():
                if file.name.startswith(".") and file.name.endswith(".tmp"):
                    file.unlink()
                elif part := _PART.fullmatch(file.name):
                    left[part[1]].append(int(part[2]))
            self._left[folder] = left
        return self._left[folder]


def write_part(part: Path, rows: pa.Table, format: Format, permissions: Permissions) -> None:
    """A file with rows, which is there whole or not at all, also after the machine has lost its power."""
    unfinished = part.with_name(f".{part.name}.tmp")
    try:
        with permissions.open_new(unfinished) as file:
            writer = TableWriter(file, rows.schema, format)
            writer.write(rows)
            writer.close()
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(part)
    finally:
        unfinished.unlink(missing_ok=True)
    descriptor = os.open(part.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_results(folder: Path, schema: pa.Schema, format: Format) -> Iterator[pa.Table]:
    """The parts of a result, in order."""
    for file in sorted(folder.glob(f"part-*{SUFFIX[format]}")):
        match format:
            case "parquet":
                yield pq.read_table(file).cast(schema)
            case "csv":
                yield pyarrow.csv.read_csv(file).cast(schema)
            case "json":
                if file.stat().st_size:
                    yield pyarrow.json.read_json(file)
