"""The commands and their options. What a command does is in the file of its name.

Those files are imported when their command runs: `situ check` needs neither Numba nor a progress bar.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from situ.core.errors import InputError, Place, SituError, SituWarning

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Detects situations in streams of events. The language of query files: docs/language.md.",
)

QueryFile = Annotated[Path, typer.Argument(metavar="FILE", help="A query file.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, errors too.")]
EngineName = Annotated[
    Literal["spark", "embedded"] | None,
    typer.Option(
        "--engine",
        help="spark: many processes, here or on a cluster. embedded: this process, which starts faster. "
        "Both find the same. Default: spark, where PySpark is installed.",
        show_default=False,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where Spark runs: local[4] (four cores of this machine), spark://HOST:7077, yarn, or sc://HOST for "
        "Spark Connect. Default: what spark-defaults.conf says, else all cores of this machine.",
        show_default=False,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="A setting of Spark's, such as spark.driver.memory=8g. May be given several times.",
        show_default=False,
    ),
]
Functions = Annotated[
    str | None,
    typer.Option(metavar="MODULE", help="Python module whose functions the query calls.", show_default=False),
]


@contextmanager
def user_errors(as_json: bool) -> Iterator[None]:
    """A user's mistake ends the command with a message and exit code 1, never with a traceback."""
    try:
        try:
            yield
        except BrokenPipeError:  # `situ run ... | head`: typer knows what to do
            raise
        except OSError as error:  # a full disk, a directory without permission: not a defect of situ's
            raise InputError(error.strerror or str(error), place=error.filename) from error
    except SituError as error:
        if as_json:
            typer.echo(json.dumps({"error": _error_to_json(error)}))
        else:
            typer.secho(str(error), fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from None


def _error_to_json(error: SituError) -> dict[str, Any]:
    place: Any = error.place
    if isinstance(place, Place):
        place = {"file": place.file, "line": place.line, "column": place.column}
    return {"kind": type(error).__name__, "cause": error.cause, "place": place, "remedy": error.remedy}


@app.command()
def check(file: QueryFile, functions: Functions = None, as_json: AsJson = False) -> None:
    """Read a query file and say whether it is one."""
    from situ.cli.check import check_file

    with user_errors(as_json):
        checked = check_file(file, functions)
        typer.echo(json.dumps(checked.to_json()) if as_json else str(checked))


@app.command()
def explain(
    file: QueryFile,
    svg: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Draw the graph to a file.", show_default=False)
    ] = None,
    engine: EngineName = None,
    functions: Functions = None,
    as_json: AsJson = False,
) -> None:
    """Show the query, its operator graph, the program of every operator, and how Spark runs them."""
    from situ.cli.engines import chosen_engine
    from situ.cli.explain import explain_file

    with user_errors(as_json):
        explained = explain_file(file, functions, svg, on_spark=chosen_engine(engine) == "spark")
        typer.echo(json.dumps(explained.to_json()) if as_json else str(explained))


@app.command()
def run(
    file: QueryFile,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE=PATH",
            help="The events of a stream: a Parquet, CSV or JSON lines file, or a directory of them. Once per stream.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write DIR/<subscription>/, DIR/_rejected/, DIR/_late/ and DIR/_timed_out/, on this machine.",
            show_default=False,
        ),
    ] = None,
    file_format: Annotated[
        Literal["parquet", "csv", "json"], typer.Option("--format", help="Of the files in DIR.")
    ] = "parquet",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote to DIR.")] = False,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Complex events to show per subscription.")] = 10,
    engine: EngineName = None,
    master: Master = None,
    conf: Conf = None,
    functions: Functions = None,
    as_json: AsJson = False,
) -> None:
    """Detect a query's situations in files of events.

    For example, on two cores, with the results in a folder:

    situ run braking.situ --source Vehicle=vehicles.parquet --master 'local[2]' --out found
    """
    from situ.cli.engines import chosen_spark
    from situ.cli.run import Out, run_file

    with user_errors(as_json):
        results = Out(out, file_format, overwrite) if out else None
        summary = run_file(file, source or [], results, limit, functions, chosen_spark(engine, master, conf or []))
        if as_json:
            typer.echo(json.dumps(summary.to_json()))
        else:
            from situ.cli.show import show_summary

            show_summary(summary)


@app.command()
def bench(
    workload: Annotated[Literal["next", "each", "rising"], typer.Option(help="The pattern.")] = "next",
    types: Annotated[int, typer.Option(min=1, help="Event types; the patterns read up to three of them.")] = 100,
    keys: Annotated[int, typer.Option(min=1, help="Groups.")] = 1_000,
    events: Annotated[int, typer.Option(min=1, help="Events that situ reads.")] = 8_000_000,
    window_ms: Annotated[int, typer.Option(min=1, help="The pattern's window.")] = 1_000_000,
    no_group: Annotated[bool, typer.Option("--no-group", help="Match across keys: one group.")] = False,
    peer: Annotated[
        Literal["flinkcep"] | None, typer.Option(help="Run a peer on the same events.", show_default=False)
    ] = None,
    peer_events: Annotated[int, typer.Option(min=1, help="Events that the peer reads.")] = 2_000_000,
    engine: EngineName = None,
    master: Master = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Measure events per second, from Parquet on disk to matches."""
    from situ.bench.workload import Pattern, Workload
    from situ.cli.bench import bench_workload, show_measurement
    from situ.cli.engines import chosen_spark

    with user_errors(as_json):
        asked = Workload(Pattern(workload), types, keys, events, window_ms, grouped=not no_group)
        spark = chosen_spark(engine, master, conf or [])
        measurement = bench_workload(asked, peer_events if peer else None, spark)
        if as_json:
            typer.echo(json.dumps(measurement.to_json()))
        else:
            show_measurement(measurement)


def main() -> None:
    warnings.simplefilter("ignore", SituWarning)  # the commands show them in their own words
    app()


if __name__ == "__main__":
    main()
