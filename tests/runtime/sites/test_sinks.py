"""Sinks of sites: what is written again, cut in any way, is there once."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from servers.kafka import Broker, kafka_broker
from servers.mosquitto import Mosquitto, mosquitto
from servers.postgresql import Postgresql, postgresql
from situ.core.types import INT
from situ.graph.query import AttributeDeclaration, Stream
from situ.io.kafka_address import KafkaAddress
from situ.io.mqtt.address import MqttAddress
from situ.io.postgresql import PostgresqlAddress
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.sinks.files import FileLogSink
from situ.runtime.sites.sinks.messages import KafkaLogSink, MqttLogSink
from situ.runtime.sites.sinks.postgresql import PostgresqlLogSink
from situ.runtime.sites.sinks.sink import NumberedRows, SiteSink
from situ.runtime.sites.sources.kafka_messages import KafkaMessages

__all__ = ["kafka_broker", "mosquitto", "postgresql"]  # the fixtures

JAM = LogName("events", "Jam", "north", 1)
LATE = LogName("late", "Car", "south", 1)
ROWS = pa.table({"cars": list(range(60)), "lanes": [[n, n + 1] for n in range(60)]})


def write(sink: SiteSink, cuts: Iterable[int], log: LogName = JAM) -> None:
    """The rows from the first cut to the last one, in pieces."""
    bounds = list(cuts)
    for first, following in pairwise(bounds):
        sink.write(NumberedRows(log, first, ROWS.slice(first, following - first)))
    sink.close()


@pytest.mark.parametrize("seed", range(20))
def test_files_that_are_written_again_in_other_pieces(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    written = 0  # what the site knows to be written
    while written < 60:
        # A life: it writes on from there, ends somewhere, and the site has heard of a part of it.
        end = rng.randrange(written + 1, 61)
        cuts = sorted({written, end, *(rng.randrange(written, end + 1) for _ in range(3))})
        write(FileLogSink(tmp_path, "parquet", {"north": 0}), cuts)
        written = rng.choice(cuts)
    parts = sorted((tmp_path / "Jam").iterdir())
    assert pa.concat_tables([pq.read_table(part) for part in parts]).equals(ROWS)
    assert [part for part in parts if part.name.startswith(".")] == []


def test_logs_of_several_origins_and_kinds_do_not_mix(tmp_path: Path) -> None:
    sink = FileLogSink(tmp_path, "json", {"north": 0, "south": 1})
    write(sink, [0, 10])
    for origin in ("north", "south"):
        write(sink, [0, 5, 9], LogName("late", "Car", origin, 1))
    assert len(list((tmp_path / "Jam").iterdir())) == 1
    assert len(list((tmp_path / "_late" / "Car").iterdir())) == 4


def test_postgresql(postgresql: Postgresql) -> None:
    sink = PostgresqlLogSink(PostgresqlAddress.parse(postgresql.address()), "one")
    write(sink, [0, 10, 40])
    write(sink, [5, 30, 60])
    late = ROWS.append_column("_lateness", pa.array([1] * 60, pa.duration("us")))
    sink.write(NumberedRows(LATE, 0, late))
    rows: list[Any] = postgresql.rows('select _row, cars, lanes from "Jam" order by _row')
    assert rows == [(n, n, [n, n + 1]) for n in range(60)]
    assert postgresql.rows("select count(*), min(_text) from _late") == [(60, '{"cars": 0, "lanes": [0, 1]}')]


def test_mqtt_is_at_least_once_and_says_which(mosquitto: Mosquitto) -> None:
    sink = MqttLogSink(MqttAddress.parse(mosquitto.address("jams")), "one")
    with mosquitto.subscribed("jams") as take:
        write(sink, [0, 10])
        write(sink, [5, 12])
        texts = [payload.decode() for _, payload in take(17)]
    start = '{"_query": "one", "_log": "events/Jam/north/1", "_number": '
    assert all(text.startswith(start) for text in texts)
    assert {text.removeprefix(start).partition(",")[0] for text in texts} == {str(n) for n in range(12)}


@pytest.mark.storm
@pytest.mark.spark  # the broker is a process of Java's
def test_kafka_in_and_out(kafka_broker: Broker) -> None:
    topic = kafka_broker.create_topic("jams", partitions=2)
    address = kafka_broker.address(topic)
    sink = KafkaLogSink(KafkaAddress.parse(address, writing=True), "one")
    write(sink, [0, 10])
    write(sink, [5, 12])
    keys = {key for key, _ in kafka_broker.read_all(topic)}
    assert keys == {f"one/events/Jam/north/1/{n}".encode() for n in range(12)}
    stream = Stream("Jam", (AttributeDeclaration("cars", INT),), "cars", time_unit="s")

    def read(position: str | None, count: int) -> tuple[list[int], list[str]]:
        cars, positions = [], []
        for piece in KafkaMessages(KafkaAddress.parse(f"{address}?startingOffsets=earliest"), stream).read(position):
            if piece is not None and piece.rows is not None:
                cars += piece.rows.events.column("cars").to_pylist()
                positions.append(piece.position)
                if len(cars) >= count:
                    break
        return cars, positions

    cars, positions = read(None, 17)
    assert sorted(cars) == sorted([*range(10), *range(5, 12)])
    write(sink, [12, 15])
    assert sorted(read(positions[-1], 3)[0]) == [12, 13, 14]
