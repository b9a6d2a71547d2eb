"""Kafka: addresses and errors by themselves; messages against a broker that runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from situ.core.errors import InputError
from situ.io.kafka_address import KafkaAddress
from situ.runtime.spark.inputs.kafka import kafka_conf, kafka_error, read_messages, require_topic, write_batch
from situ.runtime.spark.session.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from servers.kafka import Broker

pytest_plugins = ["servers.kafka"]  # the fixture kafka_broker

CARS = KafkaAddress("host:9092", "cars")
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="s3+cr%25t";'


# ---- addresses


def test_an_address_has_brokers_a_topic_and_options() -> None:
    address = KafkaAddress.parse(
        "kafka://one:9092,[::1]:9093/cars.v-2_x?startingOffsets=earliest&maxOffsetsPerTrigger=5&kafka.client.id=me"
    )
    assert address.servers == "one:9092,[::1]:9093"
    assert address.topic == "cars.v-2_x"
    assert address.options == {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "5",
        "kafka.client.id": "me",
    }
    assert address.client_options == {"kafka.bootstrap.servers": address.servers, "kafka.client.id": "me"}


def test_offsets_may_be_given_for_each_partition() -> None:
    offsets = '{"cars": {"0": 17, "1": -2}}'
    assert KafkaAddress.parse(f"kafka://h:1/cars?startingOffsets={offsets}").options["startingOffsets"] == offsets


def test_a_password_is_taken_as_it_is_and_never_told() -> None:
    address = KafkaAddress.parse(f"kafka://host:9092/cars?kafka.sasl.jaas.config={LOGIN}")
    assert address.options["kafka.sasl.jaas.config"] == LOGIN.replace("%25", "%")
    assert address.shown == "kafka://host:9092/cars"
    for quoted in (address.options["kafka.sasl.jaas.config"], 'the password is "s3+cr%t"'):
        error = kafka_error(f"Login failed: {quoted}", address)
        for told in (address.shown, repr(address), str(error)):
            assert "s3" not in told


@pytest.mark.parametrize(
    ("address", "cause"),
    [
        ("host:9092/cars", "begins with kafka://"),
        ("kafka:///cars", "names no broker"),
        ("kafka://host/cars", "'host' is no HOST:PORT"),
        ("kafka://host:0/cars", "'host:0' is no HOST:PORT"),
        ("kafka://host:65536/cars", "'host:65536' is no HOST:PORT"),
        ("kafka://host:9092,/cars", "'' is no HOST:PORT"),
        ("kafka://host:9092", "names no topic"),
        ("kafka://host:9092/?startingOffsets=latest", "names no topic"),
        ("kafka://host:9092/cars,vans", "'cars,vans' is no name of a topic"),
        ("kafka://host:9092/..", "'..' is no name of a topic"),
        ("kafka://host:9092/" + "x" * 250, "is no name of a topic"),
        ("kafka://host:9092/cars?startingOffset=latest", "Did you mean 'startingOffsets'?"),
        ("kafka://host:9092/cars?startingOffsets=soon", "startingOffsets does not say where to start"),
        ("kafka://host:9092/cars?startingOffsets=17", "startingOffsets does not say where to start"),
        ("kafka://host:9092/cars?maxOffsetsPerTrigger=1&maxOffsetsPerTrigger=2", "maxOffsetsPerTrigger is there twice"),
        ("kafka://host:9092/cars?subscribe=vans", "is what the address itself says"),
        ("kafka://host:9092/cars?kafka.bootstrap.servers=h:1", "is what the address itself says"),
        ("kafka://host:9092/cars?kafka.auto.offset.reset=earliest", "cannot be set"),
    ],
)
def test_what_is_no_address(address: str, cause: str) -> None:
    with pytest.raises(InputError, match=re.escape(cause)):
        KafkaAddress.parse(address)


@pytest.mark.parametrize(
    "address",
    ["kafka://me:s3cret@host:9092/cars", "kafka://host:9092/cars?kafka.ssl.key.password=a&s3cret", "s3cret://h:1/cars"],
)
def test_a_wrong_address_tells_no_password_either(address: str) -> None:
    with pytest.raises(InputError) as raised:
        KafkaAddress.parse(address)
    assert "s3cret" not in str(raised.value)


def test_where_to_start_means_nothing_for_writing() -> None:
    assert KafkaAddress.parse("kafka://h:1/out?kafka.linger.ms=5", writing=True).options == {"kafka.linger.ms": "5"}
    with pytest.raises(InputError, match="startingOffsets is for reading only"):
        KafkaAddress.parse("kafka://h:1/out?startingOffsets=latest", writing=True)


# ---- the connector


def test_a_session_is_given_the_connector() -> None:
    def fetch(name: str, coordinates: Sequence[str], *, transitive: bool) -> list[Path]:
        assert not transitive
        return [Path("/cache", coordinate.split(":")[1] + ".jar") for coordinate in coordinates]

    connector = kafka_conf(fetch=fetch)["spark.jars"]
    assert connector.startswith("/cache/spark-sql-kafka-0-10_2.13.jar,")
    assert kafka_conf({"spark.jars": "a.jar"}, fetch) == {"spark.jars": f"a.jar,{connector}"}


@pytest.mark.parametrize(
    "given",
    [
        {"spark.jars": "/jars/spark-sql-kafka-0-10_2.13-4.3.0.jar"},
        {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"},
    ],
)
def test_a_connector_that_is_given_stays(given: dict[str, str]) -> None:
    assert kafka_conf(given) == given


# ---- errors, in the words of Spark 4.3 and Kafka's client 3.9


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("[KAFKA_DATA_SOURCE_NOT_ENABLED] Failed to find data source: kafka. Please deploy", "has no connector"),
        (
            "[STREAM_FAILED] Query [id = 4] terminated with exception: 'void "
            "org.apache.spark.sql.execution.streaming.SerializedOffset.<init>(java.lang.String)' SQLSTATE: XXKST",
            "connector for Kafka does not fit its Spark",
        ),
        (
            "Lost task 1.0: org.apache.kafka.common.errors.TimeoutException: Topic cars not present in metadata after "
            "3000 ms.\nCaused by: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does "
            "not host this topic-partition.",
            "there is no such topic",
        ),
        ("TimeoutException: Topic cars not present in metadata after 3000 ms.", "no broker answers"),
        ("Caused by: ConfigException: No resolvable bootstrap urls given in bootstrap.servers", "no broker answers"),
        (
            "An error occurred while calling o1.count.\n: org.apache.spark.SparkException: Job aborted\n"
            "Caused by: org.apache.kafka.common.config.ConfigException: Invalid value many for configuration "
            "fetch.min.bytes: Not a number of type INT",
            "Kafka: Job aborted (Invalid value many for configuration fetch.min.bytes: Not a number of type INT)",
        ),
    ],
)
def test_an_error_says_the_topic_and_the_cause(text: str, cause: str) -> None:
    error = kafka_error(text, CARS)
    assert error.place == "kafka://host:9092/cars"
    assert cause in error.cause


WITHOUT_CONNECTOR = """
from situ.io.kafka_address import KafkaAddress
from situ.runtime.spark.inputs.kafka import read_messages
from situ.runtime.spark.session.session import spark_session
spark = spark_session("local[1]", {"spark.driver.memory": "1g"})
try:
    read_messages(spark, KafkaAddress("127.0.0.1:1", "cars"))
