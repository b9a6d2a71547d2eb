"""Splits of files -> packets, in Spark's Python workers: rows are read, judged, tested and packed in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from situ.graph.typing import THIS
from situ.io.files.root import Root
from situ.io.rows.conform import Conformed
from situ.kernel.batch import Batch, Calls, one_chunk
from situ.kernel.columns.values import Mask
from situ.kernel.matching.order import is_strictly_sorted
from situ.kernel.operator import attributes_read
from situ.runtime.spark.inputs.splits import Split, SplitReader
from situ.runtime.spark.plan.plan import Read, SparkPlan, StreamTest
from situ.runtime.spark.session.functions import loaded
from situ.runtime.spark.stages.batch_stage import MARKS_PER_COLUMN, TIME, Packer, finished, mark_columns
from situ.runtime.spark.stages.output import TaggedOutput

#: The narrowest integers for so many marks.
_WIDTHS: dict[int, Any] = {7: np.int8, 15: np.int16, 31: np.int32, MARKS_PER_COLUMN: np.int64}


@dataclass(frozen=True)
class SplitPacker:
    """Numbers of tasks -> packets for the routes that read a stream, and rows that are none of its events."""

    packer: Packer
    root: Root
    tasks: tuple[tuple[Split, ...], ...]
    output: TaggedOutput

    def pack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """`id` is the number of a task."""
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from self.pack_splits(self.tasks[number])

    def pack_splits(self, splits: tuple[Split, ...]) -> Iterator[pa.RecordBatch]:
        read = self.packer.read
        reader = SplitReader(read.stream, self.root, read.asked)
        needed = sorted({*read.columns, *_tested(read, self.packer.plan)})
        for split in splits:
            part = reader.with_shown_places(reader.row_groups(split).read(needed))
            if part.rejected.num_rows:
                (rejected,) = part.rejected.combine_chunks().to_batches()
                rows = self.output.rejected(read.stream.name, rejected)
                yield from finished(rows, self.packer.shards)
            if len(part.times):
                yield from self.packer.packets(self._crossing(part, split))

    def _crossing(self, part: Conformed, split: Split) -> pa.RecordBatch:
        """The rows and columns that some route takes, as Catalyst lets them through."""
        read = self.packer.read
        columns = {name: one_chunk(part.events.column(name)) for name in part.events.column_names}
        batch = Batch(part.times, columns)
        judged = [_judged(batch, test) for test in read.tests]
        crossing = {TIME: pa.array(part.times)} | _marks(judged, mark_columns(read))
        left_behind = self._ordering if split.is_apart and is_strictly_sorted(part.times) else frozenset[str]()
        crossing |= {name: columns[name] for name in read.columns if name not in left_behind}
        rows = pa.RecordBatch.from_arrays(list(crossing.values()), names=list(crossing))
        if not read.filtered:
            return rows
        is_taken = np.logical_or.reduce([judged[n] for taker in read.takers for n in taker.tests or ()])
        return rows if is_taken.all() else rows.filter(pa.array(is_taken))

    @property
    def _ordering(self) -> frozenset[str]:
        """Columns that only order events of equal times, and so stay behind where no two rows of the stream have one.
        Streams that share an order are ordered among each other, and moving subscriptions keep events as they are."""
        read, plan = self.packer.read, self.packer.plan
        return frozenset() if read.stream.shared or plan.moving else read.only_ordering


def _tested(read: Read, plan: SparkPlan) -> set[str]:
    """The attributes that tests read."""
    conditions = [(condition, {THIS: read.stream.name}) for test in read.tests for condition in test.pushed]
    return attributes_read(conditions, plan.graph.schemas).get(read.stream.name, set())


def _judged(batch: Batch, test: StreamTest) -> Mask:
    """Which rows fulfil what Catalyst would judge of a test."""
    mask = batch.mask(test.pushed, Calls(functions=loaded(()), errors=Counter()))
    return np.ones(len(batch), np.bool_) if mask is None else mask


def _marks(judged: list[Mask], names: list[str]) -> dict[str, pa.Array]:
    """Which tests rows fulfil, as bits of the narrowest integers: every byte of them is shuffled."""
    marks = {}
    for number, name in enumerate(names):
        masks = judged[number * MARKS_PER_COLUMN :][:MARKS_PER_COLUMN]
        width = next(type_ for bits, type_ in _WIDTHS.items() if len(masks) <= bits)
        bits = np.zeros(len(masks[0]), width)
        for bit, mask in enumerate(masks):
            bits |= mask.astype(width) << width(bit)
        marks[name] = pa.array(bits)
    return marks
