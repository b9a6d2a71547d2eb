"""Storms: random queries, places, streams, versions and faults for simulated sites, and what must hold in all of them.

The truth is the embedded engine's `run` on the rows that were admitted: of operators that are carried on, on those of
all versions that carry them; of the others, version by version.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from runtime.comparison import _rows, counted
from runtime.sites.moving import moving_query, moving_rows
from runtime.sites.pulling import STREAMS, pulling_query, pulling_streams, random_steps
from silences import quiet_scenario
from situ.core.errors import SituError
from situ.core.time import BEGINNING, END
from situ.core.types import to_arrow
from situ.graph.cuts import cut_in
from situ.graph.query import Query, Stream
from situ.io.rows.conform import conform
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.lang.unparse import unparse
from situ.network.network import Link, Network, Site
from situ.runtime.embedded import Engine
from situ.runtime.sites.carrying import carried_on, done_us
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, Strategy
from situ.runtime.sites.deployment import Deployment, concerned_sites
from situ.runtime.sites.journal import JournalCommit
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.rows import read_rows, times_us
from situ.runtime.sites.settings import Settings
from situ.runtime.sites.simulation.world import Faults, SimulatedSite, SimulationError, World
from situ.runtime.sites.site import SiteCore
from situ.runtime.sites.ways import with_ways
from strategies import SECOND, make_rows, random_scenario

SITES = ("north", "east", "south", "west", "hub")
Row = dict[str, Any]


@dataclass(frozen=True)
class Storm:
    """Everything that one seed says. `pieces` are by site, stream and source; `networks` those of plans with ways.
    `carries`: operators that stay as they are go on with their state; `strategies` are those by which they may move."""

    seed: int
    plans: tuple[DeployedPlan, ...]
    streams: tuple[Stream, ...]
    pieces: dict[tuple[str, str, str], list[pa.Table]]
    punctual: bool
    faults: Faults
    settings: Settings
    networks: tuple[Network | None, ...]
    carries: bool = False
    spark: frozenset[str] = frozenset()
    strategies: tuple[Strategy, ...] = ("naive",)

    @property
    def names(self) -> tuple[str, ...]:
        if self.carries:
            return SITES
        return tuple(sorted({site for plan in self.plans for site in plan.sites}))


def random_query(rng: random.Random, streams: tuple[Stream, ...] | None, pulls: bool) -> Query:
    """A query over A and B; over these very streams, if they are given."""
    if pulls:
        return pulling_query(rng, pulling_streams(rng) if streams is None else streams)
    kind, seed = rng.choice(["plain", "plain", "again", "quiet"]), rng.randrange(10**9)
    if kind == "quiet":
        query = quiet_scenario(seed).query
    else:
        query = random_scenario(seed, duplicates=kind == "again" and streams is None).query
    if streams is None:
        return query
    return replace(query, streams=streams)


def random_streams(rng: random.Random, streams: Sequence[Stream], may_idle: bool) -> tuple[Stream, ...]:
    return tuple(
        replace(
            stream,
            watermark_us=rng.choice([0, 1, 2]) * SECOND,
            idle_after_us=SECOND if may_idle and rng.random() < 0.5 else None,
        )
        for stream in streams
    )


def random_plan(
    rng: random.Random, version: int, query: Query, sources: dict[str, tuple[str, ...]], live: frozenset[str]
) -> tuple[DeployedPlan, Network | None]:
    graph = resolve(query)
    sites = rng.sample(SITES, rng.randint(1, len(SITES)))
    operators = {
        operator.name: OperatorPlace(rng.choice(sites), random_steps(rng, graph, operator.name))
        for operator in graph.operators
    }
    results = tuple(rng.sample(SITES, rng.choice([1, 1, 1, 2])))
    plan = DeployedPlan(version, unparse(query), sources, operators, results, bounded=True, live=live)
    network = random_network(rng) if rng.random() < 0.5 else None
    return (plan if network is None else with_ways(plan, network)), network


def random_network(rng: random.Random) -> Network:
    """All sites, joined by a tree and some links more."""
    sites = rng.sample(SITES, len(SITES))
    pairs = {(site, rng.choice(sites[:number])) for number, site in enumerate(sites) if number}
    pairs |= {tuple(rng.sample(sites, 2)) for _ in range(rng.choice([0, 1, 3]))}  # type: ignore[misc]
    apart = {tuple(sorted(pair)) for pair in pairs}
    return Network(tuple(map(Site, SITES)), tuple(Link(a, b, rng.choice([1.0, 2.0, 5.0])) for a, b in sorted(apart)))


def random_arrivals(rng: random.Random, rows: list[Row], stream: Stream, punctual: bool) -> list[Row]:
    """Rows in an order in which none is late; or in which some are, and some are no events."""
    delays = [rng.randint(0, stream.watermark_us) for _ in rows]
    order = sorted(range(len(rows)), key=lambda n: (rows[n]["ts"] * SECOND + delays[n], rng.random()))
    arrived = [rows[n] for n in order]
    if not punctual:
        for _ in range(rng.randint(0, 3)):
            if len(arrived) > 1:
                arrived.insert(rng.randrange(len(arrived)), arrived.pop(rng.randrange(len(arrived))))
        if arrived and rng.random() < 0.3:
            arrived.insert(rng.randrange(len(arrived)), {**arrived[0], "ts": None})
    return arrived


def table_of(stream: Stream, rows: list[Row]) -> pa.Table:
    return pa.table({a.name: pa.array([row[a.name] for row in rows], to_arrow(a.type)) for a in stream.attributes})


def with_another_rule(rng: random.Random, query: Query) -> Query:
    """A query and one rule more, which may read what the others make; the query itself, if that does not fit."""
    other = random_query(rng, query.streams, pulls=False)
    more = replace(query, subscriptions=(*query.subscriptions, replace(other.subscriptions[0], name="More")))
    try:
        resolve(more)
    except SituError:
        return query
    return more


def random_storm(
    seed: int,
    versions: int | None = None,
    calm: bool = False,
    pulls: bool = False,
    carries: bool = False,
    strategies: tuple[Strategy, ...] = ("naive",),
) -> Storm:
    """What a seed says. `pulls`: of plans whose operators pull; else some do, by chance. `carries`: of several versions
    in which most operators stay as they are; those that move do so by `strategies`, and then none of them pulls."""
    rng = random.Random(f"storm {seed}")
    punctual = rng.random() < 0.5
    may_idle = not punctual and rng.random() < 0.4
    moves = strategies != ("naive",)
    first = moving_query(rng) if moves else random_query(rng, None, pulls)
    streams = random_streams(rng, first.streams, may_idle)
    live = frozenset(s.name for s in streams if not punctual and rng.random() < 0.15)
    sources = {stream.name: tuple(sorted(rng.sample(SITES, rng.choice([1, 1, 2])))) for stream in streams}
    count = versions or rng.choice([2, 3, 4] if carries else [1, 1, 2, 3])
    queries = [replace(first, streams=streams)] * (count if moves else 1)
    for _ in range(count - len(queries)):
        if rng.random() < (0.1 if carries else 0.6):
            queries.append(random_query(rng, streams, pulls))
        else:
            queries.append(with_another_rule(rng, queries[0]) if carries and rng.random() < 0.4 else queries[0])
    rows = make_rows(rng.choice, STREAMS, most=30) if pulls else make_rows(rng.choice, most=18)
    rows = moving_rows(rng) if moves else rows
    pieces: dict[tuple[str, str, str], list[pa.Table]] = {}
    for stream in streams:
        keys = [(site, stream.name, f"s{n}") for site in sources[stream.name] for n in range(rng.choice([1, 1, 2]))]
        dealt: dict[tuple[str, str, str], list[Row]] = {key: [] for key in keys}
        for row in rows[stream.name]:
            dealt[rng.choice(keys)].append(row)
        for key, of_source in dealt.items():
            pieces[key] = cut(rng, stream, random_arrivals(rng, of_source, stream, punctual))
    times = sorted({row["ts"] for of_stream in rows.values() for row in of_stream}) or [0]
    plans, networks = [], []
    for number, query in enumerate(queries, 1):
        plan, network = random_plan(rng, number, query, sources, live)
        if moves:
            plan = replace(plan, operators={name: replace(p, steps=()) for name, p in plan.operators.items()})
        networks.append(network)
        later = times[len(times) * (number - 1) // (count + 1) :]  # what has been handed on would be refused
        starts_us = BEGINNING if number == 1 else rng.choice(later) * SECOND + rng.choice([0, 0, 1])
        plans.append(plan.starting_at(starts_us))
    return Storm(
        seed,
        tuple(plans),
        streams,
        pieces,
        punctual,
        Faults() if calm else random_faults(rng),
        random_settings(rng),
        tuple(networks),
        carries,
        strategies=strategies,
    )


def with_spark(storm: Storm) -> Storm:
    """The same storm, in which some of the sites that have operators run on Spark, which pulls nothing, and where
    copies of an event must agree in what rules group by."""
    rng = random.Random(f"spark {storm.seed}")
    places = sorted({place.site for plan in storm.plans for place in plan.operators.values()})
    spark = frozenset(rng.sample(places, rng.randint(1, len(places))))
    pushed = [{n: replace(p, steps=() if p.site in spark else p.steps) for n, p in plan.operators.items()}
              for plan in storm.plans]  # fmt: skip
    plans = tuple(replace(plan, operators=of) for plan, of in zip(storm.plans, pushed, strict=True))
    queries = [parse(plan.query) for plan in plans]
    groups = {rule.rule.group_by for query in queries for rule in (*query.definitions, *query.subscriptions)}
    streams = tuple(s if all(not keys or s.unique in keys for keys in groups) else replace(s, unique=None)
                    for s in storm.streams)  # fmt: skip
    plans = tuple(replace(p, query=unparse(replace(q, streams=streams))) for p, q in zip(plans, queries, strict=True))
    return replace(storm, plans=plans, streams=streams, spark=spark)


def cut(rng: random.Random, stream: Stream, rows: list[Row]) -> list[pa.Table]:
    pieces: list[list[Row]] = [[]]
    for row in rows:
        if rng.random() < 0.8:
            pieces.append([])
        pieces[-1].append(row)
    return [table_of(stream, piece) for piece in pieces]


def random_faults(rng: random.Random) -> Faults:
    return Faults(
        delay_s=(0.001, rng.choice([0.002, 0.02, 0.3])),
        commit_s=(0.001, rng.choice([0.002, 0.02, 0.2])),
        slow_disks=rng.choice([0, 0.4]),
        loss=rng.choice([0, 0.05, 0.3]),
        repeat=rng.choice([0, 0.1, 0.4]),
        kills=rng.choice([0, 3, 8, 15]),
        cuts=rng.choice([0, 0, 1, 3]),
        until_s=rng.choice([0.5, 2.0, 8.0]),
    )


def random_settings(rng: random.Random) -> Settings:
    return Settings(
        credit=rng.choice([1, 1, 1500, 5000, 1 << 20]),
        step=rng.choice([1, 1, 3000, 1 << 20]),
        snapshot=rng.choice([1, 1, 2000, 10_000, 1 << 20]),
        quota=rng.choice([1500, 1 << 20, 1 << 20]),
        waiting=rng.choice([700, 1 << 20]),
        repeat=rng.choice([0.3, 1.0]),
        ask=rng.choice([0.005, 0.05]),
        acknowledge=rng.choice([0.0, 0.05, 0.2]),
    )


@dataclass
class Ledger:
    """Looks at every commit: numbers follow each other, promises hold; and keeps the rows that were admitted."""

    streams: set[str]
    ends: dict[tuple[str, LogName], int] = field(default_factory=lambda: defaultdict(int))
    promises: dict[LogName, int] = field(default_factory=dict)
    admitted: dict[tuple[int, str], list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))

    def watch(self, site: str, commit: JournalCommit) -> None:
        for entry in commit.entries:
            if entry.first != self.ends[site, entry.log]:
                raise SimulationError(
                    f"{site} journals {entry.log} from {entry.first}, not {self.ends[site, entry.log]}"
                )
            self.ends[site, entry.log] = entry.following
            if entry.log.origin != site or entry.log.kind not in ("events", "timed out"):
                continue
            rows = read_rows(entry.rows)
            promise = self.promises.get(entry.log, BEGINNING)
            if entry.log.kind == "events" and not entry.log.selection:
                if int(times_us(rows).min()) < promise:
                    raise SimulationError(f"{entry.log} has an event before what it promised")
                self.promises[entry.log] = max(promise, entry.watermark)
            if entry.log.type in self.streams and not entry.log.selection:
                self.admitted[entry.log.version, entry.log.type].append(rows)
        for name, value in commit.values.items():
            if name.startswith("made/events/") and value is not None:
                log = LogName.parse(name.removeprefix("made/"))
                self.promises[log] = max(self.promises.get(log, BEGINNING), int(value.split()[1]))


def unjournalled(site: SiteCore, log: LogName) -> int:
    """Bytes of another site's log that have come and are not on disk."""
    read = site.versions[log.version].read[log]
    entries = [*site.open.entries, *(site.flying.commit.entries if site.flying else ())]
    came = sum(len(batch.rows) for batch, _ in read.pending) + sum(len(batch.rows) for batch in read.early.values())
    return came + sum(len(entry.rows) for entry in entries if entry.log == log)


