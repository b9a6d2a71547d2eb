"""The options of `situ bench`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from situ.cli.options import AsJson, Conf, Master


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """All that a command line of `situ bench` says."""

    workload: Annotated[Literal["next", "each", "rising"], typer.Option(help="The pattern.")] = "next"
    types: Annotated[int, typer.Option(min=1, help="Event types; the patterns read up to three of them.")] = 100
    keys: Annotated[int, typer.Option(min=1, help="Groups.")] = 1_000
    events: Annotated[int, typer.Option(min=1, help="Events that situ reads.")] = 8_000_000
    window_ms: Annotated[int, typer.Option(min=1, help="The pattern's window.")] = 1_000_000
    no_group: Annotated[bool, typer.Option("--no-group", help="Match across keys: one group.")] = False
    peer: Annotated[
        Literal["flinkcep", "sql"] | None,
        typer.Option(
            help="Run a peer on the same events: FlinkCEP, or hand-written Spark SQL (with --engine spark).",
            show_default=False,
        ),
    ] = None
    peer_events: Annotated[
        int | None,
        typer.Option(min=1, help="Events that the peer reads. Default: 2,000,000 for FlinkCEP, all for SQL."),
    ] = None
    engine: Annotated[
        Literal["spark", "spark-streaming", "embedded", "sites"] | None,
        typer.Option(
            help="As for `situ run`; spark-streaming measures warm micro-batches of a streaming query, sites three "
            "processes: source, operator, root.",
            show_default=False,
        ),
    ] = None
    timing: Annotated[bool, typer.Option("--timing", help="Show where the time of one more run went.")] = False
    master: Master = None
    conf: Conf = None
    as_json: AsJson = False
