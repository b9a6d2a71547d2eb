"""What one site does beside what storms ask: refusals, directories set back, silence, back pressure, versions."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pyarrow as pa
import pytest

from situ.core.errors import StateError
from situ.core.time import BEGINNING
from situ.graph.query import Stream
from situ.io.rows.conform import Conformed, conform
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.sites.actions import ControlAsked, Received, Send
from situ.runtime.sites.carrying import carried_on, reasons_to_begin_anew
from situ.runtime.sites.deployed_plan import DeployedPlan, NamedFunction, OperatorPlace, plan_to_json
from situ.runtime.sites.deployment import Deployment, concerned_sites
from situ.runtime.sites.embedded_host import make_embedded_host
from situ.runtime.sites.journal import MemoryJournal
from situ.runtime.sites.messages import Go, LogBatch, LogName, Position, Prepare, Probe
from situ.runtime.sites.rows import write_rows
from situ.runtime.sites.settings import Settings
from situ.runtime.sites.simulation.world import Faults, World
from situ.runtime.sites.site import SiteCore

PAIRS = """
stream Ping(n int, ts int) time ts in s
subscribe Pair detect Ping(n % 2 = 0) as a then Ping(n % 2 = 1) as b within 10 s assign first = a.n, second = b.n
"""
ALARM = """
stream Ping(n int, ts int) time ts in s
subscribe Alarm detect Ping as a then no Ping for 5 s assign last = a.n
"""
CALM = Faults()
PING = LogName("events", "Ping", "edge", 1, selection=1)  # those that pass the conditions of the operator


def plan_of(query: str = PAIRS, **changes: object) -> DeployedPlan:
    names = [operator.name for operator in resolve(parse(query)).operators]
    plan = DeployedPlan(1, query, {"Ping": ("edge",)}, {name: OperatorPlace("hub") for name in names}, ("root",))
    return replace(plan, bounded=True, **changes)  # type: ignore[arg-type]


def stream_of(query: str = PAIRS) -> Stream:
    return resolve(parse(query)).streams[0]


def pings(*times: int, first: int = 0) -> Conformed:
    numbers = range(first, first + len(times))
    return conform(pa.table({"n": pa.array(numbers, pa.int64()), "ts": pa.array(times, pa.int64())}), stream_of())


def world_of(plan: DeployedPlan, pieces: list[Conformed], **options: object) -> World:
    sites = {"edge", "hub", "root", *plan.sites}
    return World(sorted(sites), {("edge", "Ping", "file"): pieces}, 1, **options)  # type: ignore[arg-type]


def deployed(world: World, plan: DeployedPlan, *running: DeployedPlan) -> Deployment:
    deployment = Deployment(plan, concerned_sites(plan, running), f"word {len(world.deployments)}")
    world.deploy(deployment)
    return deployment


def alarms(world: World) -> list[int]:
    return [row["last"] for log, table in world.results().items() if log.type == "Alarm" for row in table.to_pylist()]


# ---- plans that do not fit


@pytest.mark.parametrize(
    ("plan", "site", "reason"),
    [
        (plan_of(functions=(NamedFunction("odd", "int", "no_such_module:odd"),)), "hub", "cannot be imported here"),
        (plan_of(sources={"Ping": ("edge", "root")}), "root", "root has no source of stream Ping"),
        (plan_of(sources={}), "hub", "no place for stream 'Ping'"),
        (plan_of(operators={"Pear": OperatorPlace("hub")}), "hub", "operator 'Pear', which the query does not have"),
        (replace(plan_of(), query="stream Ping("), "hub", "the text ends here"),
        (plan_of(results=()), "hub", "nobody wants the results"),
        (plan_of(live=frozenset({"Pong"})), "hub", "'Pong' is live, and no stream"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_as_a_whole(plan: DeployedPlan, site: str, reason: str) -> None:
    world = World(["edge", "hub", "root"], {("edge", "Ping", "file"): [pings(1)]}, 1)
    deployment = Deployment(plan, ("edge", "hub", "root"), "word")
    world.deploy(deployment)
    world.run_for(5)
    assert deployment.phase == "refused"
    assert reason in deployment.reasons[site]
    assert deployment.words().startswith("version 1 was refused, and nothing has changed:")
    for machine in world.sites.values():
        assert machine.site is not None
        assert (machine.site.controls.prepared, machine.site.versions) == (None, {})


def test_rules_without_a_window_need_sources_that_end() -> None:
    query = PAIRS.replace(" within 10 s", "")
    make_embedded_host(plan_to_json(plan_of(query)), "hub")
    with pytest.raises(Exception, match="has no window"):
        make_embedded_host(plan_to_json(replace(plan_of(query), bounded=False)), "hub")


def test_moving_subscriptions_are_refused() -> None:
    query = """
    stream Driver(id string, x double, y double, ts int) time ts in s at (x, y) key id
    stream Ping(n int, x double, y double, ts int) time ts in s at (x, y)
    subscribe Near for Driver(id)
      detect   Ping as a
      assign   n = a.n
      around   Driver square 500 m
      lifetime 1 min
    """
    plan = DeployedPlan(
        1, query, {"Driver": ("a",), "Ping": ("a",)}, {"Near": OperatorPlace("a")}, ("a",), bounded=True
    )
    with pytest.raises(Exception, match="around a consumer who moves, which sites do not run yet"):
        make_embedded_host(plan_to_json(plan), "a")


def test_a_site_that_missed_the_decision_hears_of_it_from_the_others() -> None:
    first = plan_of()
    world = world_of(first, [pings(1, 2, 3), pings(12, 13, 14, first=3)], pause_s=10.0)
    deployed(world, first)
    world.run_for(0.2)
    second = replace(plan_of(operators={"Pair": OperatorPlace("root")}), version=2).starting_at(10_000_000)
    deployment = deployed(world, second, first)
    while deployment.phase == "prepare":
        world.run_for(0.001)
    assert deployment.phase == "go"
    deployment.unreachable("root", "it is away")  # it prepared, and nobody tells it
    world.run()
    assert deployment.phase == "running"
    found = [(log.version, row["first"], row["second"]) for log, t in world.results().items() for row in t.to_pylist()]
    assert sorted(found) == [(1, 0, 1), (2, 4, 5)]


def test_a_match_over_a_change_is_found_where_its_operator_goes() -> None:
    first = plan_of()
    second = replace(plan_of(operators={"Pair": OperatorPlace("root")}), version=2).starting_at(10_000_000)
    world = world_of(first, [pings(2, 4, first=1), pings(12, 14, first=3)], pause_s=5.0)
    deployed(world, first)
    world.run_for(0.5)
    deployed(world, carried_on(second, first), first)
    world.run()
    found = [(log.version, row["first"], row["second"]) for log, t in world.results().items() for row in t.to_pylist()]
    assert found == [(2, 2, 3)]


def test_what_begins_without_state_says_why() -> None:
    first = plan_of(functions=(NamedFunction("shape", "int", "a_module_that_only_sites_have:shape"),))
    second = replace(first, operators={"Pair": OperatorPlace("root")}, version=2)
    site = first.operators["Pair"].site
    assert reasons_to_begin_anew(second, first) == {}
    assert carried_on(second, first).operators["Pair"].carried_from == site
    for on_spark in ({site}, {"root"}):
        assert reasons_to_begin_anew(second, first, on_spark) == {"Pair": "Spark runs it"}
        assert carried_on(second, first, on_spark).operators["Pair"].carried_from is None
    longer = replace(second, query=first.query.replace("10 s", "11 s"))
    assert reasons_to_begin_anew(longer, first) == {"Pair": "its rule has changed"}


def test_a_state_that_a_site_does_not_have_is_refused() -> None:
    first = plan_of()
    other = plan_of(PAIRS.replace("10 s", "11 s"), operators={"Pair": OperatorPlace("root", carried_from="hub")})
    world = world_of(first, [pings(2, 4)], bounded=False)
    deployed(world, first)
    world.run_for(5)
    deployment = deployed(world, replace(other, version=2).starting_at(10_000_000), first)
    world.run_for(5)
    assert deployment.phase == "refused"
    assert "Pair cannot be carried on from hub: its rule has changed" in deployment.reasons["hub"]


def test_a_source_that_a_new_plan_leaves_out_ends_with_the_version_before() -> None:
    first = plan_of(sources={"Ping": ("edge", "root")})
    sources = {("edge", "Ping", "file"): [pings(1, 2), pings(12, 13, first=2)], ("root", "Ping", "file"): [
        pings(3, 4, first=10), pings(11, 12, first=12)]}  # fmt: skip
    world = World(["edge", "hub", "root"], sources, 1, pause_s=0.5)
    deployed(world, first)
    world.run_for(0.1)
    second = replace(plan_of(), version=2).starting_at(10_000_000)
    deployed(world, second, first)
    world.run_for(60)
    root = world.sites["root"].site
    assert root is not None
    assert root.status()["held"]["Ping"] == "no plan reads it here"
    assert root.admission.counts == {"late": 0, "rejected": 0, "admitted": 2, "unread": 2}
    found = [(log.version, row["first"], row["second"]) for log, t in world.results().items() for row in t.to_pylist()]
    assert sorted(found) == [(1, 0, 1), (1, 10, 11), (2, 2, 3)]


# ---- functions


def test_a_function_that_is_not_deterministic_is_named() -> None:
    query = "stream Ping(n int, ts int) time ts in s\nsubscribe Odd detect Ping as a assign n = {}(a.n)"
    for name, is_fine in (("doubled", True), ("times_called", False)):
        function = NamedFunction(name, "int", f"runtime.sites.odd_functions:{name}")
        plan = DeployedPlan(
            1,
            query.format(name),
            {"Ping": ("edge",)},
            {"Odd": OperatorPlace("hub")},
            ("root",),
            functions=(function,),
            bounded=True,
        )
        world = world_of(plan, [pings(1, 2, 3), pings(4)], bounded=False)
        deployed(world, plan)
        world.run_for(5)
        hub = world.sites["hub"]
        if is_fine:
            SiteCore("hub", hub.journal, make_embedded_host, {}, 0.0, "again")
        else:
            with pytest.raises(StateError, match=r"the same arguments: runtime[.]sites[.]odd_functions"):
                SiteCore("hub", hub.journal, make_embedded_host, {}, 0.0, "again")


# ---- directories


def test_a_directory_that_was_set_back_is_refused_by_who_is_ahead() -> None:
    plan = plan_of()
    world = world_of(plan, [pings(n, first=n) for n in range(30)], bounded=False)
    deployed(world, plan)
    world.run_for(0.1)
    old = copy.deepcopy(world.sites["edge"].journal)
    world.run_for(5)
    hub = world.sites["hub"].site
    assert hub is not None
    assert hub.versions[1].read[PING].committed == 30
    world.sites["edge"].site, world.sites["edge"].journal = None, old
    world._start("edge")
    world.run_for(5)
    edge = world.sites["edge"].site
    assert edge is not None
    assert "edge was set back" in hub.status()["peers"]["edge"]
    assert "edge was set back" in edge.status()["peers"]["hub"]
    assert hub.versions[1].read[PING].committed == 30
    assert world.sites["root"].site is not None


def test_a_reader_that_was_set_back_is_refused_by_the_origin() -> None:
    plan = plan_of()
    settings = Settings(snapshot=2000, acknowledge=0.0)  # so that the origin has forgotten what was read
    world = world_of(plan, [pings(n, first=n) for n in range(30)], bounded=False, settings=settings)
    deployed(world, plan)
    world.run_for(0.1)
    old = copy.deepcopy(world.sites["hub"].journal)
    world.run_for(5)
    world.sites["hub"].site, world.sites["hub"].journal = None, old
    world._start("hub")
    world.run_for(5)
    hub = world.sites["hub"].site
    assert hub is not None
    assert "hub was set back" in hub.status()["peers"]["edge"]


# ---- time


def test_silence_costs_nothing() -> None:
    plan = plan_of()
    world = world_of(plan, [pings(1), pings(2, first=1)], bounded=False)
    deployed(world, plan)
    world.run_for(10)
    # An event waits at the operator: the source is asked when it has passed it, and cannot say.
    before = sum(world.messages.values())
    world.run_for(1000)
    asked = sum(world.messages.values()) - before
    assert 0 < asked <= 25  # a question that stays open is said again ever more rarely
    world = world_of(plan, [], bounded=False)
    deployed(world, plan)
    world.run_for(10)
    before = sum(world.messages.values())
    world.run_for(1000)
    assert sum(world.messages.values()) == before


def test_a_live_source_answers_by_its_clock() -> None:
    query = ALARM.replace("time ts in s", "time ts in s watermark 1 s")
    plan = replace(plan_of(query), live=frozenset({"Ping"}))
    world = World(["edge", "hub", "root"], {("edge", "Ping", "mqtt"): [conform(
        pa.table({"n": [7], "ts": [1000]}), stream_of(query))]}, 1, bounded=False)  # fmt: skip
    deployed(world, plan)
    world.run_for(5.9)  # the world's clock began at 1000
    assert alarms(world) == []
    world.run_for(1.5)
    assert alarms(world) == [7]


def test_an_idle_source_goes_on_at_the_pace_of_the_clock() -> None:
    query = ALARM.replace("time ts in s", "time ts in s idle after 2 s")
    world = World(["edge", "hub", "root"], {("edge", "Ping", "file"): [conform(
        pa.table({"n": [7], "ts": [50]}), stream_of(query))]}, 1, bounded=False)  # fmt: skip
    deployed(world, plan_of(query))
    world.run_for(4)
    assert alarms(world) == []
    world.run_for(3)
    assert alarms(world) == [7]


def test_a_source_that_never_spoke_and_is_idle_holds_nobody_back() -> None:
    query = PAIRS.replace("time ts in s", "time ts in s idle after 2 s")
    plan = plan_of(query, sources={"Ping": ("edge", "root")})
    rows = conform(pa.table({"n": [0, 1, 2], "ts": [1, 2, 3]}), stream_of(query))
    sources = {("edge", "Ping", "file"): [rows], ("root", "Ping", "file"): []}
    world = World(["edge", "hub", "root"], sources, 1, bounded=False)
    deployed(world, plan)
    world.run_for(1)
    assert not world.results()
    world.run_for(10)
    assert sum(table.num_rows for table in world.results().values()) == 1


# ---- back pressure


def test_a_source_is_held_while_its_reader_is_away_and_nothing_is_lost() -> None:
    plan = plan_of()
    pieces = [pings(n, first=n) for n in range(60)]
    world = world_of(plan, pieces, settings=Settings(quota=5000))
    deployed(world, plan)
    world.run_for(0.05)
    world.sites["hub"].site = None
    world.run_for(20)
    edge = world.sites["edge"].site
    assert edge is not None
    assert edge.status()["held"]["Ping"].endswith("bytes wait for hub")
    assert edge.versions[1].made[PING].end < 60
    world._start("hub")
    world.run()
    assert edge.versions[1].made[PING].end == 60
    assert sum(table.num_rows for table in world.results().values()) == 30


# ---- what comes from outside


def hub_at_work() -> SiteCore:
    """A hub that knows the edge, and has read nothing."""
    plan = plan_of()
    world = world_of(plan, [pings(1, 2, 3)], bounded=False, pause_s=100.0)
    deployed(world, plan)
    world.run_for(2)
    hub = world.sites["hub"].site
    assert hub is not None
    return hub


def batch(rows: bytes, first: int = 0, following: int = 1, sender: str = "edge", **other: object) -> Received:
    return Received(sender, replace(LogBatch(PING, "edge1", first, following, BEGINNING, 0, rows), **other))  # type: ignore[arg-type]


def ping_rows(time_us: int) -> bytes:
    time = pa.array([time_us], pa.timestamp("us", "UTC"))
    return write_rows(pa.record_batch({"n": pa.array([1]), "_time": time}))


def test_batches_that_are_none_are_refused_and_change_nothing() -> None:
    hub = hub_at_work()
    good, far = ping_rows(1), ping_rows(2**62)
    other = write_rows(pa.record_batch({"m": [1]}))
    bad = [
        batch(b"no rows"),
        batch(good[:-20] if len(good) > 20 else b""),
        batch(other),
        batch(far),
        batch(good, following=2),
        batch(good, sender="root"),
        batch(good, log=LogName("events", "Pong", "edge", 1)),
        Received("stranger", Probe(PING)),
        Received("root", Position(PING, "root1", 0, 0, BEGINNING, 0)),
    ]
    for number, event in enumerate(bad, 1):
        hub.handle(event, 1010.0 + number)
        assert hub.versions[1].read[PING].received == 0
    assert hub.conversation.refusals >= len(bad) - 1  # of a log that is not made here, a position says nothing
    hub.handle(batch(good), 1020.0)
    assert hub.versions[1].read[PING].received == 1


def test_nothing_is_said_before_the_first_commit() -> None:
    site = SiteCore("hub", MemoryJournal(), make_embedded_host, {}, 0.0, "word")
    actions = site.handle(ControlAsked(1, Prepare(plan_to_json(plan_of()))), 0.0)
    actions += site.handle(ControlAsked(2, Go(1, plan_of().digest)), 0.0)
    assert [type(action).__name__ for action in actions] == ["Append"]
    assert not any(isinstance(action, Send) for action in actions)
    assert json.dumps(site.status())