def check_credit(machine: SimulatedSite, settings: Settings, largest: int) -> None:
    site = machine.site
    for version in site.versions.values() if site else ():
        for log in version.read:
            if (size := unjournalled(site, log)) > max(settings.credit, largest):
                raise SimulationError(
                    f"{machine.name} holds {size} bytes of {log}, and gave credit for {settings.credit}"
                )


def random_strategies(rng: random.Random, plan: DeployedPlan, allowed: tuple[Strategy, ...]) -> dict[str, Strategy]:
    """By operator, one of the strategies that are exact for it."""
    graph = resolve(parse(plan.query))
    exact = {
        name: [s for s in allowed if s != "sms" or not isinstance(cut_in(graph, name), str)] for name in plan.operators
    }
    return {name: rng.choice(of_rule or ["naive"]) for name, of_rule in exact.items()}


class Deployer:
    """Deploys the plans of a storm one after the other, each again with a later beginning where it came too late."""

    def __init__(self, world: World, storm: Storm) -> None:
        self.world, self.storm, self.rng = world, storm, random.Random(f"deployer {storm.seed}")
        self.running: list[DeployedPlan] = []
        self.waiting = list(storm.plans)
        world.deployments.append(Deployment(storm.plans[-1], ()))  # something is left to do, until all is deployed
        self._next()

    def _next(self) -> None:
        if not self.waiting:
            self.world.deployments[0].phase = "running"
            return
        plan = self.waiting.pop(0)
        if self.storm.carries and self.running:
            network = self.storm.networks[self.storm.plans.index(plan)]
            strategies = random_strategies(self.rng, plan, self.storm.strategies)
            plan = carried_on(plan, self.running[-1], strategies=strategies)
            plan = plan if network is None else with_ways(plan, network)
        self._deploy(plan)

    def _deploy(self, plan: DeployedPlan) -> None:
        word = str(len(self.world.deployments))
        self._under_way = Deployment(plan, concerned_sites(plan, self.running[-1:]), word)
        self.world.deploy(self._under_way)
        self._look()

    def _look(self) -> None:
        deployment = self._under_way
        if not deployment.is_over:
            self.world.after(0.01, self._look)
        elif deployment.phase == "running":
            self.running.append(deployment.plan)
            self.world.after(self.rng.uniform(0, 0.05), self._next)
        else:
            late = [reason for reason in deployment.reasons.values() if "Let the plan begin later" in reason]
            assert len(late) == len(deployment.reasons), deployment.reasons
            after_us = max(deployment.latest_us, self.running[-1].starts_us, done_us(self.running[-1]))
            self._deploy(deployment.plan.starting_at(after_us + self.rng.choice([1, SECOND, 2 * SECOND])))


