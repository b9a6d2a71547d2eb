"""Real site processes for tests: a query over rooms of two houses, found at a third place, and what it must find."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from situ.core.errors import SituError
from situ.network.load import load_network
from situ.network.network import Link, Network, Site
from situ.runtime.embedded import Engine
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments
from situ.runtime.sites.ways import with_ways

QUERY = """
stream Reading(room int, value double, ts int) time ts in ms order value
stream Door(room int, n int, ts int) time ts in ms order n

define Rise(room, by)
  detect   Reading as a then Reading(value > a.value + 40) as b within 60 ms
  assign   room = a.room, by = b.value - a.value
  group by room

subscribe Draught
  detect   Rise as r then Door as d within 100 ms
  assign   room = d.room, by = r.by, n = d.n
  group by room

subscribe Calm
  detect   Door as d then not Reading(value > 90) within 50 ms
  assign   room = d.room, n = d.n
  group by room
"""
NETWORK = Network(
    (Site("north"), Site("south"), Site("town")),
    (Link("north", "town", latency_ms=2), Link("south", "town", latency_ms=3)),
)
#: Definitions at a house, what joins both at the other one, results in town.
PLACES = {"Rise": OperatorPlace("north"), "Draught": OperatorPlace("south"), "Calm": OperatorPlace("town")}


@dataclass(frozen=True)
class Setting:
    """Which sites there are, what occurs and runs where, and how much of the network's latencies is emulated."""

    network: Network
    sources: dict[str, tuple[str, ...]]
    places: dict[str, OperatorPlace]
    root: str
    scale: float

    has_ways: bool = False

    def plan(self) -> DeployedPlan:
        plan = DeployedPlan(1, QUERY, self.sources, self.places, (self.root,), bounded=True)
        return with_ways(plan, self.network) if self.has_ways else plan


THREE = Setting(NETWORK, {"Reading": ("north", "south"), "Door": ("south",)}, PLACES, "town", scale=0.2)


#: The same, where doors are pulled when something has risen; all goes through the town.
PULLED = Setting(
    NETWORK,
    {"Reading": ("north", "south"), "Door": ("south",)},
    PLACES | {"Draught": OperatorPlace("north", (("Rise",), ("Door",)))},
    "town",
    scale=0.2,
    has_ways=True,
)


def six_hosts(pulled: bool = False) -> Setting:
    """Six hosts of PlanetLab, with the latencies that were measured between them; doors are pushed, or pulled."""
    file = Path(__file__).parents[2] / "network" / "data" / "planetlab_12_hosts_rtt_ms.parquet"
    whole = load_network(file)
    a, b, c, d, e, f = names = whole.names[:6]
    links = tuple(link for link in whole.links if {link.a, link.b} <= {*names})
    network = Network(whole.sites[:6], links)
    steps = (("Rise",), ("Door",)) if pulled else ()
    places = {"Rise": OperatorPlace(d), "Draught": OperatorPlace(e, steps), "Calm": OperatorPlace(d)}
    return Setting(network, {"Reading": (a, b, c), "Door": (b, d)}, places, f, scale=1.0)


def plan() -> DeployedPlan:
    return THREE.plan()


def write_events(directory: Path, rows: int, seed: int, setting: Setting = THREE) -> dict[str, dict[str, Path]]:
    """Files by stream and site."""
    rng = random.Random(seed)
    files: dict[str, dict[str, Path]] = {}
    for stream, sites in setting.sources.items():
        for site in sites:
            columns = {
                "room": [rng.randrange(5) for _ in range(rows)],
                "ts": [rng.randrange(rows) for _ in range(rows)],
            }
            if stream == "Reading":
                columns["value"] = [rng.uniform(0, 100) for _ in range(rows)]  # type: ignore[misc]
            else:
                columns["n"] = list(range(rows))
            file = directory / f"{stream}-{site}.parquet"
            pq.write_table(pa.table(columns), file)
            files.setdefault(stream, {})[site] = file
    return files


def expected(files: dict[str, dict[str, Path]]) -> dict[str, list[str]]:
    """What the embedded engine finds in all of them together."""
    tables = {stream: pa.concat_tables([pq.read_table(f) for f in of.values()]) for stream, of in files.items()}
    found: dict[str, list[str]] = {"Draught": [], "Calm": []}
    for output in Engine(QUERY).run(tables):
        for name, table in output.complex_events.items():
            found[name] += map(str, table.to_pylist())
    return {name: sorted(rows) for name, rows in found.items()}


def results(out: Path) -> dict[str, list[str]]:
    return {name: sorted(map(str, pq.read_table(out / name).to_pylist())) for name in ("Draught", "Calm")}


@contextmanager
def local_sites(
    directory: Path,
    files: dict[str, dict[str, Path]],
    points: dict[str, tuple[str, int]] | None = None,
    setting: Setting = THREE,
) -> Iterator[LocalSites]:
    """Sites that run the plan; those in `points` kill themselves there, once. All read their files in small pieces."""
    arguments = {
        site: SiteArguments(
            {stream: str(of[site]) for stream, of in files.items() if site in of},
            str(directory / "out") if site == setting.root else None,
        )
        for site in setting.network.names
    }
    sites = LocalSites(setting.network, arguments, directory / "up", scale=setting.scale)
    script = str(Path(__file__).with_name("killed_site.py"))
    for name, site in sites.sites.items():
        point, number = (points or {}).get(name, ("never", 0))
        site.command = [sys.executable, script, point, str(number), *site.command[3:]]
    try:
        sites.start()
        yield sites
    finally:
        sites.close()


def run_to_end(sites: LocalSites, between: Callable[[], None] = lambda: None, setting: Setting = THREE) -> int:
    """Deploys, starts again whoever has ended, and returns how often that was, when all is over."""
    control, restarts = Control(sites.control, sites.addresses), 0
    deployed = False
    for _ in range(10_000):
        if ended := sites.ended():
            restarts += len(ended)
            sites.start(ended)
        if not deployed:
            try:
                control.deploy(setting.plan(), setting.network.names)
                deployed = True
            except SituError:
                continue
        between()
        reports = control.of_all(control.status, list(setting.network.names))
        if all(isinstance(report, dict) and is_over(report) for report in reports.values()):
            return restarts
    raise AssertionError({name: str(report) for name, report in reports.items()})


def is_over(report: dict[str, object]) -> bool:
    versions = report["versions"]
    assert isinstance(versions, dict)
    return bool(versions) and all(version["over"] for version in versions.values())


def until(holds: Callable[[], bool], looks: int = 5_000) -> None:
    """Looks until something holds."""
    assert any(holds() for _ in range(looks))
