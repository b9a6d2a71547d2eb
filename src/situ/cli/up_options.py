"""The options of `situ up`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from situ.cli.options import AsJson, Functions, QueryFile
from situ.cli.run_options import FileFormat, Limit, Overwrite
from situ.cli.site_options import Live

PLACES = "Where operators run"
EMULATION = "The network on this machine"


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """A plan, or how to make one."""

    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="PLAN",
            help="What `situ plan --out` wrote.",
            show_default=False,
            rich_help_panel=PLACES,
        ),
    ] = None
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Let a mechanism of `situ plan` place them, with the rates of --rates. Default: all operators run at "
            "the root.",
            show_default=False,
            rich_help_panel=PLACES,
        ),
    ] = None
    rates: Annotated[
        Path | None,
        typer.Option(
            metavar="RATES", help="Events per s by type and site.", show_default=False, rich_help_panel=PLACES
        ),
    ] = None
    root: Annotated[
        str | None,
        typer.Option(
            metavar="SITE",
            help="Where results go. Default: the site that is nearest to all sources.",
            show_default=False,
            rich_help_panel=PLACES,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class UpOptions:
    """All that a command line of `situ up` says."""

    file: QueryFile
    network: Annotated[
        Path,
        typer.Option(metavar="NET", help="Sites and links: .json, .graphml or .parquet.", show_default=False),
    ]
    source: Annotated[
        list[str],
        typer.Option(
            metavar="TYPE@SITE=PATH",
            help="Events of a stream that occur at a site: a file, or a directory. Once per stream and site.",
            show_default=False,
        ),
    ]
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where results go, with <subscription>/, _rejected/, _late/ and _timed_out/ in it, as `situ run` "
            "leaves them. Default: the terminal.",
            show_default=False,
        ),
    ] = None
    file_format: FileFormat = None
    overwrite: Overwrite = False
    limit: Limit = None
    once: Annotated[bool, typer.Option("--once", help="Read the sources to their end, and stop.")] = False
    live: Live = None
    places: PlaceOptions = field(default_factory=PlaceOptions)
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Keeps the directories of the sites. The same command goes on where they stopped. Default: one that "
            "is removed at the end.",
            show_default=False,
            rich_help_panel=EMULATION,
        ),
    ] = None
    scale: Annotated[
        float,
        typer.Option(
            metavar="FACTOR",
            min=0,
            help="Latencies of the network, times this. 0: as fast as the machine.",
            rich_help_panel=EMULATION,
        ),
    ] = 1.0
    jitter: Annotated[
        float,
        typer.Option(
            metavar="MS", min=0, help="Latencies vary by up to so many milliseconds.", rich_help_panel=EMULATION
        ),
    ] = 0.0
    bandwidth: Annotated[
        float | None,
        typer.Option(
            metavar="MBIT",
            min=0.001,
            help="What each way between two sites carries in each direction, in megabits per second. Default: as much "
            "as the machine does.",
            show_default=False,
            rich_help_panel=EMULATION,
        ),
    ] = None
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="Without certificates: everybody on this machine may talk to the sites.",
            rich_help_panel=EMULATION,
        ),
    ] = False
    functions: Functions = None
    as_json: AsJson = False
