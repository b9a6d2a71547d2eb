"""Offsets of queries that drive a site's operators, and batches that the core takes or refuses."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from situ.core.errors import StateError
from situ.core.time import END
from situ.io.rows.conform import conform
from situ.lang.parse import parse
from situ.runtime.sites.actions import BatchMade, BatchTaken, Committed, ControlAsked, Readable, RowsRead, Woken
from situ.runtime.sites.batches import LogRange, next_offsets, offsets_of_json, offsets_to_json, parts_of_batch
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, PlanError, plan_to_json
from situ.runtime.sites.driven_host import make_driven_host
from situ.runtime.sites.embedded_host import make_embedded_host
from situ.runtime.sites.journal import EntryStub, LogPosition, MemoryJournal
from situ.runtime.sites.messages import Go, LogName, Prepare
from situ.runtime.sites.simulation.simulated_query import SimulatedCheckpoint, SimulatedQuery
from situ.runtime.sites.site import SiteCore

A = LogName("events", "A", "north", 1)
B = LogName("events", "B", "south", 1)
STUBS = {A: [EntryStub(0, 3, 10, 100), EntryStub(3, 5, 20, 100), EntryStub(5, 9, 30, 100)], B: []}


def stubs_between(log: LogName, first: int, following: int) -> list[EntryStub]:
    return [stub for stub in STUBS[log] if stub.first >= first and stub.following <= following]


def test_a_batch_reads_to_the_end_or_as_much_as_it_may() -> None:
    readable = {A: LogPosition(9, 40), B: LogPosition(0, 70)}
    assert next_offsets({}, readable, stubs_between, 10_000) == readable
    first = next_offsets({}, readable, stubs_between, 400)
    assert first == {A: LogPosition(5, 20), B: LogPosition(0, 70)}
    assert next_offsets(first, readable, stubs_between, 1) == readable  # one entry at least
    assert next_offsets(readable, readable, stubs_between, 1) == readable
    assert offsets_of_json(offsets_to_json(first)) == first
    assert list(offsets_to_json({B: LogPosition(), A: LogPosition()})) == [str(A), str(B)]


def test_parts_are_all_that_a_batch_reads() -> None:
    until = {A: LogPosition(9, 40), B: LogPosition(0, 70)}
    assert parts_of_batch({}, until, stubs_between, 200) == [(LogRange(A, 0, 5),), (LogRange(A, 5, 9),)]
    assert parts_of_batch(until, until, stubs_between, 200) == [()]
    with pytest.raises(StateError, match="the journal does not have"):
        parts_of_batch({}, {A: LogPosition(12, 40)}, stubs_between, 200)
    with pytest.raises(StateError, match="the journal does not have"):
        parts_of_batch({A: LogPosition(1)}, until, stubs_between, 200)


def test_offsets_ahead_of_a_log_that_was_set_back() -> None:
    with pytest.raises(StateError, match="was read up to 9, and ends with 5"):
        next_offsets({A: LogPosition(9, 40)}, {A: LogPosition(5, 20)}, stubs_between, 100)


# ---- a site of one, whose operators a query drives

QUERY = """
stream A(k int, v int, ts int) time ts in s
subscribe Pair
  detect   A as a then A(v > a.v) as b within 5 s
  assign   k = a.k, v = b.v
  group by k
