"""A query over streaming DataFrames: one streaming query of Spark's, with a stateful operator for each stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from situ.core.errors import InputError
from situ.core.functions import Functions
from situ.graph.operators import OperatorGraph
from situ.kernel.compile import refuse_unbounded_state
from situ.runtime.spark.inputs.own_files import way_of
from situ.runtime.spark.inputs.tables import JudgedRows
from situ.runtime.spark.plan.crossing import crossing_of_stream
from situ.runtime.spark.plan.plan import SparkPlan, plan_on_spark
from situ.runtime.spark.session.errors import SparkError
from situ.runtime.spark.session.functions import functions_used
from situ.runtime.spark.session.session import ROCKSDB
from situ.runtime.spark.session.tallies import tallies_setting
from situ.runtime.spark.session.task_memory import memory_setting
from situ.runtime.spark.session.versions import require_streams
from situ.runtime.spark.session.workers import require_python_beside_driver, require_situ_on_workers
from situ.runtime.spark.stages.output import TaggedOutput
from situ.runtime.spark.stages.restart import Restart
from situ.runtime.spark.stages.shard_processor import ShardProcessor
from situ.runtime.spark.stages.shards import PACKETS, even_keys, from_packets
from situ.runtime.spark.stages.shipped import Shipped
from situ.runtime.spark.stages.stream_packer import PartPacker, StreamPacker
from situ.runtime.spark.stages.stream_stage import StreamStage


@dataclass(frozen=True)
class DetectedRows:
    """A plan, and the tagged rows that it gives: of all kinds."""

    plan: SparkPlan
    output: TaggedOutput
    rows: DataFrame


def detect_stream(
    graph: OperatorGraph,
    inputs: Mapping[str, JudgedRows],
    functions: Functions,
    show_definitions: bool,
    shards: int | None,
    levels: int | None,
    restart: Restart,
) -> DetectedRows:
    """What a query finds in rows that have been judged. `levels`: as many stateful operators, some of which may have
    nothing to do yet."""
    refuse_unbounded_state(graph)
    session = next(iter(inputs.values())).rows.sparkSession
    require_streams(session.version)
    require_situ_on_workers(session)
    require_python_beside_driver(session)
    require_rocksdb(session)
    shards = shards or int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    used = functions_used(graph, functions)
    tallies = not show_definitions and tallies_setting(session)
    plan = plan_on_spark(graph, functions, tallies=tallies)
    levels = _levels(plan, levels)
    output = TaggedOutput.of(
        plan.contexts(functions), show_definitions, used, tuple(stream.name for stream in graph.streams)
    )
    packed = []
    for read in plan.stream_reads:
        judged = inputs[read.stream.name]
        packer = StreamPacker(read, plan, shards, levels, output, judged.reject)
        if judged.own is not None and way_of(session) != "spark":
            rows, task = judged.own.handed_out, Shipped.of(PartPacker(packer, judged.own.reader), "pack")
        else:
            rows, task = crossing_of_stream(judged.rows, read, graph, functions), Shipped.of(packer, "pack")
        packed.append(rows.mapInArrow(task, PACKETS))
    packets = reduce(DataFrame.union, packed)
    keys = even_keys(shards)
    idle = any(stream.idle_after_us is not None for stream in graph.streams)
    for number in range(levels):
        stage = StreamStage(plan, number, shards, output, used, restart, memory_setting(session))
        packets = keyed_by_shard(packets, keys).transformWithState(
            ShardProcessor(stage, keys, idle), PACKETS, "Append", "ProcessingTime" if idle else "None"
        )
    schema = from_arrow_schema(pa.schema(list(output.fields.items())))
    return DetectedRows(plan, output, packets.mapInArrow(_finished_rows, schema))


def _finished_rows(packets: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in packets:
        for _, _, rows in from_packets(batch):
            yield from rows


def keyed_by_shard(packets: DataFrame, keys: list[int]) -> GroupedData:
    """Packets by the numbers by which Spark knows their shards."""
    key = F.element_at(F.array(*map(F.lit, keys)), F.col("shard") + F.lit(1))
    return packets.withColumn("key", key).groupBy("key")


def require_rocksdb(session: SparkSession) -> None:
    """SparkError, unless the session keeps the state of streams in RocksDB."""
    provider = session.conf.get("spark.sql.streaming.stateStore.providerClass", "")
    if provider != ROCKSDB:
        raise SparkError(
            "streaming queries keep their state in RocksDB, and this session does not",
            remedy=f"spark.conf.set('spark.sql.streaming.stateStore.providerClass', '{ROCKSDB}')",
        )


def _levels(plan: SparkPlan, levels: int | None) -> int:
    needed = len(plan.stages)
    if levels is not None and levels < needed:
        raise InputError(
            f"the query regroups complex events and so needs {needed} levels, and the checkpoint has {levels}",
            remedy=f"Begin with a new checkpoint and levels={needed}, or do without the rules that regroup.",
        )
    return levels or needed
