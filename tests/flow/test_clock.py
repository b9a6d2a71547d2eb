"""How far event time has come."""

from __future__ import annotations

import random

import pytest

from situ.core.time import BEGINNING
from situ.flow.clock import Clock
from situ.graph.query import Stream

SECOND = 1_000_000


def clock(**streams: tuple[int, int | None]) -> Clock:
    """Streams with their watermark in microseconds, and the seconds after which they are idle."""
    return Clock.of(
        Stream(name, (), "ts", watermark_us=watermark, idle_after_us=None if idle is None else idle * SECOND)
        for name, (watermark, idle) in streams.items()
    )


def test_the_slowest_stream_decides() -> None:
    time = clock(A=(0, None), B=(10, None))
    assert time.advance(0.0) == BEGINNING
    time.see("A", 100, 0.0)
    assert time.advance(0.0) == BEGINNING  # B may still send anything
    time.see("B", 70, 0.0)
    assert time.advance(0.0) == 60
    time.see("B", 200, 0.0)
    assert time.advance(0.0) == 100


def test_time_never_goes_back() -> None:
    time = clock(A=(0, None))
    time.see("A", 100, 0.0)
    time.advance(0.0)
    time.see("A", 50, 0.0)
    assert (time.latest("A"), time.advance(0.0)) == (100, 100)


def test_what_is_late() -> None:
    time = clock(A=(10, None), B=(0, 5))
    assert (time.limit("A"), time.limit("B")) == (BEGINNING, BEGINNING)
    time.advance(0.0)
    time.see("A", 100, 0.0)
    time.advance(1.0)
    assert (time.limit("A"), time.limit("B")) == (90, BEGINNING)  # by its own watermark, though time has not passed
    time.advance(5.0)
    assert (time.limit("A"), time.limit("B")) == (90, 90)  # B was idle, and time has passed without it


def test_without_any_event_nothing_has_passed() -> None:
    time = clock(A=(10, 5), B=(0, 5))
    time.advance(0.0)
    assert time.advance(1e9) == BEGINNING  # all are idle, and nobody knows the time
    time.see("A", BEGINNING, 1e9)  # rows that were all rejected: a sign of life
    assert time.advance(1e9) == BEGINNING
    assert not time.sources["A", ""].is_idle(1e9)


def test_silence_is_counted_from_the_start_and_from_the_last_rows() -> None:
    time = clock(A=(0, None), B=(0, 5))
    time.advance(100.0)
    time.see("A", 7, 101.0)
    assert time.advance(104.9) == BEGINNING
    assert time.advance(105.0) == 7
    time.see("B", 9, 106.0)
    time.see("A", 20, 106.0)
    assert time.advance(110.9) == 9
    assert time.advance(111.0) == 20


def test_idle_at_is_when_time_can_pass_next() -> None:
    time = clock(A=(0, None), B=(0, 5), C=(0, 8))
    time.advance(0.0)
    time.see("A", 100, 1.0)
    time.see("B", 50, 2.0)
    time.see("C", 30, 2.0)
    assert (time.advance(2.0), time.idle_at(2.0)) == (30, 10.0)  # C holds the others back; B would come next
    assert (time.advance(10.0), time.idle_at(10.0)) == (100, None)  # B has been idle since 7
    time.see("C", 60, 11.0)  # late, and active again; but time does not go back
    assert (time.advance(11.0), time.idle_at(11.0)) == (100, 19.0)


def test_a_stream_alone_holds_nobody_back() -> None:
    time = clock(A=(10, None))
    time.see("A", 100, 0.0)
    assert (time.advance(0.0), time.idle_at(0.0)) == (90, None)
    assert time.advance(100.0) == 90


@pytest.mark.parametrize("start", [0.0, 1_763_262_305.123, 2_000_000_000.001])
def test_time_passes_at_idle_at_and_not_before(start: float) -> None:
    """Wall time as it is, in milliseconds: no timer is a moment too early, for then no other would follow."""
    for ms in range(1000):
        time = clock(A=(0, None), B=(0, 3))
        now = start + ms / 1e3
        time.advance(now)
        time.see("A", 7, now)
        moment = time.idle_at(now)
        assert moment is not None
        assert time.advance(moment - 1e-3) == BEGINNING
        assert time.idle_at(moment - 1e-3) == moment
        assert (time.advance(moment), time.idle_at(moment)) == (7, None)


def test_another_clock_goes_on() -> None:
    time = clock(A=(0, None), B=(10, 5), Gone=(0, None))
    for name, latest, now in (("A", 100, 1.0), ("B", 80, 2.0), ("Gone", 90, 2.0)):
        time.see(name, latest, now)
    time.advance(2.0)
    other = clock(A=(0, None), B=(10, 5), New=(0, 5))
    other.restore(time.table())
    assert other.passed == time.passed == 70
    assert [other.limit(name) for name in ("A", "B", "New")] == [100, 70, 70]
    other.see("New", 71, 3.0)
    assert other.advance(3.0) == 70  # B
    assert other.advance(7.0) == 71  # B is idle since then: silence is counted from before
    assert other.advance(8.0) == 100


def test_random_streams_beside_a_few_lines_of_python() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        declared = {name: (rng.choice([0, 1, 5]), rng.choice([None, 2, 4])) for name in "ABC"[: rng.randint(1, 3)]}
        time = clock(**declared)
        latest: dict[str, int] = {}
        seen = dict.fromkeys(declared, 0.0)
        passed = BEGINNING
        time.advance(0.0)
        for step in range(20):
            now = float(step)
            for name in rng.sample([*declared], rng.randint(0, len(declared))):
                latest[name] = max(event := rng.randint(0, 10 + step), latest.get(name, event))
                seen[name] = now
                time.see(name, event, now)
            awake = [n for n, (_, idle) in declared.items() if idle is None or now - seen[n] < idle]
            if awake and all(name in latest for name in awake):
                passed = max(passed, min(latest[name] - declared[name][0] for name in awake))
            if not awake and latest:
                marks = [latest[name] - declared[name][0] for name in latest]
                passed = max(passed, max(marks) + round((now - max(seen.values())) * SECOND))
            if rng.random() < 0.3:
                other = clock(**declared)
                other.restore(time.table())
                time = other
            assert time.advance(now) == passed
            for name, (watermark, _) in declared.items():
                own = latest[name] - watermark if name in latest else BEGINNING
                assert time.limit(name) == max(own, passed)


def test_each_source_of_a_stream_has_a_clock() -> None:
    stream = Stream("Gate", (), "ts", watermark_us=10, idle_after_us=5 * SECOND)
    time = Clock.of([stream], {"Gate": ["north", "south"]})
    time.see("Gate", 100, 0.0, "north")
    assert time.advance(0.0) == BEGINNING  # the south may still send anything
    time.see("Gate", 50, 1.0, "south")
    assert time.advance(1.0) == 40
    assert (time.limit("Gate", "north"), time.limit("Gate", "south")) == (90, 40)
    assert time.advance(5.0) == 40  # the north has been silent, and the south holds time where it is
    time.see("Gate", 300, 5.0, "north")
    assert time.advance(6.0) == 290  # now the south has been silent
    other = Clock.of([stream], {"Gate": ["south", "west"]})
    other.restore(time.table())
    assert (other.latest("Gate", "south"), other.latest("Gate", "west"), other.passed) == (50, BEGINNING, 290)
