"""The scenarios of EdgeCEP's Figure 4 (a) and (b). The figure is lost; these are comparable ones, with parameters that
were fixed before anything was run. A message is 1 KB, so a rate is in KB/s and a flow volume in KB/s x hops.

**Three buildings** (section V-A). In each, a line of four brokers, of which the first one is joined to a yard; the
yard is joined to a server. Two kinds of sensors: a meter at each broker but the first sends every `period` ms; a
camera at the last broker sends ten times as often. For each building: `Peaks` reads its meters and passes on one
event in ten, `Motion` reads its camera and passes on one in five, `Alarm` reads both and sends one in a hundred
combinations to the server, `Report` reads `Motion` and sends half of it to the first broker of the building, where a
controller is. Brokers in buildings process 60 events per second, the yard 200, the server whatever comes. Links have
no limits, as in the paper.

**Nursing home** (section V-B). 31 brokers: two buildings of three floors, on each a corridor of four brokers in a
line; corridors are joined by their first brokers, one floor to the next; the lowest of each building is joined to its
hub. The hubs are joined to each other, and hub A to the local server and to the Internet gateway; three nurse tablets
are at the hub of A, at the hub of B, and on the middle floor of A. On each floor: an environmental sensor at each
broker (1.5 KB/min), five wearables (1.5 KB/s each; two at the first broker, one at each other), and video streamers
at the second and the fourth broker (6.75 MB/s each). Applications, one task for each floor: general surveillance
reads the video and sends 2% of it to the server; face detection, in building A alone, reads the video and sends 1% to
the gateway; averages read the environmental sensors and send 0.5 KB every 5 minutes to the floor's air flow
controller, at its third broker; heart patterns read the wearables and send 1% to the nearest tablet. A broker
processes 20 MB/s, the server whatever comes. Brokers decide, and flood, every 5 s; a packet of a flood has 96 bytes
(91,968 bytes in 958 packets, Table II b). Where loss is asked for, a link carries 100 Mbit/s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from situ.network.network import Link, Network, Site
from situ.placement.coverage import Coverage
from situ.placement.problem import Input, Kind, PlannedOperator, Problem, Sources

BUILDINGS, FLOORS, CORRIDOR = "AB", (1, 2, 3), (1, 2, 3, 4)
#: KB/s.
ENVIRONMENT, WEARABLE, VIDEO = 1.5 / 60, 1.5, 6_750.0
#: Seconds between two decisions of a broker in the nursing home, and KB/s that a link carries, where it has a limit.
DECIDES_EVERY_S, LINK_KB_PER_S = 5.0, 12_500.0
SERVER, GATEWAY = "server", "gateway"
TABLETS = {"tablet A": "hub A", "tablet B": "hub B", "tablet A2": "A2.1"}


@dataclass
class _Scenario:
    """A problem that is put together piece by piece."""

    network: Network
    sources: dict[str, Sources]
    operators: list[PlannedOperator]
    destinations: dict[str, int]

    def stream(self, name: str, rates: dict[str, float]) -> None:
        sites = np.array([self.network.number(site) for site in rates], np.int64)
        self.sources[name] = Sources(sites, np.array([*rates.values()], np.float64))

    def task(
        self, name: str, reads: tuple[str, ...], to: str | None, share: float, every_s: float | None = None
    ) -> None:
        """A task that passes on a share of what it reads; one that reads two types, of their combinations."""
        kind = Kind.OTHER if every_s is not None else Kind.AND if len(reads) > 1 else Kind.OR
        inputs = tuple(map(Input, reads))
        self.operators.append(PlannedOperator(name, kind, inputs, 1.0, share, every_s=every_s))
        if to is not None:
            self.destinations[name] = self.network.number(to)

    def problem(self, root: str) -> Problem:
        number = self.network.number(root)
        return Problem(
            tuple(self.operators), self.sources, self.network, number, Coverage(), destinations=self.destinations
        )


def three_buildings(period_ms: float) -> Problem:
    """Figure 4 (a): meters send every so many milliseconds."""
    sites, links = [Site(SERVER), Site("yard", load_per_s=200.0)], [Link(SERVER, "yard", 1.0)]
    for building in "PQR":
        line = [f"{building}{place}" for place in CORRIDOR]
        sites += [Site(name, load_per_s=60.0) for name in line]
        links += [Link(a, b, 1.0) for a, b in zip(["yard", *line], line, strict=False)]
    scenario = _Scenario(Network(tuple(sites), tuple(links)), {}, [], {})
    per_s = 1_000 / period_ms
    for building in "PQR":
        meter, camera, peaks, motion = (f"{name} {building}" for name in ("Meter", "Camera", "Peaks", "Motion"))
        scenario.stream(meter, {f"{building}{place}": per_s for place in CORRIDOR[1:]})
        scenario.stream(camera, {f"{building}{CORRIDOR[-1]}": 10 * per_s})
        scenario.task(peaks, (meter,), None, 0.1)
        scenario.task(motion, (camera,), None, 0.2)
        scenario.task(f"Alarm {building}", (peaks, motion), SERVER, 0.01)
        scenario.task(f"Report {building}", (motion,), f"{building}1", 0.5)
    return scenario.problem(SERVER)


def nursing_home() -> Problem:
    """Figure 4 (b)."""
    scenario = _Scenario(_home(), {}, [], {})
    for building in BUILDINGS:
        for floor in FLOORS:
            here = f"{building}{floor}"
            video, environment, wearable = (f"{name} {here}" for name in ("Video", "Environment", "Wearable"))
            scenario.stream(video, {f"{here}.2": VIDEO, f"{here}.4": VIDEO})
            scenario.stream(environment, {f"{here}.{place}": ENVIRONMENT for place in CORRIDOR})
            scenario.stream(wearable, {f"{here}.{p}": WEARABLE * (2 if p == 1 else 1) for p in CORRIDOR})
            scenario.task(f"Surveillance {here}", (video,), SERVER, 0.02)
            if building == "A":
                scenario.task(f"Faces {here}", (video,), GATEWAY, 0.01)
            scenario.task(f"Average {here}", (environment,), f"{here}.3", 0.5, every_s=300.0)
            scenario.task(f"Heart {here}", (wearable,), _nearest_tablet(scenario.network, f"{here}.1"), 0.01)
    return scenario.problem(SERVER)


def _home() -> Network:
    names = [SERVER, GATEWAY, *(f"hub {b}" for b in BUILDINGS), *TABLETS]
    pairs = [(SERVER, "hub A"), (GATEWAY, "hub A"), ("hub A", "hub B"), *TABLETS.items()]
    for building in BUILDINGS:
        below = f"hub {building}"
        for floor in FLOORS:
            corridor = [f"{building}{floor}.{place}" for place in CORRIDOR]
            names += corridor
            pairs += [(below, corridor[0]), *pairwise(corridor)]
            below = corridor[0]
    sites = tuple(Site(name, load_per_s=None if name == SERVER else 20_000.0) for name in names)
    return Network(sites, tuple(Link(a, b, 1.0) for a, b in pairs))


def _nearest_tablet(network: Network, site: str) -> str:
    hops = network.ways_from(network.number(site)).hops
    return min(TABLETS, key=lambda name: (int(hops[network.number(name)]), name))


def entrusted_by_source(problem: Problem) -> Problem:
    """The same tasks as the paper entrusts them: each source broker decides where its own contents are processed, so a
    task that passes on a share of what it reads runs once for each of its sources. An average stays one task."""
    names = problem.network.names
    sources = {
        f"{event} at {names[site]}": Sources(np.array([site]), np.array([rate]))
        for event, of in problem.sources.items()
        for site, rate in zip(of.sites.tolist(), of.rates_per_s.tolist(), strict=True)
    }
    operators, destinations = list[PlannedOperator](), dict[str, int]()
    for number, operator in enumerate(problem.operators):
        (event,) = operator.events
        parts = [f"{event} at {names[site]}" for site in problem.sources[event].sites.tolist()]
        if operator.every_s is not None:
            tasks = [replace(operator, inputs=tuple(map(Input, parts)))]
        else:
            tasks = [replace(operator, name=f"{operator.name} of {p}", inputs=(Input(p),)) for p in parts]
        operators += tasks
        destinations |= {task.name: problem.destination(number) for task in tasks}
    return replace(problem, operators=tuple(operators), sources=sources, destinations=destinations)


def without_limits(problem: Problem) -> Problem:
    """The same problem, in which every broker processes whatever comes."""
    sites = tuple(replace(site, load_per_s=None) for site in problem.network.sites)
    return replace(problem, network=replace(problem.network, sites=sites))
