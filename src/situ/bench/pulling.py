"""Pulled plans on real processes: what they send, beside the vectorised counting, and what pulling saves.

`python -m situ.bench.pulling`, part of `make bench`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from situ.bench.sections import Say, Sections, main
from situ.bench.suite import Bar, BenchFigure
from situ.core.errors import SituError
from situ.lab.panorama.simulation.events import Occurred
from situ.lab.panorama.simulation.simulate import SimulationRun, simulate
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.network.load import load_network
from situ.network.network import Link, Network, Site
from situ.network.statistics import Statistics, read_statistics
from situ.placement.coverage import Coverage
from situ.placement.from_graph import problem_of
from situ.placement.mechanisms import mechanism
from situ.placement.problem import Limits, Problem
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.operator_places import operator_places
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments
from situ.runtime.sites.ways import with_ways

EXAMPLE = Path("examples/placement")
SECONDS, SEED = 3_600, 7
Steps: TypeAlias = tuple[tuple[str, ...], ...]
#: Each look costs a site some milliseconds of what is measured.
_LOOK_S = 1.0


# ---- GÉANT


def exfiltration_events(statistics: Statistics, seconds: float = SECONDS, hosts: int = 20) -> dict[str, pa.Table]:
    """An hour of events, or less, as the example's `generate.py` makes them, with the column `country`."""
    rng = np.random.default_rng(SEED)
    made = {}
    for stream, by_site in statistics.rates.items():
        counts = rng.poisson(np.array([*by_site.values()]) * seconds)
        countries = np.repeat([*by_site], counts)
        times_us = rng.integers(0, round(seconds * 1e6), len(countries))
        of_host = rng.integers(0, hosts, len(countries))
        chance = rng.uniform(size=len(countries))
        columns = {
            "country": pa.array(countries),
            "host": pa.array([f"host{host}" for host in of_host]),
            "ts": pa.array(times_us).cast(pa.timestamp("us", tz="UTC")),
        }
        columns |= {
            "Alert": {"rule": pa.array(np.where(chance < 0.5, "scan", "exploit"))},
            "Login": {"failed": pa.array(chance < statistics.selectivity["Intrusion.login"])},
            "Flow": {"megabytes": pa.array(100 * statistics.selectivity["Exfiltration.flow"] / chance)},
        }[stream]
        made[stream] = pa.table(columns).sort_by("ts")
    return made


def geant_figures(say: Say) -> Iterator[BenchFigure]:
    """The example's plan on real processes, counted link by link."""
    say("GÉANT: the example of placement on real processes")
    text = (EXAMPLE / "exfiltration.situ").read_text()
    graph, network = resolve(parse(text)), load_network(str(EXAMPLE / "geant.graphml"))
    statistics = read_statistics(str(EXAMPLE / "rates.json"))
    problem = problem_of(graph, network, statistics, Coverage(), root="NL", limits=Limits(50))
    placed = mechanism("optimal")(problem).placed
    tables = exfiltration_events(statistics)
    occurred = {
        stream: Occurred(
            table.drop_columns(["country"]),
            np.array([network.number(name) for name in table.column("country").to_pylist()]),
        )
        for stream, table in tables.items()
    }
    counted = simulate(problem, graph, placed, occurred)
    central = simulate(problem, graph, mechanism("naive")(problem).placed, occurred)
    operators = operator_places(problem, placed)
    sources = {stream: tuple(sorted(set(table.column("country").to_pylist()))) for stream, table in tables.items()}
    plan = with_ways(DeployedPlan(1, text, sources, operators, ("NL",), bounded=True), network)
    sent = _sent(plan, network, tables)
    yield from _geant(sent, counted, central, problem)


def _geant(
    sent: Mapping[str, int], counted: SimulationRun, central: SimulationRun, problem: Problem
) -> Iterator[BenchFigure]:
    events = sent["events"]
    detail = f"{events:,} events x hops on links, {counted.data_cost:,.0f} by the vectorised counting"
    off = abs(events - counted.data_cost)
    yield BenchFigure("GÉANT: events x hops that differ", off, "", detail, dict(sent), Bar("at most", 0))
    share = events / central.data_cost
    detail = f"{central.data_cost:,.0f} events x hops if all are sent to the root"
    yield BenchFigure("GÉANT: of central collection", round(100 * share, 2), "%", detail, {})
    asked = counted.request_cost + counted.extension_cost
    detail = f"{sent['requests']:,} requests x hops; {asked:,.0f} at the pace of events, here as fast as it goes"
    yield BenchFigure("GÉANT: requests", round(sent["requests"] / asked, 2), "x", detail, {})
    words = sent["questions"] + sent["acknowledgements"]
    detail = f"{words:,} questions and acknowledgements x hops, and {sent['promises']:,} promises"
    yield BenchFigure(
        "GÉANT: questions and acknowledgements", round(words / events, 2), "x events", detail, {}, Bar("at most", 1)
    )


def _sent(plan: DeployedPlan, network: Network, tables: Mapping[str, pa.Table]) -> dict[str, int]:
    """What crossed all links, when all sites had done all."""
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
        directory = Path(work)
        for stream, sites in plan.sources.items():
            for site in sites:
                of_site = tables[stream].filter(pc.equal(tables[stream].column("country"), site))
                pq.write_table(of_site, directory / f"{stream}-{site}.parquet")
        arguments = {
            site: SiteArguments(
                {s: str(directory / f"{s}-{site}.parquet") for s, sites in plan.sources.items() if site in sites},
                str(directory / "out") if site in plan.results else None,
            )
            for site in plan.sites
        }
        reports, _ = _run(plan, network, arguments, directory)
        sent: dict[str, int] = {}
        for report in reports.values():
            for counts in report["links"].values():
                for name, count in counts.items():
                    sent[name] = sent.get(name, 0) + count
        return sent


