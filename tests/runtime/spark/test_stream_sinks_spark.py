"""Sources and sinks at work: a directory, and servers that run."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from runtime.spark.judged_rows import CAR, follow, split, text
from runtime.spark.tagged_events import ALL_KINDS, FAILED, GRAPH, LATE, OUTPUT, REJECTED, TABLES, at, events_of, fast
from servers.debian import wait_until
from servers.mosquitto import Mosquitto, mosquitto
from servers.postgresql import Postgresql, postgresql
from situ.io.kafka_address import KafkaAddress
from situ.runtime.spark.detect import detect_rows
from situ.runtime.spark.inputs.kafka import require_topic
from situ.runtime.spark.inputs.stream_sources import open_stream
from situ.runtime.spark.session.errors import SparkError
from situ.runtime.spark.sinks.message_sinks import results_to_messages
from situ.runtime.spark.sinks.result_packs import ResultPacker, results_of
from situ.runtime.spark.sinks.stream_sinks import open_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from servers.kafka import Broker

__all__ = ["mosquitto", "postgresql"]  # the fixtures

pytestmark = pytest.mark.slow
pytest_plugins = ["servers.kafka"]  # the fixture kafka_broker


def names_in(directory: Path, folder: str = "Fast") -> list[str]:
    """What a reader finds, who knows nothing of batches."""
    found: list[str] = pq.read_table(directory / folder).column("name").to_pylist()
    return found


@pytest.mark.parametrize("limits", [{}, {"pack_bytes": 1, "sent_along_bytes": 0}])
def test_results_are_computed_once(spark: SparkSession, tmp_path: Path, limits: dict[str, int]) -> None:
    runs = tmp_path / "runs"
    events = events_of(spark, [fast(4, "d"), LATE], [fast(1, "a"), FAILED], [fast(3, "c"), fast(2, "b")], runs=runs)
    with results_of(events, ResultPacker(TABLES, **limits)) as found:
        given = [(kind, name, table.num_rows) for kind, name, table in found]
    assert sorted(runs.read_text().split()) == ["0", "1", "2"]
    pieces = [1, 1, 2] if limits else [4]
    assert sorted(given) == [*(("complex event", "Fast", n) for n in pieces), ("late", "Car", 1)]


def test_a_repeated_batch_has_the_same_messages(spark: SparkSession) -> None:
    rows = [fast(n, f"c{n}") for n in range(5)]
    first, again = (
        {row.key: row.value for row in results_to_messages(events_of(spark, *parts), TABLES, "q", 7).collect()}
        for parts in ([[*rows, LATE], [REJECTED, FAILED]], [[LATE, *rows[::-1]], [FAILED, REJECTED]])
    )
    assert first == again
    assert len(first) == 7
    values = [json.loads(value) for value in first.values()]
    assert {(value["_query"], value["_batch"]) for value in values} == {("q", 7)}
    assert {f"q/7/{value['_row']}" for value in values} == set(first)


def detect(spark: SparkSession, tmp_path: Path, crash: bool = False) -> int:
    """Runs the query over what has come. How many files were read, and each of them once?"""
    work = tmp_path / "work"
    detection = detect_rows(GRAPH, {"Car": open_stream(spark, str(tmp_path / "in"), GRAPH.streams[0], work / "Car")})
    target = open_sink(str(tmp_path / "out"), "parquet", detection.output, "q1")

    def write(events: DataFrame, batch: int) -> None:
        target.write(events, batch)
        if crash:  # after the results are written, and before Spark knows
            raise RuntimeError("Crash")

    checkpoint = str(work / "checkpoint")
    query = (
        detection.events.writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException, match="Crash") if crash else nullcontext():
        query.awaitTermination()
    return sum(source.numInputRows for progress in query.recentProgress for source in progress.sources)


def test_every_result_is_in_the_directory_once_whatever_happens(spark: SparkSession, tmp_path: Path) -> None:
    def come(name: str, *cars: tuple[str, float, int | None]) -> None:
        rows = [{"name": n, "speed": v, "ts": None if s is None else at(s).isoformat()} for n, v, s in cars]
        lines = [json.dumps(row) for row in rows]
        (tmp_path / "in" / name).write_text("\n".join(lines))

    (tmp_path / "in").mkdir()
    come("a.jsonl", ("a", 31.0, 0), ("b", 1.0, 1), ("c", 40.0, None))
    detect(spark, tmp_path, crash=True)
    out = tmp_path / "out"
    assert names_in(out) == ["a"]
    come("b.jsonl", ("d", 32.0, 100), ("e", 33.0, 101), ("f", -1.0, 102), ("g", 1.0, 300))
    assert detect(spark, tmp_path) == 2  # the batch that is repeated, and the next one
    assert names_in(out) == ["a", "d", "e"]
    assert names_in(out, "Twice") == [1, 1]  # d and e, each with f
    assert [row["_reason"] for row in pq.read_table(out / "_rejected" / "Car").to_pylist()] == ["ts is null"]
    come("c.jsonl", ("late", 50.0, 3))
    detect(spark, tmp_path, crash=True)
    assert detect(spark, tmp_path) == 1
    assert names_in(out) == ["a", "d", "e"]
    (late,) = pq.read_table(out / "_late" / "Car").to_pylist()
    assert json.loads(late["_row"])["name"] == "late"
    assert pq.read_table(out / "_timed_out" / "Twice").column("_time").to_pylist() == [at(60), at(61), at(162)]


# ---- servers


@pytest.fixture(scope="module")
def broker(kafka_broker: Broker, spark: SparkSession) -> Broker:
    try:
        require_topic(spark, KafkaAddress.parse(kafka_broker.address(kafka_broker.create_topic("nothing"))))
    except SparkError as error:
        if "has no connector" not in error.cause:
            raise
        pytest.skip("the session of the tests has no connector for Kafka: connector_conf() is not among its settings")
    return kafka_broker


def test_kafka(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    topic = broker.create_topic("cars")
    broker.produce(topic, [text("a"), "nonsense", None, text("b", lane="x"), text("c")])
    events, misfits = follow(spark, broker.address(topic, "startingOffsets=earliest"), tmp_path)
    assert [event["name"] for event in events] == ["a", "c"]
    place = "topic cars, partition 0, offset {}".format
    assert {(m["_reason"], m["_row"], m["_place"]) for m in misfits} == {
        ("malformed JSON: Expecting value at 1", "nonsense", place(1)),
        ("the message has no value (a tombstone)", None, place(2)),
        ("lane: 'x' is no int", text("b", lane="x"), place(3)),
    }
    results = broker.create_topic("results")
    sink = open_sink(broker.address(results), "parquet", OUTPUT, "q1")
    for _ in range(2):
        sink.write(events_of(spark, ALL_KINDS), 7)
    found = broker.read_all(results)
    once = {key: json.loads(value or b"") for key, value in found}
    assert (len(found), len(once)) == (10, 5)
    assert {(v["_kind"], v.get("name")) for v in once.values() if "name" in v} == {
        ("complex event", "a"),
        ("complex event", "b"),
        ("timed out", 3),
    }


def test_mqtt(mosquitto: Mosquitto, spark: SparkSession, tmp_path: Path) -> None:
    judged = open_stream(spark, mosquitto.address("cars/+"), CAR, tmp_path / "work")
    writer = judged.rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start(str(tmp_path / "rows"))
    wait_until(lambda: query.status["message"] == "Waiting for data to arrive", "the subscription", 120)
    payloads = [text("a").encode(), b'{"name": "M\xfcller"}', b"", text("c").encode()]
    mosquitto.publish(*((f"cars/{number}", payload) for number, payload in enumerate(payloads)))

    def read() -> int:
        return sum(source.numInputRows for progress in query.recentProgress for source in progress.sources)

    wait_until(lambda: query.exception() is not None or read() == len(payloads), "all messages", 120)
    query.stop()
    assert query.exception() is None
    tables = [pq.read_table(file) for file in (tmp_path / "rows").glob("*.parquet")]
    events, misfits = split(batch for table in tables for batch in table.to_batches())
    assert sorted(event["name"] for event in events) == ["a", "c"]
    assert {(m["_reason"], m["_row"], m["_place"]) for m in misfits} == {
        ("not UTF-8: byte 0xfc at 12", '{"name": "M\\xfcller"}', "cars/1:1"),
        ("the message is empty", "", "cars/2:2"),
    }
    sink = open_sink(mosquitto.address("results"), "parquet", OUTPUT, "q1")
    with mosquitto.subscribed("results") as take:
        sink.write(events_of(spark, ALL_KINDS), 7)
        first = take(5)
        sink.write(events_of(spark, ALL_KINDS[::-1]), 7)
        assert sorted(take(5)) == sorted(first)
    assert {json.loads(value)["_row"] for _, value in first} == set(range(5))


def test_postgresql(postgresql: Postgresql, spark: SparkSession) -> None:
    sink = open_sink(postgresql.address(), "parquet", OUTPUT, "q1")
    sink.write(events_of(spark, [fast(1, "a")]), 0)
    sink.write(events_of(spark, ALL_KINDS), 1)
    tables = ["Fast", "Twice", "_late", "_rejected", "_timed_out_Twice"]

    def counts() -> list[int]:
        return [postgresql.rows(f'SELECT count(*) FROM "{table}"')[0][0] for table in tables]

    assert counts() == [3, 0, 1, 1, 1]
    assert postgresql.rows('SELECT _batch, _row, name, speed, _time FROM "Fast" ORDER BY 1, 2') == [
        (0, 0, "a", 31.0, at(1)),
        (1, 0, "a", 31.0, at(1)),
        (1, 1, "b", 31.0, at(3)),
    ]
    assert postgresql.rows("SELECT _stream, _text, _place FROM _rejected") == [("Car", "{}", "cars.csv:2")]
    again = open_sink(postgresql.address(), "parquet", OUTPUT, "q1")  # after a crash
    again.write(events_of(spark, [fast(9, "z"), FAILED]), 1)
    assert counts() == [2, 0, 0, 0, 0]
