"""A broker at rest: its memory, what it does when nothing happens, and how soon it is back.

`python -m situ.bench.brokers`, part of `make bench`. Three brokers on this machine run a query whose sources are empty
directories; they tell each other what they know once a second. All figures are those of the one that runs the
operators.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from situ.bench.sections import Say, Sections, main
from situ.bench.suite import Bar, BenchFigure
from situ.network.network import Brokers, Link, Network, Site
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.deployment import concerned_sites
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments
from situ.runtime.sites.ways import with_ways

QUERY = """
stream Temperature(room string, value double, ts timestamp) time ts
stream Door(room string, ts timestamp) time ts
define Mean(room, value) aggr every 5 min
  detect Temperature as t assign room = group.room, value = avg(t.value) group by room
subscribe Cold
  detect Door as d then Mean(value < 18) as m within 10 min assign room = m.room, value = m.value group by room
"""
NETWORK = Network(
    (Site("door"), Site("hall"), Site("room")),
    (Link("door", "hall", 1.0), Link("hall", "room", 1.0)),
    brokers=Brokers(2, period_s=1.0),
)
BROKER = "hall"
#: Seconds during which a broker is watched; it has settled before.
WATCHED_S, SETTLE_S = 15.0, 5.0
STARTS = 3


def at_rest(say: Say) -> Iterator[BenchFigure]:
    """Memory, CPU and start of a broker to which nothing happens."""
    say("a broker at rest")
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        sources = {"door": {"Door": directory / "doors"}, "room": {"Temperature": directory / "temperatures"}}
        for folder in (folder for of_site in sources.values() for folder in of_site.values()):
            folder.mkdir()
        arguments = {
            name: SiteArguments(
                {stream: str(folder) for stream, folder in sources.get(name, {}).items()},
                str(directory / "out") if name == BROKER else None,
            )
            for name in NETWORK.names
        }
        sites = LocalSites(NETWORK, arguments, directory / "sites", scale=0, proxied=False)
        try:
            sites.start()
            control = Control(sites.control, sites.addresses)
            places = dict.fromkeys(("Mean", "Cold"), OperatorPlace(BROKER))
            given = {"Door": ("door",), "Temperature": ("room",)}
            plan = with_ways(DeployedPlan(1, QUERY, given, places, (BROKER,)), NETWORK)
            control.deploy(plan, concerned_sites(plan))
            started = [_start_again(sites) for _ in range(STARTS)]
            time.sleep(SETTLE_S)
            before, begun = _cpu_s(sites), time.perf_counter()
            time.sleep(WATCHED_S)
            idle = 100 * (_cpu_s(sites) - before) / (time.perf_counter() - begun)
            memory = control.status(BROKER)["process"]["memory_bytes"] / 1e6
        finally:
            sites.close()
    start = min(started)
    detail = f"of {STARTS} starts: {', '.join(f'{each:.2f}' for each in started)} s"
    yield BenchFigure("broker at rest: memory", round(memory), "MB", "", {"mb": memory}, Bar("at most", 220))
    name = "broker at rest: CPU"
    yield BenchFigure(
        name, round(idle, 2), "% of a core", f"over {WATCHED_S:.0f} s", {"percent": idle}, Bar("at most", 1)
    )
    name = "broker: until it listens, on a second start"
    yield BenchFigure(name, round(start, 2), "s", detail, {"seconds": started}, Bar("at most", 1.5))


def _start_again(sites: LocalSites) -> float:
    sites.kill(BROKER)
    begun = time.perf_counter()
    sites.start([BROKER])
    return time.perf_counter() - begun


def _cpu_s(sites: LocalSites) -> float:
    """Seconds that a broker's process has computed, in all its threads."""
    process = sites.sites[BROKER].process
    assert process is not None
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SECTIONS: Sections = {"rest": at_rest}

if __name__ == "__main__":
    sys.exit(main(__doc__, SECTIONS))
