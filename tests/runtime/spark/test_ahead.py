"""Rows that lie ahead of the wall clock, in streams on Spark: judged by the time of their micro-batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from runtime.spark.judged_rows import AT_MICROS, CAR, car, split, text
from situ.io.rows.ahead import with_default_ahead
from situ.runtime.spark.detect import detect
from situ.runtime.spark.inputs.files import Root
from situ.runtime.spark.inputs.stream_files import FileReader
from situ.runtime.spark.inputs.stream_messages import MessageReader
from situ.runtime.spark.inputs.stream_rows import NOW_US

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A day and a second after the time of all other cars, which is the micro-batch's here.
TOO_FAR = "2024-05-02T08:00:01Z"
REASON = "ts: 2024-05-02 08:00:01 is more than 1 day ahead of the wall clock"
DEADLINE_S = 300


def test_messages_ahead_are_rejected_as_they_came() -> None:
    values = [text("a"), text("ahead", ts=TOO_FAR), "nonsense", text("b"), text("far", ts=TOO_FAR), text("c")]
    batch = pa.record_batch(
        {
            "value": pa.array(values),
            "_place": pa.array([f"topic:{number}" for number in range(len(values))]),
            NOW_US: pa.array([AT_MICROS] * len(values)),
        }
    )
    events, misfits = split(MessageReader(with_default_ahead(CAR)).rows(iter([batch])))
    assert [event["name"] for event in events] == ["a", "b", "c"]
    assert [(m["_place"], m["_reason"]) for m in misfits if "JSON" not in m["_reason"]] == [
        ("topic:1", REASON),
        ("topic:4", REASON),
    ]
    assert [m["_row"] for m in misfits if m["_place"] == "topic:4"] == [values[4]]
    events, misfits = split(MessageReader(replace(CAR, ahead_us=86_401_000_000)).rows(iter([batch])))
    assert [event["name"] for event in events] == ["a", "ahead", "b", "far", "c"]


def test_rows_of_files_ahead_are_rejected(tmp_path: Path) -> None:
    lines = [json.dumps(car(name, ts=ts)) for name, ts in (("a", "2024-05-02T08:00:00Z"), ("ahead", TOO_FAR))]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    batch = pa.record_batch({"path": pa.array([f"file:{tmp_path}/a.jsonl"]), NOW_US: pa.array([AT_MICROS])})
    reader = FileReader(with_default_ahead(CAR), Root("in", str(tmp_path)))
    events, [misfit] = split(reader.rows(iter([batch])))
    assert [event["name"] for event in events] == ["a"]
    assert (misfit["_reason"], misfit["_place"]) == (REASON, "in/a.jsonl")
    assert json.loads(misfit["_row"])["name"] == "ahead"


QUERY = """
stream Car(name string, ts timestamp) time ts

subscribe Alone
  detect   Car as last then not Car within 60 s
  assign   name = last.name
"""


def fail(_: DataFrame, __: int) -> None:
    raise RuntimeError("the sink is gone")


@contextmanager
def running(events: DataFrame, checkpoint: Path, write: Callable[[DataFrame, int], None]) -> Iterator[Any]:
    writer = events.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        yield query
    finally:
        query.stop()


def set_time_of_batch(checkpoint: Path, millis: int) -> None:
    """As if the micro-batch that was planned and not committed had been planned at another time."""
    planned = checkpoint / "offsets" / "0"
    version, about, *offsets = planned.read_text().split("\n")
    planned.write_text("\n".join([version, json.dumps(json.loads(about) | {"batchTimestampMs": millis}), *offsets]))
    (planned.parent / ".0.crc").unlink()


@pytest.mark.slow
@pytest.mark.storm
def test_a_retried_micro_batch_is_judged_by_its_own_time(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of 2024 lie in the past now, and a day ahead of a micro-batch that was planned then."""
    (tmp_path / "in").mkdir()
    rows = {"a": "2024-05-01T08:00:00Z", "ahead": TOO_FAR, "b": "2024-05-01T08:00:10Z"}
    (tmp_path / "in" / "a.jsonl").write_text("\n".join(json.dumps({"name": n, "ts": ts}) for n, ts in rows.items()))
    cars = spark.readStream.schema("name string, ts timestamp").json(str(tmp_path / "in"))
    detection = detect(QUERY, {"Car": cars}, shards=1)
    with (
        running(detection.events, tmp_path / "checkpoint", fail) as query,
        pytest.raises(StreamingQueryException, match="the sink is gone"),
    ):
        query.awaitTermination(DEADLINE_S)
    set_time_of_batch(tmp_path / "checkpoint", AT_MICROS // 1000)
    written: list[pa.Table] = []
    with running(
        detection.events, tmp_path / "checkpoint", lambda events, _: written.append(events.toArrow())
    ) as query:
        assert query.awaitTermination(DEADLINE_S)
    found = pa.concat_tables(written).to_pylist()
    assert [(row["_kind"], row["_reason"]) for row in found if row["_kind"] != "figures"] == [("rejected", REASON)]
    assert query.lastProgress["observedMetrics"]["situ"].rejected == 1
    assert query.lastProgress["observedMetrics"]["situ"].watermark == "2024-05-01 08:00:10"
