"""The options of the planner's commands: the problem, which `plan` and `compare` share, and what each command adds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer

from situ.cli.options import AsJson, Conf, Functions, Master, QueryFile
from situ.cli.site_options import WHERE, ControlDirectory, ControlInsecure, ControlKeys, ControlOptions

PLANNING, TABLES = "The problem", "Events in tables, on Spark"
NetworkFile = Annotated[
    Path,
    typer.Option(
        metavar="NET",
        help="Sites and links: .json, .graphml (Topology Zoo), or .parquet (a matrix of round trips).",
        show_default=False,
        rich_help_panel=PLANNING,
    ),
]
RatesFile = Annotated[
    Path | None,
    typer.Option(
        metavar="RATES",
        help='Events per s by type and site, as JSON: {"rates": {"Vehicle": {"edge": 3.5}}, "selectivity": '
        '{"HardBraking": 0.1}}. `situ stats` measures them. Or --from-running.',
        show_default=False,
        rich_help_panel=PLANNING,
    ),
]
Root = Annotated[
    str | None,
    typer.Option(
        metavar="SITE",
        help="Where results go. Default: where all events could be gathered at the least cost.",
        show_default=False,
        rich_help_panel=PLANNING,
    ),
]
Cost = Annotated[
    Literal["coverage", "bursts", "paper"],  # cost_models.CostName, which takes long to import
    typer.Option(help="The cost model; docs/placement.md has the formulas.", rich_help_panel=PLANNING),
]
Price = Annotated[
    bool,
    typer.Option("--price", help="A message costs its links' prices, not 1 for each hop.", rich_help_panel=PLANNING),
]
Latency = Annotated[
    float | None,
    typer.Option(
        metavar="MS", help="The root has all results within so many ms.", show_default=False, rich_help_panel=PLANNING
    ),
]
LatencyOf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OUTPUT=MS",
        help="The same for one output; `demand latency < T` in the query is such a limit, too. May be given several "
        "times.",
        show_default=False,
        rich_help_panel=PLANNING,
    ),
]

Radius = Annotated[
    int | None,
    typer.Option(
        metavar="LINKS",
        min=0,
        help="How far a broker of `edgecep` sees. Default: the whole network.",
        show_default=False,
        rich_help_panel=PLANNING,
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="What `random` draws from.", rich_help_panel=PLANNING)]


@dataclass(frozen=True, slots=True)
class RunningOptions:
    """Sites that run, from which the planner learns."""

    from_running: Annotated[
        bool,
        typer.Option(
            "--from-running",
            help="Instead of --rates: what the sites of the network have counted, as `situ stats --network` shows it. "
            "Results go where they go now, unless --root says otherwise.",
            rich_help_panel=WHERE,
        ),
    ] = False
    keys: ControlKeys = None
    insecure: ControlInsecure = False
    directory: ControlDirectory = None


@dataclass(frozen=True, slots=True)
class ProblemOptions:
    """What a command line says about a planning problem. `latency` is in ms, `latency_of` is `["Output=MS"]`."""

    file: QueryFile
    network: NetworkFile
    rates: RatesFile = None
    root: Root = None
    cost: Cost = "bursts"
    price: Price = False
    latency: Latency = None
    latency_of: LatencyOf = None
    radius: Radius = None
    seed: Seed = 0
    running: RunningOptions = field(default_factory=RunningOptions)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """All that a command line of `situ plan` says."""

    problem: ProblemOptions
    mechanism: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="naive, cpp, grin, sbon, exhaustive, optimal, greedy, greedy+, heuristic, heuristic+; relaxation, "
            "mobile, producer-consumer, random (TCEP); edgecep, edgecep-optimal, hop, central (EdgeCEP); auto chooses.",
        ),
    ] = "auto"
    svg: Annotated[Path | None, typer.Option(metavar="OUT", help="Draw the plan to a file.", show_default=False)] = None
    out: Annotated[
        Path | None,
        typer.Option(metavar="PLAN", help="Write the plan to a file, for `situ deploy`.", show_default=False),
    ] = None
    functions: Functions = None
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """All that a command line of `situ compare` says."""

    problem: ProblemOptions
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="As for `situ plan`. May be given several times. Default: all that answer within seconds.",
            show_default=False,
        ),
    ] = None
    functions: Functions = None
    as_json: AsJson = False


@dataclass(frozen=True, slots=True)
class StatsOptions:
    """All that a command line of `situ stats` says."""

    file: QueryFile
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE=PATH",
            help="The events of a stream: a Parquet, CSV or JSON lines file, or a directory of them. Once per stream.",
            show_default=False,
            rich_help_panel=TABLES,
        ),
    ] = None
    site: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column that says at which site an event occurred.",
            show_default=False,
            rich_help_panel=TABLES,
        ),
    ] = None
    control: ControlOptions = field(default_factory=ControlOptions)
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for",
            metavar="SECONDS",
            min=0.1,
            help="What sites count from now on, for so long. Default: all that they have counted since they started.",
            show_default=False,
            rich_help_panel=WHERE,
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(metavar="RATES", help="Write them to a file for `situ plan --rates`.", show_default=False),
    ] = None
    master: Master = None
    conf: Conf = None
    functions: Functions = None
    as_json: AsJson = False
