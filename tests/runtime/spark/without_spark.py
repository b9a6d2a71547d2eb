"""The Spark engine's plan and Python parts in this process: tasks, partitions and shuffles by hand, in any order."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from situ.core.functions import default
from situ.graph.operators import OperatorGraph
from situ.io.rows.conform import conform
from situ.kernel.batch import Batch
from situ.runtime.spark.plan.partitioning import OneTask
from situ.runtime.spark.plan.plan import Read, plan_on_spark
from situ.runtime.spark.plan.sliced_keys import with_sliced_keys
from situ.runtime.spark.session.functions import functions_used
from situ.runtime.spark.stages.batch_stage import MARKS_PER_COLUMN, Packer, StageRun, mark_columns
from situ.runtime.spark.stages.output import KINDS, TaggedOutput
from situ.runtime.spark.stages.shards import begin_packets


def detect_without_spark(graph: OperatorGraph, tables: dict[str, pa.Table], rng: random.Random) -> pa.Table:
    """The tagged table of a query, with all definitions. Rows come in any order, in any number of partitions and
    batches; keys are whole, or in slices of time; shards come to tasks at random."""
    plan = plan_on_spark(graph, most_in_catalyst=rng.choice([0, 100]), tallies=False)
    if per_window := rng.choice([0, 1, 2]):
        plan = with_sliced_keys(plan, per_window)
    output = output_without_spark(graph)
    shards = rng.choice([1, 2, 5, 40])
    moving_shards = rng.choice([1, 2, 5])
    packets = [begin_packets(plan.beginning_stages, OneTask.shard)] if plan.beginning_stages else []
    for read in plan.reads:
        packer = Packer(read, plan, shards, moving_shards)
        for partition in partitions(crossing(read, tables[read.stream.name]), rng):
            packets += packer.pack(iter(partition))
    for stage in plan.stages:
        run = StageRun(plan, stage.number, shards, moving_shards, output, functions_used(graph, default))
        packets = [made for task in shuffled(packets, max(shards, moving_shards), rng) for made in run.run(iter(task))]
    return tagged_table(output, packets)


def tagged_table(output: TaggedOutput, rows: list[pa.RecordBatch]) -> pa.Table:
    """The rows that leave Python as one table, with words for tags."""
    events = pa.Table.from_batches(rows, pa.schema(list(output.fields.items())))
    for column, words in (("_kind", KINDS), ("_name", output.names)):
        spelt = pa.array([words[number] for number in events.column(column).to_pylist()], pa.string())
        events = events.set_column(events.column_names.index(column), column, spelt)
    return events


def output_without_spark(graph: OperatorGraph) -> TaggedOutput:
    """The form of the tagged table of a query, with all definitions."""
    plan = plan_on_spark(graph, tallies=False)
    return TaggedOutput.of(plan.contexts(default), show_definitions=True, reuses=plan.reuses)


def crossing(read: Read, table: pa.Table) -> pa.Table:
    """What Catalyst would let through, judged by the kernel."""
    conformed = conform(table, read.stream)
    columns = {name: conformed.events.column(name).combine_chunks() for name in conformed.events.column_names}
    batch = Batch(conformed.times, columns)
    calls = {"functions": default, "errors": {}}
    judged = []
    for test in read.tests:
        mask = batch.mask(test.pushed, calls)
        judged.append(np.ones(len(batch), np.bool_) if mask is None else mask)
    crossing = [pa.array(batch.times)]
    for n in range(len(mark_columns(read))):
        bits = [m.astype(np.int64) << i for i, m in enumerate(judged[n * MARKS_PER_COLUMN :][:MARKS_PER_COLUMN])]
        crossing.append(pa.array(np.bitwise_or.reduce(bits)))
    crossing += [columns[name] for name in read.columns]
    rows = pa.table(crossing, names=[f"c{n}" for n in range(len(crossing))])
    return rows.filter(pa.array(np.logical_or.reduce(judged))) if read.filtered and not read.indexed else rows


def partitions(rows: pa.Table, rng: random.Random) -> Iterator[list[pa.RecordBatch]]:
    numbers = list(range(rows.num_rows))
    rng.shuffle(numbers)
    cuts = sorted(rng.randint(0, len(numbers)) for _ in range(rng.randint(0, 3)))
    for begin, end in zip([0, *cuts], [*cuts, len(numbers)], strict=True):
        part = rows.take(pa.array(numbers[begin:end], pa.int64()))
        yield part.to_batches(max_chunksize=rng.randint(1, 5))


def shuffled(packets: list[pa.RecordBatch], shards: int, rng: random.Random) -> Iterator[list[pa.RecordBatch]]:
    """Packets of one shard meet in one task."""
    tasks = rng.randint(1, 4)
    task_of = {shard: rng.randrange(tasks) for shard in range(shards)}
    of_task: dict[int, list[pa.RecordBatch]] = {task: [] for task in range(tasks)}
    for batch in packets:
        for row in range(batch.num_rows):
            of_task[task_of[batch.column("shard")[row].as_py()]].append(batch.slice(row, 1))
    for task in of_task.values():
        rng.shuffle(task)
        yield task
