"""The commands and their options. What a command does is in the file of its name.

Those files are imported when their command runs: `situ check` needs neither Numba nor a progress bar.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated

import typer

from situ import __version__
from situ.cli.bench_options import BenchOptions
from situ.cli.lab import lab
from situ.cli.option_groups import takes
from situ.cli.options import AsJson, EngineName, Functions, QueryFile, error_to_json, user_errors
from situ.cli.panels import EXPERIMENTS, RUN, CommandsByPanel
from situ.cli.planning import planning
from situ.cli.run_options import RunOptions
from situ.cli.sites import sites
from situ.core.errors import SituWarning
from situ.core.pandas_later import import_pandas_later

app = typer.Typer(
    cls=CommandsByPanel,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"situ {__version__}")
        raise typer.Exit


@app.callback()
def situ(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version, and end.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Detects situations in streams of events. The language of query files: docs/language.md."""


@app.command(rich_help_panel=RUN)
def declare(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A Parquet, CSV or JSON lines file, or a directory of them, of which the first is looked at.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name of the stream. Default: that of the file.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the declaration of a stream for a file of events.

    The beginning of a query, for example:

    situ declare vehicles.parquet > braking.situ
    """
    from situ.runtime.declare import declaration_of

    with user_errors(as_json):
        declaration = declaration_of(file, name)
        as_text = {"declaration": str(declaration), "notes": declaration.notes}
        typer.echo(json.dumps(as_text) if as_json else str(declaration), nl=as_json)


@app.command(rich_help_panel=RUN)
def check(file: QueryFile, functions: Functions = None, as_json: AsJson = False) -> None:
    """Read a query file and say whether it is one."""
    from situ.cli.check import check_file

    with user_errors(as_json):
        checked = check_file(file, functions)
        typer.echo(json.dumps(checked.to_json()) if as_json else str(checked))


@app.command(rich_help_panel=RUN)
def explain(
    file: QueryFile,
    svg: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Draw the graph to a file.", show_default=False)
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE=PATH",
            help="Run it over the events of a stream, to measure what consumers share. Once per stream.",
            show_default=False,
        ),
    ] = None,
    engine: EngineName = None,
    functions: Functions = None,
    as_json: AsJson = False,
) -> None:
    """Show the query, its operator graph, the program of every operator, how Spark runs them, and what is shared."""
    from situ.cli.engines import chosen_engine
    from situ.cli.explain import explain_file

    with user_errors(as_json):
        explained = explain_file(file, functions, svg, source or [], on_spark=chosen_engine(engine) == "spark")
        typer.echo(json.dumps(explained.to_json()) if as_json else str(explained))


@app.command(rich_help_panel=RUN)
@takes(RunOptions)
def run(options: RunOptions) -> None:
    """Detect a query's situations in files of events, or in streams.

    For example, on two cores, with the results in a folder:

    situ run braking.situ --source Vehicle=vehicles.parquet --master 'local[2]' --out found

    Follow a directory into which files are moved, with rules that may change meanwhile:

    situ run braking.situ --follow --source Vehicle=incoming --out found --checkpoint state --control rules

    Follow a topic of Kafka, a micro-batch every second, with the results in another one, and figures for Prometheus:

    situ run braking.situ --follow --source Vehicle=kafka://broker:9092/vehicles --out kafka://broker:9092/braking
    --checkpoint state --every 1s --metrics 9400

    The same without Java, in this process, on a machine that is small:

    situ run braking.situ --follow --engine embedded --source Vehicle=mqtt://broker/vehicles --out found
    --checkpoint state
    """
    from situ.cli.engines import chosen_spark

    with user_errors(options.as_json):
        on = options.engine_options
        engine = "spark" if options.follow and on.engine is None else on.engine
        spark = chosen_spark(engine, on.master, on.conf or [], on.memory)
        if options.follow and spark is None:
            from situ.cli.follow_embedded import follow_embedded

            follow_embedded(options, error_to_json if options.as_json else None)
        elif options.follow:
            from situ.cli.follow import follow_file

            follow_file(options, spark, error_to_json if options.as_json else None)
        else:
            from situ.cli.run import run_file

            summary = run_file(options, spark)
            if options.as_json:
                typer.echo(json.dumps(summary.to_json()))
            else:
                from situ.cli.show import show_summary

                show_summary(summary)


@app.command(rich_help_panel=EXPERIMENTS)
@takes(BenchOptions)
def bench(options: BenchOptions) -> None:
    """Measure events per second, from Parquet on disk to matches."""
    from situ.cli.bench import bench_workload, show_measurement

    with user_errors(options.as_json):
        measurement = bench_workload(options)
        if options.as_json:
            typer.echo(json.dumps(measurement.to_json()))
        else:
            show_measurement(measurement)


app.add_typer(planning)
app.add_typer(sites)
app.add_typer(lab, name="lab", rich_help_panel=EXPERIMENTS)


def main() -> None:
    warnings.simplefilter("ignore", SituWarning)  # the commands show them in their own words
    import_pandas_later()
    app()


if __name__ == "__main__":
    main()
