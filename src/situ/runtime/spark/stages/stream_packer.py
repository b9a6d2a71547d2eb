"""Rows of a streaming DataFrame -> packets, in Spark's Python workers.

All rows come here, because time passes with every event, but of those that no rule asks for only the time does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from situ.core.time import BEGINNING
from situ.io.rows.conform import Conformed
from situ.runtime.spark.plan.plan import Read, SparkPlan
from situ.runtime.spark.stages.batch_stage import (
    ROWS_PER_PIECE,
    TIME,
    distribute,
    finished,
    mark_columns,
    marked_rows,
    pieces_of,
)
from situ.runtime.spark.stages.output import TaggedOutput
from situ.runtime.spark.stages.row_index import RowIndex
from situ.runtime.spark.stages.rows_that_cross import rows_that_cross
from situ.runtime.spark.stages.shards import Address, clock_packets

#: A struct, null in rows that fit their stream: what is needed to say why the others do not.
MISFIT = "_misfit"
#: Of several routes that take a row, one says so if it is late.
REPORTS = "_reports"


class PartReader(Protocol):
    """In a task: what Spark hands out (paths of files, messages) -> rows of a stream, events and others."""

    def parts(self, batch: pa.RecordBatch) -> Iterator[Conformed]: ...


#: The struct MISFIT of rows that do not fit -> `_reason`, `_row`, `_place`.
Reject = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True)
class StreamPacker:
    """Rows -> packets for the routes that read them, rejected rows, and the time for all shards: of levels without
    rules, too, for rules that come later."""

    read: Read
    plan: SparkPlan
    shards: int
    levels: int
    output: TaggedOutput
    reject: Reject

    def pack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = [TIME, *mark_columns(self.read, always=True), *self.read.columns, MISFIT]
        latest, rows_read = BEGINNING, 0
        for rows in pieces_of(batches):
            rows = rows.rename_columns(names)
            rows_read += rows.num_rows
            misfit = rows.column(MISFIT)
            if misfit.null_count < len(misfit):
                yield from self._rejected(misfit)
                rows = rows.filter(misfit.is_null())
            rows = rows.drop_columns([MISFIT])
            if rows.num_rows:
                latest = max(latest, int(rows.column(TIME).to_numpy().max()))
                yield from self.packets(rows)
        yield from self.told(latest, rows_read)

    def told(self, latest: int, rows_read: int) -> Iterator[pa.RecordBatch]:
        """The time for all shards, and how many rows are behind it."""
        if rows_read:
            told = {"stream": self.read.stream.name, "latest": latest, "rows": rows_read}
            yield clock_packets(range(self.levels), self.shards, told)

    def _rejected(self, misfit: pa.StructArray) -> Iterator[pa.RecordBatch]:
        reasons = misfit.filter(misfit.is_valid())
        names = [field.name for field in reasons.type]
        yield from self.rejected(self.reject(pa.RecordBatch.from_arrays(reasons.flatten(), names=names)))

    def rejected(self, rejected: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rejected rows, with `_reason`, `_row` and `_place`."""
        yield from finished(self.output.rejected(self.read.stream.name, rejected), self.shards)

    @cached_property
    def _index(self) -> RowIndex:
        return RowIndex(self.read)

    def packets(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows with their times, marks and columns, for each route those that it takes."""
        takers = self.read.takers
        hits = None
        if self.read.indexed and any(taker.tests is not None for taker in takers):
            hits = self._index.hits(rows.column(TIME).to_numpy(), rows)
        reported = np.zeros(rows.num_rows, np.bool_)
        for taker in takers:
            taken = rows
            if taker.tests is not None:
                mask = (
                    marked_rows(rows, taker.tests)
                    if hits is None
                    else self._index.taken(hits, taker.tests, rows.num_rows)
                )
                taken = rows.filter(pa.array(mask))
                fresh = ~reported[mask]
                reported |= mask
            else:
                fresh = ~reported
                reported = np.ones(rows.num_rows, np.bool_)
            if len(takers) > 1:
                taken = taken.append_column(REPORTS, pa.array(fresh))
            address = Address(taker.stage, taker.route, self.read.stream.name)
            partitioning = self.plan.stages[taker.stage].partitioning(taker.route)
            yield from distribute(taken, partitioning, address, self.shards, self.read.stream.unique)


@dataclass(frozen=True)
class PartPacker:
    """The same for rows that situ reads itself, in the same task: what Spark hands out -> packets."""

    packer: StreamPacker
    reader: PartReader

    def pack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        latest, rows_read = BEGINNING, 0
        for part in joined_parts(part for batch in batches for part in self.reader.parts(batch)):
            rows_read += len(part.times) + part.rejected.num_rows
            if part.rejected.num_rows:
                yield from self.packer.rejected(part.rejected.combine_chunks().to_batches()[0])
            if len(part.times):
                latest = max(latest, int(part.times.max()))
                rows = rows_that_cross(part, self.packer.read, always_marked=True)
                if rows.num_rows:
                    yield from self.packer.packets(rows)
        yield from self.packer.told(latest, rows_read)


def joined_parts(parts: Iterable[Conformed]) -> Iterator[Conformed]:
    """The same rows in fewer, larger parts."""
    waiting: list[Conformed] = []
    for part in parts:
        waiting.append(part)
        if sum(len(w.times) + w.rejected.num_rows for w in waiting) >= ROWS_PER_PIECE:
            yield Conformed.concat(waiting)
            waiting = []
    if waiting:
        yield Conformed.concat(waiting)
