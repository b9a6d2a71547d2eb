"""Subscriptions that deliver to actors: only to them, at the addresses that the network names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from situ.core.errors import InputError
from situ.io.rows.conform import conform
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.load import load_network
from situ.network.network import Actor, Link, Network, NetworkError, Site
from situ.runtime.sites.actors import actor_sites, require_address
from situ.runtime.sites.compiled_plan import compile_plan
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, PlanError, plan_of_json, plan_to_json
from situ.runtime.sites.deployment import Deployment, concerned_sites
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.rows import read_rows
from situ.runtime.sites.simulation.world import World
from situ.runtime.sites.sinks.delivering import DeliveringSink
from situ.runtime.sites.sinks.sink import NumberedRows

QUERY = """
stream Ping(n int, ts int) time ts in s
define Even(n) detect Ping(n % 2 = 0) as p assign n = p.n
define Idle(n) detect Ping(n > 3) as p assign n = p.n
Subscription seq 1 from Ann to Fan detect Even as e assign n = e.n
Subscription seq 2 from Ann to Lamp detect Ping(n > 6) as p assign n = p.n
subscribe Odd detect Ping(n % 2 = 1) as p assign n = p.n
"""
PLACES = {name: OperatorPlace("hub") for name in ("Even", "Idle", "Ann_1", "Ann_2", "Odd")}
PLAN = DeployedPlan(
    1, QUERY, {"Ping": ("edge",)}, PLACES, ("root",), bounded=True, actors={"Fan": "hall", "Lamp": "hub"}
)
NETWORK = Network(
    tuple(map(Site, ("edge", "hub", "root", "hall"))),
    (Link("edge", "hub", 1.0), Link("hub", "root", 1.0), Link("hub", "hall", 1.0)),
    (Actor("Fan", "hall", "fans"), Actor("Lamp", "hub", "mqtt://127.0.0.1/lamp")),
)


def test_results_go_to_actors_and_those_of_others_to_the_root() -> None:
    stream = resolve(parse(QUERY)).streams[0]
    rows = conform(pa.table({"n": list(range(10)), "ts": list(range(10))}), stream)
    world = World(("edge", "hub", "root", "hall"), {("edge", "Ping", "file"): [rows]}, 1)
    world.deploy(Deployment(PLAN, concerned_sites(PLAN), "word"))
    world.run()
    written = {
        (name, log.type): [row["n"] for each in entries for row in _rows(world, name, log, each)]
        for name, machine in world.sites.items()
        for log, entries in machine.written.items()
    }
    assert written == {
        ("hall", "Ann_1"): [0, 2, 4, 6, 8],
        ("hub", "Ann_2"): [7, 8, 9],
        ("root", "Odd"): [1, 3, 5, 7, 9],
    }


def _rows(world: World, site: str, log: LogName, first: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = read_rows(world.sites[site].written[log][first]).to_pylist()
    return rows


def test_a_definition_that_no_subscription_needs_does_not_run() -> None:
    compiled = compile_plan(PLAN)
    assert "Idle" not in compiled.programs
    assert not any(log.type == "Idle" for log in compiled.logs.operators)
    without = {name: place for name, place in PLACES.items() if name != "Idle"}
    assert compile_plan(replace(PLAN, operators=without)).logs == compiled.logs
    needed = QUERY + "subscribe Late detect Idle as i assign n = i.n"
    assert (
        "Idle" in compile_plan(replace(PLAN, query=needed, operators=PLACES | {"Late": OperatorPlace("hub")})).programs
    )
    with pytest.raises(PlanError, match="no place for operator 'Even'"):
        compile_plan(replace(PLAN, operators={n: p for n, p in PLACES.items() if n != "Even"}))


def test_plans_with_actors_are_read_back() -> None:
    assert plan_of_json(plan_to_json(PLAN)) == PLAN
    assert plan_of_json(plan_to_json(replace(PLAN, actors={}))).actors == {}
    assert PLAN.sites == ("edge", "hall", "hub", "root")
    with pytest.raises(PlanError, match="'Fun', whom no subscription names"):
        compile_plan(replace(PLAN, actors={"Fun": "hall"}))


def test_an_actor_without_an_address() -> None:
    query = parse(QUERY)
    assert actor_sites(query, NETWORK) == {"Fan": "hall", "Lamp": "hub"}
    with pytest.raises(InputError, match="subscription Ann_2 delivers to Lamp, and the network does not say where"):
        actor_sites(query, replace(NETWORK, actors=NETWORK.actors[:1]))
    with pytest.raises(InputError, match=r'"actors": \[\{"name": "Fan", "site": "edge"'):
        actor_sites(query, replace(NETWORK, actors=()))
    require_address(PLAN, "hall", NETWORK)
    require_address(PLAN, "edge", replace(NETWORK, actors=()))
    with pytest.raises(InputError, match="delivers to Fan from hall, which does not know at which address"):
        require_address(PLAN, "hall", replace(NETWORK, actors=NETWORK.actors[1:]))


@pytest.mark.parametrize(
    ("actors", "words"),
    [
        ([{"name": "Fan", "site": "hal", "address": "x"}], "actor 'Fan': there is no site 'hal'"),
        ([{"name": "Fan", "site": "hub", "address": None}], "actor 'Fan': has no address"),
        ([{"name": "Fan", "site": "hub"}], "address"),
        ([{"name": "Fan", "site": "hub", "address": "x"}] * 2, "two actors have this name"),
        ([{"name": "Fan", "site": "hub", "address": "x", "at": 1}], "at"),
    ],
)
def test_actors_of_a_network_file(tmp_path: Path, actors: list[object], words: str) -> None:
    file = tmp_path / "net.json"
    file.write_text(json.dumps({"sites": [{"name": "hub"}], "links": [], "actors": actors}))
    with pytest.raises(NetworkError, match=words):
        load_network(file)


class _Kept:
    def __init__(self) -> None:
        self.rows: list[NumberedRows] = []
        self.closed = False

    def write(self, results: NumberedRows) -> None:
        self.rows.append(results)

    def close(self) -> None:
        self.closed = True


def test_rows_are_written_where_they_belong() -> None:
    fan, own, opened = _Kept(), _Kept(), list[str]()

    def open_fan() -> _Kept:
        opened.append("fan")
        return fan

    sink = DeliveringSink(lambda log: {"Ann_1": "Fan"}.get(log.type), {"Fan": open_fan}, lambda: own)
    for name in ("Odd", "Ann_1", "Ann_1"):
        sink.write(NumberedRows(LogName("events", name, "hub", 1), 0, pa.table({"n": [1]})))
    sink.close()
    assert opened == ["fan"]
    assert [[rows.log.type for rows in each.rows] for each in (fan, own)] == [["Ann_1", "Ann_1"], ["Odd"]]
    assert fan.closed
    assert own.closed
