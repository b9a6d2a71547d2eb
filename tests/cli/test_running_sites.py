"""`situ deploy`, `status`, `push` and `stop` with sites that run: here in threads of this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cli.command import situ
from runtime.sites.counting_sink import CountingSink
from situ.cli import site_status
from situ.io.permissions import PRIVATE
from situ.network.load import load_network
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, plan_to_json
from situ.runtime.sites.journal import MemoryJournal
from situ.runtime.sites.messages import Prepare, Prepared
from situ.runtime.sites.process.local_sites import free_ports
from situ.runtime.sites.process.open_sources import open_site_sink, open_site_source, source_names
from situ.runtime.sites.process.site_process import SiteProcess, SiteSetup
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import SiteAddress
from situ.service.certificates import Credentials, identity_of

pytestmark = pytest.mark.jit_only

QUERY = """
stream Ping(n int, ts int) time ts in s
subscribe High
  detect  Ping(n > 5) as p
  assign  n = p.n
"""
CONTROL = ("--network", "net.json", "--keys", "keys/control")


@dataclass
class Running:
    """Sites in threads, and the sink of one of them."""

    threads: list[threading.Thread]
    sink: CountingSink
    processes: dict[str, SiteProcess]


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """Two sites, field with a producer `sensor` and hall with a sink, that have certificates and no plan."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(site_status, "_BETWEEN_S", 0.0)
    ports = dict(zip(("field", "hall"), free_ports(2), strict=True))
    sites = [{"name": name, "address": f"127.0.0.1:{port}"} for name, port in ports.items()]
    links = [{"a": "field", "b": "hall", "latency_ms": 1}]
    coordinator = {"site": "hall", "period_s": 0.1}
    Path("net.json").write_text(json.dumps({"sites": sites, "links": links, "coordinator": coordinator}))
    code, out, _ = situ("keys", "net.json", "--out", "keys", "--producer", "sensor", "--json")
    assert (code, json.loads(out)["producers"]) == (0, {"sensor": "keys/producers/sensor"})
    sink = CountingSink()
    processes = {name: site_process(name, tmp_path, sink) for name in ports}
    threads = [threading.Thread(target=process.run) for process in processes.values()]
    for thread in threads:
        thread.start()
    yield Running(threads, sink, processes)
    for process in processes.values():
        process.stop()
    for thread in threads:
        thread.join()


def site_process(name: str, directory: Path, sink: CountingSink) -> SiteProcess:
    addresses = {site.name: SiteAddress.parse(str(site.address)) for site in load_network("net.json").sites}
    credentials = Credentials.read(Path("keys", "sites", name), identity_of(name))
    pushed = "flight://sensor"
    setup = SiteSetup(
        name,
        addresses[name],
        addresses,
        Identities.of(name, addresses, credentials),
        {"Ping": source_names(pushed)} if name == "field" else {},
        lambda stream, source, plan: open_site_source(pushed, stream, plan, directory / name, producer=source),
        lambda plan: sink.over(
            open_site_sink(str(directory / "out"), "parquet", plan.sites, directory / name, PRIVATE)
        ),
        say=lambda text: None,
        network=load_network("net.json"),
    )
    return SiteProcess(setup, MemoryJournal())


def write_plan(query: str, operator_at: str = "hall") -> None:
    operators = {"High": OperatorPlace(operator_at)}
    Path("plan.json").write_text(plan_to_json(DeployedPlan(1, query, {"Ping": ("field",)}, operators, ("hall",))))


def push(*rows: tuple[int, int], further: tuple[str, ...] = ()) -> tuple[int, str]:
    with Path("pings.csv").open("a") as file:
        file.write("n,ts\n" if file.tell() == 0 else "")
        file.writelines(f"{n},{ts}\n" for n, ts in rows)
    arguments = ("--to", "field", "--as", "sensor", "--network", "net.json", "--keys", "keys/producers/sensor")
    code, out, error = situ("push", "Ping", "pings.csv", *arguments, *further)
    return code, out + error


def found() -> list[int]:
    return sorted(pq.read_table(Path("out", "High"))["n"].to_pylist())


def test_a_live_stream_tells_time_without_events(running: Running) -> None:
    write_plan("stream Ping(n int, ts timestamp) time ts\nsubscribe High detect Ping(n > 5) as p assign n = p.n")
    code, out, error = situ("deploy", "plan.json", *CONTROL, "--live", "Ping")
    assert (code, out.strip()) == (0, "version 1 runs at 2 sites"), error
    Path("pings.csv").write_text(f"n,ts\n7,{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}\n")
    assert push() == (0, "1 rows, 0 before\n")
    running.sink.wait_for(1)  # nothing followed it
    assert "--live Pong: the query has no such stream" in situ("deploy", "plan.json", *CONTROL, "--live", "Pong")[2]


