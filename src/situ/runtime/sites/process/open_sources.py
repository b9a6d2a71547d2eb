"""From the addresses that a person gives to the sources and the sink of a site.

What reads or writes an address is imported when one is given: a site that is killed is to be back soon."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from situ.core.errors import InputError
from situ.graph.query import Stream
from situ.io.addresses import OUTPUTS, SOURCES, directory_of, is_url, scheme_of, shown_address, unknown_address
from situ.io.files.by_suffix import Format
from situ.io.permissions import PRIVATE, Permissions
from situ.io.rows.ahead import with_default_ahead
from situ.io.whole_file import write_whole
from situ.lang.parse import parse
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.process.site_process import SOURCE
from situ.runtime.sites.sinks.files import FileLogSink
from situ.runtime.sites.sinks.sink import SiteSink
from situ.runtime.sites.sources.arriving_files import ArrivingFiles
from situ.runtime.sites.sources.pushed_rows import PushedRows
from situ.runtime.sites.sources.source import SiteSource

SITE_SOURCES = (*SOURCES, "flight")


def open_site_source(
    address: str, stream_name: str, plan: DeployedPlan, directory: Path, once: bool = False, producer: str = ""
) -> SiteSource:
    """The source at an address, as a plan reads it: to its end, or as it comes (`once`: what is there, in the order in
    which it came). `directory` is the site's own, `producer` the one whose rows are meant, where they are pushed."""
    stream = stream_of(plan, stream_name)
    if plan.bounded or once:
        if is_url(address) and not (plan.bounded and scheme_of(address) == "flight"):  # producers say when they end
            raise InputError(
                f"{shown_address(address)} is a stream that does not end, and --once reads files",
                remedy="Give a file or a directory, or leave out --once.",
            )
        if plan.bounded and scheme_of(address) != "flight":
            from situ.runtime.sites.sources.bounded_files import BoundedFiles

            return BoundedFiles(directory_of(address), stream)
    # Judged here once, before anything rests on it: a row far ahead of the clock would make all others late.
    stream, work = with_default_ahead(stream), directory / "sources" / stream_name
    match scheme_of(address):
        case "directory":
            return ArrivingFiles(directory_of(address), stream, work, once)
        case "mqtt":
            from situ.io.mqtt.address import MqttAddress
            from situ.runtime.sites.sources.mqtt_messages import MqttMessages

            return MqttMessages(MqttAddress.parse(address), stream, work)
        case "kafka":
            from situ.io.kafka_address import KafkaAddress
            from situ.runtime.sites.sources.kafka_messages import KafkaMessages

            return KafkaMessages(KafkaAddress.parse(address), stream)
        case "flight" if producer:  # nobody can push to a site alone
            return PushedRows(producer, stream)
        case _:
            raise unknown_address(address, SITE_SOURCES if producer else SOURCES, "source")


def source_names(address: str) -> tuple[str, ...]:
    """The names of the sources at an address: producers that push have names, all others are one source.

    >>> source_names("flight://sensor-1,sensor-2"), source_names("incoming")
    (('sensor-1', 'sensor-2'), ('source',))
    """
    if scheme_of(address) != "flight":
        return (SOURCE,)
    names = tuple(name for name in address.partition("://")[2].split(",") if name)
    if not names or len({*names}) < len(names):
        raise InputError(
            f"{address} does not name each producer once", remedy="Write it as flight://NAME,NAME: who may push events."
        )
    return names


def open_site_sink(
    address: str, file_format: Format, sites: Sequence[str], directory: Path, permissions: Permissions
) -> SiteSink:
    """The sink at an address, for what any of these sites finds. `directory` is the site's own."""
    match scheme_of(address):
        case "directory":
            origins = {site: number for number, site in enumerate(sorted(sites))}
            return FileLogSink(directory_of(address), file_format, origins, permissions)
        case "mqtt":
            from situ.io.mqtt.address import MqttAddress
            from situ.runtime.sites.sinks.messages import MqttLogSink

            return MqttLogSink(MqttAddress.parse(address), _sink_id(directory))
        case "kafka":
            from situ.io.kafka_address import KafkaAddress
            from situ.runtime.sites.sinks.messages import KafkaLogSink

            return KafkaLogSink(KafkaAddress.parse(address, writing=True), _sink_id(directory))
        case "postgresql":
            from situ.io.postgresql import PostgresqlAddress
            from situ.runtime.sites.sinks.postgresql import PostgresqlLogSink

            return PostgresqlLogSink(PostgresqlAddress.parse(address), _sink_id(directory))
        case _:
            raise unknown_address(address, OUTPUTS, "output")


def _sink_id(directory: Path) -> str:
    """A word that results carry, so that those of another directory are never taken for these."""
    file = directory / "sink-id"
    if not file.exists():
        PRIVATE.make_directory(directory)
        write_whole(file, secrets.token_hex(8))
    return file.read_text(encoding="utf-8")


def stream_of(plan: DeployedPlan, name: str) -> Stream:
    """The declaration of a stream in a plan's query."""
    return next(stream for stream in parse(plan.query).streams if stream.name == name)
