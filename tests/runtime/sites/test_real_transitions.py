"""Real processes: operators move from site to site while events flow, again and again, and sites are killed."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.sites.real_sites import NETWORK, is_over, until
from situ.core.errors import SituError
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments
from situ.runtime.sites.process.transitioning import deploy_version, reports_of, unfinished_operators
from situ.runtime.sites.transition import StrategyWish, moves_between, placed_at, versions_of
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.producing import Producer
from situ.service.certificates import Credentials, make_producer_keys, producer_identity

pytestmark = [pytest.mark.jit_only, pytest.mark.storm]

QUERY = """
stream Ping(n int, ts int) time ts in ms
define Pair(n) detect Ping as p then Ping(n > p.n) as q within 50 ms assign n = q.n
subscribe Next detect Pair as p then Pair(n > p.n) as q within 50 ms assign n = q.n
"""
TRANSITIONS, KILLS, AT_ONCE = 100, 10, 250
STRATEGIES: tuple[StrategyWish, ...] = ("sms", "mfgs", "naive")


def test_a_hundred_transitions_with_ten_kills(tmp_path: Path) -> None:
    rng = random.Random(31)
    places = {"Pair": OperatorPlace("north"), "Next": OperatorPlace("town")}
    running = DeployedPlan(1, QUERY, {"Ping": ("north",)}, places, ("town",))
    arguments = {
        "north": SiteArguments({"Ping": "flight://sensor"}),
        "south": SiteArguments(),
        "town": SiteArguments(out=str(tmp_path / "out")),
    }
    sites = LocalSites(NETWORK, arguments, tmp_path / "up", proxied=False)
    keys = make_producer_keys(["sensor"], tmp_path / "up" / "keys")["sensor"]
    sensor = Identities.of("sensor", NETWORK.names, Credentials.read(keys, producer_identity("sensor")))
    transitions = kills = rows = 0
    try:
        sites.start()
        control = Control(sites.control, sites.addresses)
        control.deploy(running, NETWORK.names)
        producer = Producer(sensor, "north", sites.addresses["north"], "Ping")
        while transitions < TRANSITIONS or unfinished_operators(reports_of(control), running):
            numbers = range(rows, rows + AT_ONCE)
            producer.send(pa.table({"n": numbers, "ts": numbers}))
            rows += AT_ONCE
            if kills < KILLS and rng.random() < KILLS / TRANSITIONS / 3:
                kills += 1
                name = rng.choice(NETWORK.names)
                sites.kill(name)
                sites.start([name])
            if transitions < TRANSITIONS and not unfinished_operators(reports_of(control), running):
                target = placed_at(running, {name: rng.choice(NETWORK.names) for name in places})
                moves = moves_between(target, running, rng.choice(STRATEGIES))
                try:
                    version = versions_of(target, running, moves, "concurrent")[0]
                    running = deploy_version(control, None, version, running, 100_000)
                    transitions += 1
                except SituError:  # a site was away; nothing has changed
                    continue
        producer.end()
        producer.flush()
        producer.close()
        until(lambda: is_over(control.status("town")))
    finally:
        sites.close()
    print(f"{transitions} transitions, {kills} kills, {rows:,} events")
    assert kills >= KILLS // 2
    found = sorted(pq.read_table(tmp_path / "out" / "Next")["n"].to_pylist())
    assert found == list(range(2, rows))
