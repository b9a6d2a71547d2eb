"""A site on a Spark cluster, a master and two workers as processes, between four embedded sites: whoever is killed,
before other rules are deployed and after, they find what the embedded engine finds."""

from __future__ import annotations

import os
import random
import signal
import sys
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.sites.real_sites import QUERY, is_over
from runtime.sites.spark_processes import EXECUTOR, TASKS, processes_below, wait_for
from servers.sparks import PATIENCE, Cluster, running_cluster
from situ.core.errors import SituError
from situ.network.network import Link, Network, Site
from situ.runtime.embedded import Engine
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.producing import Producer
from situ.service.certificates import Credentials, make_producer_keys, producer_identity

pytestmark = [pytest.mark.jit_only, pytest.mark.kills, pytest.mark.spark]

EDGES = ("north", "east", "south", "west")
NETWORK = Network(
    (*map(Site, EDGES), Site("town", engine="spark")), tuple(Link(edge, "town", latency_ms=1) for edge in EDGES)
)
SOURCES = {"Reading": ("north", "east", "west"), "Door": ("south", "west")}
#: What rises is found at an edge, all else on Spark.
PLACES = {"Rise": OperatorPlace("north"), "Draught": OperatorPlace("town"), "Calm": OperatorPlace("town")}
PLAN = DeployedPlan(1, QUERY, SOURCES, PLACES, ("town",), bounded=True)
#: Another rule, and another place for what rises.
CHANGED = replace(
    PLAN,
    version=2,
    query=QUERY.replace("not Reading(value > 90) within 50 ms", "not Reading(value > 80) within 30 ms"),
    operators=PLACES | {"Rise": OperatorPlace("east")},
)
VICTIMS = ["driver"] * 2 + ["executor"] * 3 + ["worker"] * 2 + ["edge"] * 3
ROUND_MS, ROUND_ROWS, PATIENCE_S = 500, 200, 300.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@dataclass
class Town:
    """Five sites at work, a producer for each source, and what was pushed so far."""

    sites: LocalSites
    control: Control
    cluster: Cluster
    rng: random.Random
    producers: dict[tuple[str, str], Producer]
    pushed: dict[str, list[pa.Table]]
    rounds: int = 0

    def push_round(self) -> None:
        """Hand the next round of events to all sources."""
        since, until = self.rounds * ROUND_MS, (self.rounds + 1) * ROUND_MS
        for (stream, _), producer in self.producers.items():
            numbers = range(producer.next, producer.next + ROUND_ROWS)
            columns = {
                "room": [self.rng.randrange(5) for _ in numbers],
                "ts": sorted(self.rng.randrange(since, until) for _ in numbers),
            }
            values = {"value": [self.rng.uniform(0, 100) for _ in numbers]} if stream == "Reading" else {"n": numbers}
            rows = pa.table(columns | values)
            producer.send(rows)
            self.pushed[stream].append(rows)
        self.rounds += 1

    def flush(self) -> None:
        for producer in self.producers.values():
            producer.flush()

    def kill(self, victim: str) -> None:
        """End a process with SIGKILL: the driver, an edge site, an executor or a Python worker."""
        if victim in ("driver", "edge"):
            self.sites.kill("town" if victim == "driver" else self.rng.choice(EDGES))
            return
        words, found = EXECUTOR if victim == "executor" else TASKS, list[int]()

        def is_there() -> bool:
            self.start_again()
            found[:] = processes_below(self.cluster.workers, words)
            return bool(found)

        wait_for(is_there, PATIENCE_S)
        os.kill(self.rng.choice(found), signal.SIGKILL)

    def start_again(self) -> None:
        if ended := self.sites.ended():
            self.sites.start(ended)

    def batches(self, version: int) -> int:
        """How many batches the site has taken of Spark in a version; -1 if it does not answer, or does not run it."""
        self.start_again()
        try:
            report = self.control.status("town")
        except SituError:
            return -1
        of_version = report["versions"].get(str(version))
        return -1 if of_version is None else int(of_version["batches"]["taken"])

    def is_over(self) -> bool:
        self.start_again()
        reports = self.control.of_all(self.control.status, list(NETWORK.names))
        return all(isinstance(report, dict) and is_over(report) for report in reports.values())


