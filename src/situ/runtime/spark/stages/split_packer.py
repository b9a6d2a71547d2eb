"""Splits of files -> packets, in Spark's Python workers: rows are read, judged, tested and packed in one place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from situ.core.hops import hop
from situ.io.files.root import Root
from situ.kernel.matching.order import is_strictly_sorted
from situ.runtime.spark.inputs.splits import Split, SplitReader
from situ.runtime.spark.stages.batch_stage import Packer, finished
from situ.runtime.spark.stages.output import TaggedOutput
from situ.runtime.spark.stages.rows_that_cross import columns_tested, rows_that_cross


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
        needed = sorted({*read.columns, *columns_tested(read, self.packer.plan)})
        for split in splits:
            with hop("scan"):
                part = reader.with_shown_places(reader.row_groups(split).read(needed))
            if part.rejected.num_rows:
                (rejected,) = part.rejected.combine_chunks().to_batches()
                rows = self.output.rejected(read.stream.name, rejected)
                yield from finished(rows, self.packer.shards)
            if len(part.times):
                is_unique = split.is_apart and is_strictly_sorted(part.times)
                with hop("tests"):
                    rows = rows_that_cross(part, read, self._ordering if is_unique else frozenset())
                yield from self.packer.packets(rows)

    @property
    def _ordering(self) -> frozenset[str]:
        """Columns that only order events of equal times, and so stay behind where no two rows of the stream have one.
        Streams that share an order are ordered among each other, and moving subscriptions keep events as they are."""
        read, plan = self.packer.read, self.packer.plan
        return frozenset() if read.stream.shared or plan.moving else read.only_ordering
