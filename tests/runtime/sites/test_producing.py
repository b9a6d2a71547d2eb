"""Producers push rows to a site: each row is taken once, whoever is killed; strangers and wrong rows are refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.sites.counting_sink import CountingSink
from situ.core.errors import InputError
from situ.io.permissions import PRIVATE
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, plan_to_json
from situ.runtime.sites.journal import MemoryJournal
from situ.runtime.sites.messages import Go, Prepare
from situ.runtime.sites.process.open_sources import open_site_sink, open_site_source, source_names
from situ.runtime.sites.process.site_process import SiteProcess, SiteSetup
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import SiteAddress
from situ.runtime.sites.wire.producing import Producer
from situ.service.certificates import (
    Credentials,
    identity_of,
    make_keys,
    make_producer_keys,
    producer_identity,
)

pytestmark = pytest.mark.jit_only

QUERY = """
stream Ping(n int, ts int) time ts in ms
subscribe Pong
  detect  Ping(n >= 0) as p
  assign  n = p.n
"""
ADDRESS = "flight://left,right"
PLAN = DeployedPlan(1, QUERY, {"Ping": ("hub",)}, {"Pong": OperatorPlace("hub")}, ("hub",), bounded=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("keys")
    make_keys(["hub"], directory)
    make_producer_keys(["left", "right", "other"], directory)
    return directory


def producer(
    keys: Path, name: str, address: SiteAddress, *, as_name: str | None = None, stream: str = "Ping"
) -> Producer:
    credentials = Credentials.read(keys / "producers" / name, producer_identity(name))
    return Producer(Identities.of(as_name or name, ["hub"], credentials), "hub", address, stream)


def pings(first: int, count: int) -> pa.Table:
    return pa.table({"n": range(first, first + count), "ts": range(first, first + count)})


@contextmanager
def hub(keys: Path, directory: Path, journal: MemoryJournal, sink: CountingSink | None = None) -> Iterator[SiteProcess]:
    """A site in this process, that runs the plan."""
    counting = sink or CountingSink()
    setup = SiteSetup(
        "hub",
        SiteAddress("127.0.0.1", 0),
        {},
        Identities.of("hub", ["hub"], Credentials.read(keys / "sites" / "hub", identity_of("hub"))),
        {"Ping": source_names(ADDRESS)},
        lambda stream, name, plan: open_site_source(ADDRESS, stream, plan, directory, producer=name),
        lambda plan: counting.over(open_site_sink(str(directory / "out"), "parquet", plan.sites, directory, PRIVATE)),
    )
    process = SiteProcess(setup, journal)
    thread = threading.Thread(target=process.run)
    thread.start()
    try:
        if not process.report()["versions"]:
            process.ask(Prepare(plan_to_json(PLAN)))
            process.ask(Go(1, PLAN.digest))
        yield process
    finally:
        process.stop()
        thread.join()


def found(directory: Path) -> list[int]:
    return sorted(pq.read_table(directory / "out" / "Pong")["n"].to_pylist())


def test_rows_of_two_producers_are_taken_once_each(keys: Path, tmp_path: Path) -> None:
    journal = MemoryJournal()
    with hub(keys, tmp_path, journal) as site:
        left = producer(keys, "left", site.address)
        assert left.next == 0
        left.send(pings(0, 1000))
        left.flush()
        assert left.taken == left.next == 1000
        left.close()
    sink = CountingSink()
    with hub(keys, tmp_path, journal, sink) as site:  # another life of the site, and of the producer
        left, right = producer(keys, "left", site.address), producer(keys, "right", site.address)
        assert (left.next, right.next) == (1000, 0)
        right.send(pings(5000, 10))
        left.send(pings(1000, 200_000))
        for each in (left, right):
            each.end()
            each.flush()
            each.close()
        again = producer(keys, "left", site.address)
        assert again.next == 201_001  # the end has a number, too
        again.close()
        sink.wait_for(201_010)
        assert site.report()["rows"]["admitted"] == 200_010
    assert found(tmp_path) == sorted([*range(201_000), *range(5000, 5010)])


def test_strangers_and_wrong_rows_are_refused(keys: Path, tmp_path: Path) -> None:
    with hub(keys, tmp_path, MemoryJournal()) as site:
        with pytest.raises(InputError, match="hub takes no Ping of producer 'other'"):
            producer(keys, "other", site.address)
        with pytest.raises(InputError, match="the certificate is not that of producer 'left'"):
            producer(keys, "other", site.address, as_name="left")
        with pytest.raises(InputError, match="hub takes no Pong of producer 'left'"):
            producer(keys, "left", site.address, stream="Pong")
        as_site = Credentials.read(keys / "sites" / "hub", identity_of("hub"))
        with pytest.raises(InputError, match="the certificate is not that of producer 'left'"):
            Producer(Identities.of("left", ["hub"], as_site), "hub", site.address, "Ping")
        left = producer(keys, "left", site.address)
        left.send(pa.table({"n": ["x", "1"], "ts": [1, 2]}))
        with pytest.raises(InputError, match=r"hub takes no such rows: .*'n'"):
            left.flush()
        assert site.report()["rows"]["admitted"] == 0
