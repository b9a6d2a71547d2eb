"""`situ site`: one site of a network, as a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from functools import partial
from typing import NoReturn

from situ.cli.engines import settings_of
from situ.cli.query_file import import_functions
from situ.cli.site_options import SiteOptions
from situ.core.errors import InputError, SituError
from situ.core.time import parse_duration
from situ.io.addresses import shown_address
from situ.io.permissions import GROUP_READABLE, PRIVATE
from situ.io.whole_file import write_whole
from situ.network.load import load_network
from situ.network.network import SPARK, TRIGGER_MS, Network
from situ.runtime.sites.actors import require_address
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.process.open_sources import open_site_sink, open_site_source, source_names
from situ.runtime.sites.process.site_process import ADDRESS_FILE, SiteProcess, SiteSetup
from situ.runtime.sites.process.spark_queries import LOCAL, START_AGAIN, SparkEngine, SparkGoneError
from situ.runtime.sites.sinks.sink import SiteSink
from situ.runtime.sites.sqlite_journal import SqliteJournal
from situ.runtime.sites.wire.identity import Identities, require_loopback
from situ.runtime.sites.wire.outgoing import SiteAddress
from situ.service.certificates import Credentials, identity_of


def run_site(options: SiteOptions) -> None:
    """Runs a site until it is stopped. Does not return: what Flight keeps open ends with the process."""
    network = load_network(options.network)
    network.number(options.name)
    sources = sources_of(options.source or [])
    if options.keys is None and not options.insecure:
        raise InputError(
            "a site needs certificates, by which sites know each other",
            remedy="Make them with `situ keys NETWORK --out DIR`, and give --keys DIR/sites/NAME; or, on one machine, "
            "say --insecure.",
        )
    credentials = Credentials.read(options.keys, identity_of(options.name)) if options.keys else None
    engine = spark_engine(options, network)
    permissions = GROUP_READABLE if options.group_readable else PRIVATE
    import_functions(options.functions)
    addresses = {site.name: SiteAddress.parse(site.address) for site in network.sites if site.address}
    listen = SiteAddress.parse(options.listen) if options.listen else _own_address(options.name, addresses)
    if credentials is None:
        require_loopback(listen.host)
    PRIVATE.make_directory(options.directory)
    journal = SqliteJournal(options.directory / "journal")

    def check(plan: DeployedPlan) -> None:
        if options.out is None and options.name in plan.results:
            raise InputError(
                f"the plan brings results to {options.name}, which does not know where to put them",
                remedy="Start it with --out, or bring them to another site.",
            )
        require_address(plan, options.name, network)

    def open_at(address: str) -> SiteSink:
        file_format = options.file_format or "parquet"
        return open_site_sink(address, file_format, network.names, options.directory, permissions)

    def open_sink(plan: DeployedPlan) -> SiteSink:
        assert options.out is not None
        return open_at(options.out)

    setup = SiteSetup(
        options.name,
        listen,
        addresses,
        Identities.of(options.name, network.names, credentials),
        {stream: source_names(address) for stream, address in sources.items()},
        lambda stream, name, plan: open_site_source(sources[stream], stream, plan, options.directory, producer=name),
        open_sink,
        check,
        engine,
        partial(_say, options.name),
        actors={a.name: partial(open_at, a.address) for a in network.actors if a.site == options.name},
        network=network,
    )
    process = SiteProcess(setup, journal)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: process.stop())
    write_whole(options.directory / ADDRESS_FILE, f"{process.address}\n")
    how = "" if credentials else ", without certificates: everybody on this machine may talk to it"
    _say(options.name, f"listens at {process.address}{how}")
    if options.metrics is not None:
        _serve_figures(process, options.name, options.metrics)
    if options.until_eof:
        threading.Thread(target=_stop_at_end_of_input, args=(process,), daemon=True).start()
    try:
        process.run()
    except Exception as error:
        _end_with(error, options.name)
    journal.close()
    sys.stderr.flush()
    os._exit(0)


def _end_with(error: Exception, name: str) -> NoReturn:
    """Says what ends a site, and ends it at once: else it would wait for connections that other sites keep open."""
    if isinstance(error, SituError | OSError):
        _say(name, str(error))
    else:
        traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(START_AGAIN if isinstance(error, SparkGoneError) else 1)


def spark_engine(options: SiteOptions, network: Network) -> SparkEngine | None:
    """How the site runs Spark, as the command line and the network say; None if it does not."""
    site = network.sites[network.number(options.name)]
    if (options.engine or site.engine) != SPARK:
        given = (
            ["--master"] * bool(options.master)
            + ["--conf"] * bool(options.conf)
            + ["--trigger"] * bool(options.trigger)
        )
        if given:
            raise InputError(
                f"{given[0]} is for a site whose operators run on Spark",
                remedy="Leave it out, or say --engine spark.",
            )
        return None
    from situ.runtime.spark.session.session import require_pyspark
    from situ.runtime.spark.session.versions import installed_version, require_site_streams

    require_pyspark()
    require_site_streams(installed_version())
    trigger_ms = site.trigger_ms if site.trigger_ms is not None else TRIGGER_MS
    if options.trigger is not None:
        try:
            trigger_ms = parse_duration(options.trigger) / 1000
        except ValueError as error:
            raise InputError(f"--trigger: {error}", remedy="Write it as in 100 ms or 2 s.") from None
    return SparkEngine(
        options.directory.absolute() / "spark",
        options.master or LOCAL,
        settings_of(options.conf or []),
        max(round(trigger_ms), 0),
        str(options.keys.absolute()) if options.keys else "",
    )


def _serve_figures(process: SiteProcess, name: str, address: str) -> None:
    from situ.runtime.sites.process.site_metrics import site_metrics
    from situ.service.prometheus import MetricsServer, metrics_address

    host, port = metrics_address(address)
    server = MetricsServer(lambda: site_metrics(process.report()), port, host)
    _say(name, f"figures for Prometheus are at {server.url}")


def _stop_at_end_of_input(process: SiteProcess) -> None:
    sys.stdin.read()
    process.stop()


def sources_of(sources: list[str]) -> dict[str, str]:
    """`["Vehicle=incoming"]` -> {"Vehicle": "incoming"}."""
    addresses: dict[str, str] = {}
    for source in sources:
        name, equals, address = source.partition("=")
        if not equals or not address or "://" in name:
            raise InputError(
                f"--source '{shown_address(source)}' names no address or no stream",
                remedy="Write it as Type=ADDRESS: --source Vehicle=incoming",
            )
        if name in addresses:
            raise InputError(f"two sources for stream '{name}'", remedy="Put the files into one directory.")
        addresses[name] = address
    return addresses


def _own_address(name: str, addresses: dict[str, SiteAddress]) -> SiteAddress:
    if name not in addresses:
        raise InputError(
            f"site {name!r} has no `address` in the network",
            remedy="Write it there, or give --listen HOST:PORT.",
        )
    return addresses[name]


def _say(name: str, text: str) -> None:
    print(f"{name}: {text}", file=sys.stderr, flush=True)