def run_storm(storm: Storm, limit_s: float = 3600.0) -> World:
    """Let a storm pass within some simulated time, and check that all is as it should be."""
    ledger = Ledger({stream.name for stream in storm.streams})
    largest = [0]

    def watch(site: str, commit: JournalCommit) -> None:
        largest[0] = max([largest[0], *(len(entry.rows) for entry in commit.entries)])
        ledger.watch(site, commit)

    by_name = {stream.name: stream for stream in storm.streams}
    pieces = {key: [conform(piece, by_name[key[1]]) for piece in of] for key, of in storm.pieces.items()}
    world = World(storm.names, pieces, storm.seed, storm.faults, storm.settings, watch=watch,
                  pause_s=random.Random(storm.seed).choice([0.005, 0.02, 0.5, 2.0]),
                  check=lambda machine: check_credit(machine, storm.settings, largest[0]),
                  spark=storm.spark)  # fmt: skip
    deployer = Deployer(world, storm)
    world.run(limit_s)
    check_rows(storm, world, ledger)
    check_results(deployer.running, world, ledger)
    check_journals(storm, world)
    return world


def check_rows(storm: Storm, world: World, ledger: Ledger) -> None:
    """Every row was admitted, late or rejected, once."""
    results = world.results()
    for stream in storm.streams:
        tables = [table for (_, name, _), of in storm.pieces.items() if name == stream.name for table in of]
        given = [row["ts"] for table in tables for row in table.to_pylist()]
        batches = [rows for (_, name), of in ledger.admitted.items() if name == stream.name for rows in of]
        admitted = [time_us for rows in batches for time_us in times_us(rows).tolist()]
        of_stream = {log: table for log, table in results.items() if log.type == stream.name}
        late = [row["ts"] for log, t in of_stream.items() if log.kind == "late" for row in t.to_pylist()]
        rejected = sum(table.num_rows for log, table in of_stream.items() if log.kind == "rejected")
        late_times = [ts * SECOND for ts in late]
        assert Counter(ts * SECOND for ts in given if ts is not None) == Counter(admitted + late_times), stream.name
        assert rejected == given.count(None), stream.name
        if storm.punctual:
            assert not late_times


