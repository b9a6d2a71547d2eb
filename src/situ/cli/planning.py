"""The commands of the planner and their options: `situ plan`, `situ compare` and `situ stats`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from situ.cli.options import AsJson, Conf, Functions, Master, QueryFile, error_to_json, user_errors
from situ.cli.panels import PLAN

planning = typer.Typer()

PLANNING = "The problem"
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
    Path,
    typer.Option(
        metavar="RATES",
        help='Events per s by type and site, as JSON: {"rates": {"Vehicle": {"edge": 3.5}}, "selectivity": '
        '{"HardBraking": 0.1}}. `situ stats` measures them.',
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


@planning.command(rich_help_panel=PLAN)
def plan(
    file: QueryFile,
    network: NetworkFile,
    rates: RatesFile,
    root: Root = None,
    mechanism: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="naive, cpp, grin, sbon, exhaustive, optimal, greedy, greedy+, heuristic, heuristic+; auto chooses.",
        ),
    ] = "auto",
    cost: Cost = "coverage",
    price: Price = False,
    latency: Latency = None,
    latency_of: LatencyOf = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Draw the plan to a file.", show_default=False)
    ] = None,
    functions: Functions = None,
    as_json: AsJson = False,
) -> None:
    """Say where in a network the operators of a query run, what is pushed to them and what they pull.

    For example, with the results in Munich within 40 ms, and a picture:

    situ plan alarms.situ --network net.json --rates rates.json --root Munich --latency 40 --svg plan.svg
    """
    from situ.cli.plan import Asked, plan_file

    with user_errors(as_json):
        asked = Asked(file, network, rates, root, cost, price, latency, tuple(latency_of or ()), functions)
        planned = plan_file(asked, mechanism, svg)
        if as_json:
            typer.echo(json.dumps(planned.to_json()))
        else:
            from situ.cli.plan_show import show_plan

            show_plan(planned)


@planning.command(rich_help_panel=PLAN)
def compare(
    file: QueryFile,
    network: NetworkFile,
    rates: RatesFile,
    root: Root = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="As for `situ plan`. May be given several times. Default: all that answer within seconds.",
            show_default=False,
        ),
    ] = None,
    cost: Cost = "coverage",
    price: Price = False,
    latency: Latency = None,
    latency_of: LatencyOf = None,
    functions: Functions = None,
    as_json: AsJson = False,
) -> None:
    """Plan with several mechanisms, and show the plans side by side.

    For example:

    situ compare alarms.situ --network net.json --rates rates.json --mechanism optimal --mechanism greedy+
    """
    from situ.cli.compare import compare_file, show_comparison
    from situ.cli.plan import Asked

    with user_errors(as_json):
        asked = Asked(file, network, rates, root, cost, price, latency, tuple(latency_of or ()), functions)
        compared = compare_file(asked, mechanism or [])
        if as_json:
            typer.echo(json.dumps(compared.to_json(error_to_json)))
        else:
            show_comparison(compared)
        if not any(compared.plans.values()):
            raise typer.Exit(1)


@planning.command(rich_help_panel=PLAN)
def stats(
    file: QueryFile,
    source: Annotated[
        list[str],
        typer.Option(
            metavar="TYPE=PATH",
            help="The events of a stream: a Parquet, CSV or JSON lines file, or a directory of them. Once per stream.",
            show_default=False,
        ),
    ],
    site: Annotated[
        str,
        typer.Option(
            metavar="COLUMN", help="The column that says at which site an event occurred.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="RATES", help="Write them to a file for `situ plan --rates`.", show_default=False),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    functions: Functions = None,
    as_json: AsJson = False,
) -> None:
    """Measure rates by site, selectivities and times between events in tables, on Spark.

    For example:

    situ stats alarms.situ --source Alarm=alarms.parquet --source Load=load.parquet --site station --out rates.json

    situ plan alarms.situ --network net.json --rates rates.json
    """
    from situ.cli.engines import chosen_spark
    from situ.runtime.spark.session.session import require_pyspark

    with user_errors(as_json):
        require_pyspark()
        from situ.cli.stats import show_measured, stats_file

        spark = chosen_spark("spark", master, conf or [])
        assert spark is not None
        measured = stats_file(file, source, site, out, functions, spark)
        if as_json:
            typer.echo(json.dumps(asdict(measured.statistics)))
            for warning in measured.warnings:
                typer.echo(f"warning: {warning}", err=True)
        else:
            show_measured(measured)