"""
PLAN = DeployedPlan(1, QUERY, {"A": ("here",)}, {"Pair": OperatorPlace("here")}, ("here",), bounded=True)
ROWS = pa.table({"k": [1, 1, 2, 2], "v": [1, 2, 5, 4], "ts": [1, 2, 3, 4]})


def site(journal: MemoryJournal, life: str = "a", make_host: object = make_driven_host) -> SiteCore:
    return SiteCore("here", journal, make_host, {"A": ["s"]}, 0.0, life)  # type: ignore[arg-type]


def tell(core: SiteCore, journal: MemoryJournal, event: object) -> list[object]:
    """Tell the site of an event, and let its disk write; all actions."""
    done: list[object] = []
    actions: list[object] = list(core.handle(event, 1.0))  # type: ignore[arg-type]
    while actions:
        action = actions.pop(0)
        done.append(action)
        if (commit := getattr(action, "commit", None)) is not None:
            journal.commit(commit)
            actions += core.handle(Committed(commit.number), 1.0)
    return done


def running_site() -> tuple[SiteCore, MemoryJournal, SimulatedQuery, Readable]:
    journal = MemoryJournal()
    core = site(journal)
    tell(core, journal, Woken())
    tell(core, journal, ControlAsked(1, Prepare(plan_to_json(PLAN))))
    tell(core, journal, ControlAsked(2, Go(1, PLAN.digest)))
    stream = parse(QUERY).streams[0]
    actions = tell(core, journal, RowsRead("A", "s", conform(ROWS, stream), "1", ended=True))
    readable = [action for action in actions if isinstance(action, Readable)][-1]

    query = SimulatedQuery(plan_to_json(PLAN), "here", 2, SimulatedCheckpoint(), journal, random.Random(1))
    return core, journal, query, readable


def batch_of(query: SimulatedQuery, readable: Readable) -> BatchMade:
    while True:
        assert query.plan_batch(readable.offsets)
        batch, _ = query.make_batch()
        if batch.until == readable.offsets:
            return batch
        query.checkpoint.planned.clear()  # a smaller one by chance: plan it again


def test_a_batch_is_taken_once_also_after_a_restart() -> None:
    core, journal, query, readable = running_site()
    assert [at.watermark_us for at in readable.offsets.values()] == [END]
    batch = batch_of(query, readable)
    assert BatchTaken(1, 0) in tell(core, journal, batch)
    made = LogName("events", "Pair", "here", 1)
    assert core.versions[1].made[made].durable_end == 1
    again = site(journal, "b")
    tell(again, journal, Woken())
    assert BatchTaken(1, 0) in tell(again, journal, batch)  # Spark had not noted it
    assert again.versions[1].made[made].durable_end == 1
    assert again.status()["versions"]["1"]["batches"] == {"taken": 1, "behind_bytes": 0, "behind_events": 0}


def test_batches_that_do_not_follow_are_refused() -> None:
    core, journal, query, readable = running_site()
    batch = batch_of(query, readable)
    with pytest.raises(StateError, match="is given batch 3, which does not follow"):
        core.handle(replace(batch, number=3), 1.0)
    tell(core, journal, batch)
    with pytest.raises(StateError, match="belong together"):  # as a new checkpoint begins, with other offsets
        core.handle(replace(batch, until={}), 1.0)


def test_a_directory_belongs_to_one_engine() -> None:
    core, journal, query, readable = running_site()
    tell(core, journal, batch_of(query, readable))
    with pytest.raises(StateError, match="has run on Spark at here"):
        site(journal, "b", make_embedded_host)
    journal = MemoryJournal()
    core = site(journal, "a", make_embedded_host)
    for event in (Woken(), ControlAsked(1, Prepare(plan_to_json(PLAN))), ControlAsked(2, Go(1, PLAN.digest))):
        tell(core, journal, event)
    tell(core, journal, RowsRead("A", "s", conform(ROWS, parse(QUERY).streams[0]), "1", ended=True))
    with pytest.raises(StateError, match="has run in the site itself"):
        site(journal, "b")


def test_operators_on_spark_do_not_pull() -> None:
    query = "stream A(v int, ts int) time ts in s\nstream B(v int, ts int) time ts in s\n"
    query += "subscribe AB detect A as a then B as b within 5 s"
    places = {"AB": OperatorPlace("hub", (("A",), ("B",)))}
    plan = DeployedPlan(1, query, {"A": ("x",), "B": ("y",)}, places, ("hub",))
    with pytest.raises(PlanError, match="AB pulls inputs at hub, which runs on Spark"):
        make_driven_host(plan_to_json(plan), "hub")
