"""A plan at simulated sites, which do what real ones do, at the pace of the events: what crosses each link, counted.

The vectorised counting (`simulate.py`) is held against it: same plan, same events, same latencies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from situ.graph.operators import OperatorGraph
from situ.io.rows.conform import conform
from situ.lab.panorama.simulation.events import Occurred
from situ.placement.plan import Placed
from situ.placement.problem import Problem
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.deployment import Deployment
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.operator_places import operator_places
from situ.runtime.sites.relays import LinkCounts
from situ.runtime.sites.rows import read_rows, times_us
from situ.runtime.sites.settings import Settings
from situ.runtime.sites.simulation.world import Faults, SimulatedSite, World
from situ.runtime.sites.status import status_of
from situ.runtime.sites.ways import with_ways

#: Sites start, and are given the plan, before the first event.
_LEAD_S = 5.0
#: A disk that takes no time, and messages that take no longer than their links.
_PERFECT = Faults(delay_s=(0.0, 0.0), commit_s=(1e-9, 1e-9))
#: A row is read just after it has occurred.
_READ_AFTER_S = 2e-6


@dataclass(frozen=True, slots=True)
class SitesRun:
    """What simulated sites have sent over all links together from the first event on, and what they have found.
    `latency_s`: by type, how long after its last event each complex event was at the root.
    `reports`: what sites said of themselves then."""

    counts: LinkCounts
    complex_events: Mapping[str, pa.Table]
    latency_s: Mapping[str, list[float]]
    reports: Mapping[str, Mapping[str, Any]]


def run_on_sites(
    text: str,
    problem: Problem,
    graph: OperatorGraph,
    placed: Sequence[Placed],
    events: Mapping[str, Occurred],
    settings: Settings | None = None,
    faults: Faults = _PERFECT,
) -> SitesRun:
    """Run a plan on events that occur, from the epoch on, at the times that they have. All streams are live."""
    names = problem.network.names
    sources = {event: tuple(sorted(names[site] for site in of.sites)) for event, of in problem.sources.items()}
    operators = operator_places(problem, placed, sources)
    plan = DeployedPlan(1, text, sources, operators, (names[problem.root],), live=frozenset(sources), bounded=True)
    plan = with_ways(plan, problem.network)
    pieces, due = {}, {}
    declared = {stream.name: stream for stream in graph.streams}
    begin_s = 1_000.0 + _LEAD_S
    for event, occurred in events.items():
        stream = declared[event]
        assert stream.time_unit == "us", "times are whole microseconds, so that they can be moved"
        moved_us = occurred.rows.column(stream.time).to_numpy() + round(begin_s * 1e6)
        at = occurred.rows.column_names.index(stream.time)
        moved = occurred.rows.set_column(at, stream.time, pa.array(moved_us))
        for site in sources[event]:
            rows = np.flatnonzero(occurred.sites == problem.network.number(site))
            rows = rows[np.argsort(moved_us[rows], kind="stable")]
            key = site, event, "source"
            pieces[key] = [conform(moved.take(pa.array([row])), stream) for row in rows]
            due[key] = [time_us / 1e6 + _READ_AFTER_S for time_us in moved_us[rows].tolist()]
    ends_s = max((moments[-1] for moments in due.values() if moments), default=begin_s) + 60.0
    for key, moments in due.items():
        moments.append(ends_s)  # sources end when all is decided
        pieces[key].append(conform(_no_rows(events[key[1]].rows), declared[key[1]]))
    root, latency_s = plan.results[0], dict[str, list[float]]()
    seen: Counter[LogName] = Counter()

    def look(machine: SimulatedSite) -> None:
        """Take down when the root got complex events."""
        for log, entries in machine.written.items() if machine.name == root else ():
            if log.kind == "events" and len(entries) > seen[log]:
                for first in list(entries)[seen[log] :]:
                    times_s = times_us(read_rows(entries[first])) / 1e6
                    latency_s.setdefault(log.type, []).extend((world.now - times_s).tolist())
                seen[log] = len(entries)

    world = World(
        plan.sites, pieces, 1, faults, settings, latency_s=lambda a, b: _latency_s(problem, a, b), due=due, check=look
    )
    world.deploy(Deployment(plan, plan.sites, "one"))
    world.run_for(begin_s - world.now)
    greeted = _sent(world)
    world.run_for(ends_s - world.now - 1.0)
    reports = {name: status_of(machine.site) for name, machine in world.sites.items() if machine.site is not None}
    counts = LinkCounts(**{name: count - greeted[name] for name, count in _sent(world).items()})
    world.run(ends_s - world.begun_at + 3_600.0)
    tables = {log.type: table for log, table in world.results().items() if log.kind == "events"}
    return SitesRun(counts, tables, latency_s, reports)


def _sent(world: World) -> Counter[str]:
    """What has crossed all links so far, by what it is."""
    sent: Counter[str] = Counter()
    for machine in world.sites.values():
        assert machine.site is not None
        for counts in machine.site.relays.sent.values():
            sent.update(asdict(counts))
    return sent


def _no_rows(rows: pa.Table) -> pa.Table:
    return rows.slice(0, 0)


def _latency_s(problem: Problem, a: str, b: str) -> float:
    network = problem.network
    return int(network.ways_from(network.number(a)).latency_ns[network.number(b)]) / 1e9
