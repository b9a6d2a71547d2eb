"""How fast JSON messages of a Kafka topic are detected in, beside Spark's own read and parse of the same topic.

`python -m situ.bench.kafka_speed HOST:PORT` writes a topic of messages of a kilobyte to a broker that runs, once, and
reads it in both ways; needs `situ[kafka]` and Kafka's connector for Spark.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from situ.bench.measure import STREAMING_CONF
from situ.bench.spark_streaming import SCHEMA
from situ.bench.suite import Bar, BenchFigure
from situ.bench.workload import Workload, events, query_text
from situ.io.kafka_address import KafkaAddress
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.detect import detect_rows
from situ.runtime.spark.inputs.kafka import kafka_conf, read_messages
from situ.runtime.spark.inputs.stream_sources import open_stream
from situ.runtime.spark.session.session import borrowed_session

TOPIC, PARTITIONS = "situ-bench", 2
MESSAGES, MESSAGE_BYTES = 400_000, 1_000
#: Messages in a micro-batch, and micro-batches that are not measured.
PER_BATCH, COLD_BATCHES = 100_000, 1


def messages() -> Iterator[bytes]:
    """The events of `next` with 3 types as JSON, made up to a kilobyte by a text that no rule reads."""
    table = events(0, MESSAGES, types=3, keys=1000)
    times = pc.strftime(table.column("ts"), "%Y-%m-%dT%H:%M:%SZ").to_pylist()
    columns = [table.column(name).to_pylist() for name in ("id", "key", "type", "value")]
    for id_, key, type_, value, time in zip(*columns, times, strict=True):
        event = {"id": id_, "key": key, "type": type_, "value": value, "ts": time, "note": ""}
        event["note"] = "x" * (MESSAGE_BYTES - len(json.dumps(event)))
        yield json.dumps(event).encode()


def fill_topic(server: str) -> None:
    """Writes the messages, unless the topic is there."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    client: dict[str, str | int | float | bool] = {"bootstrap.servers": server}
    admin = AdminClient(client)
    if TOPIC in admin.list_topics(timeout=30).topics:
        return
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    producer = Producer({**client, "linger.ms": 50})
    for number, message in enumerate(messages()):
        producer.produce(TOPIC, message, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush(60)
    producer.flush(60)


def milliseconds(rows: DataFrame) -> float:
    """What a message takes in the warm micro-batches of a streaming query into a sink that drops its rows."""
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
        writer = rows.writeStream.format("noop").option("checkpointLocation", work)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    batches = [(p.numInputRows, p.durationMs["triggerExecution"]) for p in query.recentProgress if p.numInputRows]
    warm = batches[COLD_BATCHES:]
    return float(sum(ms for _, ms in warm)) / sum(count for count, _ in warm)


def by_situ(spark: SparkSession, address: str, work: Path) -> DataFrame:
    graph = resolve(parse(query_text(Workload(types=3)), "benchmark"))
    (stream,) = graph.streams
    return detect_rows(graph, {stream.name: open_stream(spark, address, stream, work)}).events


def by_spark(spark: SparkSession, address: str) -> DataFrame:
    """Spark's own read and parse, and nothing else."""
    text = F.col("value").cast("string")
    return read_messages(spark, KafkaAddress.parse(address)).select(F.from_json(text, SCHEMA).alias("e")).select("e.*")


def kafka_figure(server: str) -> BenchFigure:
    fill_topic(server)
    address = f"kafka://{server}/{TOPIC}?startingOffsets=earliest&maxOffsetsPerTrigger={PER_BATCH}"
    with borrowed_session(conf={**STREAMING_CONF, **kafka_conf()}) as spark, tempfile.TemporaryDirectory() as work:
        own = milliseconds(by_spark(spark, address))
        situ = milliseconds(by_situ(spark, address, Path(work)))
    detail = f"{1e3 / situ:,.0f} messages/s, Spark's own read and parse {1e3 / own:,.0f}"
    measured = {"messages_per_s": 1e3 / situ, "messages_per_s_of_spark": 1e3 / own}
    name = "spark-streaming: Kafka, messages of 1 KB, next, 3 types"
    return BenchFigure(name, round(own / situ, 2), "x Spark's read and parse", detail, measured, Bar("at least", 0.5))


def main() -> int:
    from situ.bench.__main__ import table

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("server", help="a broker that runs, as HOST:PORT")
    Console().print(table([kafka_figure(parser.parse_args().server)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
