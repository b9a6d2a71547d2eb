"""Real processes: brokers on a line, of which each reaches its neighbours alone, move operators by themselves, and one
of them is killed."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.sites.real_sites import is_over, until
from situ.core.errors import InputError
from situ.network.network import Brokers, Link, Network, Site
from situ.runtime.embedded import Engine
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.deployment import concerned_sites
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments
from situ.runtime.sites.process.transitioning import reports_of
from situ.runtime.sites.ways import with_ways
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.producing import Producer
from situ.service.certificates import Credentials, make_producer_keys, producer_identity

pytestmark = [pytest.mark.jit_only, pytest.mark.storm]

QUERY = """
stream Heat(room int, v int, ts int) time ts in ms order v
stream Door(room int, ts int) time ts in ms
define Hot(room) detect Heat(v > 50) as a then Heat(v > a.v) as b within 200 ms assign room = a.room group by room
subscribe Alarm detect Hot as h then Door as d within 500 ms assign room = h.room group by room
"""
NAMES = ("b1", "b2", "b3", "b4")
NETWORK = Network(
    tuple(map(Site, NAMES)),
    tuple(Link(a, b, 1.0) for a, b in pairwise(NAMES)),
    brokers=Brokers(3, period_s=0.3, lead_s=1.0),
)
SOURCES = {"Heat": "b4", "Door": "b2"}
#: Rows of a stream at once, and milliseconds of event time between them.
ROWS, BETWEEN_MS = {"Heat": 40, "Door": 4}, {"Heat": 10, "Door": 100}


def rows_of(stream: str, rng: random.Random, since_ms: int) -> pa.Table:
    count = ROWS[stream]
    columns = {
        "room": [rng.randrange(3) for _ in range(count)],
        "ts": [since_ms + n * BETWEEN_MS[stream] for n in range(count)],
    }
    if stream == "Heat":
        columns["v"] = [rng.randrange(60) for _ in range(count)]
    return pa.table(columns)


def running_version(control: Control) -> int:
    """The newest version that a site has begun."""
    return max((report["version"] for report in reports_of(control).values()), default=0)


@pytest.mark.parametrize("killed", NAMES)
def test_brokers_decide_and_lose_nothing_when_one_is_killed(tmp_path: Path, killed: str) -> None:
    places = dict.fromkeys(("Hot", "Alarm"), OperatorPlace("b1"))
    sources = {stream: (site,) for stream, site in SOURCES.items()}
    plan = with_ways(DeployedPlan(1, QUERY, sources, places, ("b1",)), NETWORK)
    arguments = {
        name: SiteArguments(
            {stream: "flight://sensor" for stream, site in SOURCES.items() if site == name},
            str(tmp_path / "out") if name == "b1" else None,
        )
        for name in NAMES
    }
    joined = {pair for link in NETWORK.links for pair in ((link.a, link.b), (link.b, link.a))}
    sites = LocalSites(NETWORK, arguments, tmp_path / "up", joined=joined)
    keys = make_producer_keys(["sensor"], tmp_path / "up" / "keys")["sensor"]
    sensor = Identities.of("sensor", NAMES, Credentials.read(keys, producer_identity("sensor")))
    rng, since_ms = random.Random(killed), 0
    sent: dict[str, list[pa.Table]] = {stream: [] for stream in SOURCES}
    try:
        sites.start()
        control = Control(sites.control, sites.addresses)
        control.deploy(plan, concerned_sites(plan))
        producers: dict[str, Producer] = {}

        def is_connected(stream: str) -> bool:
            site = SOURCES[stream]
            try:
                producers[stream] = Producer(sensor, site, sites.addresses[site], stream)
            except InputError:
                return False
            return True

        def events_flow() -> bool:
            """Sends some rows to all sources that are there; whether brokers have changed the plan."""
            nonlocal since_ms
            for stream, producer in producers.items():
                sent[stream].append(rows_of(stream, rng, since_ms))
                producer.send(sent[stream][-1])
            since_ms += ROWS["Heat"] * BETWEEN_MS["Heat"]
            return running_version(control) > 1

        for stream in SOURCES:
            until(lambda s=stream: is_connected(s))  # type: ignore[misc]
        until(events_flow)
        away = [stream for stream in producers if SOURCES[stream] == killed]
        for stream in away:
            producers[stream].flush()
            producers.pop(stream).close()
        sites.kill(killed)
        for _ in range(5):
            events_flow()
        sites.start([killed])
        for stream in away:
            until(lambda s=stream: is_connected(s))  # type: ignore[misc]  # it listens before it opens its sources
        for _ in range(5):
            events_flow()
        for producer in producers.values():
            producer.end()
            producer.flush()
            producer.close()
        until(lambda: all(map(is_over, reports_of(control).values())))
    finally:
        sites.close()
    tables = {stream: pa.concat_tables(of) for stream, of in sent.items()}
    expected = [row for output in Engine(QUERY).run(tables) for row in output.complex_events["Alarm"].to_pylist()]
    found = pq.read_table(tmp_path / "out" / "Alarm").to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert expected