def check_results(plans: list[DeployedPlan], world: World, ledger: Ledger) -> None:
    """Each version has rows of its time alone, gave the same to all who want results, and each operator found, in the
    versions that carry it on, what the embedded engine finds in their rows."""
    ends = [plan.starts_us for plan in plans[1:]] + [END]
    found: list[dict[str, Counter[tuple[Any, ...]]]] = []
    for plan, ends_us in zip(plans, ends, strict=True):
        graph = resolve(parse(plan.query))
        for stream in graph.streams:
            times = [t for batch in ledger.admitted[plan.version, stream.name] for t in times_us(batch).tolist()]
            assert all(plan.starts_us <= t < ends_us for t in times), (plan.version, plan.starts_us, ends_us, times)
        at_sites = [found_at(world.sites[site], plan, graph) for site in plan.results]
        assert all(one == at_sites[0] for one in at_sites), f"version {plan.version}"
        found.append(at_sites[0])
    for versions, names in spans(plans).items():
        graph = resolve(parse(plans[versions[0]].query))
        rows = {
            stream.name: admitted_rows(stream, [plans[n].version for n in versions], ledger) for stream in graph.streams
        }
        want = counted(graph, Engine(graph).run(rows))
        for name in (name for name in want if is_result(graph, name) and name.removesuffix(" timed out") in names):
            of_versions = [found[number].get(name, Counter()) for number in versions]
            assert sum(of_versions, Counter()) == want[name], f"{name} in versions {[n + 1 for n in versions]}"


