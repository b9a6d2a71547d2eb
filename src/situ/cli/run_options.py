"""The options of `situ run`, in groups: what is read and written, `--follow` with what belongs to it, the engine."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from situ.cli.options import AsJson, Conf, EngineName, Functions, Master, Memory, QueryFile
from situ.core.errors import InputError
from situ.core.time import time_to_micros
from situ.io.addresses import is_url, shown_address
from situ.io.permissions import GROUP_READABLE, PRIVATE, Permissions

#: Complex events of each subscription that are shown, where no option says how many and where they go.
SHOWN = 10

Sources = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE=ADDRESS",
        help="The events of a stream: a Parquet, CSV or JSON lines file, or a directory of them. Once per stream. "
        "With --follow a directory into which files are moved, kafka://HOST:PORT/TOPIC or mqtt://HOST/TOPIC.",
        show_default=False,
    ),
]
OutAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Where results go: a directory on this machine, with <subscription>/, _rejected/, _late/ and "
        "_timed_out/ in it. With --follow also kafka://, mqtt:// or postgresql://. Default: the terminal.",
        show_default=False,
    ),
]
FileFormat = Annotated[
    Literal["parquet", "csv", "json"] | None,
    typer.Option("--format", help="Of the files in a directory. Default: parquet.", show_default=False),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote.")]
GroupReadable = Annotated[
    bool,
    typer.Option(
        "--group-readable",
        help="Let the group read results and checkpoint (modes 0750 and 0640). Default: nobody else (0700, 0600).",
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Complex events to show per subscription. Default: 10.", show_default=False),
]

Start = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="When silences that come first begin (detect no X for 5 s ...), in rules without groups: "
        "2026-03-01T10:00:00, in UTC. Default: with the first event.",
        show_default=False,
    ),
]

Timing = Annotated[
    bool, typer.Option("--timing", help="Show where the time went: scan, tests, packing, sorting, kernel, results.")
]

FOLLOW = "With --follow"
Follow = Annotated[
    bool, typer.Option("--follow", help="Read streams that do not end, until Ctrl-C.", rich_help_panel=FOLLOW)
]
CheckpointDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Keeps how far it is, the state and the rules. The same command with the same DIR goes on where it "
        "stopped, with nothing lost or doubled. Belongs to one query.",
        show_default=False,
        rich_help_panel=FOLLOW,
    ),
]
Control = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="A directory of further rules (define, subscribe) in files NAME.situ. Add, change and remove them while "
        "it runs: rules that stay as they are keep their state. Move files in whole.",
        show_default=False,
        rich_help_panel=FOLLOW,
    ),
]
Every = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Begin a micro-batch so often: 500ms, 2s. Default: as soon as the last one has ended.",
        show_default=False,
        rich_help_panel=FOLLOW,
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Read what is there, and end.", rich_help_panel=FOLLOW)]
Shards = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Parts of the state, which run side by side. Default: the cores of this machine.",
        show_default=False,
        rich_help_panel=FOLLOW,
    ),
]
Levels = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Leave room for rules that regroup complex events: `situ explain` shows a stage for each level. Default: "
        "as many as the first rules need.",
        show_default=False,
        rich_help_panel=FOLLOW,
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="PORT",
        help="Serve figures for Prometheus at http://127.0.0.1:PORT/metrics; HOST:PORT for another address.",
        show_default=False,
        rich_help_panel=FOLLOW,
    ),
]
ClockBackTo = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Put the clock of the checkpoint back, once, after an event with a wrong time, far ahead, made all others "
        "late: 2026-03-01T10:00:00, in UTC.",
        show_default=False,
        rich_help_panel=FOLLOW,
    ),
]


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """The options of `situ run` that only --follow has."""

    checkpoint: CheckpointDir = None
    control: Control = None
    every: Every = None
    once: Once = False
    shards: Shards = None
    levels: Levels = None
    metrics: Metrics = None
    clock_back_to: ClockBackTo = None

    @property
    def given(self) -> list[str]:
        """The options that the command line gives, as they are written there.

        >>> FollowOptions(checkpoint=Path("here"), once=True).given
        ['--checkpoint', '--once']
        """
        names = (option.name for option in fields(self))
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) not in (None, False)]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Which engine runs the query, and with what."""

    engine: EngineName = None
    master: Master = None
    conf: Conf = None
    memory: Memory = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """All that a command line of `situ run` says."""

    file: QueryFile
    source: Sources = None
    out: OutAddress = None
    file_format: FileFormat = None
    overwrite: Overwrite = False
    group_readable: GroupReadable = False
    limit: Limit = None
    start: Start = None
    timing: Timing = False
    follow: Follow = False
    follow_options: FollowOptions = field(default_factory=FollowOptions)
    engine_options: EngineOptions = field(default_factory=EngineOptions)
    functions: Functions = None
    as_json: AsJson = False

    @property
    def permissions(self) -> Permissions:
        """Who may read what the command writes."""
        return GROUP_READABLE if self.group_readable else PRIVATE


def time_given(option: str, text: str) -> int:
    """The time that an option says, in microseconds; InputError if it is none."""
    try:
        return time_to_micros(datetime.fromisoformat(text.strip()))
    except ValueError as error:
        raise InputError(
            f"{option} '{text}' is no time",
            remedy="Write it as 2026-03-01T10:00:00, which is UTC, or with a zone: 2026-03-01T11:00:00+01:00.",
        ) from error


def refuse_without_follow(options: RunOptions) -> None:
    """Raises InputError for options that make no sense without --follow."""
    follow_only, out = options.follow_options.given, options.out
    if follow_only:
        raise InputError(f"{follow_only[0]} is for --follow", remedy=f"Add --follow, or leave out {follow_only[0]}.")
    if out is not None and is_url(out):
        raise InputError(
            f"{shown_address(out)} takes results of --follow only", remedy="Give --out a directory, or add --follow."
        )


def refuse_with_follow(options: RunOptions) -> None:
    """Raises InputError for options that make no sense with --follow."""
    follow = options.follow_options
    embedded = options.engine_options.engine == "embedded"
    for_spark = [option for option in ("--every", "--shards", "--levels", "--clock-back-to") if option in follow.given]
    if embedded and for_spark:
        cause = f"{for_spark[0]} is for Spark, and the embedded engine is asked for"
        remedy = f"Leave out {for_spark[0]}, or --engine embedded."
    elif options.overwrite:
        cause = "--follow adds to what is there, and replaces nothing"
        remedy = "Leave out --overwrite. To begin anew, give a new --checkpoint and a new --out."
    elif options.limit is not None:
        cause, remedy = f"--follow shows the last {SHOWN} complex events of each subscription", "Leave out --limit."
    elif options.timing:
        cause = "--timing is for files, and --follow tells its figures as it runs"
        remedy = "Leave it out; --metrics serves the figures of every micro-batch."
    elif embedded and options.start is not None:
        cause = "--start is for tables and for streams on Spark, and --follow runs on the embedded engine"
        remedy = "Leave it out (silences that come first begin with the first event), or say --engine spark."
    elif follow.checkpoint is None:
        cause = "--follow needs a place to keep how far it is"
        remedy = "Add --checkpoint DIR: an empty directory, or one that does not exist yet."
    elif follow.once and follow.every is not None:
        cause = "--once reads what is there and ends, --every says how often to look"
        remedy = "Leave out one of them."
    elif options.file_format is not None and (options.out is None or is_url(options.out)):
        cause = f"--format {options.file_format} is for files"
        remedy = "Leave it out, or give --out a directory."
    else:
        return
    raise InputError(cause, remedy=remedy)
