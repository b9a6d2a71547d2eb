"""The options of the commands that run one site, and that deploy to, ask and stop sites that run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer

from situ.cli.options import AsJson, Conf, Functions
from situ.cli.run_options import FileFormat, GroupReadable

WIRE, WHERE, SPARK = "Who may talk to it", "Where the sites are", "On Spark"
#: A new version begins so long after the latest event that was read, unless somebody says when.
AFTER = "10 s"

Live = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE",
        help="A stream that happens now: where no events come, its sources answer by their clocks how far time has "
        "come. May be given several times.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """All that a command line of `situ site` says."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="The site's name in the network.", show_default=False)]
    network: Annotated[
        Path,
        typer.Option(
            metavar="NET",
            help="Sites and links. Each site that this one talks to has an `address`, HOST:PORT.",
            show_default=False,
        ),
    ]
    directory: Annotated[
        Path,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Keeps what must survive: the plan, what was read, made and not yet taken by others, the state. The "
            "same command goes on where it stopped, with nothing lost or doubled.",
            show_default=False,
        ),
    ]
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Default: the site's address in the network.", show_default=False),
    ] = None
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE=ADDRESS",
            help="The events of a stream that occur here: a directory into which files are moved, mqtt://HOST/TOPIC, "
            "kafka://HOST:PORT/TOPIC, or flight://NAME,NAME for producers that push them. Once per stream.",
            show_default=False,
        ),
    ] = None
    out: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where results go that the plan brings here: a directory, kafka://, mqtt:// or postgresql://.",
            show_default=False,
        ),
    ] = None
    file_format: FileFormat = None
    group_readable: GroupReadable = False
    engine: Annotated[
        Literal["embedded", "spark"] | None,
        typer.Option(
            help="What runs the operators that a plan puts here: the site itself, or a streaming query of Spark that "
            "the site starts. A directory belongs to one of them. Default: what the network says of the site.",
            show_default=False,
            rich_help_panel=SPARK,
        ),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where Spark runs: spark://HOST:7077, yarn, ... Default: this machine. Executors read the site's logs "
            "from where it listens, with its keys, in the same folder there as here.",
            show_default=False,
            rich_help_panel=SPARK,
        ),
    ] = None
    conf: Conf = None
    trigger: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How often Spark begins a batch, if something has come. Default: what the network says of the site, "
            "or 100 ms.",
            show_default=False,
            rich_help_panel=SPARK,
        ),
    ] = None
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The site's folder of those that `situ keys` made: DIR/sites/NAME.",
            show_default=False,
            rich_help_panel=WIRE,
        ),
    ] = None
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="Without certificates: everybody on this machine may talk to it. On 127.0.0.1 only.",
            rich_help_panel=WIRE,
        ),
    ] = False
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="PORT",
            help="Serve figures for Prometheus at http://127.0.0.1:PORT/metrics; HOST:PORT for another address.",
            show_default=False,
        ),
    ] = None
    until_eof: Annotated[
        bool,
        typer.Option("--until-eof", help="Ends with its standard input: with the process that has started it."),
    ] = False
    functions: Functions = None


ControlKeys = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The folder for control of those that `situ keys` made: DIR/control.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
ControlInsecure = Annotated[
    bool, typer.Option("--insecure", help="The sites run without certificates, on 127.0.0.1.", rich_help_panel=WHERE)
]
ControlDirectory = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="Instead of all these: the --dir of `situ up`.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]


@dataclass(frozen=True, slots=True)
class ControlOptions:
    """How sites are reached."""

    network: Annotated[
        Path | None,
        typer.Option(
            metavar="NET",
            help="The network file, in which sites have an `address`, HOST:PORT.",
            show_default=False,
            rich_help_panel=WHERE,
        ),
    ] = None
    keys: ControlKeys = None
    insecure: ControlInsecure = False
    directory: ControlDirectory = None