def test_the_planner_learns_from_running_sites(running: Running) -> None:
    """Rates, shares of conditions and latencies as they are, and a plan of them in one command."""
    Path("query.situ").write_text(QUERY)
    Path("rates.json").write_text('{"rates": {"Ping": {"field": 2}}, "selectivity": {"High.p": 0.25}}')
    on_network = ("query.situ", "--network", "net.json")
    code, _, error = situ("plan", *on_network, "--rates", "rates.json", "--root", "hall", "--out", "plan.json")
    assert code == 0, error
    assert situ("deploy", "plan.json", *CONTROL)[0] == 0
    code, _, error = situ("stats", "query.situ", *CONTROL)
    assert (code, "have not counted two events" in error) == (1, True)
    assert push(*((n, n) for n in range(1, 12)))[0] == 0
    running.sink.wait_for(5)  # 11 waits for time

    code, out, error = situ("stats", "query.situ", *CONTROL, "--out", "learned.json", "--json")
    assert code == 0, error
    learned = json.loads(out)
    assert learned["rates"] == {"Ping": {"field": 1.1}}  # 11 events in 10 s
    assert learned["selectivity"]["High.p"] == pytest.approx(6 / 11)
    assert 0 < learned["latency_ms"]["field"]["hall"] < 1000
    assert {name: learned[name] for name in ("rates", "latency_ms")} == {
        name: json.loads(Path("learned.json").read_text())[name] for name in ("rates", "latency_ms")
    }

    code, out, error = situ("plan", *on_network, "--from-running", "--keys", "keys/control", "--json")
    assert code == 0, error
    planned = json.loads(out)
    assert planned["root"] == "hall"
    assert planned["naive_cost"] == pytest.approx(0.6)  # those above 5, over one link
    code, _, error = situ("plan", *on_network, "--from-running", "--rates", "rates.json")
    assert (code, "Give either --rates RATES or --from-running" in error) == (1, True)

    code, out, _ = situ("status", *CONTROL)
    assert code == 0
    assert "predicted and counted" in out
    code, out, _ = situ("status", *CONTROL, "--json")
    field, hall = (json.loads(out)[n]["report"]["versions"]["1"]["predicted"] for n in (0, 1))
    assert (field["operators"] | hall["operators"]) == {"High": 0.5}
    assert field["links"]["field"]["hall"]["events"] == 0.5


def test_a_plan_over_a_site_that_cannot_be_reached_is_refused(running: Running) -> None:
    ways = {"hall": {"field": "attic", "attic": "hall"}, "field": {"hall": "attic", "attic": "field"}}
    plan = DeployedPlan(1, QUERY, {"Ping": ("field",)}, {"High": OperatorPlace("hall")}, ("hall",), ways=ways)
    answer = running.processes["field"].ask(Prepare(plan_to_json(plan), "word"))
    assert isinstance(answer, Prepared)
    assert (answer.ready, "field is to send to attic, and nobody told it where that is" in answer.reason) == (
        False,
        True,
    )


def test_deploy_status_push_and_stop(running: Running) -> None:
    code, told = push((1, 1))
    assert (code, "no plan reads Ping at field yet" in told) == (1, True)
    write_plan(QUERY)
    code, out, error = situ("deploy", "plan.json", *CONTROL)
    assert (code, out.strip()) == (0, "version 1 runs at 2 sites"), error
    assert push((7, 2), (3, 3), (8, 9)) == (0, "4 rows, 0 before\n")
    assert push((9, 10)) == (0, "1 rows, 4 before\n")
    running.sink.wait_for(2)  # 9 waits for time
    assert found() == [7, 8]

    code, out, _ = situ("status", *CONTROL, "--json")
    field, hall = json.loads(out)
    assert (code, field["site"], hall["operators"], field["restarts"]) == (0, "field", ["High"], 0)
    assert field["report"]["rows"]["admitted"] == 5
    assert hall["memory_bytes"] > 0
    assert field["report"]["links"]["hall"]["events"] == 3  # others do not matter there
    assert hall["report"]["links"]["field"]["greetings"] >= 1  # with positions: an acknowledgement of its own may wait
    code, out, _ = situ("status", *CONTROL)
    assert code == 0
    assert "High" in out

    # Another rule from a time on, with its operator at the other site; then one that does not fit.
    write_plan(QUERY.replace("n > 5", "n < 5"), "field")
    code, out, error = situ("deploy", "plan.json", *CONTROL, "--at", "1970-01-01T00:00:20", "--json")
    assert (code, json.loads(out)["version"]) == (0, 2), error
    write_plan(QUERY.replace("n > 5", "m > 5"))
    code, out, error = situ("deploy", "plan.json", *CONTROL, "--at", "1970-01-01T00:01:00")
    assert code == 1
    assert "nothing has changed" in out + error
    assert "no attribute 'm'" in out + error
    code, out, _ = situ("status", *CONTROL, "--json")
    assert [site["report"]["version"] for site in json.loads(out)] == [2, 2]
    assert push((6, 19), (6, 20), (2, 20), (4, 21), (99, 30), further=("--end",))[0] == 0
    running.sink.wait_for(6)
    assert found() == [2, 4, 6, 7, 8, 9]

    code, out, _ = situ("stop", *CONTROL, "--json")
    assert (code, json.loads(out)) == (0, {"field": "stops", "hall": "stops"})
    for thread in running.threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in running.threads)
