"""A task that says how long it took for what: rows of the tagged table, after all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from situ.core.hops import Stopwatch
from situ.runtime.spark.stages.batch_stage import finished
from situ.runtime.spark.stages.output import TaggedOutput
from situ.runtime.spark.stages.shipped import Shipped, Task


@dataclass(frozen=True)
class TimedTask:
    """A method of what runs in a task, and what it is called. `shards`: what it gives are packets for so many; None:
    rows of the table.

    Time in which it waits is that of Spark's Java: `waiting` for rows is scanning, testing, shuffling and crossing;
    `handing on` is the way back.
    """

    task: Any
    method: str
    place: str
    output: TaggedOutput
    shards: int | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        watch = Stopwatch()
        made = getattr(self.task, self.method)(watch.around(batches, "waiting"))
        yield from watch.through(made, "handing on")
        rows = self.output.timing({f"{self.place}: {hop}": s for hop, s in watch.seconds.items()})
        if self.shards is None:
            yield rows
        else:
            yield from finished(rows, self.shards)


def in_task(task: Any, method: str, place: str, output: TaggedOutput, shards: int | None = None) -> Task:
    """What Spark is given to run: with a stopwatch, if somebody wants to know."""
    return (
        Shipped.of(TimedTask(task, method, place, output, shards), "run") if output.timed else Shipped.of(task, method)
    )
