"""Plans on real processes at the pace of the events: how late results are, and what crosses links.

`python -m situ.bench.live_sites [--only planetlab geant] [--faster N]`, part of `make bench`. The query is that of
`examples/placement`, ten times as fast (or N times): windows are a tenth as long, and events come ten times as often.
Producers push each event to its site when its time has come; proxies are as slow as the network. What is found, and how
late it is on the root's disk, is held against the plan's latency; what crosses links against the vectorised counting of
the same events.

On a machine with other work, a smaller N gives each event more of it: as many events come in a longer time, and a row
may be longer on its way to its site. What is asserted is the same: networks stay as slow as they are.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from situ.bench.pulling import EXAMPLE, exfiltration_events
from situ.bench.sections import Say, Sections, main
from situ.bench.sites import latencies_ms
from situ.bench.suite import Bar, BenchFigure
from situ.core.errors import SituError
from situ.lab.panorama.simulation.events import Occurred
from situ.lab.panorama.simulation.simulate import SimulationRun, simulate
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.load import load_network
from situ.network.network import Network
from situ.network.statistics import Statistics, read_statistics
from situ.placement.coverage import Coverage
from situ.placement.from_graph import problem_of
from situ.placement.mechanisms import mechanism
from situ.placement.plan import Plan
from situ.placement.problem import Limits
from situ.placement.typical_latency import typical_latency_ms
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.operator_places import operator_places
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments
from situ.runtime.sites.ways import with_ways
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.producing import Producer
from situ.service.certificates import Credentials, make_producer_keys, producer_identity

#: How many times as fast as the example, unless it is said.
FASTER = 10.0
PLANETLAB = Path("tests/network/data/planetlab_12_hosts_rtt_ms.parquet")
#: For so long the example would take.
EXAMPLE_S = 600
PRODUCER = "sensor"
#: An event is on its way from producer to site for less than this, if all is ten times as fast as the example; sites
#: wait so long for those before it. Where links are counted and no time is measured, it may be on its way for longer.
BOUND_MS, LONG_BOUND_MS = 20, 1_000
#: From the last event on, until all has been found, and nobody has anything left to say.
AFTER_S = 5.0


def live_query(faster: float = FASTER, bound_ms: int = BOUND_MS) -> str:
    """The query of the example, so many times as fast, over events with times in microseconds."""
    text = (EXAMPLE / "exfiltration.situ").read_text()
    for example, live in (
        ("within 5 s", f"within {round(5_000 / faster)} ms"),
        ("within 10 s", f"within {round(10_000 / faster)} ms"),
        ("ts timestamp)", "us int)"),
        ("time ts", f"time us in us  watermark {round(bound_ms * FASTER / faster)} ms"),
    ):
        text = text.replace(example, live)
    return text[: text.index("  demand")]


@dataclass(frozen=True)
class LiveCase:
    """A plan, and events that occur at the sites of its sources, from 0 us on."""

    network: Network
    text: str
    planned: Plan
    events: Mapping[str, pa.Table]

    @property
    def occurred(self) -> dict[str, Occurred]:
        """The events, with the numbers of their sites."""
        return {
            stream: Occurred(
                table.drop_columns(["country"]),
                np.array([self.network.number(name) for name in table.column("country").to_pylist()], np.int64),
            )
            for stream, table in self.events.items()
        }

    def counted(self) -> SimulationRun:
        """What the vectorised counting says of it."""
        assert self.planned.problem is not None
        return simulate(self.planned.problem, resolve(parse(self.text)), self.planned.placed, self.occurred)

    def deployed(self) -> DeployedPlan:
        problem, names = self.planned.problem, self.network.names
        assert problem is not None
        sources = {event: tuple(sorted(names[site] for site in of.sites)) for event, of in problem.sources.items()}
        live = frozenset(sources)
        operators = operator_places(problem, self.planned.placed, live)
        return with_ways(
            DeployedPlan(1, self.text, sources, operators, (names[problem.root],), live=live), self.network
        )


@dataclass(frozen=True)
class LiveRun:
    """What became of a case: how late each result was on disk, what crossed all links, and rows that came too late."""

    latency_ms: np.ndarray
    sent: Mapping[str, int]
    late: int


def case_of(
    network: Network,
    root: str,
    statistics: Statistics,
    by: str,
    hosts: int,
    limits: Limits,
    faster: float = FASTER,
    bound_ms: int = BOUND_MS,
    seconds: float | None = None,
) -> LiveCase:
    """A case of the example's query, with the plan of a mechanism. `statistics` are those of the example's pace."""
    text = live_query(faster, bound_ms)
    rates = {stream: {site: faster * rate for site, rate in of.items()} for stream, of in statistics.rates.items()}
    statistics = replace(statistics, rates=rates)
    seconds = EXAMPLE_S / faster if seconds is None else seconds
    problem = problem_of(resolve(parse(text)), network, statistics, Coverage(), root=root, limits=limits)
    events = {
        stream: table.set_column(table.column_names.index("ts"), "us", table.column("ts").cast(pa.int64()))
        for stream, table in exfiltration_events(statistics, seconds, hosts).items()
    }
    return LiveCase(network, text, mechanism(by)(problem), events)


def run_live(case: LiveCase) -> LiveRun:
    """Starts the sites, hands events to them at their times, and looks what became of them."""
    plan = case.deployed()
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
        out = Path(work, "out")
        arguments = {
            site: SiteArguments(
                {stream: f"flight://{PRODUCER}" for stream, sites in plan.sources.items() if site in sites},
                str(out) if site in plan.results else None,
            )
            for site in plan.sites
        }
        sites = LocalSites(case.network, arguments, Path(work, "sites"), joined=plan.joined)
        try:
            sites.start()
            control = Control(sites.control, sites.addresses)
            control.deploy(plan, plan.sites)
            keys = make_producer_keys([PRODUCER], sites.directory / "keys")[PRODUCER]
            sensor = Identities.of(PRODUCER, case.network.names, Credentials.read(keys, producer_identity(PRODUCER)))
            producers = {
                (site, stream): Producer(sensor, site, sites.addresses[site], stream)
                for stream, names in plan.sources.items()
                for site in names
            }
            _hand_over(case.events, producers)
            time.sleep(AFTER_S)
            reports = control.of_all(control.status, list(plan.sites))
            for producer in producers.values():
                producer.close()
        finally:
            sites.close()
        sent: dict[str, int] = {}
        late = 0
        for site, report in reports.items():
            if isinstance(report, SituError):
                raise SituError(f"site {site} does not answer: {report.cause}")
            late += report["rows"]["late"] + report["rows"]["rejected"]
            for counts in report["links"].values():
                for name, count in counts.items():
                    sent[name] = sent.get(name, 0) + count
        parts = sorted((out / "Exfiltration").glob("part-*")) if out.exists() else []
        return LiveRun(np.concatenate([np.zeros(0), *map(latencies_ms, parts)]), sent, late)


def _hand_over(events: Mapping[str, pa.Table], producers: Mapping[tuple[str, str], Producer]) -> None:
    """Sends each event to its site when its time, counted from a second ahead, has come."""
    begin_us = time.time_ns() // 1000 + 1_000_000
    waiting = []
    for stream, table in events.items():
        countries = table.column("country").to_pylist()
        rows = table.drop_columns(["country"])
        at = rows.column_names.index("us")
        rows = rows.set_column(at, "us", pa.array(rows.column("us").to_numpy() + begin_us))
        for number, due_us in enumerate(rows.column("us").to_pylist()):
            waiting.append((due_us, stream, countries[number], rows.slice(number, 1)))
    heapq.heapify(waiting)
    while waiting:
        due_us, stream, site, row = heapq.heappop(waiting)
        time.sleep(max(due_us / 1e6 - time.time(), 0))
        producers[site, stream].send(row)


# ---- figures


def planetlab_case(by: str, faster: float = FASTER, seconds: float | None = None) -> LiveCase:
    """Twelve hosts with the latencies that were measured between them, and the plan of a mechanism."""
    network = load_network(PLANETLAB)
    *sources, root = network.names
    rates = {"Alert": dict.fromkeys(sources[:2], 0.05), "Login": dict.fromkeys(sources[2:5], 0.3)}
    rates["Flow"] = dict.fromkeys(sources[5:], 1.0)
    shares = {"Intrusion": 0.2, "Intrusion.login": 0.5, "Exfiltration": 0.2, "Exfiltration.flow": 0.3}
    return case_of(network, root, Statistics(rates, shares), by, 5, Limits(), faster, seconds=seconds)


def planetlab_figures(say: Say, faster: float = FASTER) -> Iterator[BenchFigure]:
    """How late results are, with the latencies of PlanetLab."""
    for by in ("optimal", "naive"):
        say(f"PlanetLab: the plan of {by} at the pace of events, on real processes")
        case = planetlab_case(by, faster)
        run = run_live(case)
        if not len(run.latency_ms):
            raise SituError("nothing was found")
        assert case.planned.problem is not None
        predicted, longest = typical_latency_ms(case.planned.problem, case.planned.placed), case.planned.latency_ms
        median, p99 = np.percentile(run.latency_ms, [50, 99])
        most = 1.25 * predicted + 25
        detail = f"{len(run.latency_ms):,} complex events, predicted {predicted:.0f} ms in the median and at most "
        detail += f"{longest:.0f} ms; 99% within {p99:.0f} ms; {run.sent['questions']:,} questions for "
        detail += f"{run.sent['events']:,} events; bar 1.25 x {predicted:.0f} + 25 ms; {run.late} rows were late"
        measured = {"median_ms": float(median), "p99_ms": float(p99), "predicted_ms": predicted, "late": run.late}
        measured |= {"predicted_at_most_ms": longest, **run.sent}
        bar = Bar("at most", round(most, 1))
        yield BenchFigure(f"PlanetLab: latency, {by}", round(float(median), 1), "ms, median", detail, measured, bar)


def geant_figures(say: Say, faster: float = FASTER) -> Iterator[BenchFigure]:
    """What crosses links, beside the vectorised counting of the same events."""
    say("GÉANT: the example of placement at the pace of events, on real processes")
    network, given = load_network(EXAMPLE / "geant.graphml"), read_statistics(EXAMPLE / "rates.json")
    case = case_of(network, "NL", given, "optimal", 20, Limits(50), faster, LONG_BOUND_MS)
    counted, run = case.counted(), run_live(case)
    name, sent = "GÉANT at the pace of events", run.sent
    detail = f"{sent['events']:,} events x hops, {counted.data_cost:,.0f} counted; {run.late} rows were late"
    off = abs(sent["events"] / counted.data_cost - 1)
    yield BenchFigure(f"{name}: events x hops", round(100 * off, 2), "% off", detail, dict(sent), Bar("at most", 0))
    detail = f"{sent['requests']:,} requests x hops, {counted.growth_cost:,.0f} counted"
    off = abs(sent["requests"] / counted.growth_cost - 1)
    yield BenchFigure(f"{name}: requests", round(100 * off, 1), "% off", detail, {}, Bar("at most", 10))
    words = sent["questions"] + sent["acknowledgements"]
    detail = (
        f"{sent['questions']:,} questions, {sent['acknowledgements']:,} acknowledgements, {sent['promises']:,} promises"
    )
    ratio = round(words / sent["events"], 2)
    yield BenchFigure(f"{name}: questions and acknowledgements", ratio, "x events", detail, {}, Bar("at most", 1))


SECTIONS: Sections = {"planetlab": planetlab_figures, "geant": geant_figures}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--faster", type=float, default=FASTER)
    options, arguments = parser.parse_known_args()
    at_pace = {
        name: partial(figures, faster=options.faster)
        for name, figures in (("planetlab", planetlab_figures), ("geant", geant_figures))
    }
    sys.exit(main(__doc__, at_pace, arguments))
