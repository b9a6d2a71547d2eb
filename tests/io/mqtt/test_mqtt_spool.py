"""MQTT without a broker: addresses, options and the spool."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from situ.core.errors import InputError, StateError
from situ.io.mqtt.spool import Message, Spool
from situ.runtime.spark.inputs.mqtt import MqttAddress, MqttDataSource


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("mqtt://broker/city", MqttAddress("broker", "city")),
        ("MQTT://[::1]:1884/city/#", MqttAddress("::1", "city/#", 1884)),
        ("mqtt://broker//city/+/a%3Fb?qos=0", MqttAddress("broker", "/city/+/a?b", qos=0)),
        ("mqtt://ann:p%40ss%3A@b/$share/g/#", MqttAddress("b", "$share/g/#", user="ann", password="p@ss:")),
        ("mqtt://b/c?client_id=a%20b&session_s=60", MqttAddress("b", "c", client_id="a b", session_s=60)),
    ],
)
def test_an_address_is_read_and_shown(text: str, address: MqttAddress) -> None:
    assert MqttAddress.parse(text) == address
    assert "p@ss" not in address.shown + repr(address)
    shown = MqttAddress.parse(address.shown)
    assert (shown.host, shown.port, shown.topic, shown.user) == (
        address.host,
        address.port,
        address.topic,
        address.user,
    )
    assert (shown.qos, shown.client_id, shown.session_s) == (address.qos, address.client_id, address.session_s)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kafka://ann:SECRET@broker/city", "an address of MQTT begins with mqtt://"),
        ("mqtt://ann:SECRET@/city", "names no host and port"),
        ("mqtt://ann:SE/CRET@broker/city", "'mqtt://broker/city' names no host and port"),
        ("mqtt://broker/city?password=SE@CRET", "'mqtt://...': an address of MQTT has no parameter 'password'"),
        ("mqtt://broker/city?password=SECRET", "'mqtt://broker/city': an address of MQTT has no parameter 'password'"),
        ("mqtt://broker:70000/city", "names no host and port"),
        ("mqtt://:SECRET@broker/city", "has a password, but no user"),
        ("mqtt://ann:SECRET@broker", "names no topic"),
        ("mqtt://broker/city+/a", "has a + beside other characters"),
        ("mqtt://broker/#/a", "has a # that is not the last level"),
        ("mqtt://broker/a#", "has a # that is not the last level"),
        ("mqtt://broker/a%00", "has a topic that MQTT does not allow"),
        ("mqtt://ann:SECRET@broker/a?qos=2", "qos cannot be '2'"),
        ("mqtt://broker/a?session_s=-1", "session_s cannot be '-1'"),
        ("mqtt://broker/a?clientid=x", "has no parameter 'clientid'"),
    ],
)
def test_a_wrong_address_is_said_without_its_password(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        MqttAddress.parse(text)
    assert message in str(error.value)
    assert error.value.remedy
    assert "CRET" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spool": "/s"}, "needs an address"),
        ({"address": "mqtt://b/t"}, "needs a spool"),
        ({"address": "mqtt://b/t", "spool": "hdfs://n/s"}, "the spool cannot be at hdfs://n/s"),
        ({"address": "mqtt://b/t", "spool": "/s", "max_messages": "0"}, "max_messages cannot be '0'"),
        ({"address": "mqtt://b/t", "spool": "/s", "qos": "1"}, "no option 'qos'"),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MqttDataSource(options).streamReader(StructType())


def numbered(count: int, start: int = 0) -> list[Message]:
    return [Message("t", str(number).encode()) for number in range(start, start + count)]


def read_all(spool: Spool, block_bytes: int = 1 << 20) -> list[tuple[int, bytes]]:
    blocks = spool.blocks(spool.first, spool.next, block_bytes)
    return [(number, m.payload) for block in blocks for number, m in enumerate(block.messages(), block.first)]


@pytest.mark.parametrize("block_bytes", [1, 50, 1 << 20])
def test_a_range_of_the_spool_gives_its_messages(tmp_path: Path, block_bytes: int) -> None:
    spool = Spool(tmp_path, segment_bytes=40)
    for start in range(0, 20, 4):
        spool.append(numbered(4, start))
    assert len(list(tmp_path.glob("*.jsonl"))) == 5
    assert read_all(spool, block_bytes) == [(number, str(number).encode()) for number in range(20)]
    some = [m.payload for block in spool.blocks(3, 9, block_bytes) for m in block.messages()]
    assert some == [b"3", b"4", b"5", b"6", b"7", b"8"]
    assert list(spool.blocks(5, 5, block_bytes)) == []
    sizes = [len(block.lines) for block in spool.blocks(0, 20, block_bytes)]
    assert len(sizes) == {1: 20, 50: 10, 1 << 20: 1}[block_bytes]  # lines have 20 or 21 bytes


@pytest.mark.parametrize("tail", [b'["t", "cut', b"\0\0\0\0\n\0\0", b'["t", "5"]\n'[:-1], b"{}\n", b"", b"\xff\n"])
def test_what_a_crash_cut_off_is_forgotten(tmp_path: Path, tail: bytes) -> None:
    with_spool = Spool(tmp_path)
    with_spool.append(numbered(5))
    with_spool.close()
    with (tmp_path / f"{0:020d}.jsonl").open("ab") as file:
        file.write(tail)
    again = Spool(tmp_path)
    assert again.next == 5
    again.append(numbered(2, 5))
    assert read_all(again) == [(number, str(number).encode()) for number in range(7)]


def test_numbers_go_on_after_everything_is_pruned(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=1)
    for number in range(6):
        spool.append(numbered(1, number))
    spool.prune(4)
    assert (spool.first, spool.next) == (4, 6)
    assert [file.name for file in sorted(tmp_path.glob("*.jsonl"))] == [f"{4:020d}.jsonl", f"{5:020d}.jsonl"]
    spool.prune(6)
    spool.close()
    again = Spool(tmp_path, segment_bytes=1)
    assert again.next == 6
    again.append(numbered(1, 6))
    again.prune(6)
    assert read_all(again) == [(6, b"6")]
    with pytest.raises(StateError, match="has messages 6 to 7, not 3 to 7"):
        list(again.blocks(3, 7, 100))


def test_a_spool_without_its_middle_is_refused(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=1)
    for number in range(3):
        spool.append(numbered(1, number))
    spool.close()
    (tmp_path / f"{1:020d}.jsonl").unlink()
    for _ in range(2):  # the lock is free again
        with pytest.raises(StateError, match="lacks messages 1 to 2"):
            Spool(tmp_path, lock_s=0)


def test_a_spool_has_one_user(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(InputError, match="is in use"):
        Spool(tmp_path, lock_s=0)
    spool.close()
    Spool(tmp_path, lock_s=0).close()


def test_a_spool_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be used"):
        Spool(tmp_path / "file")
