"""Storms of brokers: tasks begin somewhere, brokers decide by themselves, at different times, while messages are
delayed and lost and processes are killed; the rates of sources differ and change. What is found is what one process
finds."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa

from runtime.sites.storm import Ledger, check_results, table_of
from situ.graph.query import Stream
from situ.io.rows.conform import conform
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Brokers, Link, Network, Site
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, plan_of_json
from situ.runtime.sites.deployment import Deployment, concerned_sites
from situ.runtime.sites.journal import JournalCommit
from situ.runtime.sites.settings import Settings
from situ.runtime.sites.simulation.world import Faults, SimulationError, World
from situ.runtime.sites.ways import with_ways

QUERY = """
stream Door(room int, ts int) time ts in s
stream Heat(room int, v int, ts int) time ts in s
define Hot(room) detect Heat(v > 5) as a then Heat(v > a.v) as b within 4 s assign room = a.room group by room
define Busy(room, n) aggr every 5 s detect Door as d assign room = group.room, n = count(d) group by room
subscribe Alarm detect Hot as h and Busy(n > 1) as b within 8 s assign room = h.room, n = b.n group by room
subscribe Left detect Door as d then no Door for 6 s assign room = d.room group by room
"""
STREAMS = {stream.name: stream for stream in resolve(parse(QUERY)).streams}


@dataclass(frozen=True)
class BrokerStorm:
    """Everything that one seed says."""

    seed: int
    network: Network
    plan: DeployedPlan
    pieces: dict[tuple[str, str, str], list[pa.Table]]
    due: dict[tuple[str, str, str], list[float]]
    faults: Faults
    settings: Settings
    clocks_off_s: dict[str, float]


def random_network(rng: random.Random, radius: int) -> Network:
    names = [f"b{n}" for n in range(rng.randint(3, 6))]
    limit = rng.choice([None, None, 1, 2])
    sites = tuple(Site(name, operators=limit if rng.random() < 0.5 else None) for name in names)
    pairs = {(name, rng.choice(names[:n])) for n, name in enumerate(names) if n}
    pairs |= {tuple(sorted(rng.sample(names, 2), reverse=True)) for _ in range(rng.choice([0, 1]))}  # type: ignore[misc]
    links = tuple(Link(a, b, rng.choice([1.0, 2.0])) for a, b in sorted({tuple(sorted(pair)) for pair in pairs}))
    return Network(sites, links, brokers=Brokers(radius, period_s=rng.choice([1.0, 2.0]), lead_s=1.0))


def random_broker_storm(seed: int) -> BrokerStorm:
    rng = random.Random(f"brokers {seed}")
    network = random_network(rng, rng.choice([0, 1, 2, 9]))
    names = list(network.names)
    sources = {stream: tuple(sorted(rng.sample(names, rng.choice([1, 2])))) for stream in STREAMS}
    places = {o.name: OperatorPlace(rng.choice(names)) for o in resolve(parse(QUERY)).operators}
    plan = DeployedPlan(1, QUERY, sources, places, (rng.choice(names),), bounded=True)
    pieces: dict[tuple[str, str, str], list[pa.Table]] = {}
    due: dict[tuple[str, str, str], list[float]] = {}
    for stream, sites in sources.items():
        for site in sites:
            often = rng.choice([0.2, 1.0, 3.0]), rng.choice([0.2, 1.0, 3.0])  # rates before and after half of the time
            seconds = [s for s in range(40) for _ in range(_draw(rng, often[s >= 20]))]
            rows = [{"room": rng.randrange(3), "v": rng.randrange(10), "ts": s} for s in seconds]
            key = site, stream, "s"
            cuts = [rows[n : n + 3] for n in range(0, len(rows), 3)]
            pieces[key] = [table_of(STREAMS[stream], piece) for piece in cuts]
            due[key] = [1_000.5 + piece[-1]["ts"] + rng.random() for piece in cuts]
    faults = Faults(
        delay_s=(0.001, rng.choice([0.01, 0.3])),
        commit_s=(0.001, rng.choice([0.005, 0.1])),
        loss=rng.choice([0, 0.05, 0.2]),
        repeat=rng.choice([0, 0.1]),
        kills=rng.choice([0, 0, 4, 10]),
        cuts=rng.choice([0, 0, 2]),
        until_s=rng.choice([10.0, 35.0]),
    )
    settings = Settings(snapshot=rng.choice([1, 5000, 1 << 20]), repeat=0.5, ask=0.05, acknowledge=0.1)
    clocks_off_s = {rng.choice(names): rng.choice([-3_600.0, 3_600.0])} if rng.random() < 0.3 else {}
    return BrokerStorm(seed, network, with_ways(plan, network), pieces, due, faults, settings, clocks_off_s)


def _draw(rng: random.Random, often: float) -> int:
    return int(often) + (rng.random() < often - int(often))


@dataclass
class VersionLog:
    """The plans that sites have begun, by version; that a version is one plan is checked."""

    plans: dict[int, DeployedPlan]

    def watch(self, commit: JournalCommit) -> None:
        for name, value in commit.values.items():
            if name.startswith("plan/") and value is not None:
                plan = plan_of_json(value)
                if self.plans.setdefault(plan.version, plan) != plan:
                    raise SimulationError(f"version {plan.version} is two plans")


def run_broker_storm(storm: BrokerStorm) -> tuple[World, list[DeployedPlan]]:
    """Let it pass, and check what was found. Returns the versions that there were."""
    ledger, versions = Ledger({*STREAMS}), VersionLog({})

    def watch(site: str, commit: JournalCommit) -> None:
        ledger.watch(site, commit)
        versions.watch(commit)

    pieces = {key: [conform(piece, _stream(key)) for piece in of] for key, of in storm.pieces.items()}
    world = World(
        storm.network.names,
        pieces,
        storm.seed,
        storm.faults,
        storm.settings,
        watch=watch,
        due=storm.due,
        network=storm.network,
        clocks_off_s=storm.clocks_off_s,
    )
    world.deploy(Deployment(storm.plan, concerned_sites(storm.plan), "first"))
    world.run(600.0)
    plans = [versions.plans[number] for number in sorted(versions.plans)]
    assert [plan.version for plan in plans] == list(range(1, len(plans) + 1))
    check_rows_once(storm, ledger)
    check_results(plans, world, ledger)
    return world, plans


def _stream(key: tuple[str, str, str]) -> Stream:
    return STREAMS[key[1]]


def check_rows_once(storm: BrokerStorm, ledger: Ledger) -> None:
    """All rows came in order, so each was admitted, once."""
    for stream in STREAMS:
        given = sum(table.num_rows for (_, name, _), of in storm.pieces.items() if name == stream for table in of)
        admitted = sum(b.num_rows for (_, name), of in ledger.admitted.items() if name == stream for b in of)
        assert admitted == given, stream


def calm(storm: BrokerStorm) -> BrokerStorm:
    return replace(storm, faults=Faults())


def changes(plans: list[DeployedPlan]) -> Counter[str]:
    """How often each task was moved."""
    moved: Counter[str] = Counter()
    for before, after in pairwise(plans):
        moved.update(name for name in after.operators if before.operators[name].site != after.operators[name].site)
    return moved
