"""Exactly once: a streaming query that is killed gives what a batch gives on the same events.

Drivers, executors and Python workers are killed with SIGKILL, at moments that are named (`killing.POINTS`, and events
at which the query's own functions die) and at seeded random ones. Nothing that a reader of the results finds may be
lost or doubled by that. `make test` kills a worker and the whole query once, `make kills` twenty times more.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runtime.spark.kill_events import (
    STEP_US,
    Found,
    assert_same,
    counted,
    expected,
    found_in_files,
    make_batches,
    write_input,
)
from runtime.spark.killing import PARTITIONS, Query

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc, which is Linux's"),
]


@dataclass
class Killed:
    """A query with its input, and what it is to find in the end."""

    query: Query
    wanted: Found
    rng: random.Random

    @classmethod
    def of(cls, directory: Path, sink: str, seed: int, batches: int) -> Killed:
        made = make_batches(seed, batches)
        write_input(directory, made)
        return cls(Query(directory, sink), expected(made), random.Random(seed))

    def order(self, where: str, *whom: str) -> None:
        """Orders deaths at a complex event that no micro-batch so far has found (see `kill_query._die`)."""
        name = {"first": "Rise", "second": "Storm", "rows": "Storm"}[where]
        found = [dict(content) for kind, of, content in self.wanted if (kind, of) == ("complex event", name)]
        begin_us = (self.query.seen().planned + 1) * STEP_US
        used = {path.name.split("-")[1] for path in self.query.directory.glob("*/*-*-*er")}
        ids = [event["id"] for event in sorted(found, key=lambda event: event["_time"]) if event["_time"] >= begin_us]
        number = next(number for number in ids if str(number) not in used)
        fatal = self.query.directory / "fatal"
        fatal.mkdir(exist_ok=True)
        for one in whom:
            (fatal / f"{where}-{number}-{one}").touch()

    def deaths(self, whom: str) -> int:
        """How many of those that were ordered have come; none may be outstanding."""
        assert not list((self.query.directory / "fatal").iterdir())
        return len(list((self.query.directory / "died").glob(f"*-{whom}*")))

    def found(self) -> Found:
        if self.query.sink == "parquet":  # as Spark has read it, which knows what of the directory counts
            return counted(pq.read_table(self.query.directory / "found.parquet"))
        return found_in_files(self.query.directory / "out")


@pytest.fixture
def killed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Killed]:
    found = Killed.of(tmp_path, *request.param)
    yield found
    found.query.kill()


@pytest.mark.parametrize("killed", [("files", 3, 5)], indirect=True)
@pytest.mark.kills
def test_a_worker_and_the_whole_query_are_killed(killed: Killed) -> None:
    """The worker while it looks for complex events, the query with results on their way to the sink."""
    query = killed.query
    killed.order("first", "worker")
    killed.order("rows", "driver")
    query.start()
    assert query.kill_by_order().running
    query.start()
    query.end()
    assert (killed.deaths("worker"), killed.deaths("driver")) == (1, 1)
    assert_same(killed.found(), killed.wanted)


@pytest.mark.kills
@pytest.mark.parametrize("killed", [("files", 3, 8)], indirect=True)
def test_the_whole_query_is_killed_in_two_places(killed: Killed) -> None:
    """While it looks for complex events, and with results on their way to the sink."""
    query = killed.query
    killed.order("first", "worker")
    killed.order("second", "driver")
    query.start()
    assert query.kill_by_order().running
    killed.order("rows", "driver")
    query.start()
    assert query.kill_by_order().running
    query.start()
    query.end()
    assert (killed.deaths("worker"), killed.deaths("driver")) == (1, 2)
    assert_same(killed.found(), killed.wanted)


@pytest.mark.kills
@pytest.mark.parametrize("killed", [("parquet", 1, 15)], indirect=True)
def test_nothing_is_lost_or_doubled_in_the_sink_of_spark(killed: Killed) -> None:
    query = killed.query
    killed.order("first", "worker")
    killed.order("second", "driver", "driver-again")  # in the micro-batch that repeats, too
    for _ in range(2):
        query.start()
        seen = query.kill_by_order()
        assert seen.running
        assert seen.states[0] == PARTITIONS > seen.states[1]
    for point in ("state", "results written"):
        killed.order("rows", "worker")
        query.start()
        query.kill_at(point)
    for where in ("first", "second", "rows"):
        killed.order(where, "worker")
    query.start("local[2]")  # with the task, the query fails, and starts again in the same process
    query.end()
    assert (query.directory / "failures").exists()
    assert killed.deaths("driver") == 2
    assert killed.deaths("worker") == 6
    assert_same(killed.found(), killed.wanted)


@pytest.mark.kills
@pytest.mark.parametrize("killed", [("files", 2, 15)], indirect=True)
def test_nothing_is_lost_or_doubled_in_files(killed: Killed) -> None:
    query = killed.query
    killed.order("first", "worker")
    for point in ("results begun", "results written"):
        query.start()
        query.kill_at(point)
    query.start()
    query.kill_after(killed.rng.uniform(0, 2))
    query.start("local-cluster[2,1,1024]")
    batch = query.seen().planned
    for word in ("CoarseGrainedExecutorBackend", "pyspark.worker", "pyspark.worker") * 2:
        batch = query.kill_some(word, killed.rng, after=batch)
    query.end()
    assert killed.deaths("worker") == 1
    assert_same(killed.found(), killed.wanted)
