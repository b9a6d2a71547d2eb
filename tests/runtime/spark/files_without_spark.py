"""Files that situ opens itself, read by the Python parts of the Spark engine in this process: in splits and slices of
time that are drawn at random, and in tasks that come in any order."""

from __future__ import annotations

import random
import tempfile
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.spark.without_spark import shuffled, tagged_table
from situ.core.functions import default
from situ.core.time import BEGINNING, END
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream
from situ.io.files.parquet import ParquetFile
from situ.io.files.root import Root
from situ.io.rows.conform import conform
from situ.runtime.spark.inputs.splits import SplitFiles, splits_of, told_apart
from situ.runtime.spark.plan.partitioning import OneTask
from situ.runtime.spark.plan.plan import SparkPlan, plan_on_spark
from situ.runtime.spark.plan.time_slices import TimeSlice, plan_reach_us
from situ.runtime.spark.session.functions import functions_used
from situ.runtime.spark.stages.batch_stage import Packer, StageRun
from situ.runtime.spark.stages.output import TaggedOutput
from situ.runtime.spark.stages.shards import begin_packets
from situ.runtime.spark.stages.slice_run import SliceRun
from situ.runtime.spark.stages.split_packer import SplitPacker


def files_output(graph: OperatorGraph) -> TaggedOutput:
    """The form of the tagged table of a query over files, with all definitions; rejected rows are in it, too."""
    plan = plan_on_spark(graph, tallies=False)
    streams = tuple(read.stream.name for read in plan.reads)
    return TaggedOutput.of(plan.contexts(default), show_definitions=True, reuses=plan.reuses, rejecting=streams)


def detect_files(
    graph: OperatorGraph, tables: dict[str, pa.Table], rng: random.Random, *, in_slices: bool
) -> pa.Table | None:
    """The tagged table of a query over files that have these rows; None, where they are to be read in slices of time,
    and rules or files do not allow it."""
    plan = plan_on_spark(graph, tallies=False)
    with tempfile.TemporaryDirectory() as directory:
        files = {
            read.stream.name: _written(Path(directory, read.stream.name), tables[read.stream.name], read.stream, rng)
            for read in plan.reads
        }
        if in_slices:
            return _in_slices(plan, files, files_output(graph), rng)
        return _as_packets(plan, files, files_output(graph), rng)


def _written(directory: Path, table: pa.Table, stream: Stream, rng: random.Random) -> SplitFiles:
    """The rows in some files, in order of time or not, and their splits."""
    directory.mkdir()
    numbers = list(range(len(table)))
    rng.shuffle(numbers)
    if rng.random() < 0.7 and conform(table, stream).rejected.num_rows == 0:
        times = conform(table, stream).times
        numbers.sort(key=lambda row: times[row])
    cuts = sorted(rng.randint(0, len(numbers)) for _ in range(rng.randint(0, 4)))
    splits = []
    for at, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(numbers)], strict=True)):
        path = directory / f"{at}.parquet"
        rows = table.take(pa.array(numbers[begin:end], pa.int64()))
        pq.write_table(rows, path, row_group_size=rng.choice([1, 2, 100]))
        splits += splits_of(ParquetFile.checked(path, stream), str(path), stream)
    return SplitFiles(Root.of(directory), told_apart(splits))


def _in_slices(
    plan: SparkPlan, files: dict[str, SplitFiles], output: TaggedOutput, rng: random.Random
) -> pa.Table | None:
    reach_us = plan_reach_us(plan)
    ranges = [split.time_range for of_stream in files.values() for split in of_stream.splits]
    if reach_us is None or None in ranges or functions_used(plan.graph, default):
        return None
    times = sorted(time for time_range in ranges for time in time_range or ())
    cuts = sorted({time + rng.choice([0, 1]) for time in rng.sample(times, min(len(times), rng.randint(0, 3)))})
    bounds = [BEGINNING, *cuts, END]
    slices = [TimeSlice(since, until) for since, until in pairwise(bounds)]
    rng.shuffle(slices)
    run = SliceRun(plan, files, tuple(slices), reach_us, output)
    return tagged_table(output, list(run.run(iter([pa.record_batch({"id": list(range(len(slices)))})]))))


def _as_packets(plan: SparkPlan, files: dict[str, SplitFiles], output: TaggedOutput, rng: random.Random) -> pa.Table:
    shards, moving_shards = rng.choice([1, 2, 5, 40]), rng.choice([1, 2, 5])
    packets = [begin_packets(plan.beginning_stages, OneTask.shard)] if plan.beginning_stages else []
    for read in plan.reads:
        of_stream = files[read.stream.name]
        packer = SplitPacker(
            Packer(read, plan, shards, moving_shards),
            of_stream.root,
            tuple((split,) for split in of_stream.splits),
            output,
        )
        packets += packer.pack(iter([pa.record_batch({"id": pa.array(range(len(packer.tasks)), pa.int64())})]))
    for stage in plan.stages:
        run = StageRun(plan, stage.number, shards, moving_shards, output, functions_used(plan.graph, default))
        packets = [made for task in shuffled(packets, max(shards, moving_shards), rng) for made in run.run(iter(task))]
    return tagged_table(output, packets)
