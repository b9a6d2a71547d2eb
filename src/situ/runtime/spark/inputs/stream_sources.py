"""Streams by their addresses: a directory, a topic of Kafka, or topics of MQTT."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from situ.graph.query import Stream
from situ.io.addresses import SOURCES, directory_of, scheme_of, unknown_address
from situ.io.kafka_address import KafkaAddress
from situ.io.mqtt.client import require_paho
from situ.runtime.spark.inputs.kafka import read_messages
from situ.runtime.spark.inputs.mqtt import MqttAddress, read_stream
from situ.runtime.spark.inputs.stream_files import files_to_rows
from situ.runtime.spark.inputs.stream_messages import messages_to_rows
from situ.runtime.spark.inputs.tables import JudgedRows


def check_source(address: str) -> None:
    """InputError, without anything secret, if an address is none of a source. Needs no Spark."""
    match scheme_of(address):
        case "directory":
            directory_of(address)
        case "kafka":
            KafkaAddress.parse(address)
        case "mqtt":
            MqttAddress.parse(address)
        case _:
            raise unknown_address(address, SOURCES, "source")


def open_stream(spark: SparkSession, address: str, stream: Stream, work: Path) -> JudgedRows:
    """All rows that come from an address, those that fit the stream and those that do not.

    `work` is a directory of this stream alone, beside the checkpoint of the query, and is kept as long as that.
    """
    match scheme_of(address):
        case "directory":
            return files_to_rows(spark, directory_of(address), stream, work)
        case "kafka":
            topic = KafkaAddress.parse(address)
            return messages_to_rows(read_messages(spark, topic), stream, topic.shown)
        case "mqtt":
            topics = MqttAddress.parse(address)
            require_paho()
            return messages_to_rows(read_stream(spark, topics, work), stream, topics.shown)
        case _:
            raise unknown_address(address, SOURCES, "source")