@dataclass(frozen=True, slots=True)
class DeployOptions:
    """All that a command line of `situ deploy` says."""

    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="What `situ plan --out` wrote.", show_default=False)]
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="A new version of a plan that runs begins at this event time: 2026-03-01T10:00:00, in UTC. Default: "
            f"{AFTER} after the latest event that was read.",
            show_default=False,
        ),
    ] = None
    anew: Annotated[
        bool, typer.Option("--anew", help="Let all operators begin without state, also those that stay as they are.")
    ] = False
    live: Live = None
    control: ControlOptions = field(default_factory=ControlOptions)
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class TransitionOptions:
    """All that a command line of `situ transition` says."""

    to: Annotated[
        str | None,
        typer.Option(
            metavar="MECHANISM",
            help="Where operators are to run: as this mechanism of `situ compare` says, with what sites have counted.",
            show_default=False,
        ),
    ] = None
    plan: Annotated[
        Path | None,
        typer.Option(metavar="PLAN", help="Or: as this plan of `situ plan --out` says.", show_default=False),
    ] = None
    strategy: Annotated[
        Literal["auto", "sms", "mfgs", "naive"],
        typer.Option(
            help="How operators move. `mfgs`: the state goes ahead, then what is read meanwhile. `sms`: the old "
            "instance finishes what began before a time, the new one begins without state. `naive`: stop, move, start. "
            "`auto`: of `mfgs` and `sms`, what moves fewer bytes, where both are exact."
        ),
    ] = "auto"
    order: Annotated[
        Literal["sequential", "concurrent"], typer.Option(help="One operator after another, or all at once.")
    ] = "concurrent"
    after: Annotated[
        str,
        typer.Option(
            metavar="T",
            help="Operators move so long after the latest event that was read, in event time.",
        ),
    ] = AFTER
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say which operators would move, how and why, and change nothing.")
    ] = False
    timeout: Annotated[float, typer.Option(metavar="S", help="Wait so many seconds until everything has moved.")] = (
        600.0
    )
    control: ControlOptions = field(default_factory=ControlOptions)
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class DemandOptions:
    """All that a command line of `situ demand` says."""

    subscription: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="Its name.", show_default=False)]
    demands: Annotated[
        str,
        typer.Argument(
            metavar="DEMANDS",
            help="As in a query: 'latency < 50 ms, overhead < 10 KB'. An empty text demands nothing.",
            show_default=False,
        ),
    ]
    control: ControlOptions = field(default_factory=ControlOptions)
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class AdaptOptions:
    """All that a command line of `situ adapt` says."""

    how: Annotated[Literal["on", "off"], typer.Argument(metavar="on|off", help="Whether it may.", show_default=False)]
    control: ControlOptions = field(default_factory=ControlOptions)
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class StopOptions:
    """All that a command line of `situ stop` says."""

    sites: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SITE]...", help="Default: all that have an address.", show_default=False),
    ] = None
    control: ControlOptions = field(default_factory=ControlOptions)
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """All that a command line of `situ status` says."""

    control: ControlOptions = field(default_factory=ControlOptions)
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class PushOptions:
    """All that a command line of `situ push` says."""

    stream: Annotated[str, typer.Argument(metavar="TYPE", help="The stream that the rows are of.", show_default=False)]
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Parquet, CSV or JSON lines.", show_default=False)]
    to: Annotated[str, typer.Option(metavar="SITE", help="The site that takes them.", show_default=False)]
    name: Annotated[
        str,
        typer.Option("--as", metavar="NAME", help="Who pushes: a name in the site's flight://.", show_default=False),
    ]
    network: Annotated[
        Path,
        typer.Option(
            metavar="NET", help="The network file, in which the site has an `address`, HOST:PORT.", show_default=False
        ),
    ]
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The producer's folder of those that `situ keys --producer` made: DIR/producers/NAME.",
            show_default=False,
        ),
    ] = None
    insecure: Annotated[bool, typer.Option("--insecure", help="The site runs without certificates, on 127.0.0.1.")] = (
        False
    )
    end: Annotated[bool, typer.Option("--end", help="Say that no more rows of this producer will come, ever.")] = False
    as_json: AsJson = False
