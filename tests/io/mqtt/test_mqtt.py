"""MQTT as a source: the reader as Spark calls it, at a real broker."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from servers.debian import free_port, wait_until
from servers.mosquitto import Mosquitto, mosquitto, mosquitto_broker
from situ.core.errors import InputError, StateError
from situ.io.mqtt.publisher import Publisher
from situ.io.mqtt.receiver import Receiver
from situ.io.mqtt.spool import Message, Spool
from situ.runtime.spark.inputs.mqtt import MqttAddress, MqttStreamReader

__all__ = ["mosquitto"]  # the fixture

ALL = ReadAllAvailable()
Row = dict[str, Any]


@contextmanager
def reading(
    broker: Mosquitto, topic: str, spool: Path, max_messages: int = 1000, segment_bytes: int = 1 << 20
) -> Iterator[MqttStreamReader]:
    """A reader that has subscribed, as Spark has it in its driver."""
    reader = MqttStreamReader(MqttAddress.parse(broker.address(topic)), spool, max_messages, segment_bytes)
    try:
        reader.initialOffset()
        yield reader
    finally:
        reader.stop()


def came(reader: MqttStreamReader, start: int, count: int) -> list[Row]:
    """So many messages from a number on, when they are there; all that are there."""
    wait_until(lambda: reader.latestOffset({"next": start}, ALL)["next"] >= start + count, f"{count} messages")
    return rows(reader, start, reader.latestOffset({"next": start}, ALL)["next"])


def rows(reader: MqttStreamReader, start: int, end: int) -> list[Row]:
    batches = [b for part in reader.partitions({"next": start}, {"next": end}) for b in reader.read(part)]
    columns = [(b.column("value").cast(pa.binary()), b.column("topic"), b.column("_place")) for b in batches]
    return [
        {"value": value, "topic": topic, "_place": place}
        for values, topics, places in columns
        for value, topic, place in zip(values.to_pylist(), topics.to_pylist(), places.to_pylist(), strict=True)
    ]


def values(found: Sequence[Row], topic: str | None = None) -> list[bytes]:
    return [row["value"] for row in found if topic in (None, row["topic"])]


def test_messages_before_and_during_a_run_come_once_and_in_order(mosquitto: Mosquitto, tmp_path: Path) -> None:
    messages = [(f"run/{number % 2}", str(number).encode()) for number in range(60)]
    mosquitto.publish(("run/0", b"before the first run, so nobody keeps it"))
    with reading(mosquitto, "run/#", tmp_path):
        pass
    mosquitto.publish(*messages[:30])
    with reading(mosquitto, "run/#", tmp_path) as reader:
        mosquitto.publish(*messages[30:])
        found = came(reader, 0, 60)
    assert sorted(values(found), key=int) == [payload for _, payload in messages]
    for topic in ("run/0", "run/1"):
        assert values(found, topic) == [payload for name, payload in messages if name == topic]
    assert [row["_place"] for row in found] == [f"{row['topic']}:{number}" for number, row in enumerate(found)]


def test_any_payload_and_any_topic_come_as_they_are(mosquitto: Mosquitto, tmp_path: Path) -> None:
    payloads = [b"", b"\xff\xfe", b'{"a": "\\u0000"}', "straße\n\r\u2028".encode(), b"x" * 2_000_000, b"\0"]
    topics = ["any/ä b", "any", "any/1/2", 'any/"', "any//", "any/1"]
    with reading(mosquitto, "any/#", tmp_path) as reader:
        mosquitto.publish(*zip(topics, payloads, strict=True), ("anything/else", b"no"))
        found = came(reader, 0, 6)
        assert len(reader.partitions({"next": 0}, {"next": 6})) == 3  # the large one alone, those before and after
    assert [(row["topic"], row["value"]) for row in found] == list(zip(topics, payloads, strict=True))


def test_one_level_of_topics(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with reading(mosquitto, "level/+/speed", tmp_path) as reader:
        topics = ["level/1/speed", "level/1/2/speed", "level/2/lane", "level/2/speed"]
        mosquitto.publish(*((topic, b"") for topic in topics))
        assert [row["topic"] for row in came(reader, 0, 2)] == ["level/1/speed", "level/2/speed"]


def test_what_is_retained_comes_once(mosquitto: Mosquitto, tmp_path: Path) -> None:
    mosquitto.publish(("kept", b"old"), retain=True)
    with reading(mosquitto, "kept", tmp_path) as reader:
        assert values(came(reader, 0, 1)) == [b"old"]
    with reading(mosquitto, "kept", tmp_path) as reader:
        mosquitto.publish(("kept", b"new"))
        assert values(came(reader, 0, 2)) == [b"old", b"new"]


def test_a_batch_has_a_limit_and_is_pruned_when_committed(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with reading(mosquitto, "limit", tmp_path, max_messages=4, segment_bytes=1) as reader:
        assert reader.getDefaultReadLimit() == ReadMaxRows(4)
        for number in range(10):
            mosquitto.publish(("limit", str(number).encode()))
            came(reader, number, 1)  # one by one, so that each has a segment to itself
        assert reader.latestOffset({"next": 0}, ReadMaxRows(4)) == {"next": 4}
        assert reader.latestOffset({"next": 8}, ReadMaxRows(4)) == reader.reportLatestOffset() == {"next": 10}
        repeated = [rows(reader, 0, 4) for _ in range(2)]
        assert repeated[0] == repeated[1]
        before = len(list(tmp_path.glob("*.jsonl")))
        reader.commit({"next": 4})
        reader.commit({"next": 8})
        assert before == 10
        assert len(list(tmp_path.glob("*.jsonl"))) == 2
        assert values(rows(reader, 8, 10)) == [b"8", b"9"]
    with reading(mosquitto, "limit", tmp_path) as reader:
        assert reader.initialOffset() == {"next": 8}
        with pytest.raises(StateError, match=r"the checkpoint has read 11 messages, the spool .* has had 10"):
            reader.latestOffset({"next": 11}, ALL)


KILLED = """
import os, signal, sys
from pathlib import Path
from situ.runtime.spark.inputs.mqtt import MqttAddress
from situ.io.mqtt.publisher import Publisher
from situ.io.mqtt.receiver import Receiver
from situ.io.mqtt.spool import Spool

