"""From the addresses that a person gives to the sources and the sink of a site."""

from __future__ import annotations

from pathlib import Path

from situ.core.errors import InputError
from situ.graph.query import Stream
from situ.io.addresses import directory_of, is_url, scheme_of, shown_address, unknown_address
from situ.io.files.by_suffix import Format
from situ.io.permissions import Permissions
from situ.lang.parse import parse
from situ.runtime.sites.deployed_plan import DeployedPlan
from situ.runtime.sites.sinks.files import FileSink
from situ.runtime.sites.sinks.sink import SiteSink
from situ.runtime.sites.sources.bounded_files import BoundedFiles
from situ.runtime.sites.sources.source import SiteSource

#: What a site can write to. The schemes of sources are those of `situ.io.addresses`.
_OUTPUTS = ("kafka", "mqtt", "postgresql")


def open_site_source(address: str, stream_name: str, plan: DeployedPlan, directory: Path) -> SiteSource:
    """The source at an address, as a plan reads it: to its end, or as it comes. `directory` is the site's own."""
    stream = _stream(plan, stream_name)
    if plan.bounded:
        if is_url(address):
            raise InputError(
                f"{shown_address(address)} is a stream that does not end, and --once reads files",
                remedy="Give a file or a directory, or leave out --once.",
            )
        return BoundedFiles(directory_of(address), stream)
    raise unknown_address(address, (), "source")


def open_site_sink(address: str, file_format: Format, plan: DeployedPlan, permissions: Permissions) -> SiteSink:
    """The sink at an address."""
    if scheme_of(address) == "directory":
        origins = {site: number for number, site in enumerate(plan.sites)}
        return FileSink(directory_of(address), file_format, origins, permissions)
    raise unknown_address(address, _OUTPUTS, "output")


def _stream(plan: DeployedPlan, name: str) -> Stream:
    return next(stream for stream in parse(plan.query).streams if stream.name == name)
