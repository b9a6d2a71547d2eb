"""Silences on the embedded engine: fed in pieces, over restarts, while nothing comes, and with many devices."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command import situ
from situ.core.errors import InputError, SituError
from situ.runtime.embedded import Engine

BEAT = "stream Beat(device int, ts int) time ts in s"
FALLS_SILENT = f"""
{BEAT}
subscribe Silent
  detect   Beat as b then no Beat for 5 s
  assign   device = b.device, last = b.ts
  group by device
"""
STILL_SILENT = f"""
{BEAT}
subscribe Silent
  detect   Beat as b then (no Beat for 5 s as q){{1,3}}
  assign   device = b.device, times = count(q), over = last(time(q))
  group by device
"""


def beats(*pairs: tuple[int, int]) -> pa.Table:
    """(second, device)"""
    return pa.table({"device": [device for _, device in pairs], "ts": [second for second, _ in pairs]})


def seconds(table: pa.Table) -> list[int]:
    return [int(time.timestamp()) for time in table.column("_time").to_pylist()]


def test_a_device_that_falls_silent_is_told_when_time_has_passed() -> None:
    engine = Engine(FALLS_SILENT)
    told = []
    for second in range(20):
        devices = [1, 2] if second < 7 else [1]
        output = engine.feed(beats(*((second, device) for device in devices)))
        told += [(second, row["device"], row["last"]) for row in output.complex_events["Silent"].to_pylist()]
    assert told == [(12, 2, 6)]  # silent from 6 on: at 11 it was over, and at 12 that was certain
    assert engine.close().complex_events["Silent"].to_pylist()[0]["device"] == 1


def test_a_silence_goes_on_over_restarts() -> None:
    rng = np.random.default_rng(4)
    rows = sorted((int(second), int(device)) for second, device in rng.integers(0, [60, 6], (60, 2)))
    (whole,) = Engine(STILL_SILENT).run(beats(*rows))
    engine, found = Engine(STILL_SILENT), []
    for begin in range(0, len(rows), 4):
        found += engine.feed(beats(*rows[begin : begin + 4])).complex_events["Silent"].to_pylist()
        state, engine = engine.snapshot(), Engine(STILL_SILENT)
        engine.restore(state)
    found += engine.close().complex_events["Silent"].to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, whole.complex_events["Silent"].to_pylist()))
    assert {row["times"] for row in found} == {1, 2, 3}


def test_a_silence_is_over_while_nothing_comes() -> None:
    now = [100.0]
    query = FALLS_SILENT.replace("time ts in s", "time ts in s idle after 2 s")
    engine = Engine(query, clock=lambda: now[0])
    engine.feed(beats((7, 1)))
    now[0] += 4
    assert len(engine.advance().complex_events["Silent"]) == 0
    now[0] += 3
    assert seconds(engine.advance().complex_events["Silent"]) == [12]


def test_a_silence_that_comes_first_begins_where_the_engine_is_told() -> None:
    query = f"{BEAT}\nsubscribe Quiet detect no Beat for 5 s then Beat as b within 1 min assign ts = b.ts"
    rows = beats((8, 1), (10, 1))
    (untold,) = Engine(query).run(rows)
    assert untold.complex_events["Quiet"].num_rows == 0
    (told,) = Engine(query, start=datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)).run(rows)
    assert told.complex_events["Quiet"].column("ts").to_pylist() == [8]


def test_devices_that_are_silent_for_good_leave_no_state() -> None:
    """Ever new devices: what is over is forgotten."""
    engine = Engine(FALLS_SILENT)
    sizes = []
    for step in range(8):
        second, devices = 100 * step, range(10_000 * step, 10_000 * (step + 1))
        engine.feed(beats(*((second, device) for device in devices)))
        sizes.append(len(engine.snapshot()))
    assert max(sizes) < 1.2 * sizes[0]


def test_a_silence_around_a_consumer() -> None:
    """No lamp near a car for two seconds, as it sees the world."""
    query = """
    stream Car(id int, x double, y double, ts int) time ts in s at (x, y)
    stream Lamp(id int, x double, y double, ts int) time ts in s at (x, y)
    subscribe Dark for Car(id)
      detect   Car as c then no Lamp for 2 s
      assign   since = c.ts
      around Car square 20 m
    """
    cars = pa.table({"id": [1, 1, 1], "x": [0.0, 0.0, 0.0], "y": [0.0, 0.0, 0.0], "ts": [0, 3, 6]})
    lamps = pa.table({"id": [7, 8], "x": [5.0, 500.0], "y": [0.0, 0.0], "ts": [4, 1]})
    outputs = list(Engine(query).run({"Car": cars, "Lamp": lamps}))
    since = [row["since"] for one in outputs for row in one.complex_events["Dark"].to_pylist()]
    assert sorted(since) == [0, 6]


def test_memory_is_asked_for_before_too_many_silences() -> None:
    query = f"{BEAT}\nsubscribe S detect Beat then (no Beat(device < 0) for 1 ms)+ within 1 d group by device"
    with pytest.raises(SituError) as refused:
        list(Engine(query, memory=2**28).run(beats(*((second, second) for second in range(200)))))
    assert not isinstance(refused.value, InputError)


def test_the_command_line_says_when_the_first_silence_begins(tmp_path: Path) -> None:
    query = f"{BEAT}\nsubscribe Quiet detect no Beat for 5 s then Beat as b within 1 min assign ts = b.ts\n"
    (tmp_path / "quiet.situ").write_text(query)
    pq.write_table(beats((8, 1), (10, 1)), tmp_path / "beats.parquet")
    arguments = [
        "run",
        tmp_path / "quiet.situ",
        "--source",
        f"Beat={tmp_path / 'beats.parquet'}",
        "--engine",
        "embedded",
    ]
    assert "0 complex events" in situ(*arguments)[1]
    assert "1 complex event" in situ(*arguments, "--start", "1970-01-01T00:00:02")[1]
    follow = situ(*arguments, "--follow", "--start", "1970-01-01T00:00:02")
    assert "--start is for tables and for streams on Spark" in follow[2]
    code, _, error = situ(*arguments, "--start", "soon")
    assert (code, "--start 'soon' is no time" in error) == (1, True)