class Killed(Spool):
    def append(self, messages):
        if sys.argv[3] == "written":
            super().append(messages)
        os.kill(os.getpid(), signal.SIGKILL)

receiver = Receiver(MqttAddress.parse(sys.argv[1]), Killed(sys.argv[2]))
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("when", ["received", "written"])
def test_killed_before_the_acknowledgement(mosquitto: Mosquitto, tmp_path: Path, when: str) -> None:
    """Nothing is lost. What was on the disk already comes a second time, because the broker does not know."""
    topic = f"killed/{when}"
    command = [sys.executable, "-c", KILLED, mosquitto.address(topic), str(tmp_path), when]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        mosquitto.publish(*((topic, str(number).encode()) for number in range(50)))
        assert process.wait(60) == -9
    sent = [str(number).encode() for number in range(50)]
    on_disk = Spool(tmp_path)
    blocks = on_disk.blocks(0, on_disk.next, 1 << 20)
    twice = [message.payload for block in blocks for message in block.messages()]
    on_disk.close()
    assert bool(twice) == (when == "written")
    with reading(mosquitto, topic, tmp_path) as reader:
        found = values(came(reader, 0, 50 + len(twice)))
    assert Counter(found) == Counter(sent) + Counter(twice)
    assert found[len(twice) :] == sent


def test_what_cannot_be_written_is_not_acknowledged(mosquitto: Mosquitto, tmp_path: Path) -> None:
    class FullDisk(Spool):
        def append(self, messages: Sequence[Message]) -> None:
            raise OSError(28, "No space left on device")

    spool = FullDisk(tmp_path)
    receiver = Receiver(MqttAddress.parse(mosquitto.address("full")), spool)
    mosquitto.publish(("full", b"1"), ("full", b"2"))
    wait_until(lambda: receiver._failure is not None, "the failure")
    with pytest.raises(InputError, match=r"cannot be written: .*No space left"):
        receiver.check()
    receiver.close()
    spool.close()
    with reading(mosquitto, "full", tmp_path) as reader:
        assert values(came(reader, 0, 2)) == [b"1", b"2"]


