"""Recursive stop: what is delivered does not change, and what stops is not needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from situ.core.time import END
from situ.kernel.arrays import I64
from situ.lab.recep.coverings.stop import OperatorSelections, free, stops, unneeded_us


@dataclass(frozen=True)
class Level:
    """Selections of one operator: all are processed at `processed_us`, coverings are known at `decided_us`."""

    owner: I64
    begin_us: I64
    end_us: I64
    by: I64
    decided_us: I64
    processed_us: I64


def random_level(rng: np.random.Generator, owners: int) -> Level:
    count = int(rng.integers(1, 25))
    begin = rng.integers(0, 40, count)
    end = begin + rng.integers(0, 9, count)
    covering = rng.choice(count, max(1, count // 3), replace=False)
    by = np.arange(count)
    others = np.setdiff1d(by, covering)
    by[others] = rng.choice(covering, len(others))
    decided = rng.integers(0, 60, count)
    return Level(rng.integers(0, owners, count), begin, end, by, decided, np.maximum(decided, end + 1))


def levels_of(rng: np.random.Generator) -> list[Level]:
    """Inputs first; each is read by the next, and the last is delivered."""
    return [random_level(rng, owners=3) for _ in range(int(rng.integers(2, 5)))]


def stopped(levels: list[Level]) -> list[list[bool]]:
    last = levels[-1]
    nothing = np.zeros(len(last.by), np.bool_)
    found = [nothing.tolist()]
    reading = OperatorSelections(
        last.owner, last.begin_us, last.end_us, free(last.by, last.decided_us, nothing, last.begin_us)
    )
    for level in reversed(levels[:-1]):
        unneeded = unneeded_us(level.owner, level.begin_us, level.end_us, reading)
        stop, since = stops(level.by, unneeded, level.processed_us)
        found.insert(0, stop.tolist())
        reading = OperatorSelections(
            level.owner, level.begin_us, level.end_us, free(level.by, level.decided_us, stop, since)
        )
    return found


def reads(reader: Level, r: int, level: Level, s: int) -> bool:
    """Whether selection r may read an event of selection s."""
    apart = level.end_us[s] < reader.begin_us[r] or level.begin_us[s] > reader.end_us[r]
    return bool(reader.owner[r] == level.owner[s]) and not apart


def result(levels: list[Level], stop: list[list[bool]], at: int, s: int) -> object:
    """What comes of a selection, by all that may be read for it: None if it stopped."""
    if stop[at][s]:
        return None
    before = levels[at - 1] if at else None
    inputs = (
        tuple(
            result(levels, stop, at - 1, int(before.by[k]))
            for k in range(len(before.by))
            if reads(levels[at], s, before, k)
        )
        if before is not None
        else ()
    )
    return (at, s, inputs)


@pytest.mark.parametrize("seed", range(40))
def test_stopping_changes_nothing_that_is_delivered(seed: int) -> None:
    levels = levels_of(np.random.default_rng(seed))
    stop = stopped(levels)
    none = [[False] * len(level.by) for level in levels]
    at = len(levels) - 1
    for s in range(len(levels[-1].by)):
        by = int(levels[-1].by[s])
        assert result(levels, stop, at, by) == result(levels, none, at, by)


@pytest.mark.parametrize("seed", range(40))
def test_who_stops_was_told_before_by_all_who_may_read(seed: int) -> None:
    levels = levels_of(np.random.default_rng(seed))
    stop = stopped(levels)
    for at, level in enumerate(levels[:-1]):
        after = levels[at + 1]
        for s in range(len(level.by)):
            readers = [
                r
                for k in range(len(level.by))
                if level.by[k] == s
                for r in range(len(after.by))
                if reads(after, r, level, k)
            ]
            unread = [k for k in range(len(level.by)) if level.by[k] == s]
            known = all(any(reads(after, r, level, k) for r in range(len(after.by))) for k in unread)
            in_time = all(
                after.decided_us[r] < level.processed_us[s] if after.by[r] != r else stop[at + 1][r] for r in readers
            )
            if stop[at][s]:
                assert level.by[s] == s
                assert known
                assert in_time
            elif at == len(levels) - 2 and level.by[s] == s:
                assert not (known and in_time)


def test_some_stop() -> None:
    found = [stopped(levels_of(np.random.default_rng(seed))) for seed in range(40)]
    assert sum(any(map(any, stop)) for stop in found) > 10
    assert any(any(stop[0]) for stop in found if len(stop) > 2)  # down the whole graph


def test_nobody_reads() -> None:
    none = np.zeros(0, np.int64)
    one = np.zeros(1, np.int64)
    assert unneeded_us(one, one, one, OperatorSelections(none, none, none, none)).tolist() == [END]
    assert len(unneeded_us(none, none, none, OperatorSelections(one, one, one, one))) == 0