def _run(
    plan: DeployedPlan, network: Network, arguments: Mapping[str, SiteArguments], directory: Path
) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """The last reports of all sites, and the CPU seconds of each from when the plan ran to the end."""
    local = LocalSites(network, arguments, directory / "sites", scale=0, joined=plan.joined)
    try:
        local.start()
        control = Control(local.control, local.addresses)
        control.deploy(plan, plan.sites)
        before = {name: _cpu_s(site.process.pid) for name, site in local.sites.items() if site.process is not None}
        while True:
            reports = control.of_all(control.status, list(plan.sites))
            for site, report in reports.items():
                if isinstance(report, SituError):
                    raise SituError(f"site {site} does not answer: {report.cause}")
            if all(v["over"] for report in reports.values() for v in report["versions"].values()):
                break
            time.sleep(_LOOK_S)
        after = {name: _cpu_s(site.process.pid) for name, site in local.sites.items() if site.process is not None}
        return reports, {name: after[name] - before[name] for name in after}
    finally:
        local.close()


def _cpu_s(pid: int) -> float:
    """The CPU seconds of a process, of user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- what pulling saves


@dataclass(frozen=True, slots=True)
class Frequent:
    """A frequent stream at one site, a rare one at the other. Starting costs the same however long a run is, so what
    the longer run takes more than the shorter one is what events cost."""

    seconds: tuple[int, int] = (20, 120)
    per_s: int = 100_000
    window_ms: int = 10


RARE = """
stream Sample(id int, value double, us int) time us in us order id
stream Trigger(id int, us int) time us in us order id
subscribe Near
  detect   Sample as s then each Trigger as t within {window} ms
  assign   sample = s.id, trigger = t.id, value = s.value
"""
STEPS: Mapping[str, Steps] = {"pushed": (), "pulled": (("Trigger",), ("Sample",))}


def rare_plan(setting: Frequent, steps: Steps) -> DeployedPlan:
    """Samples occur at the edge; triggers, and the operator that reads both, are at the hub."""
    text, place = RARE.format(window=setting.window_ms), OperatorPlace("hub", steps)
    return DeployedPlan(1, text, {"Sample": ("edge",), "Trigger": ("hub",)}, {"Near": place}, ("hub",), bounded=True)


def rare_events(setting: Frequent, seconds: int) -> dict[str, pa.Table]:
    """The samples of some seconds, and a trigger somewhere in each."""
    rows, rng = seconds * setting.per_s, np.random.default_rng(SEED)
    every_us = 1_000_000 // setting.per_s
    samples = {"id": np.arange(rows), "value": rng.random(rows), "us": np.arange(rows) * every_us}
    triggers = {"id": np.arange(seconds), "us": np.sort(rng.integers(0, seconds * 1_000_000, seconds))}
    return {"Sample": pa.table(samples), "Trigger": pa.table(triggers)}


def cpu_figures(say: Say, setting: Frequent = Frequent()) -> Iterator[BenchFigure]:
    """The operator's site, with everything pushed to it and pulling, for a shorter and a longer time."""
    say("CPU of a site that pulls, and of one that is pushed to")
    cpu_s = {
        (name, seconds): _hub_cpu_s(setting, STEPS[name], seconds) for seconds in setting.seconds for name in STEPS
    }
    short, long = setting.seconds
    per_s = {name: (cpu_s[name, long] - cpu_s[name, short]) / (long - short) for name in STEPS}
    ratio = per_s["pushed"] / max(per_s["pulled"], 1e-4)
    detail = ", ".join(f"{name} {1e3 * per_s[name]:.1f} ms per second of {setting.per_s:,} events" for name in STEPS)
    detail += "; in all " + ", ".join(f"{name} {cpu_s[name, long]:.2f} s for {long} s" for name in STEPS)
    measured = {f"{name}_{seconds}_s": value for (name, seconds), value in cpu_s.items()}
    yield BenchFigure("CPU of a site that pulls", round(ratio, 1), "x less", detail, measured, Bar("at least", 20))


def _hub_cpu_s(setting: Frequent, steps: Steps, seconds: int) -> float:
    """The CPU seconds of the hub, from when the plan runs until all is done."""
    plan = rare_plan(setting, steps)
    network = Network((Site("edge"), Site("hub")), (Link("edge", "hub", 1.0),))
    with tempfile.TemporaryDirectory(prefix="situ-bench-") as work:
        directory = Path(work)
        for stream, table in rare_events(setting, seconds).items():
            pq.write_table(table, directory / f"{stream}.parquet")
        arguments = {
            site: SiteArguments({stream: str(directory / f"{stream}.parquet")}, out)
            for site, stream, out in (("edge", "Sample", None), ("hub", "Trigger", str(directory / "out")))
        }
        _, cpu_s = _run(plan, network, arguments, directory)
        return cpu_s["hub"]


SECTIONS: Sections = {"geant": geant_figures, "cpu": cpu_figures}


if __name__ == "__main__":
    sys.exit(main(__doc__, SECTIONS))
