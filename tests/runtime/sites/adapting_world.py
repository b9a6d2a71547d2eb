"""Simulated sites of which one coordinates: a network with latencies, streams that come as their times say, and whoever
controls them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa

from runtime.sites.broker_storm import VersionLog
from runtime.sites.storm import Ledger, check_results, table_of
from situ.io.rows.conform import conform
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.network import Coordination, Link, Network, Site
from situ.runtime.sites.actions import ControlAsked, SiteAction
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.deployment import Deployment, concerned_sites
from situ.runtime.sites.journal import JournalCommit
from situ.runtime.sites.messages import ControlAnswer, ControlMessage, Done
from situ.runtime.sites.settings import Settings
from situ.runtime.sites.simulation.world import Faults, SimulatedSite, World
from situ.runtime.sites.ways import with_ways

QUERY = """
stream Door(room int, ts int) time ts in s
stream Heat(room int, v int, ts int) time ts in s
define Hot(room) detect Heat(v > 5) as a then Heat(v > a.v) as b within 20 s assign room = a.room group by room
subscribe Alarm detect Hot as h and Door as d within 15 s assign room = h.room group by room
"""
STREAMS = {stream.name: stream for stream in resolve(parse(QUERY)).streams}
#: In simulated time, the moment at which event time is 0.
BEGUN = 1_000.0


def network_of(coordinator: Coordination | None, far_ms: float = 200.0) -> Network:
    """Two places at which events occur, a hall to which results go, and a cellar that is far from all of them."""
    links = (Link("north", "hall", 10.0), Link("south", "hall", 10.0), Link("hall", "cellar", far_ms))
    return Network(tuple(map(Site, ("north", "south", "hall", "cellar"))), links, coordinator=coordinator)


def plan_of(
    network: Network, demand: str, places: str | Mapping[str, str], ways: bool = True, text: str = QUERY
) -> DeployedPlan:
    query = text + (f"  demand {demand}\n" if demand else "")
    names = [operator.name for operator in resolve(parse(query)).operators]
    sites = {name: places if isinstance(places, str) else places[name] for name in names}
    plan = DeployedPlan(
        1,
        query,
        {"Door": ("north",), "Heat": ("north", "south")},
        {name: OperatorPlace(site) for name, site in sites.items()},
        ("hall",),
        bounded=True,
    )
    return with_ways(plan, network) if ways else plan


@dataclass
class AdaptingWorld:
    """A world, and all that was asked of it. Each source has `per_s` events in a second, one second of event time
    after the other."""

    network: Network
    plan: DeployedPlan
    seconds: int = 60
    seed: int = 1
    faults: Faults = field(default_factory=Faults)
    per_s: int = 5
    clocks_off_s: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = random.Random(f"adapting {self.seed}")
        pieces: dict[tuple[str, str, str], list[pa.Table]] = {}
        due: dict[tuple[str, str, str], list[float]] = {}
        for stream, sites in self.plan.sources.items():
            for site in sites:
                key, of = (site, stream, "s"), []
                for ts in range(self.seconds * self.per_s):
                    of.append([{"room": rng.randrange(2), "v": rng.randrange(10), "ts": ts}])
                pieces[key] = [table_of(STREAMS[stream], rows) for rows in of]
                due[key] = [BEGUN + 0.1 + ts / self.per_s + 0.01 * rng.random() for ts in range(len(of))]
        self.ledger, self.versions = Ledger({*STREAMS}), VersionLog({})
        self.numbers = count(1_000_000)
        self.rows = {key: sum(piece.num_rows for piece in of) for key, of in pieces.items()}
        network, latency_ms = self.network, {}
        for a in network.names:
            ways = network.ways_from(network.number(a))
            for b in network.names:
                latency_ms[a, b] = float(ways.latency_ns[network.number(b)]) / 1e6
        self.latency_ms: dict[tuple[str, str], float] = latency_ms
        self.answers: list[tuple[float, ControlAnswer]] = []
        self.world = World(
            network.names,
            {key: [conform(piece, STREAMS[key[1]]) for piece in of] for key, of in pieces.items()},
            self.seed,
            self.faults,
            Settings(repeat=0.5, ask=0.05, acknowledge=0.1),
            latency_s=lambda a, b: self.latency_ms[a, b] / 1_000,
            watch=self._watch,
            due=due,
            network=network,
            clocks_off_s=self.clocks_off_s,
        )
        self.world.deploy(Deployment(self.plan, concerned_sites(self.plan), "first"))

    def _watch(self, site: str, commit: JournalCommit) -> None:
        self.ledger.watch(site, commit)
        self.versions.watch(commit)

    def ask(self, message: ControlMessage, to: str = "hall") -> None:
        """Say something to a site, until it has answered."""
        world, number = self.world, next(self.numbers)

        def hear(answer: ControlAnswer) -> None:
            self.answers.append((world.now, answer))

        world.answers[number] = hear

        def say() -> None:
            if number in world.answers:
                world.handle(to, ControlAsked(number, message))
                world.after(1.0, say)

        say()

    def kill_after(self, site: str, actions: int) -> None:
        """Kill a site when it has done so many things more."""
        world, left, do = self.world, count(actions, -1), self.world._do

        def do_and_kill(machine: SimulatedSite, action: SiteAction) -> None:
            do(machine, action)
            if machine.name == site and next(left) == 0:
                world._do = do  # type: ignore[method-assign]
                world.kill(site)

        world._do = do_and_kill  # type: ignore[method-assign]

    def at(self, second: float, action: Callable[[], None]) -> None:
        self.world.at(BEGUN + second, action)

    def status(self, site: str = "hall") -> dict[str, Any]:
        machine = self.world.sites[site].site
        assert machine is not None
        assert machine.coordinator is not None
        status = machine.coordinator.status()
        assert status is not None
        return status

    def finish(self, limit_s: float = 600.0) -> list[DeployedPlan]:
        """Let the rest happen, and hold what was found to what one process finds; all versions."""
        self.world.run(limit_s)
        plans = [self.versions.plans[number] for number in sorted(self.versions.plans)]
        assert [plan.version for plan in plans] == list(range(1, len(plans) + 1))
        for stream in STREAMS:
            given = sum(rows for (_, name, _), rows in self.rows.items() if name == stream)
            admitted = sum(b.num_rows for (_, name), of in self.ledger.admitted.items() if name == stream for b in of)
            assert admitted == given, stream
        check_results(plans, self.world, self.ledger)
        return plans


def done(answer: ControlAnswer) -> bool:
    assert isinstance(answer, Done)
    return answer.done