except Exception as error:
    print(type(error).__name__, error)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.storm
def test_a_session_without_the_connector_says_how_to_get_it() -> None:
    """In a process of its own: the session of the tests has it."""
    own = {name: value for name, value in os.environ.items() if name not in ("SPARK_CONF_DIR", "SPARK_REMOTE")}
    command = [sys.executable, "-c", WITHOUT_CONNECTOR]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=own)
    assert "SparkError kafka://127.0.0.1:1/cars: this Spark session has no connector for Kafka." in done.stdout
    assert "situ.spark_session(conf=kafka_conf())" in done.stdout


# ---- against a broker


@pytest.fixture(scope="module")
def broker(kafka_broker: Broker, spark: SparkSession) -> Broker:
    topic = kafka_broker.create_topic("empty")
    try:
        require_topic(spark, KafkaAddress.parse(kafka_broker.address(topic)))
    except SparkError as error:
        if "has no connector" not in error.cause:
            raise
        pytest.skip("the session of the tests has no connector for Kafka: connector_conf() is not among its settings")
    return kafka_broker


def follow(spark: SparkSession, address: KafkaAddress, folder: Path) -> list[Row]:
    """All that comes of the topic, from where the checkpoint says, until nothing more is there."""

    def texts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Every value as a Python text, as a caller's own code has it: bytes that are no UTF-8 would raise here."""
        for batch in batches:
            columns = {name: batch.column(name).to_pylist() for name in ("value", "_reason", "_place")}
            yield pa.RecordBatch.from_pydict(columns, pa.schema([(name, pa.string()) for name in columns]))

    messages = read_messages(spark, address).mapInArrow(texts, "value string, _reason string, _place string")
    query = (
        messages.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    assert query.awaitTermination(120)
    return spark.read.parquet(str(folder / "rows")).orderBy("_place").collect()


@pytest.mark.slow
def test_messages_are_read_once_with_their_places(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    topic = broker.create_topic("read", partitions=2)
    broker.produce(topic, ['{"speed": 1}', None, "Müller"], partition=0)
    broker.produce(topic, [b"M\xfcller", b"\xff" * 41, ""], partition=1)
    address = KafkaAddress.parse(broker.address(topic, "startingOffsets=earliest&maxOffsetsPerTrigger=4"))
    place = "topic read, partition {}, offset {}".format
    expected = [
        ('{"speed": 1}', None, place(0, 0)),
        (None, "the message has no value (a tombstone)", place(0, 1)),
        ("Müller", None, place(0, 2)),
        (None, "not UTF-8: bytes 0x4dfc6c6c6572", place(1, 0)),
        (None, "not UTF-8: bytes 0x" + "ff" * 40 + "...", place(1, 1)),
        ("", None, place(1, 2)),
    ]
    assert [tuple(row) for row in follow(spark, address, tmp_path)] == expected

    # Started again, it goes on after the last message: nothing is missing, nothing is there twice.
    broker.produce(topic, ["later"], partition=0)
    expected.insert(3, ("later", None, place(0, 3)))
    assert [tuple(row) for row in follow(spark, address, tmp_path)] == expected


@pytest.mark.slow
def test_messages_are_written(broker: Broker, spark: SparkSession) -> None:
    topic = broker.create_topic("written")
    address = KafkaAddress.parse(broker.address(topic), writing=True)
    for key, value in (('Müller "x"', '{"a.b":2}'), (None, '{"_batch":7,"_row":0}')):
        write_batch(spark.createDataFrame([(key, value)], "key string, value string"), address)
    assert broker.read_all(topic) == [
        ('Müller "x"'.encode(), b'{"a.b":2}'),
        (None, b'{"_batch":7,"_row":0}'),
    ]


@pytest.mark.slow
@pytest.mark.storm
def test_no_topic_and_no_broker(broker: Broker, spark: SparkSession) -> None:
    with pytest.raises(SparkError, match=f"^{re.escape(broker.address('nowhere'))}: there is no such topic") as raised:
        read_messages(spark, KafkaAddress.parse(broker.address("nowhere")))
    assert "names are case-sensitive" in raised.value.remedy
    soon = "kafka.default.api.timeout.ms=1000&kafka.request.timeout.ms=1000"
    with pytest.raises(SparkError, match=r"^kafka://127\.0\.0\.1:1/cars: no broker answers"):
        require_topic(spark, KafkaAddress.parse(f"kafka://127.0.0.1:1/cars?{soon}"))
    messages = spark.createDataFrame([(None, "{}")], "key string, value string")
    with pytest.raises(SparkError, match="there is no such topic"):
        write_batch(messages, KafkaAddress.parse(broker.address("nowhere", "kafka.max.block.ms=1000"), writing=True))
    with pytest.raises(SparkError, match="no broker answers"):
        write_batch(messages, KafkaAddress.parse("kafka://127.0.0.1:1/cars?kafka.max.block.ms=1000", writing=True))
