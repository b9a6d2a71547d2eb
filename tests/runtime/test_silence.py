"""Time goes on where all streams are silent: the clock by itself, and the embedded engine with a clock of our own."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from flow.test_clock import SECOND, clock
from situ.core.errors import InputError
from situ.core.time import BEGINNING
from situ.runtime.embedded.engine import Engine, Output

# ---- the clock


def test_time_goes_on_from_the_largest_time_at_the_pace_of_the_wall_clock() -> None:
    time = clock(A=(2 * SECOND, 5))
    time.see("A", 100 * SECOND, 1000.0)
    assert (time.advance(1000.0), time.idle_at(1000.0)) == (98 * SECOND, 1005.0)
    assert time.advance(1004.9) == 98 * SECOND
    assert time.advance(1005.0) == 103 * SECOND
    assert time.advance(1065.5) == 98 * SECOND + 65_500_000
    time.see("A", 163 * SECOND, 1066.0)  # by its own clock the source was silent a little shorter
    assert time.advance(1066.0) == 98 * SECOND + 65_500_000  # and time does not go back
    assert time.limit("A") == 98 * SECOND + 65_500_000
    assert time.advance(1071.0) == 166 * SECOND


def test_all_streams_must_be_silent() -> None:
    time = clock(A=(0, 5), B=(10 * SECOND, 20))
    time.see("A", 100 * SECOND, 0.0)
    time.see("B", 105 * SECOND, 2.0)
    assert (time.advance(2.0), time.idle_at(2.0)) == (95 * SECOND, 22.0)
    assert time.advance(10.0) == 95 * SECOND  # A is idle, and B holds time back
    assert time.advance(22.0) == 120 * SECOND  # 100, A's, is larger than 95; and all are silent since 2
    time.see("B", 200 * SECOND, 23.0)
    assert time.advance(23.0) == 190 * SECOND


def test_a_stream_that_is_never_idle_keeps_time_from_going_on() -> None:
    time = clock(A=(0, 5), B=(0, None))
    time.see("A", 100, 0.0)
    time.see("B", 90, 0.0)
    assert (time.advance(1e9), time.idle_at(1e9)) == (90, None)


def test_nobody_knows_the_time_before_the_first_event() -> None:
    time = clock(A=(0, 5), B=(0, 5))
    assert (time.advance(0.0), time.advance(1e6)) == (BEGINNING, BEGINNING)
    assert time.idle_at(1e6) is None


@pytest.mark.parametrize(("idle_s", "pace_s"), [(5, 1.0), (60, 6.0)])
def test_those_who_wait_look_again_after_a_tenth_of_idle_after(idle_s: int, pace_s: float) -> None:
    time = clock(A=(0, idle_s))
    time.see("A", 7, 0.0)
    time.advance(0.0)
    assert time.idle_at(0.0) == idle_s
    time.advance(1000.0)
    assert time.idle_at(1000.0) == 1000.0 + pace_s


def test_what_lies_between_a_snapshot_and_its_restore_is_no_silence() -> None:
    time = clock(A=(0, 5))
    time.see("A", 100 * SECOND, 0.0)
    time.advance(3.0)
    other = clock(A=(0, 5))
    other.restore(time.table())
    other.resume(7000.0)  # also where the wall clock of another machine begins elsewhere
    assert other.advance(7001.9) == 100 * SECOND
    assert other.advance(7002.0) == 105 * SECOND


# ---- the engine

DEAD_MAN = """
stream Beat(device int, s int) time s in s  idle after 30 s

subscribe Silence
  detect   Beat as last then not Beat within 60 s
  assign   device = last.device
  group by device
"""


@dataclass
class WallClock:
    now: float = 5000.0

    def __call__(self) -> float:
        return self.now


def beat(device: int, second: int) -> pa.Table:
    return pa.table({"device": [device], "s": [second]})


def silent(output: Output) -> list[tuple[int, int]]:
    rows = output.complex_events["Silence"].to_pylist()
    return sorted((row["device"], int(row["_time"].timestamp())) for row in rows)


def test_an_absence_is_found_when_everything_is_silent() -> None:
    """Before, the alarm waited for the next event, which never came."""
    wall = WallClock()
    engine = Engine(DEAD_MAN, clock=wall)
    engine.feed(beat(1, 100))
    engine.feed(beat(2, 110))
    assert silent(engine.advance()) == []
    wall.now += 50.5  # time is 160.5 then: 1 has been silent for more than a minute
    assert silent(engine.advance()) == [(1, 160)]
    wall.now += 9.4
    assert silent(engine.advance()) == []
    wall.now += 0.2
    found = engine.advance()
    assert silent(found) == [(2, 170)]
    assert found.low_watermark == 170_100_000
    wall.now += 3
    assert engine.feed(beat(1, 173)).late == {}  # with the delay that rows had before
    assert list(engine.feed(beat(1, 165)).late) == ["Beat"]


def test_a_replay_of_old_rows_does_not_jump_to_the_wall_clock() -> None:
    wall = WallClock(1.8e9)
    engine = Engine(DEAD_MAN, clock=wall)
    for second in range(0, 3000, 50):
        wall.now += 0.01
        assert silent(engine.feed(beat(1, second))) == []
        assert silent(engine.advance()) == []


def test_a_restored_engine_does_not_count_the_time_in_which_it_did_not_run() -> None:
    wall = WallClock()
    engine = Engine(DEAD_MAN, clock=wall)
    engine.feed(beat(1, 100))
    wall.now += 40
    assert silent(engine.advance()) == []
    wall.now += 1000
    restored = Engine(DEAD_MAN, clock=wall)
    restored.restore(engine.snapshot())
    assert silent(restored.advance()) == []
    wall.now += 20
    assert silent(restored.advance()) == []
    wall.now += 0.1
    assert silent(restored.advance()) == [(1, 160)]


def test_a_closed_engine_does_not_advance() -> None:
    engine = Engine(DEAD_MAN)
    engine.close()
    with pytest.raises(InputError, match="the engine is closed"):
        engine.advance()


MOVING = """
stream Braking(x double, y double, s int) time s in s  at (x, y)  idle after 10 s
stream Driver(id int, x double, y double, s int) time s in s  at (x, y)  key id  idle after 30 s

subscribe Calm for Driver(id)
  detect   Braking as last then not Braking within 60 s
  around   Driver square 100 m
"""


def test_time_goes_on_for_moving_subscriptions_when_events_and_consumers_are_silent() -> None:
    wall = WallClock()
    engine = Engine(MOVING, clock=wall)
    engine.feed(pa.table({"id": [7], "x": [0.0], "y": [0.0], "s": [100]}), "Driver")
    engine.feed(pa.table({"x": [1.0], "y": [1.0], "s": [110]}), "Braking")
    wall.now += 29.9
    assert engine.advance().complex_events["Calm"].num_rows == 0
    wall.now += 30.0
    assert engine.advance().complex_events["Calm"].num_rows == 0
    wall.now += 0.2
    found = engine.advance().complex_events["Calm"].to_pylist()
    assert [row["_time"].timestamp() for row in found] == [170.0]
