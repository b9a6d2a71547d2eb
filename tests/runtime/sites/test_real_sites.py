"""Sites as real processes over real sockets, with TLS: what they find is what one process finds, whoever is killed."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pyarrow.flight as flight
import pytest

from runtime.sites.real_sites import (
    NETWORK,
    PLACES,
    PULLED,
    THREE,
    Setting,
    expected,
    local_sites,
    plan,
    results,
    run_to_end,
    until,
    write_events,
)
from runtime.sites.spark_processes import wait_for
from situ.runtime.sites.deployed_plan import OperatorPlace
from situ.runtime.sites.process.deploying import Control, DeployError
from situ.runtime.sites.process.local_sites import LocalSites
from situ.runtime.sites.process.site_metrics import site_metrics
from situ.runtime.sites.wire.frames import SCHEMA, Frame, to_wire
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import client_of
from situ.service.certificates import Credentials, identity_of

pytestmark = pytest.mark.jit_only


@pytest.mark.slow
def test_a_site_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    files = write_events(tmp_path, rows=600, seed=1)
    with local_sites(tmp_path, files, {"south": ("sent", 6)}) as sites:
        refuse_bad_input(sites, tmp_path)
        assert run_to_end(sites) == 1
        reports = Control(sites.control, sites.addresses)
        metrics = site_metrics(reports.status("south"))
    assert results(tmp_path / "out") == expected(files)
    assert "situ_site_restarts_total 1" in metrics.splitlines()
    door = '{kind="events",type="Door",origin="south",version="1"}'
    assert f"situ_site_log_events_total{door} 600" in metrics.splitlines()


def refuse_bad_input(sites: LocalSites, tmp_path: Path) -> None:
    """Plans that do not fit are refused as a whole, with each site's reason; so are wrong messages, and a second
    process in a site's directory."""
    control = Control(sites.control, sites.addresses)
    wrong = {
        "there is no": replace(plan(), query=plan().query.replace("a.value + 40", "a.valu + 40")),
        "has no source of stream Door": replace(plan(), sources={"Reading": ("north",), "Door": ("north",)}),
        "the plan has no place for operator 'Rise'": replace(
            plan(), operators={name: place for name, place in PLACES.items() if name != "Rise"}
        ),
        "north, which does not know where to put them": replace(plan(), results=("north",)),
        "nobody said where site 'moon' is": replace(plan(), operators=PLACES | {"Calm": OperatorPlace("moon")}),
    }
    for reason, bad in wrong.items():
        with pytest.raises(DeployError, match="was refused, and nothing has changed") as told:
            control.deploy(bad, bad.sites)
        assert reason in str(told.value) or "no attribute" in str(told.value)
    reports = control.of_all(control.status, list(NETWORK.names))
    assert all(report["version"] == 0 and report["prepared"] is None for report in reports.values())
    # A message of no known kind, from a site that may talk.
    keys = sites.directory / "keys" / "sites" / "north"
    north = Identities.of("north", NETWORK.names, Credentials.read(keys, identity_of("north")))
    with client_of(north, "town", sites.addresses["town"]) as client:
        writer, answers = client.do_put(flight.FlightDescriptor.for_command(b'{"from": "north"}'), SCHEMA)
        answers.read()
        writer.write_with_metadata(*to_wire(Frame({"kind": "nonsense"})))
        while answers.read() is not None:
            pass
        with pytest.raises(flight.FlightError, match="no message of kind 'nonsense'"):
            writer.close()
    assert control.status("town")["process"]["refused"] == {"there is no message of kind 'nonsense'": 1}
    second = subprocess.run(sites.sites["town"].command, capture_output=True, text=True, check=False, timeout=120)
    assert second.returncode == 1
    assert "another process works in this directory" in second.stderr


@pytest.mark.storm
@pytest.mark.parametrize("point", ["before", "after", "sent"])
@pytest.mark.parametrize("number", [1, 3, 6])
@pytest.mark.parametrize("setting", [THREE, PULLED], ids=["pushed", "pulled"])
def test_kills_at_named_points(tmp_path: Path, point: str, number: int, setting: Setting) -> None:
    files = write_events(tmp_path, rows=600, seed=number)
    points = {"north": (point, number), "south": (point, number + 1), "town": (point, number)}
    with local_sites(tmp_path, files, points, setting) as sites:
        assert run_to_end(sites, setting=setting) >= 1
    assert results(tmp_path / "out") == expected(files)


@pytest.mark.storm
@pytest.mark.parametrize("name", ["north", "town"])
@pytest.mark.parametrize("setting", [THREE, PULLED], ids=["pushed", "pulled"])
def test_a_full_disk_ends_its_site_alone_until_there_is_room(tmp_path: Path, name: str, setting: Setting) -> None:
    files = write_events(tmp_path, rows=5_000, seed=11)
    with local_sites(tmp_path, files, {name: ("full", 150_000)}, setting) as sites:
        assert run_to_end(sites, setting=setting) == 1
        said = (sites.sites[name].directory / "log.txt").read_text()
    assert "cannot be written" in said or "disk" in said, said
    assert results(tmp_path / "out") == expected(files)


@pytest.mark.storm
def test_a_site_that_cannot_go_on_ends_with_the_reason_and_the_others_go_on(tmp_path: Path) -> None:
    files = write_events(tmp_path, rows=100, seed=12)
    (tmp_path / "out").write_text("no directory")
    with local_sites(tmp_path, files) as sites:
        Control(sites.control, sites.addresses).deploy(plan(), NETWORK.names)
        wait_for(lambda: bool(sites.ended()), 60)
        assert (sites.ended(), sites.exit_code("town")) == (["town"], 1)
        said = sites.sites["town"].last_words
    assert "the output is to be a directory, but this is a file" in said
    assert "Traceback" not in said


@pytest.mark.storm
@pytest.mark.parametrize("setting", [THREE, PULLED], ids=["pushed", "pulled"])
def test_a_directory_that_is_set_back_is_refused_by_those_who_are_ahead(tmp_path: Path, setting: Setting) -> None:
    files = write_events(tmp_path, rows=5_000, seed=9)
    with local_sites(tmp_path, files, {"north": ("read", 5)}, setting) as sites:
        control = Control(sites.control, sites.addresses)
        journal = sites.sites["north"].directory / "journal"
        sites.kill("north")
        shutil.copytree(journal, tmp_path / "old copy")
        sites.start(["north"])
        control.deploy(setting.plan(), NETWORK.names)
        until(lambda: bool(control.status("town")) and "north" in sites.ended())
        read = control.status("town")["versions"]["1"]["read"]  # of Reading, what the rule wants
        assert any(log["committed"] for name, log in read.items() if name.startswith("events/Reading"))
        shutil.rmtree(journal)
        shutil.copytree(tmp_path / "old copy", journal)
        sites.start(["north"])
        control.deploy(setting.plan(), NETWORK.names)  # it knows of none any more
        until(lambda: "set back" in control.status("town")["peers"]["north"])
        assert control.status("south")["peers"]["town"] == "heard"