@pytest.mark.slow  # a client waits a second before it connects again
def test_a_lost_connection_is_found_again(tmp_path: Path, mosquitto: Mosquitto) -> None:
    with mosquitto_broker() as broker, reading(broker, "lost", tmp_path) as reader:
        broker.publish(("lost", b"1"))
        came(reader, 0, 1)
        broker.restart()
        broker.publish(("lost", b"2"))
        assert values(came(reader, 0, 2)) == [b"1", b"2"]
        broker.stop()
        reader.latestOffset({"next": 0}, ALL)  # no error: it may come back
        broker.start()
        broker.publish(("lost", b"3"))
        assert values(came(reader, 0, 3)) == [b"1", b"2", b"3"]


@contextmanager
def scripted_broker(*answers: bytes) -> Iterator[int]:
    """A port that says these things, each when the client has said something; `{mid}` is the client's number."""

    def serve() -> None:
        with listening.accept()[0] as client:
            for answer in answers:
                said = client.recv(4096)
                client.sendall(answer.replace(b"{mid}", said[2:4]))
            client.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield listening.getsockname()[1]
        finally:
            serving.join()


CONNECTED, SUBSCRIBED, TAKEN_OVER = b"\x20\x03\0\0\0", b"\x90\x04{mid}\0\x01", b"\xe0\x02\x8e\0"


def test_another_client_with_the_same_name_ends_the_reader(tmp_path: Path) -> None:
    """Mosquitto does not tell the first client why it has to go, as it should, so this is done by hand."""
    with scripted_broker(CONNECTED, SUBSCRIBED + TAKEN_OVER) as port:
        address = MqttAddress.parse(f"mqtt://127.0.0.1:{port}/t?client_id=twin")
        reader = MqttStreamReader(address, tmp_path, 1, 1)
        with pytest.raises(InputError, match=r"another client came to .* as 'twin'"):
            wait_until(lambda: reader.latestOffset({"next": 0}, ALL)["next"], "the end of the connection")
        reader.stop()


@pytest.mark.parametrize(("granted", "message"), [(b"\0", "allows QoS 0 only"), (b"\x87", "refuses: Not authorized")])
def test_a_broker_that_promises_less(tmp_path: Path, granted: bytes, message: str) -> None:
    with (
        scripted_broker(CONNECTED, SUBSCRIBED.replace(b"\x01", granted)) as port,
        pytest.raises(InputError, match=message),
    ):
        MqttStreamReader(MqttAddress("127.0.0.1", "t", port), tmp_path, 1, 1).initialOffset()


def test_a_spool_with_another_topic_leaves_the_former(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with reading(mosquitto, "former", tmp_path):
        pass
    with reading(mosquitto, "later", tmp_path) as reader:
        mosquitto.publish(("former", b"1"), ("later", b"2"))
        assert values(came(reader, 0, 1)) == [b"2"]


def test_no_broker(tmp_path: Path) -> None:
    reader = MqttStreamReader(MqttAddress.parse(f"mqtt://a:SECRET@127.0.0.1:{free_port()}/t"), tmp_path, 1, 1)
    for _ in range(2):  # nothing is held in between
        with pytest.raises(InputError, match=r"no MQTT broker answers at mqtt://a@127.0.0.1:\d+/t") as error:
            reader.initialOffset()
        assert "SECRET" not in str(error.value)
    reader.stop()


def test_a_port_that_says_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = MqttAddress("127.0.0.1", "t", silent.getsockname()[1])
        with pytest.raises(InputError, match=r"not ready after 0\.2 s"):
            Receiver(address, spool, answer_s=0.2)
        with pytest.raises(InputError, match=r"not ready after 0\.2 s"):
            Publisher(address, answer_s=0.2)


@pytest.fixture(scope="module")
def guarded(mosquitto: Mosquitto) -> Iterator[Mosquitto]:
    """A broker that knows ann, who may write to `free` alone."""
    with mosquitto_broker({"ann": "SECRET"}, "user ann\ntopic readwrite free\n") as broker:
        yield broker


@pytest.mark.parametrize("login", ["", "ann:WRONG@", "bob@"])
def test_a_broker_that_refuses(guarded: Mosquitto, tmp_path: Path, login: str) -> None:
    address = MqttAddress.parse(guarded.address("free", login))
    spool = Spool(tmp_path)
    attempts = [lambda: Receiver(address, spool), lambda: Publisher(address)]
    for attempt in attempts:
        with pytest.raises(InputError, match=r"refuses: (Not authorized|Bad user name or password)") as error:
            attempt()
        assert "WRONG" not in str(error.value)
