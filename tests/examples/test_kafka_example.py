"""The Kafka example against a broker: the replay, `situ run --follow` and the script find what the engine finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import situ
from cli.command import situ as command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from servers.kafka import Broker

pytest_plugins = ["servers.kafka"]  # the fixture kafka_broker

KAFKA = Path(__file__).parents[2] / "examples" / "kafka"
QUERY = (KAFKA / "braking.situ").read_text(encoding="utf-8")

#: Of the trace; long enough for a dozen situations. With the times of the file.
SECONDS, START = 120.0, 0.0
WATERMARK = timedelta(seconds=5)

Found = list[tuple[str, str, float, datetime]]


def example(name: str) -> Any:
    """A script of the example, as a module."""
    spec = spec_from_file_location(f"kafka_{name}", KAFKA / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def topic(kafka_broker: Broker) -> str:
    """The trace twice over, as a source that delivers at least once may do; and a message that is none."""
    replay = example("replay")
    replay.create_topics(kafka_broker.server, "vehicles", partitions=2)
    replay.create_topics(kafka_broker.server, "vehicles")  # is there
    for _ in range(2):
        assert replay.replay(kafka_broker.server, "vehicles", SECONDS, START, 0) == 7_369
    kafka_broker.produce("vehicles", ["no JSON"])
    return "vehicles"


@pytest.fixture(scope="module")
def expected() -> Found:
    """What has become certain: the embedded engine on the same rows, up to where time has passed."""
    rows = [row for _, of_second in example("replay").seconds_of_traffic(SECONDS, START) for row in of_second]
    outputs = situ.Engine(QUERY).run({"Vehicle": pa.Table.from_pylist(rows)})
    passed = datetime.fromtimestamp(START + SECONDS - 1, UTC) - WATERMARK
    events = [event for output in outputs for event in output.complex_events["HardBraking"].to_pylist()]
    found = [(e["vehicle"], e["lane"], e["drop"], e["_time"]) for e in events]
    certain = sorted(event for event in found if event[-1] < passed)
    assert 0 < len(certain) < len(found)
    return certain


def situations(messages: Iterator[dict[str, Any]]) -> Found:
    return sorted((m["vehicle"], m["lane"], m["drop"], datetime.fromisoformat(m["_time"])) for m in messages)


def test_times_begin_where_one_says() -> None:
    second, rows = next(iter(example("replay").seconds_of_traffic(SECONDS, 1000.0)))
    assert second == 0
    assert {row["time_s"] for row in rows} == {1000.0}


@pytest.mark.slow
@pytest.mark.storm
def test_the_command_line(
    kafka_broker: Broker, topic: str, expected: Found, spark: SparkSession, tmp_path: Path
) -> None:
    results = kafka_broker.create_topic("braking")
    address = kafka_broker.address(topic, "startingOffsets=earliest")
    run = ["run", str(KAFKA / "braking.situ"), "--follow", "--source", f"Vehicle={address}", "--once"]
    code, printed, errors = command(
        *run, "--out", kafka_broker.address(results), "--checkpoint", str(tmp_path / "state")
    )
    assert code == 0, errors
    messages = [json.loads(value or b"") for _, value in kafka_broker.read_all(results)]
    kinds = [message["_kind"] for message in messages]
    assert situations(m for m in messages if m["_kind"] == "complex event") == expected
    assert kinds.count("rejected") == 1
    assert kinds.count("late") == 0
    assert len({(m["_query"], m["_batch"], m["_row"]) for m in messages}) == len(messages)
    assert f"{len(expected)} complex events" in printed


@pytest.mark.slow
@pytest.mark.storm
def test_the_script(kafka_broker: Broker, topic: str, expected: Found, spark: SparkSession, tmp_path: Path) -> None:
    results = kafka_broker.create_topic("braking-by-script")
    query = example("follow").follow(spark, kafka_broker.server, topic, results, tmp_path / "state", once=True)
    query.awaitTermination()
    messages = kafka_broker.read_all(results)
    assert situations(json.loads(value or b"") for _, value in messages) == expected
    assert {key for key, _ in messages} == {vehicle.encode() for vehicle, *_ in expected}
