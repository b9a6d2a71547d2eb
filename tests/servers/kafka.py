"""A real Kafka broker for tests: one node without ZooKeeper, on a free port, gone when the tests are through.

In conftest.py:

    from servers.kafka import connector_conf, kafka_broker  # the fixture, and settings for the session of the tests
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from situ.runtime.spark.inputs.kafka import kafka_conf
from situ.runtime.spark.session.errors import SparkError
from situ.runtime.spark.session.jars import fetched
from situ.runtime.spark.session.java import find_java

BROKER = ["org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36"]

START_S, STOP_S, ANSWER_S = 60, 20, 30
CLUSTER = "c2l0dS10ZXN0cy1rYWZrYQ"  # 22 characters of base64, as Kafka wants them

SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={home}/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
"""


def connector_conf() -> dict[str, str]:
    """Settings for a session that is to read and write Kafka; none, if the connector's jars cannot be had."""
    try:
        return kafka_conf()
    except SparkError:
        return {}  # tests that need them ask for the broker, too, and are skipped with the reason


@dataclass(frozen=True)
class Broker:
    """A broker that runs, and what tests do with it."""

    server: str

    def address(self, topic: str, options: str = "") -> str:
        return f"kafka://{self.server}/{topic}" + (f"?{options}" if options else "")

    def create_topic(self, topic: str, partitions: int = 1) -> str:
        admin = AdminClient(self._client())
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(ANSWER_S)
        # The controller knows it; a client may ask when the broker does, too.
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until:
            found = admin.list_topics(timeout=ANSWER_S).topics.get(topic)
            if found is not None and found.error is None and len(found.partitions) == partitions:
                return topic
        raise TimeoutError(f"topic {topic} is not there after {ANSWER_S} s")

    def produce(self, topic: str, values: Sequence[str | bytes | None], partition: int = 0) -> None:
        """Messages in this order; None is a tombstone. Returns when the broker has all of them."""
        failed: list[object] = []
        producer = Producer(self._client())
        for value in values:
            producer.produce(
                topic,
                value,
                key=None if value is not None else b"gone",
                partition=partition,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        left = producer.flush(ANSWER_S)
        if failed or left:
            raise AssertionError(f"{left} messages were not sent, {len(failed)} failed: {failed[:1]}")

    def read_all(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Key and value of all messages that are there now, partition by partition."""
        consumer = Consumer({**self._client(), "group.id": "tests", "enable.auto.commit": False})
        try:
            found: list[tuple[bytes | None, bytes | None]] = []
            for partition in sorted(consumer.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions):
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_S)
                consumer.assign([TopicPartition(topic, partition, low)])
                while low < high:
                    message = consumer.poll(ANSWER_S)
                    if message is None or message.error():
                        raise AssertionError(
                            f"no message at {topic}-{partition} from {low}: {message and message.error()}"
                        )
                    found.append((message.key(), message.value()))
                    low = message.offset() + 1
            return found
        finally:
            consumer.close()

    def _client(self) -> dict[str, str | int]:
        return {"bootstrap.servers": self.server, "log_level": 0}


@contextmanager
def running_broker() -> Iterator[Broker]:
    """A broker that answers. SparkError, if it cannot be had."""
    jars = fetched("kafka", BROKER, transitive=True)
    with tempfile.TemporaryDirectory(prefix="situ-kafka-") as directory:
        home = Path(directory)
        port, controller = _free_ports(2)
        settings = home / "server.properties"
        settings.write_text(SETTINGS.format(home=home, port=port, controller=controller), encoding="utf-8")
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command = [str(find_java(os.environ).command), *options, "-cp", ":".join(map(str, jars))]
        output = home / "output"
        with output.open("wb") as log:
            formatting = [*command, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)]
            if subprocess.run(formatting, stdout=log, stderr=log, timeout=START_S, check=False).returncode:
                raise SparkError(f"Kafka's directory cannot be made: {_tail(output)}")
            process = subprocess.Popen([*command, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
        try:
            broker = Broker(f"127.0.0.1:{port}")
            _await_answer(broker, process, output)
            yield broker
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    """One broker for all tests of this process. Topics are theirs: each creates its own."""
    try:
        kafka_conf()
        context = running_broker()
        broker = context.__enter__()
    except SparkError as reason:
        pytest.skip(f"no Kafka broker: {reason.cause}")
    try:
        yield broker
    finally:
        context.__exit__(None, None, None)


def _await_answer(broker: Broker, process: subprocess.Popen[bytes], output: Path) -> None:
    admin = AdminClient(broker._client())
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SparkError(f"Kafka ended with code {process.returncode}: {_tail(output)}")
        try:
            if admin.list_topics(timeout=0.5).brokers:  # waits so long for an answer
                return
        except KafkaException:
            continue
    raise SparkError(f"Kafka does not answer after {START_S} s: {_tail(output)}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _tail(output: Path) -> str:
    lines = output.read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:])[-500:]
