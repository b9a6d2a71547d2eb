"""Real processes: one site moves operators while events flow, and is killed in the middle of it, again and again."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.sites.real_sites import NETWORK, is_over, until
from situ.core.errors import SituError
from situ.network.network import Coordination
from situ.runtime.sites.adapting.tasks import task_of
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.messages import Transit
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments
from situ.runtime.sites.transition import moves_between, placed_at
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.producing import Producer
from situ.service.certificates import Credentials, make_producer_keys, producer_identity

pytestmark = [pytest.mark.jit_only, pytest.mark.storm]

QUERY = """
stream Ping(n int, ts int) time ts in ms
define Pair(n) detect Ping as p then Ping(n > p.n) as q within 50 ms assign n = q.n
subscribe Next detect Pair as p then Pair(n > p.n) as q within 50 ms assign n = q.n
"""
TRANSITIONS, AT_ONCE = 12, 100


def test_the_coordinator_is_killed_and_goes_on(tmp_path: Path) -> None:
    rng = random.Random(7)
    places = {"Pair": OperatorPlace("north"), "Next": OperatorPlace("town")}
    plan = DeployedPlan(1, QUERY, {"Ping": ("north",)}, places, ("town",))
    network = replace(NETWORK, coordinator=Coordination("town"))
    arguments = {
        "north": SiteArguments({"Ping": "flight://sensor"}),
        "south": SiteArguments(),
        "town": SiteArguments(out=str(tmp_path / "out")),
    }
    sites = LocalSites(network, arguments, tmp_path / "up", proxied=False)
    keys = make_producer_keys(["sensor"], tmp_path / "up" / "keys")["sensor"]
    sensor = Identities.of("sensor", network.names, Credentials.read(keys, producer_identity("sensor")))
    asked = kills = rows = 0
    try:
        sites.start()
        control = Control(sites.control, sites.addresses)
        control.deploy(plan, network.names)
        producer = Producer(sensor, "north", sites.addresses["north"], "Ping")
        while asked < TRANSITIONS or (said := coordinator(control)) is None or said["transition"] is not None:
            producer.send(pa.table({"n": range(rows, rows + AT_ONCE), "ts": range(rows, rows + AT_ONCE)}))
            rows += AT_ONCE
            said = coordinator(control)
            if said is None or said["transition"] is not None or asked == TRANSITIONS:
                continue
            running = control.running_plan("town")
            assert running is not None
            target = placed_at(running, {name: rng.choice(network.names) for name in places})
            moves = moves_between(target, running, rng.choice(["sms", "mfgs", "naive"]))  # type: ignore[arg-type]
            if not moves:
                continue
            task = task_of(moves, rng.choice(["sequential", "concurrent"]), "a test", 1_000)  # type: ignore[arg-type]
            try:
                control.tell_coordinator(Transit(json.dumps(task.to_json())))
            except SituError:  # a site was away, or it is too early for another one; nothing has changed
                continue
            asked += 1
            if rng.random() < 0.6:
                kills += 1
                name = rng.choice(["town", "town", "north", "south"])
                sites.kill(name)
                sites.start([name])
        assert said is not None
        assert said["transitions"] + said["given_up"] == TRANSITIONS, said
        producer.end()
        producer.flush()
        producer.close()
        until(lambda: is_over(control.status("town")))
    finally:
        sites.close()
    print(f"{said['transitions']} transitions of {TRANSITIONS}, {kills} kills, {rows:,} events")
    assert said["transitions"] >= TRANSITIONS // 2
    found = sorted(pq.read_table(tmp_path / "out" / "Next")["n"].to_pylist())
    assert found == list(range(2, rows))


def coordinator(control: Control) -> dict[str, Any] | None:
    """What the site says that coordinates; nothing, while it is away."""
    try:
        said: dict[str, Any] | None = control.status("town")["coordinator"]
    except SituError:
        return None
    return said
