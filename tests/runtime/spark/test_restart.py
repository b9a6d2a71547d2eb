"""A clock that followed a wrong event is put back, once, and what a start leaves in the checkpoint's directory."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

from runtime.spark.streaming_without_spark import StreamingQuery
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.spark.follow.checkpoint import Checkpoint
from situ.runtime.spark.stages.restart import Restart

SECOND = 1_000_000
YEARS = 10 * 365 * 86_400

ONE = """
stream A(k int, n int, s int) time s in s  watermark 2 s

define D(k, n)
  detect   A as a then A(n = a.n + 1) as b within 30 s
  assign   k = a.k, n = a.n
  group by k

subscribe M
  detect   D as a then D(n > a.n) as b within 30 s
  assign   first = a.n, second = b.n
"""
TWO = """
stream A(k int, n int, s int) time s in s
stream B(k int, n int, s int) time s in s
subscribe M detect A as a then B(n = a.n) as b within 30 s assign a = a.n, k = b.k group by k
"""


def query(text: str, shards: int = 3) -> StreamingQuery:
    return StreamingQuery(resolve(parse(text)), random.Random(1), shards)


def rows(*events: tuple[int, int]) -> pa.Table:
    """Pairs of a number and a second."""
    return pa.table({"k": [1] * len(events), "n": [n for n, _ in events], "s": [s for _, s in events]})


def told(result: pa.Table) -> list[str]:
    return sorted(f"{row['_kind']} {row['_name']}" for row in result.to_pylist())


def back_to(second: int) -> Restart:
    return Restart(clock_back_to_us=second * SECOND)


def test_the_clock_goes_back_and_rows_are_events_again() -> None:
    running = query(ONE)
    running.micro_batch({"A": rows((1, 100), (9, 100 + YEARS))})
    assert told(running.micro_batch({"A": rows((2, 101), (3, 102))})) == ["late A", "late A"]
    mended = running.restarted(running.graph, back_to(103))
    assert told(mended.micro_batch({"A": rows((4, 104), (5, 105), (6, 106))})) == []
    assert told(mended.micro_batch({"A": rows((7, 150))})) == ["complex event D", "complex event D", "complex event M"]
    states = len(mended.states)
    assert states == 6  # all shards of both stages agree


def test_the_clock_goes_back_once() -> None:
    """A supervisor starts the same command again: the clock must not go back again."""
    running = query(ONE)
    running.micro_batch({"A": rows((9, 100 + YEARS))})
    mended = running.restarted(running.graph, back_to(103))
    mended.micro_batch({"A": rows((1, 200))})
    for restart in (back_to(103), Restart(), back_to(103)):
        mended = mended.restarted(mended.graph, restart)
        assert told(mended.micro_batch({"A": rows((1, 150))})) == ["late A"]
    again = mended.restarted(mended.graph, back_to(140))
    assert told(again.micro_batch({"A": rows((1, 150))})) == []


def test_what_another_stream_held_back_goes_on_with_its_state() -> None:
    """A is years ahead, B is not: no window was closed, and only A's rows were late."""
    running = query(TWO)
    running.micro_batch({"A": rows((1, 100), (9, 100 + YEARS)), "B": rows((0, 101))})
    assert told(running.micro_batch({"A": rows((2, 102)), "B": rows((0, 102))})) == ["late A"]
    mended = running.restarted(running.graph, back_to(102))
    assert told(mended.micro_batch({"A": rows((3, 110)), "B": rows((1, 105), (3, 111))})) == ["complex event M"]
    assert told(mended.micro_batch({"A": rows((4, 150)), "B": rows((4, 150))})) == ["complex event M"]
    assert mended.state_bytes < running.state_bytes + 2000  # the wrong event does not wait for its time


MOVING = """
stream Braking(n int, x double, y double, s int) time s in s  at (x, y)
stream Driver(id int, x double, y double, s int) time s in s  at (x, y)  key id
subscribe Calm for Driver(id) detect Braking as a then Braking(n = a.n) as b within 30 s around Driver square 100 m
"""


def test_moving_subscriptions_begin_with_the_next_location_updates() -> None:
    def brakings(*events: tuple[int, int]) -> pa.Table:
        ones = [1.0] * len(events)
        return pa.table({"n": [n for n, _ in events], "x": ones, "y": ones, "s": [s for _, s in events]})

    def drivers(second: int) -> pa.Table:
        return pa.table({"id": [7], "x": [0.0], "y": [0.0], "s": [second]})

    running = query(MOVING)
    running.micro_batch({"Braking": brakings((1, 100), (1, 100 + YEARS)), "Driver": drivers(100 + YEARS)})
    assert told(running.micro_batch({"Braking": brakings((1, 101)), "Driver": drivers(101)})) == [
        "late Braking",
        "late Driver",
    ]
    mended = running.restarted(running.graph, back_to(110))
    mended.micro_batch({"Braking": brakings((2, 121), (2, 122)), "Driver": drivers(120)})
    found = mended.micro_batch({"Braking": brakings((0, 200)), "Driver": drivers(200)})
    assert told(found) == ["complex event Calm"]


def test_starts_are_remembered_but_not_all_of_them(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new")
    assert checkpoint.starts_with(1.5) == (1.5,)
    assert checkpoint.starts_with(2.5) == (1.5, 2.5)
    for start in range(200):
        starts = checkpoint.starts_with(1000.0 + start)
    assert starts == tuple(1100.0 + n for n in range(100))
    (tmp_path / "new" / "starts.json").write_text("{")
    assert checkpoint.starts_with(3.5) == (3.5,)
