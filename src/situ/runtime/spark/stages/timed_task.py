"""A task that says how long it took for what: rows of the tagged table, after all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from situ.core.hops import Stopwatch
from situ.runtime.spark.stages.batch_stage import finished
from situ.runtime.spark.stages.output import TaggedOutput

#: What runs in a task of Spark's.
TaskRun: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class TimedTask:
    """A task, and what it is called. `shards`: what it gives are packets for so many; None: rows of the table.

    Time in which it waits is that of Spark's Java: `waiting` for rows is scanning, testing, shuffling and crossing;
    `handing on` is the way back.
    """

    run: TaskRun
    place: str
    output: TaggedOutput
    shards: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        watch = Stopwatch()
        yield from watch.through(self.run(watch.around(batches, "waiting")), "handing on")
        rows = self.output.timing({f"{self.place}: {hop}": s for hop, s in watch.seconds.items()})
        if self.shards is None:
            yield rows
        else:
            yield from finished(rows, self.shards)


def in_task(run: TaskRun, place: str, output: TaggedOutput, shards: int | None = None) -> TaskRun:
    """What Spark is given to run: with a stopwatch, if somebody wants to know."""
    return TimedTask(run, place, output, shards) if output.timed else run
