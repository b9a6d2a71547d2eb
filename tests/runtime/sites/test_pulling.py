"""Sites that pull: what is asked for, what is answered, when something is decided, and what is refused."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from runtime.comparison import counted
from situ.core.time import BEGINNING
from situ.io.rows.conform import Conformed, conform
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine
from situ.runtime.sites.actions import Received
from situ.runtime.sites.compiled_plan import compile_plan
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, PlanError
from situ.runtime.sites.deployment import Deployment
from situ.runtime.sites.messages import MOST_RANGES, LogName, PullRequest, message_of, message_to_parts
from situ.runtime.sites.pulled_input import PulledInput
from situ.runtime.sites.ranges import merged, without
from situ.runtime.sites.settings import Settings
from situ.runtime.sites.simulation.world import SimulatedSite, World

S = 1_000_000
QUERY = """
stream Alarm(t int, n int) time t in s
stream Reading(t int, n int, value int) time t in s
subscribe Cause
  detect Reading(value > 5) as r then each Alarm as a within 3 s
  assign read = r.n, alarm = a.n
"""
PLAN = DeployedPlan(
    1,
    QUERY,
    {"Alarm": ("hub",), "Reading": ("edge",)},
    {"Cause": OperatorPlace("hub", (("Alarm",), ("Reading",)))},
    ("hub",),
    bounded=True,
)
READINGS = LogName("events", "Reading", "edge", 1, selection=1)


def rows(stream: str, columns: dict[str, list[int]]) -> Conformed:
    declared = {stream.name: stream for stream in resolve(parse(QUERY)).streams}
    return conform(pa.table(columns), declared[stream])


def world_of(plan: DeployedPlan = PLAN, settings: Settings | None = None) -> World:
    alarms = rows("Alarm", {"t": [10, 30], "n": [1, 2]})
    readings = rows("Reading", {"t": [*range(60)], "n": [*range(60)], "value": [n % 10 for n in range(60)]})
    pieces = {("hub", "Alarm", "s"): [alarms], ("edge", "Reading", "s"): [readings]}
    world = World(("edge", "hub"), pieces, seed=1, settings=settings)
    world.deploy(Deployment(plan, plan.sites, "one"))
    return world


def test_only_what_a_match_can_need_is_sent() -> None:
    world = world_of()
    world.run()
    (found,) = (table for log, table in world.results().items() if log.type == "Cause" and log.kind == "events")
    assert sorted(zip(*found.select(["read", "alarm"]).to_pydict().values(), strict=True)) == [
        (7, 1), (8, 1), (9, 1), (27, 2), (28, 2), (29, 2)
    ]  # fmt: skip
    edge = world.sites["edge"].site
    assert edge is not None
    assert edge.versions[1].made[READINGS].durable_end == 6


def test_the_time_buffer_is_forgotten_when_nothing_of_it_can_be_pulled() -> None:
    world = world_of(settings=Settings(snapshot=1))
    world.run()
    edge = world.sites["edge"].site
    assert edge is not None
    assert edge.versions[1].buffered_size(READINGS.whole) == 0


def asks(world: World, request: PullRequest, sender: str = "hub") -> int:
    """How many messages the edge has refused after a request."""
    edge = world.sites["edge"].site
    assert edge is not None
    before = edge.conversation.refusals
    edge.handle(Received(sender, request), world.now)
    return edge.conversation.refusals - before


def begun() -> World:
    world = world_of()
    world.run_for(0.005)
    while world.sites["edge"].site is None or not world.sites["edge"].site.versions:
        world.run_for(0.001)
    return world


def test_who_does_not_pull_is_refused() -> None:
    world = begun()
    assert asks(world, PullRequest(READINGS, 1, BEGINNING, (((0, S),),)), "elsewhere") == 1
    assert asks(world, PullRequest(READINGS.whole, 1, BEGINNING, (((0, S),),))) == 1
    assert asks(world, PullRequest(READINGS, 1, BEGINNING, (((0, S),), ()))) == 1


def test_a_range_that_is_gone_is_refused() -> None:
    world = begun()
    edge = world.sites["edge"].site
    assert edge is not None
    assert asks(world, PullRequest(READINGS, 1000, 20 * S, (((30 * S, 31 * S),),))) == 0
    assert asks(world, PullRequest(READINGS, 1001, 20 * S, (((10 * S, 11 * S), (30 * S, 31 * S)),))) == 1
    assert "would not need" in edge.conversation.peers["hub"].refused


def test_a_request_that_comes_again_changes_nothing() -> None:
    world = begun()
    edge = world.sites["edge"].site
    assert edge is not None
    request = PullRequest(READINGS, 1000, 0, (((30 * S, 31 * S),),))
    asks(world, request)
    world.run_for(1.0)
    end = edge.versions[1].made[READINGS].end
    asks(world, request)
    asks(world, PullRequest(READINGS, 999, 0, (((0, 50 * S),),)))
    world.run_for(1.0)
    assert edge.versions[1].made[READINGS].end == end


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ((("Alarm",), ("Reading", "Alarm")), "do not take each"),
        ((("Alarm",),), "do not take each"),
        ((("Alarm", "Reading"), ()), "do not take each"),
    ],
)
def test_steps_that_are_none_are_refused(steps: tuple[tuple[str, ...], ...], reason: str) -> None:
    plan = DeployedPlan(1, QUERY, PLAN.sources, {"Cause": OperatorPlace("hub", steps)}, ("hub",))
    with pytest.raises(PlanError, match=reason):
        compile_plan(plan)


def test_an_operator_that_cannot_pull_is_refused() -> None:
    query = QUERY.replace("then each Alarm", "then immediately Alarm")
    plan = DeployedPlan(1, query, PLAN.sources, PLAN.operators, ("hub",))
    with pytest.raises(PlanError, match="cannot pull"):
        compile_plan(plan)


def test_a_pulled_plan_finds_what_the_engine_finds() -> None:
    graph = resolve(parse(QUERY))
    alarms, readings = {"t": [10, 30], "n": [1, 2]}, {"t": [*range(60)], "n": [*range(60)], "value": [9] * 60}
    world = World(
        ("edge", "hub"),
        {("hub", "Alarm", "s"): [rows("Alarm", alarms)], ("edge", "Reading", "s"): [rows("Reading", readings)]},
        seed=2,
    )
    world.deploy(Deployment(PLAN, PLAN.sites, "one"))
    world.run()
    want = counted(graph, Engine(graph).run({"Alarm": pa.table(alarms), "Reading": pa.table(readings)}))
    (found,) = (table for log, table in world.results().items() if log.type == "Cause" and log.kind == "events")
    assert found.num_rows == sum(want["Cause"].values()) == 6


# ---- what a site that pulls has to do


def work_of_the_hub(readings_per_s: int) -> tuple[int, int, int]:
    """What the hub hears (of other sites, its sources and its disk), the steps that it makes, and the readings that it
    is sent, when an alarm comes each second and readings come at a pace."""
    seconds, first = 10, 1_000
    every_us = S // readings_per_s
    piece = max(1, readings_per_s // 100)
    times = [first * S + n * every_us for n in range(seconds * readings_per_s)]
    alarms = [first * S + n * S + S // 2 for n in range(seconds)]
    pieces = {
        ("hub", "Alarm", "s"): [fine("Alarm", {"t": [t], "n": [n]}) for n, t in enumerate(alarms)],
        ("edge", "Reading", "s"): [
            fine("Reading", {"t": times[at : at + piece], "n": [at] * len(times[at : at + piece]),
                             "value": [9] * len(times[at : at + piece])})
            for at in range(0, len(times), piece)
        ],
    }  # fmt: skip
    due = {
        ("hub", "Alarm", "s"): [t / S for t in alarms],
        ("edge", "Reading", "s"): [times[min(at + piece, len(times)) - 1] / S for at in range(0, len(times), piece)],
    }
    heard = {"hub": 0, "edge": 0}

    def hear(machine: SimulatedSite) -> None:
        heard[machine.name] += 1

    world = World(("edge", "hub"), pieces, seed=1, due=due, check=hear)
    plan = replace(PLAN, query=FINE_QUERY)
    world.deploy(Deployment(plan, plan.sites, "one"))
    world.run()
    hub, edge = world.sites["hub"].site, world.sites["edge"].site
    assert hub is not None
    assert edge is not None
    return heard["hub"], hub.steps, edge.versions[1].made[READINGS].durable_end


FINE_QUERY = QUERY.replace("in s", "in us").replace("3 s", "20 ms")


def fine(stream: str, columns: dict[str, list[int]]) -> Conformed:
    declared = {stream.name: stream for stream in resolve(parse(FINE_QUERY)).streams}
    return conform(pa.table(columns), declared[stream])


def test_a_site_that_pulls_works_in_proportion_to_what_it_is_sent() -> None:
    """Not to what occurs elsewhere: where twenty times as much does, it does what it did for the alarms, and is sent
    twenty times as much of what is near them."""
    few_heard, few_steps, few_sent = work_of_the_hub(100)
    many_heard, many_steps, many_sent = work_of_the_hub(2_000)
    assert (few_sent, many_sent) == (10 * 2, 10 * 40)
    assert many_steps <= few_steps
    assert many_heard <= few_heard


def test_a_site_that_pulls_keeps_no_account_of_all_that_could_have_been_a_match() -> None:
    """Selections have as many events as there are pairs of them within a window."""
    (program,) = compile_plan(PLAN).pulling.values()
    assert program.context.provenance
    assert not program.context.selections


def test_more_ranges_than_a_message_may_have_become_fewer_that_cover_them() -> None:
    """Else the origin would refuse the request, again and again."""
    requests = PulledInput((None, ()))
    needed = tuple((10 * n + n % 3, 10 * n + 5) for n in range(3 * MOST_RANGES))
    requests.ask({None: [needed], (): [needed[:5]]}, BEGINNING)
    asked = requests.state.ranges
    header, body = message_to_parts(PullRequest(READINGS, 1, 0, asked))
    assert message_of(header, body) == PullRequest(READINGS, 1, 0, asked)
    assert without(needed, asked[0]) == ()
    assert asked[1] == needed[:5]
    requests.ask({None: [needed]}, BEGINNING)
    assert requests.state.number == 1


@pytest.mark.parametrize("seed", range(20))
def test_times_that_are_left_of_ranges(seed: int) -> None:
    random_ = random.Random(seed)
    these, others = (
        merged((at, at + random_.randrange(4)) for at in random_.sample(range(40), random_.randrange(8)))
        for _ in range(2)
    )
    times = [{time for first, last in ranges for time in range(first, last + 1)} for ranges in (these, others)]
    assert without(these, others) == merged((time, time) for time in times[0] - times[1])
