"""The commands of the planner: `situ plan`, `situ compare` and `situ stats`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from situ.cli.option_groups import takes
from situ.cli.options import error_to_json, user_errors
from situ.cli.panels import PLAN
from situ.cli.planning_options import CompareOptions, PlanOptions, StatsOptions
from situ.core.errors import InputError

if TYPE_CHECKING:
    from situ.cli.measured import MeasuredStatistics

planning = typer.Typer()


@planning.command(rich_help_panel=PLAN)
@takes(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Say where in a network the operators of a query run, what is pushed to them and what they pull.

    For example, with the results in Munich within 40 ms, and a picture:

    situ plan alarms.situ --network net.json --rates rates.json --root Munich --latency 40 --svg plan.svg

    Again, with what the sites have counted since:

    situ plan alarms.situ --network net.json --from-running --keys keys/control --out plan.json
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
    """Measure rates by site and selectivities: at sites that run, or in tables, on Spark.

    For example, what sites have counted, and a plan of it:

    situ stats alarms.situ --network net.json --keys keys/control --out rates.json

    situ plan alarms.situ --network net.json --rates rates.json

    And what tables have:

    situ stats alarms.situ --source Alarm=alarms.parquet --source Load=load.parquet --site station --out rates.json
    """
    from situ.cli.measured import show_measured

    with user_errors(options.as_json):
        measured = _measured(options)
        if options.as_json:
            typer.echo(json.dumps(asdict(measured.statistics)))
            for warning in measured.warnings:
                typer.echo(f"warning: {warning}", err=True)
        else:
            show_measured(measured)


def _measured(options: StatsOptions) -> MeasuredStatistics:
    """Of running sites where the options name some, else of tables."""
    if options.source is None and options.site is None:
        if not (options.control.network or options.control.directory):
            raise InputError(
                "what is to be measured?",
                remedy="Give --source TYPE=PATH and --site COLUMN for tables, or --network NET and --keys DIR/control "
                "(or the --dir of `situ up`) for sites that run.",
            )
        from situ.cli.running_statistics import stats_of_running

        return stats_of_running(options)
    if options.control.network or options.control.directory or options.seconds:
        raise InputError(
            "--source and --site are for tables, the other options for sites that run", remedy="Leave out one of both."
        )
    if options.source is None or options.site is None:
        raise InputError("tables need both --source and --site", remedy="Say which column names the site: --site.")
    from situ.cli.engines import chosen_spark
    from situ.runtime.spark.session.session import require_pyspark

    require_pyspark()
    from situ.cli.stats import stats_file

    spark = chosen_spark("spark", options.master, options.conf or [])
    assert spark is not None
    return stats_file(options, spark)