def spark_arguments(cluster: Cluster, python: str) -> tuple[str, ...]:
    settings = {
        "spark.pyspark.python": python,
        "spark.sql.shuffle.partitions": "2",
        "spark.python.authenticate.socketTimeout": PATIENCE,
    }
    conf = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    return ("--master", cluster.master, *conf)


def site_arguments(directory: Path, cluster: Cluster, python: str = sys.executable) -> dict[str, SiteArguments]:
    arguments = {
        edge: SiteArguments({stream: "flight://sensor" for stream, sites in SOURCES.items() if edge in sites})
        for edge in EDGES
    }
    return arguments | {"town": SiteArguments({}, str(directory / "out"), spark_arguments(cluster, python))}


def test_ten_kills_around_a_site_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    rng = random.Random(7)
    victims = rng.sample(VICTIMS, len(VICTIMS))
    with ExitStack() as stack:
        sites = LocalSites(NETWORK, site_arguments(tmp_path, cluster), tmp_path / "up", proxied=False)
        stack.callback(sites.close)
        keys = make_producer_keys(["sensor"], tmp_path / "up" / "keys")["sensor"]
        sensor = Identities.of("sensor", NETWORK.names, Credentials.read(keys, producer_identity("sensor")))
        sites.start()
        control = Control(sites.control, sites.addresses)
        control.deploy(PLAN, NETWORK.names)
        producers = {
            (stream, site): Producer(sensor, site, sites.addresses[site], stream)
            for stream, of_stream in SOURCES.items()
            for site in of_stream
        }
        town = Town(sites, control, cluster, rng, producers, {stream: [] for stream in SOURCES})
        killed_in(town, 1, victims[:5])
        changed_ms = town.rounds * ROUND_MS
        wait_for(lambda: not sites.ended(), PATIENCE_S)
        control.deploy(CHANGED.starting_at(changed_ms * 1000), NETWORK.names)
        killed_in(town, 2, victims[5:])
        for producer in producers.values():
            producer.end()
            producer.flush()
            producer.close()
        wait_for(town.is_over, PATIENCE_S)
    assert results(tmp_path / "out") == expected(town.pushed, changed_ms)


def killed_in(town: Town, version: int, victims: list[str]) -> None:
    """Rounds of events in a version, in each of which somebody is killed once Spark has begun, and Spark goes on."""
    town.push_round()
    town.flush()
    wait_for(lambda: town.batches(version) > 0, PATIENCE_S)
    for victim in victims:
        taken = town.batches(version)
        town.push_round()
        town.kill(victim)
        town.start_again()
        town.flush()
        wait_for(lambda taken=taken: town.batches(version) > taken, PATIENCE_S)  # type: ignore[misc]


def expected(pushed: dict[str, list[pa.Table]], changed_ms: int) -> dict[str, list[str]]:
    """What the embedded engine finds in the events before a change, and in those after it."""
    found: dict[str, list[str]] = {"Draught": [], "Calm": []}
    for query, is_after in ((PLAN.query, False), (CHANGED.query, True)):
        whole = {stream: pa.concat_tables(tables) for stream, tables in pushed.items()}
        mine = {s: t.filter(pa.compute.greater_equal(t["ts"], changed_ms) if is_after else
                            pa.compute.less(t["ts"], changed_ms)) for s, t in whole.items()}  # fmt: skip
        for output in Engine(query).run(mine):
            for name, table in output.complex_events.items():
                found[name] += map(str, table.to_pylist())
    assert all(found.values())
    return {name: sorted(rows) for name, rows in found.items()}


def results(out: Path) -> dict[str, list[str]]:
    return {name: sorted(map(str, pq.read_table(out / name).to_pylist())) for name in ("Draught", "Calm")}


def test_a_cluster_without_situ(cluster: Cluster, tmp_path: Path) -> None:
    """The site says so and ends; the others go on."""
    venv.create(tmp_path / "bare", symlinks=True)
    bare = str(tmp_path / "bare" / "bin" / "python")
    with ExitStack() as stack:
        sites = LocalSites(NETWORK, site_arguments(tmp_path, cluster, bare), tmp_path / "up", proxied=False)
        stack.callback(sites.close)
        sites.start()
        Control(sites.control, sites.addresses).deploy(PLAN, NETWORK.names)
        wait_for(lambda: bool(sites.ended()), PATIENCE_S)
        assert sites.ended() == ["town"]
        said = sites.sites["town"].last_words
    assert "there is no situ in the Python that Spark's workers run" in said
    assert "Traceback" not in said
