"""Real sites for longer: partitions, a site that stays away, kills again and again, a message of a gigabyte."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest

from runtime.sites.real_sites import (
    NETWORK,
    PULLED,
    THREE,
    Setting,
    expected,
    is_over,
    local_sites,
    plan,
    results,
    run_to_end,
    six_hosts,
    until,
    write_events,
)
from situ.core.errors import SituError
from situ.core.time import BEGINNING, END
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace
from situ.runtime.sites.messages import LogName, PullRequest, message_to_parts
from situ.runtime.sites.process.deploying import Control
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments
from situ.runtime.sites.wire.frames import SCHEMA, Frame, to_wire
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import client_of
from situ.runtime.sites.wire.producing import Producer
from situ.service.certificates import Credentials, identity_of, make_producer_keys, producer_identity

pytestmark = [pytest.mark.jit_only, pytest.mark.storm]

PARTITION_S, AWAY_S = 10.0, 60.0


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("setting", [THREE, PULLED], ids=["pushed", "pulled"])
def test_a_partition_of_ten_seconds(tmp_path: Path, reset: bool, setting: Setting) -> None:
    """Nothing passes between town and the houses, which go on with each other, unless all ways lead through town."""
    files = write_events(tmp_path, rows=5_000, seed=21)
    with local_sites(tmp_path, files, setting=setting) as sites:
        control = Control(sites.control, sites.addresses)
        to_town = [link for (a, b), link in sites.links.items() if "town" in (a, b)]
        cut: dict[str, float] = {}
        during: list[dict[str, Any]] = []

        def cut_and_heal() -> None:
            if "at" not in cut:
                cut["at"] = time.monotonic()
                for link in to_town:
                    link.cut(reset=reset)
            elif "healed" not in cut and time.monotonic() > cut["at"] + PARTITION_S:
                during.extend([control.status("town"), control.status("south")])
                cut["healed"] = time.monotonic()
                for link in to_town:
                    link.heal()

        run_to_end(sites, cut_and_heal, setting)
    town, south = during
    assert not is_over(town)
    if setting is THREE:
        assert south["versions"]["1"]["read"]["events/Rise/north/1"]["promise_us"] == "end"  # the houses went on
    assert any("town" in waits for waits in south["versions"]["1"]["waits_for"])
    assert results(tmp_path / "out") == expected(files)


def test_a_site_that_pulls_is_away_for_a_minute(tmp_path: Path) -> None:
    """And what it may pull waits where it occurred."""
    files = write_events(tmp_path, rows=5_000, seed=25)
    with local_sites(tmp_path, files, {"north": ("read", 5)}, PULLED) as sites:
        control = Control(sites.control, sites.addresses)
        control.deploy(PULLED.plan(), NETWORK.names)
        until(lambda: bool(control.status("town")) and "north" in sites.ended())
        back_at = time.monotonic() + AWAY_S
        while time.monotonic() < back_at:
            assert {*sites.ended()} == {"north"}
            time.sleep(1)
        doors = control.status("south")["versions"]["1"]["made"]["events/Door/south/1"]
        assert (doors["events"], doors["bytes"] > 0) == (5_000, True)
        run_to_end(sites, setting=PULLED)
    assert results(tmp_path / "out") == expected(files)


def test_a_site_that_is_away_for_a_minute(tmp_path: Path) -> None:
    files = write_events(tmp_path, rows=5_000, seed=22)
    with local_sites(tmp_path, files, {"north": ("read", 5)}) as sites:
        control = Control(sites.control, sites.addresses)
        control.deploy(plan(), NETWORK.names)
        until(lambda: bool(control.status("town")) and "north" in sites.ended())
        back_at = time.monotonic() + AWAY_S
        while time.monotonic() < back_at:
            assert {*sites.ended()} == {"north"}
            time.sleep(1)
        town, south = control.status("town"), control.status("south")
        assert south["versions"]["1"]["made"]["events/Door/south/1"]["readers"]["town"]["committed"] == 5_000
        assert town["process"]["links"]["north"]["waits"]  # it says for whom it waits
        assert any(waits.startswith("north for the time of Reading") for waits in town["versions"]["1"]["waits_for"])
        run_to_end(sites)
    assert results(tmp_path / "out") == expected(files)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("pulled", [False, True], ids=["pushed", "pulled"])
def test_twenty_kills_of_six_sites(tmp_path: Path, seed: int, pulled: bool) -> None:
    """Each of six hosts of PlanetLab kills itself once at a named point, and all of them are killed at random."""
    rng, setting = random.Random(seed), six_hosts(pulled)
    files = write_events(tmp_path, 20_000, seed, setting)
    points = {site: (rng.choice(["before", "after", "sent"]), rng.randrange(2, 30)) for site in setting.network.names}
    kills, restarts = 0, 0
    with local_sites(tmp_path, files, points, setting) as sites:

        def kill() -> None:
            nonlocal kills
            control = Control(sites.control, sites.addresses)
            try:
                over = is_over(control.status(setting.root))
            except SituError:  # it has killed itself
                return
            running = [name for name in sites.sites if name not in sites.ended()]
            for name in rng.sample(running, min(3, len(running))):
                if not over and kills < 20:
                    kills += 1
                    sites.kill(name)

        restarts = run_to_end(sites, kill, setting)
    print(f"{kills} kills at random moments, {restarts} starts")
    assert kills == 20
    assert restarts >= kills
    assert results(tmp_path / "out") == expected(files)


def test_pulls_that_are_none_are_refused_and_harm_nobody(tmp_path: Path) -> None:
    """Of a log that the plan does not give to who asks, of times that were let go, and without end."""
    files = write_events(tmp_path, rows=600, seed=26)
    doors = LogName("events", "Door", "south", 1, selection=1)
    nobodys = LogName("events", "Reading", "south", 1)
    with local_sites(tmp_path, files, setting=PULLED) as sites:
        control = Control(sites.control, sites.addresses)
        assert run_to_end(sites, setting=PULLED) == 0

        def ask(name: str, request: PullRequest, **changes: object) -> None:
            keys = sites.directory / "keys" / "sites" / name
            identities = Identities.of(name, NETWORK.names, Credentials.read(keys, identity_of(name)))
            header, body = message_to_parts(request)
            with client_of(identities, "south", sites.addresses["south"]) as client:
                hello = json.dumps({"from": name}).encode()
                writer, answers = client.do_put(flight.FlightDescriptor.for_command(hello), SCHEMA)
                answers.read()
                writer.write_with_metadata(*to_wire(Frame(header | changes, body)))
                writer.done_writing()
                while answers.read() is not None:
                    pass
                writer.close()

        for asker, log in (("town", doors), ("north", nobodys), ("town", nobodys)):
            ask(asker, PullRequest(log, 1_000, BEGINNING, (((0, 100),),)))
        ask("north", PullRequest(doors, 1_000, BEGINNING, (((0, 100),),)))  # all was let go at the end
        until(lambda: control.status("south")["refused_messages"] == 4)
        for ranges in ([[[0, END]]], [[[BEGINNING, 0]]], [[[0, None]]]):
            with pytest.raises(flight.FlightError, match="are none"):
                ask("north", PullRequest(doors, 1_001, BEGINNING, ()), ranges=ranges)
        south = control.status("south")
        assert sum(south["process"]["refused"].values()) == 3
        assert is_over(south)
    assert results(tmp_path / "out") == expected(files)


def test_a_message_of_a_gigabyte_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    files = write_events(tmp_path, rows=5_000, seed=23)
    with local_sites(tmp_path, files) as sites:
        control = Control(sites.control, sites.addresses)
        keys = sites.directory / "keys" / "sites" / "north"
        north = Identities.of("north", NETWORK.names, Credentials.read(keys, identity_of("north")))
        body = pa.py_buffer(bytes(1 << 30))
        offsets = pa.py_buffer(pa.array([0, body.size], pa.int64()).buffers()[1])
        column = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, body])
        large = pa.RecordBatch.from_arrays([column], schema=SCHEMA)
        _, header = to_wire(Frame({"kind": "probe", "log": "events/Reading/north/1"}))
        with client_of(north, "town", sites.addresses["town"]) as client:
            writer, answers = client.do_put(flight.FlightDescriptor.for_command(b'{"from": "north"}'), SCHEMA)
            answers.read()
            writer.write_with_metadata(large, header)
            while answers.read() is not None:
                pass
            with pytest.raises(flight.FlightError, match="and at most 67,108,864 are taken"):
                writer.close()
        ((reason, times),) = control.status("town")["process"]["refused"].items()
        assert (times, reason.endswith("bytes, and at most 67,108,864 are taken")) == (1, True)
        assert run_to_end(sites) == 0
    assert results(tmp_path / "out") == expected(files)


def test_rows_that_are_pushed_to_a_site_that_is_killed_are_taken_once(tmp_path: Path) -> None:
    rng = random.Random(24)
    query = "stream Ping(n int, ts int) time ts in ms\nsubscribe Pong detect Ping as p assign n = p.n"
    places = {"Pong": OperatorPlace("town")}
    plan = DeployedPlan(1, query, {"Ping": ("north",)}, places, ("town",), bounded=True)
    arguments = {
        "north": SiteArguments({"Ping": "flight://sensor"}),
        "south": SiteArguments(),
        "town": SiteArguments(out=str(tmp_path / "out")),
    }
    sites = LocalSites(NETWORK, arguments, tmp_path / "up", proxied=False)
    keys = make_producer_keys(["sensor"], tmp_path / "up" / "keys")["sensor"]
    sensor = Identities.of("sensor", NETWORK.names, Credentials.read(keys, producer_identity("sensor")))
    try:
        sites.start()
        control = Control(sites.control, sites.addresses)
        control.deploy(plan, ("north", "town"))
        producer, kills = Producer(sensor, "north", sites.addresses["north"], "Ping"), 0
        for first in range(0, 200_000, 500):
            numbers = range(first, first + 500)
            producer.send(pa.table({"n": numbers, "ts": numbers}))
            if rng.random() < 0.02:
                kills += 1
                sites.kill("north")
                sites.start(["north"])
        producer.end()
        producer.flush()
        producer.close()
        until(lambda: is_over(control.status("town")))
    finally:
        sites.close()
    assert kills >= 5
    assert pq.read_table(tmp_path / "out" / "Pong")["n"].to_pylist() == list(range(200_000))
