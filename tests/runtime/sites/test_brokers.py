"""Brokers: what they know, what they decide, and that their decisions change where tasks run, and nothing else."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import pytest

from runtime.sites.broker_storm import QUERY, changes, random_broker_storm, random_network, run_broker_storm
from situ.core.time import BEGINNING, END
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Actor, Brokers, Link, Network, NetworkError, Site
from situ.placement.edgecep_optimal import optimal_sites
from situ.placement.task_flows import TaskFlows
from situ.runtime.sites.actions import Received, Send
from situ.runtime.sites.brokers.deciding import Damping, Decision, decision, local_problem
from situ.runtime.sites.brokers.flooding import Flooding
from situ.runtime.sites.brokers.records import BrokerRecord, CountedEvents, Meter, Volumes
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, plan_to_json
from situ.runtime.sites.messages import Abort, BrokerRequest, Flood, Go, MessageError, Prepare, message_to_parts
from situ.runtime.sites.simulation.world import World

GRAPH = resolve(parse(QUERY))


def line_of(count: int, radius: int) -> Network:
    names = [f"b{n}" for n in range(count)]
    links = tuple(Link(a, b, 1.0) for a, b in pairwise(names))
    return Network(tuple(map(Site, names)), links, brokers=Brokers(radius))


# ---- what they know


@pytest.mark.parametrize("seed", range(20))
def test_records_reach_those_within_the_radius_in_whatever_order(seed: int) -> None:
    rng = random.Random(seed)
    radius = rng.choice([0, 1, 2, 3])
    network = random_network(rng, radius)
    graph = nx.Graph([(link.a, link.b) for link in network.links])
    brokers = {name: Flooding(name, list(graph[name]), radius, patience=10.0) for name in network.names}
    newest: dict[str, BrokerRecord] = {}
    under_way: list[tuple[str, str, Flood]] = []
    for number in (1, 2):
        for name, broker in brokers.items():
            newest[name] = BrokerRecord(name, 1, number)
            under_way += [(name, to, flood) for to, flood in broker.tell(newest[name])]
    while under_way:
        sender, to, flood = under_way.pop(rng.randrange(len(under_way)))
        under_way += [(to, onward, each) for onward, each in brokers[to].hear(sender, flood, 0.0)]
    for name, broker in brokers.items():
        near = nx.single_source_shortest_path_length(graph, name, cutoff=radius)
        assert broker.records(5.0) == {other: newest[other] for other in near if other != name}
        assert broker.records(10.0) == {}


def test_a_flood_costs_what_the_planner_counts() -> None:
    from situ.placement.edgecep import flooding_packets

    for radius in (0, 1, 2, 5):
        network = line_of(5, radius)
        names = network.names
        near = {name: [names[n] for n in network.neighbours(number).tolist()] for number, name in enumerate(names)}
        brokers = {name: Flooding(name, near[name], radius, 10.0) for name in names}
        told: set[tuple[str, str]] = set()  # a broker tells all its neighbours of a record with one packet
        under_way = [(n, n, to, f) for n, b in brokers.items() for to, f in b.tell(BrokerRecord(n, 1, 1))]
        while under_way:
            origin, sender, to, flood = under_way.pop(0)
            told.add((origin, sender))
            under_way += [(origin, to, onward, each) for onward, each in brokers[to].hear(sender, flood, 0.0)]
        plan = _plan(names)
        problem = local_problem(GRAPH, network, plan, {})
        # The last ones on the line have nobody to hand a record on to.
        assert len(told) <= flooding_packets(problem, radius)
        assert (len(told) == 0) == (radius == 0)


def test_floods_that_are_none_are_refused() -> None:
    broker = Flooding("b1", ["b0", "b2"], 2, 10.0)
    good = BrokerRecord("b3", 1, 1).to_json()
    for sender, flood in (
        ("b3", Flood(good, 1)),
        ("b2", Flood(good, 2)),
        ("b2", Flood("[1]", 0)),
        ("b2", Flood("{", 0)),
    ):
        with pytest.raises(MessageError):
            list(broker.hear(sender, flood, 0.0))
    assert broker.records(0.0) == {}
    list(broker.hear("b2", Flood(BrokerRecord("b3", 2, 1).to_json(), 0), 0.0))
    list(broker.hear("b2", Flood(BrokerRecord("b3", 1, 9).to_json(), 0), 1.0))  # of an earlier life
    assert broker.records(1.0)["b3"].age == (2, 1)


def test_volumes_are_counts_over_event_time() -> None:
    meter = Meter()
    assert not meter.add(CountedEvents(1, BEGINNING, {}, {}, {}))
    assert not meter.add(CountedEvents(1, 10_000_000, {"A": 5}, {("A", "S.a"): 1}, {("B", "b2"): 4}))
    assert meter.volumes is None
    assert not meter.add(CountedEvents(1, END, {"A": 50}, {}, {}))
    assert meter.add(CountedEvents(1, 14_000_000, {"A": 13, "C": 2}, {("A", "S.a"): 3}, {("B", "b2"): 4}))
    assert meter.volumes == Volumes({"A": 2.0, "C": 0.5}, {"S.a": 0.25}, {"B": {"b2": 0.0}})
    assert not meter.add(CountedEvents(2, 20_000_000, {"A": 1}, {}, {}))
    assert meter.volumes is None


# ---- what they decide


def _plan(names: tuple[str, ...], at: str | None = None) -> DeployedPlan:
    places = {operator.name: OperatorPlace(at or names[0]) for operator in GRAPH.operators}
    sources = {"Door": (names[0], names[-1]), "Heat": (names[-1],)}
    return DeployedPlan(1, QUERY, sources, places, (names[0],), bounded=True)


def _volumes(rng: random.Random, plan: DeployedPlan) -> dict[str, Volumes]:
    """What brokers count if all know the rates of all types."""
    known: dict[str, dict[str, float]] = {site: {} for site in plan.sites}
    for stream, sites in plan.sources.items():
        for site in sites:
            known[site][stream] = rng.choice([0.5, 5.0, 50.0])
    for name, place in plan.operators.items():
        known[place.site][name] = rng.choice([0.01, 0.3])
    return {site: Volumes(made, {}, {}) for site, made in known.items()}


@pytest.mark.parametrize("seed", range(12))
def test_with_full_knowledge_decisions_are_the_optimum(seed: int) -> None:
    rng = random.Random(seed)
    network = replace(random_network(rng, 9), brokers=Brokers(9))
    names = network.names
    plan = _plan(names, rng.choice(names))
    plan = replace(plan, actors={})
    problem = local_problem(GRAPH, network, plan, _volumes(rng, plan))
    found = decision(problem, plan, frozenset(range(len(names))), 0)
    tasks = TaskFlows.of(problem)
    assert found.worth_then == (tasks.violation(found.then), tasks.volume(found.then))
    assert found.worth_then <= found.worth_now
    if found.worth_then[0] == 0:
        assert tasks.volume(found.then) == pytest.approx(tasks.volume(optimal_sites(tasks)))


def test_tasks_beyond_the_view_stay_where_they_are() -> None:
    network, rng = line_of(6, 1), random.Random(3)
    plan = _plan(network.names)
    plan = replace(plan, operators=plan.operators | {"Left": OperatorPlace("b5")})
    known = {site: v for site, v in _volumes(rng, plan).items() if site in ("b0", "b1")}
    problem = local_problem(GRAPH, network, plan, known)
    found = decision(problem, plan, frozenset({0, 1}), 0)
    number = problem.number["Left"]
    assert found.then[number] == 5
    assert {site for task, site in enumerate(found.then) if task != number} <= {0, 1}


def test_results_of_actors_pull_tasks_towards_them() -> None:
    query = """stream A(n int, ts int) time ts in s
    Subscription seq 1 from Ann to Fan detect A as a assign n = a.n"""
    network = replace(line_of(3, 9), actors=(Actor("Fan", "b2", "x"),))
    graph = resolve(parse(query))
    plan = DeployedPlan(1, query, {"A": ("b1",)}, {"Ann_1": OperatorPlace("b0")}, ("b0",), actors={"Fan": "b2"})
    problem = local_problem(
        graph, network, plan, {"b1": Volumes({"A": 1.0}, {}, {}), "b0": Volumes({"Ann_1": 1.0}, {}, {})}
    )
    assert problem.destination(0) == 2
    assert TaskFlows.of(problem).volume((0,)) == pytest.approx(3.0)
    assert TaskFlows.of(problem).volume((2,)) == pytest.approx(1.0)


def test_damping() -> None:
    damping = Damping(margin=0.1, rounds=2, memory=50.0)
    better = Decision((0,), (1,), (0.0, 10.0), (0.0, 5.0))
    assert not damping.allows(better, 0.0)
    assert damping.allows(better, 5.0)
    damping.leave((0,), 5.0)
    hardly = Decision((1,), (2,), (0.0, 5.0), (0.0, 4.9))
    back = Decision((1,), (0,), (0.0, 5.0), (0.0, 1.0))
    assert not any(damping.allows(hardly, now) for now in (10.0, 15.0, 20.0))
    assert [damping.allows(back, now) for now in (25.0, 30.0, 54.0, 55.0)] == [False, False, False, True]
    within = Decision((1,), (3,), (0.5, 1.0), (0.0, 9.0))
    assert [damping.allows(within, now) for now in (60.0, 65.0)] == [False, True]


@pytest.mark.parametrize(("field", "value"), [("radius", -1), ("period_s", 0.0), ("margin", 2.0), ("lead_s", -1.0)])
def test_settings_that_mean_nothing(field: str, value: float) -> None:
    with pytest.raises(NetworkError, match=f"brokers: {field} is"):
        replace(line_of(2, 1), brokers=replace(Brokers(1), **{field: value}))


# ---- who may decide what


def _refusals(world: World, sender: str, message: object) -> int:
    site = world.sites["b0"].site
    assert site is not None
    before = site.conversation.refusals
    site.handle(Received(sender, BrokerRequest(1, json.dumps(message_to_parts(message)[0]))), world.now)  # type: ignore[arg-type]
    return site.conversation.refusals - before


def test_brokers_move_tasks_and_change_nothing_else() -> None:
    storm = random_broker_storm(1)
    world, plans = run_broker_storm(storm)
    running = plans[-1]
    moved = replace(running, version=running.version + 1, operators={n: OperatorPlace("b1") for n in running.operators})
    other = replace(moved, query=running.query.replace("v > 5", "v > 4"))
    assert _refusals(world, "b1", Prepare(plan_to_json(other), "b1/2")) == 1
    assert _refusals(world, "b1", Prepare(plan_to_json(replace(moved, results=("b1",))), "b1/2")) == int(
        running.results != ("b1",)
    )
    assert _refusals(world, "b1", Prepare(plan_to_json(moved), "b2/2")) == 1
    assert _refusals(world, "b1", Abort(moved.version, moved.digest, "b2/2")) == 1
    assert _refusals(world, "stranger", Go(moved.version, moved.digest)) == 1


def test_what_has_begun_may_be_told_again_by_anybody() -> None:
    """A broker that is killed does not know afterwards whether it was the one that deployed what runs."""
    world, plans = run_broker_storm(random_broker_storm(1))
    assert _refusals(world, "b1", Go(plans[-1].version, plans[-1].digest)) == 0


# ---- storms


@pytest.mark.parametrize("seed", [1, 2])
def test_brokers_find_what_one_process_finds(seed: int) -> None:
    run_broker_storm(random_broker_storm(seed))


@pytest.mark.storm
@pytest.mark.parametrize("block", range(20))
def test_brokers_find_what_one_process_finds_in_many_storms(block: int) -> None:
    versions = moved = 0
    for seed in range(10 * block, 10 * block + 10):
        _, plans = run_broker_storm(random_broker_storm(seed))
        versions += len(plans)
        moved += sum(changes(plans).values())
    assert versions > 10
    assert moved > 5


def test_a_message_of_a_broker_to_a_site_that_is_none_is_refused() -> None:
    world = World(("b0", "b1"), {}, 1)
    site = world.sites["b0"].site
    assert site is not None
    assert not [a for a in site.handle(Received("b1", Flood("[]", 0)), world.now) if isinstance(a, Send)]
    assert site.conversation.refusals == 1
