"""A site whose operators run on Spark, between embedded ones: what is found is what the embedded engine finds."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.sites.real_sites import (
    NETWORK,
    THREE,
    Setting,
    expected,
    is_over,
    results,
    run_to_end,
    write_events,
)
from runtime.sites.spark_processes import TASKS, processes_below, wait_for
from situ.core.errors import InputError, StateError
from situ.io.permissions import PRIVATE
from situ.network.network import Network
from situ.runtime.sites.actions import BatchMade
from situ.runtime.sites.deployed_plan import DeployedPlan, OperatorPlace, plan_to_json
from situ.runtime.sites.journal import LogPosition
from situ.runtime.sites.messages import Done, Go, Prepare, Prepared
from situ.runtime.sites.process.local_sites import LocalSites, SiteArguments, free_ports
from situ.runtime.sites.process.open_sources import open_site_sink, open_site_source
from situ.runtime.sites.process.site_process import SOURCE, SiteProcess, SiteSetup
from situ.runtime.sites.process.spark_queries import SparkEngine
from situ.runtime.sites.sqlite_journal import SqliteJournal
from situ.runtime.sites.wire.endpoint import Endpoint
from situ.runtime.sites.wire.identity import Identities
from situ.runtime.sites.wire.outgoing import SiteAddress
from situ.runtime.sites.wire.reading import LogAddress, LogServer

pytestmark = pytest.mark.jit_only

#: What rises is found at a house, all else in town, on Spark.
PLACES = {"Rise": OperatorPlace("north"), "Draught": OperatorPlace("town"), "Calm": OperatorPlace("town")}
SPARK = replace(
    THREE,
    network=Network((*NETWORK.sites[:2], replace(NETWORK.sites[2], engine="spark")), NETWORK.links),
    places=PLACES,
)
FINISHED_S = 120.0


@contextmanager
def sites_in_this_process(
    directory: Path, files: dict[str, dict[str, Path]], setting: Setting, master: str
) -> Iterator[dict[str, SiteProcess]]:
    """All sites of a setting in threads of this process, without certificates."""
    names = setting.network.names
    addresses = {n: SiteAddress("127.0.0.1", p) for n, p in zip(names, free_ports(len(names)), strict=True)}
    processes, threads, journals = {}, [], []
    for site in setting.network.sites:
        home = directory / site.name
        own = {stream: of[site.name] for stream, of in files.items() if site.name in of}
        setup = SiteSetup(
            site.name,
            addresses[site.name],
            addresses,
            Identities.of(site.name, names, None),
            dict.fromkeys(own, (SOURCE,)),
            lambda stream, name, plan, own=own, home=home: open_site_source(str(own[stream]), stream, plan, home),  # type: ignore[misc]
            lambda plan, home=home: open_site_sink(str(directory / "out"), "parquet", plan.sites, home, PRIVATE),  # type: ignore[misc]
            spark=SparkEngine(home / "spark", master) if site.engine == "spark" else None,
            say=lambda text: None,
        )
        journals.append(SqliteJournal(home / "journal"))
        processes[site.name] = SiteProcess(setup, journals[-1])
        threads.append(threading.Thread(target=processes[site.name].run, daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield processes
    finally:
        for process in processes.values():
            process.stop()
        for thread in threads:
            thread.join()
        for journal in journals:
            journal.close()


def deploy(processes: dict[str, SiteProcess], plan: DeployedPlan) -> None:
    for process in processes.values():
        prepared = process.ask(Prepare(plan_to_json(plan)))
        assert isinstance(prepared, Prepared)
        assert prepared.ready, prepared.reason
    for process in processes.values():
        assert process.ask(Go(plan.version, plan.digest)) == Done(True)


@pytest.mark.storm
def test_a_spark_site_between_embedded_ones(spark: Any, tmp_path: Path) -> None:
    files = write_events(tmp_path, rows=400, seed=5)
    with sites_in_this_process(tmp_path, files, SPARK, spark.conf.get("spark.master")) as processes:
        deploy(processes, SPARK.plan())
        wait_for(lambda: all(is_over(process.report()) for process in processes.values()), FINISHED_S)
        report = processes["town"].report()
        logs = LogAddress("north", str(processes["town"].address))
        with pytest.raises(Exception, match="only a query of this site may read its logs"):
            logs.offsets(1, {})
    assert results(tmp_path / "out") == expected(files)
    assert report["versions"]["1"]["batches"]["taken"] == report["process"]["spark"]["batches"]["1"] > 0
    assert report["versions"]["1"]["batches"]["behind_events"] == 0


def test_a_checkpoint_of_another_site(spark: Any, tmp_path: Path) -> None:
    from situ.runtime.spark.site_query import SiteQuery

    def query(site: str, plan: DeployedPlan) -> SiteQuery:
        logs = LogAddress(site, "127.0.0.1:1")
        return SiteQuery(spark, plan_to_json(plan), logs, tmp_path / "version-1", lambda batch: None, 100)

    plan = SPARK.plan()
    query("town", plan)._opened(1, plan.digest)
    with pytest.raises(StateError, match="the checkpoint of version 1 at site 'town', and not of version 1 at 'hall'"):
        query("hall", replace(plan, operators={n: OperatorPlace("hall") for n in plan.operators})).start()


@pytest.mark.storm
def test_offsets_ahead_of_a_log_that_was_set_back(spark: Any, tmp_path: Path) -> None:
    """The checkpoint has read more than the journal has now: the query ends with the reason."""
    from runtime.sites.test_batches import PLAN, running_site
    from situ.runtime.spark.site_query import SiteQuery

    _, journal, _, readable = running_site()
    offsets = {1: readable.offsets}
    anybody = Identities.of("here", ["here"], None)
    endpoint = Endpoint("127.0.0.1", 0, anybody, refuse, refuse, logs=LogServer(journal, lambda: offsets))
    given: list[BatchMade] = []

    def query() -> SiteQuery:
        logs = LogAddress("here", f"127.0.0.1:{endpoint.port}")
        return SiteQuery(spark, plan_to_json(PLAN), logs, tmp_path / "version-1", given.append, 100)

    first = query()
    first.start()
    wait_for(lambda: first.failure() is not None or bool(first.batches), FINISHED_S)
    first.stop()
    assert [batch.until for batch in given] == [readable.offsets]
    offsets[1] = {log: LogPosition() for log in readable.offsets}
    again = query()
    again.start()
    wait_for(lambda: again.failure() is not None, FINISHED_S)
    endpoint.close()
    assert isinstance(again.failure(), StateError)
    assert "events/A/here/1 was read up to 4, and ends with 0" in str(again.failure())
    assert "Set it back as a whole, its checkpoint included" in str(again.failure())


def refuse(*arguments: object) -> Any:
    raise InputError("nobody asks this")


@contextmanager
def sites_with_spark(directory: Path, files: dict[str, dict[str, Path]]) -> Iterator[LocalSites]:
    """The same as processes, with certificates."""
    arguments = {
        site: SiteArguments(
            {stream: str(of[site]) for stream, of in files.items() if site in of},
            str(directory / "out") if site == "town" else None,
        )
        for site in SPARK.network.names
    }
    sites = LocalSites(SPARK.network, arguments, directory / "up", scale=0.2)
    try:
        sites.start()
        yield sites
    finally:
        sites.close()


@pytest.mark.kills
@pytest.mark.parametrize("victim", ["driver", "worker", "edge"])
def test_kills_around_a_spark_site(tmp_path: Path, victim: str) -> None:
    """Once Spark has taken a batch, somebody is killed: the driver with its Java, a Python worker, an edge site."""
    files = write_events(tmp_path, rows=3_000, seed=6)
    done: list[str] = []
    with sites_with_spark(tmp_path, files) as sites:

        def kill_once() -> None:
            if done:
                return
            if victim == "edge":
                sites.kill("north")
                done.append(victim)
                return
            town = sites.sites["town"].process
            assert town is not None
            begun = (sites.sites["town"].directory / "spark" / "version-1" / "spark" / "offsets" / "0").exists()
            if begun and victim == "driver":
                sites.kill("town")
                done.append(victim)
            elif begun and (workers := processes_below([town.pid], TASKS)):
                os.kill(workers[-1], signal.SIGKILL)
                done.append(victim)

        run_to_end(sites, kill_once, SPARK)
    assert done == [victim]
    assert results(tmp_path / "out") == expected(files)
