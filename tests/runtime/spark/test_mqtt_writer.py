"""MQTT as a sink: the writer as Spark's tasks call it, at a real broker."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from servers.debian import free_port
from servers.mosquitto import Mosquitto, mosquitto, mosquitto_broker
from situ.core.errors import InputError
from situ.io.mqtt.publisher import Publisher
from situ.runtime.spark.inputs.mqtt import MqttAddress, MqttWriter

__all__ = ["mosquitto"]  # the fixture

VALUES = StructType().add("value", StringType())
BOTH = StructType().add("value", StringType()).add("topic", StringType())


def write(address: str, schema: StructType, *batches: pa.RecordBatch) -> None:
    MqttWriter(MqttAddress.parse(address), schema).write(iter(batches))


@pytest.fixture(scope="module")
def guarded(mosquitto: Mosquitto) -> Iterator[Mosquitto]:
    """A broker that knows ann, who may write to `free` alone."""
    with mosquitto_broker({"ann": "SECRET"}, "user ann\ntopic readwrite free\n") as broker:
        yield broker


def test_rows_become_messages(mosquitto: Mosquitto) -> None:
    empty = pa.record_batch({"value": pa.array([], pa.string()), "topic": pa.array([], pa.string())})
    first = pa.record_batch({"value": ["1", "", "ü"], "topic": [None, "sink/other", "sink/other"]})
    raw = pa.array([b"\xff"], pa.binary()).view(pa.string())
    second = pa.record_batch({"value": raw, "topic": pa.array([None], pa.string())})
    with mosquitto.subscribed("sink/#") as take:
        write(mosquitto.address("sink/usual"), BOTH, empty, first, second)
        usual, other = "sink/usual", "sink/other"
        assert take(4) == [(usual, b"1"), (other, b""), (other, "ü".encode()), (usual, b"\xff")]


def test_more_rows_than_may_be_on_their_way(mosquitto: Mosquitto) -> None:
    sent = [str(number) for number in range(3000)]
    with mosquitto.subscribed("many") as take:
        write(mosquitto.address("many"), VALUES, pa.record_batch({"value": sent}))
        assert [payload.decode() for _, payload in take(3000)] == sent


def test_without_rows_no_connection_is_made() -> None:
    write(f"mqtt://127.0.0.1:{free_port()}/t", VALUES, pa.record_batch({"value": pa.array([], pa.string())}))


@pytest.mark.slow  # a client waits a second before it connects again
def test_a_broker_that_goes_and_comes_gets_everything(mosquitto: Mosquitto) -> None:
    with mosquitto_broker() as broker:
        with Publisher(MqttAddress.parse(broker.address("again"))) as publisher:
            broker.stop()
            for number in range(10):
                publisher.publish("again", str(number).encode())
            broker.start()

        def publish_to_nobody() -> None:
            with Publisher(MqttAddress.parse(broker.address("again")), patience_s=0.2) as publisher:
                broker.stop()
                publisher.publish("again", b"")

        with pytest.raises(InputError, match=r"1 messages are not acknowledged after 0\.2 s \(the connection ended"):
            publish_to_nobody()


@contextmanager
def hanging_up_broker() -> Iterator[int]:
    """A port that welcomes everybody, and hangs up when a message comes."""

    def serve() -> None:
        with suppress(OSError):  # nobody listens any more
            while True:
                with listening.accept()[0] as client:
                    client.recv(4096)
                    client.sendall(b"\x20\x03\0\0\0")
                    client.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()


@pytest.mark.slow  # a client waits a second before it connects again
def test_patience_ends_also_with_a_broker_that_hangs_up_again_and_again() -> None:
    def publish(port: int) -> None:
        with Publisher(MqttAddress("127.0.0.1", "t", port), patience_s=1.5) as publisher:
            publisher.publish("t", b"1")

    with (
        hanging_up_broker() as port,
        pytest.raises(InputError, match=r"1 messages are not acknowledged after 1\.5 s \(the connection ended"),
    ):
        publish(port)


@pytest.mark.parametrize(
    ("topic", "batch", "message"),
    [
        ("t", {"value": pa.array([None], pa.string())}, "has no value"),
        ("t", {"value": ["1"], "topic": ["a/#"]}, "no message can go to the topic 'a/#'"),
        ("t", {"value": ["1"], "topic": [""]}, "no message can go to the topic ''"),
    ],
)
def test_rows_that_are_no_messages(mosquitto: Mosquitto, topic: str, batch: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        write(mosquitto.address(topic), BOTH if "topic" in batch else VALUES, pa.record_batch(batch))


@pytest.mark.parametrize(
    ("address", "schema", "message"),
    [
        ("mqtt://b/a/#", VALUES, "which is many topics"),
        ("mqtt://b/a", StructType().add("v", StringType()), "need a column 'value'"),
        ("mqtt://b/a", StructType().add("value", LongType()), "need a column 'value'"),
        (
            "mqtt://b/a",
            StructType().add("value", StringType()).add("n", LongType()),
            "cannot have the columns value, n",
        ),
    ],
)
def test_columns_that_are_no_messages(address: str, schema: StructType, message: str) -> None:
    with pytest.raises(InputError, match=message):
        write(address, schema)


def test_a_topic_that_is_not_allowed(guarded: Mosquitto) -> None:
    batch = pa.record_batch({"value": ["1"]})
    write(guarded.address("free", "ann:SECRET@"), VALUES, batch)
    with pytest.raises(InputError, match="refuses: Not authorized") as error:
        write(guarded.address("closed", "ann:SECRET@"), VALUES, batch)
    assert "SECRET" not in str(error.value)
