"""The results of a micro-batch on their way from Spark's tasks to the process that writes them.

A DataFrame of results is computed once: it may take long, and a stateful operator counts its steps. Few results come
along with that computation, which is one job of Spark's. Many are kept by Spark meanwhile, on disk where memory does
not suffice, and are fetched piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from situ.flow.earliest import earliest
from situ.runtime.spark.sinks.result_tables import Tables, bytes_to_table, table_to_bytes
from situ.runtime.spark.stages.output import FAILED_CALL

#: Kind, name and rows of one table, or of a piece of it.
Result: TypeAlias = tuple[str, str, pa.Table]

#: Rows that travel together, by the memory that they take.
PACK_BYTES = 16 << 20
#: What a task sends along; the rest waits until it is asked for.
SENT_ALONG_BYTES = 1 << 20

_PACKS = "kind string, name string, waits boolean, packed binary"
_PACKS_ARROW = pa.schema([("kind", pa.string()), ("name", pa.string()), ("waits", pa.bool_()), ("packed", pa.binary())])


@dataclass(frozen=True)
class ResultPacker:
    """In a task: tagged rows -> packs."""

    tables: Tables
    pack_bytes: int = PACK_BYTES
    sent_along_bytes: int = SENT_ALONG_BYTES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        room = self.sent_along_bytes
        for kind, name, table in self._pieces(batches):
            packed = table_to_bytes(table)
            room -= len(packed)
            row = {"kind": kind, "name": name, "waits": room < 0, "packed": packed}
            yield pa.RecordBatch.from_pylist([row], schema=_PACKS_ARROW)

    def _pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Result]:
        waiting = _Waiting(self.pack_bytes)
        for batch in batches:
            for kind, name, table in self.tables.split(batch):
                if kind != FAILED_CALL:
                    yield from waiting.add(kind, name, table)
        yield from waiting.rest()


@dataclass
class _Waiting:
    """Tables that are put together until they are large enough."""

    pack_bytes: int
    tables: dict[tuple[str, str], list[pa.Table]] = field(default_factory=dict)

    def add(self, kind: str, name: str, table: pa.Table) -> Iterator[Result]:
        parts = self.tables.setdefault((kind, name), [])
        parts.append(table)
        if sum(part.nbytes for part in parts) >= self.pack_bytes:
            yield self._together(kind, name)

    def rest(self) -> Iterator[Result]:
        for kind, name in list(self.tables):
            yield self._together(kind, name)

    def _together(self, kind: str, name: str) -> Result:
        return kind, name, in_order(pa.concat_tables(self.tables.pop((kind, name))))


def in_order(table: pa.Table) -> pa.Table:
    """By time, where rows have one: tasks get them in any order, and files are to be the same each time."""
    return earliest(table, table.num_rows) if "_time" in table.column_names and table.num_rows else table


@contextmanager
def results_of(events: DataFrame, packer: ResultPacker) -> Iterator[Iterable[Result]]:
    """The results in a tagged table, each in one or more pieces, which are read while this lasts.

    Calls that failed are none: they are counted elsewhere.
    """
    packs = events.mapInArrow(packer, _PACKS).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield _fetched(packs, packer.pack_bytes)
    finally:
        packs.unpersist()


def _fetched(packs: DataFrame, pack_bytes: int) -> Iterator[Result]:
    packed = F.when(~F.col("waits"), F.col("packed")).alias("packed")
    rows = packs.select("kind", "name", packed).collect()
    along = _Waiting(pack_bytes)
    for row in rows:
        if row.packed is not None:
            yield from along.add(row.kind, row.name, bytes_to_table(row.packed))
    yield from along.rest()
    if any(row.packed is None for row in rows):
        for row in packs.filter("waits").toLocalIterator():
            yield row.kind, row.name, bytes_to_table(row.packed)