def spans(plans: list[DeployedPlan]) -> dict[tuple[int, ...], set[str]]:
    """The operators that are carried through the same versions, with all that they are made of. Those that read what
    began before them, or goes on after them, are in no span: what they are given depends on when it was decided."""
    graphs = [resolve(parse(plan.query)) for plan in plans]
    span_of: dict[tuple[int, str], tuple[int, ...]] = {}
    for number, plan in enumerate(plans):
        for name, place in plan.operators.items():
            before = span_of[number - 1, name] if place.carried_from is not None else ()
            span = (*before, number)
            span_of |= {(n, name): span for n in span}
    spans: dict[tuple[int, ...], set[str]] = defaultdict(set)
    for (number, name), span in span_of.items():
        made_of = graphs[number].needed(name) & plans[number].operators.keys()
        if all(span_of[number, each] == span for each in made_of):
            spans[span].add(name)
    return spans


def admitted_rows(stream: Stream, versions: list[int], ledger: Ledger) -> pa.Table:
    """The rows of a stream that were admitted in some versions."""
    batches = [batch for version in versions for batch in ledger.admitted[version, stream.name]]
    times = [t for batch in batches for t in times_us(batch).tolist()]
    rows = [row for batch in batches for row in batch.to_pylist()]
    return table_of(stream, [
        {a.name: row.get(a.name) for a in stream.attributes} | {"ts": t // SECOND}
        for row, t in zip(rows, times, strict=True)])  # fmt: skip


def is_result(graph: Any, name: str) -> bool:
    return name.endswith(" timed out") or any(operator.name == name for operator in graph.subscriptions)


def found_at(machine: SimulatedSite, plan: DeployedPlan, graph: Any) -> dict[str, Counter[tuple[Any, ...]]]:
    found = {operator.name: Counter[tuple[Any, ...]]() for operator in graph.subscriptions}
    found |= {f"{o.name} timed out": Counter[tuple[Any, ...]]() for o in graph.operators if o.rule.timed_out}
    for log, entries in machine.written.items():
        if log.version == plan.version and log.kind in ("events", "timed out"):
            name = log.type + (" timed out" if log.kind == "timed out" else "")
            for first in entries:
                found[name].update(_rows(graph, log.type, pa.Table.from_batches([read_rows(entries[first])])))
    return found


def check_journals(storm: Storm, world: World) -> None:
    """What is over is forgotten, but for what a snapshot is not worth yet."""
    for machine in world.sites.values():
        if machine.site is None and not any(machine.name in each.plan.sites for each in world.deployments):
            continue
        assert machine.site is not None
        buffers = [name for version in machine.site.versions.values() for name in version.buffers]
        assert not any(machine.site.versions[name.version].buffered_size(name) for name in buffers), machine.name
        kept = sum(len(e.rows) for log, of_log in machine.journal.entries.items() if log not in buffers for e in of_log)
        largest = max((len(e.rows) for of_log in machine.journal.entries.values() for e in of_log), default=0)
        assert kept <= 2 * max(storm.settings.snapshot, machine.site.snapshot_size) + 20_000 + largest, machine.name
        assert len(machine.site.versions) <= 1, machine.name
