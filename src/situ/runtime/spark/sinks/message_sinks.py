"""Results of a streaming query as messages: one JSON object each, to Kafka or MQTT.

A broker gets each message at least once. What is repeated has the same `_query`, `_batch` and `_row`, by which a
consumer knows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from situ.io.files.json_text import rows_to_json
from situ.io.kafka_address import KafkaAddress
from situ.io.tagged_results import tagged
from situ.runtime.spark.inputs import kafka, mqtt
from situ.runtime.spark.sinks.result_tables import Tables
from situ.runtime.spark.stages.output import FAILED_CALL


@dataclass(frozen=True)
class KafkaSink:
    """A topic. The key of a message is what tells repetitions, so that a compacted topic holds each result once."""

    address: KafkaAddress
    tables: Tables
    query: str

    def write(self, events: DataFrame, batch: int) -> None:
        messages = results_to_messages(events, self.tables, self.query, batch)
        kafka.write_batch(messages, self.address)


@dataclass(frozen=True)
class MqttSink:
    """A topic of a broker."""

    address: mqtt.MqttAddress
    tables: Tables
    query: str

    def write(self, events: DataFrame, batch: int) -> None:
        messages = results_to_messages(events, self.tables, self.query, batch)
        mqtt.write_batch(messages.select("value"), self.address)


def results_to_messages(events: DataFrame, tables: Tables, query: str, batch: int) -> DataFrame:
    """`key` and `value` of a message for each result in a tagged table.

    The number `_row` is that of the message's place in the order of texts, partition by partition: a repeated batch
    has the same results in the same partitions, but not in the same order.
    """
    texts = events.mapInArrow(ResultWriter(tables).texts, "text string").sortWithinPartitions("text")
    numbered = texts.select("text", F.monotonically_increasing_id().cast("string").alias("row"))
    start = F.lit(f'{{"_query": {json.dumps(query)}, "_batch": {batch}, "_row": ')
    value = F.concat(start, F.col("row"), F.lit(", "), F.expr("substring(text, 2)"))
    key = F.concat(F.lit(f"{query}/{batch}/"), F.col("row"))
    return numbered.select(key.alias("key"), value.alias("value"))


@dataclass(frozen=True)
class ResultWriter:
    """In a task: tagged rows -> texts."""

    tables: Tables

    def texts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for kind, name, table in self.tables.split(batch):
                if kind != FAILED_CALL:
                    yield pa.record_batch([rows_to_json(tagged(kind, name, table))], names=["text"])
