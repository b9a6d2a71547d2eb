"""The commands of the planner: `situ plan`, `situ compare` and `situ stats`."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from situ.cli.option_groups import takes
from situ.cli.options import error_to_json, user_errors
from situ.cli.panels import PLAN
from situ.cli.planning_options import CompareOptions, PlanOptions, StatsOptions

planning = typer.Typer()


@planning.command(rich_help_panel=PLAN)
@takes(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Say where in a network the operators of a query run, what is pushed to them and what they pull.

    For example, with the results in Munich within 40 ms, and a picture:

    situ plan alarms.situ --network net.json --rates rates.json --root Munich --latency 40 --svg plan.svg
    """
    from situ.cli.plan import plan_file

    with user_errors(options.as_json):
        planned = plan_file(options)
        if options.as_json:
            typer.echo(json.dumps(planned.to_json()))
        else:
            from situ.cli.plan_show import show_plan

            show_plan(planned)


@planning.command(rich_help_panel=PLAN)
@takes(CompareOptions)
def compare(options: CompareOptions) -> None:
    """Plan with several mechanisms, and show the plans side by side.

    For example:

    situ compare alarms.situ --network net.json --rates rates.json --mechanism optimal --mechanism greedy+
    """
    from situ.cli.compare import compare_file, show_comparison

    with user_errors(options.as_json):
        compared = compare_file(options)
        if options.as_json:
            typer.echo(json.dumps(compared.to_json(error_to_json)))
        else:
            show_comparison(compared)
        if not any(compared.plans.values()):
            raise typer.Exit(1)


@planning.command(rich_help_panel=PLAN)
@takes(StatsOptions)
def stats(options: StatsOptions) -> None:
    """Measure rates by site, selectivities and times between events in tables, on Spark.

    For example:

    situ stats alarms.situ --source Alarm=alarms.parquet --source Load=load.parquet --site station --out rates.json

    situ plan alarms.situ --network net.json --rates rates.json
    """
    from situ.cli.engines import chosen_spark
    from situ.runtime.spark.session.session import require_pyspark

    with user_errors(options.as_json):
        require_pyspark()
        from situ.cli.stats import show_measured, stats_file

        spark = chosen_spark("spark", options.master, options.conf or [])
        assert spark is not None
        measured = stats_file(options, spark)
        if options.as_json:
            typer.echo(json.dumps(asdict(measured.statistics)))
            for warning in measured.warnings:
                typer.echo(f"warning: {warning}", err=True)
        else:
            show_measured(measured)
