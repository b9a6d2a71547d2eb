"""The commands and their options. What a command does is in the file of its name.

Those files are imported when their command runs: `situ check` needs neither Numba nor a progress bar.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Literal

import typer

from situ import __version__
from situ.cli.lab import lab
from situ.cli.options import AsJson, Conf, EngineName, Functions, Master, Memory, QueryFile, error_to_json, user_errors
from situ.cli.panels import EXPERIMENTS, RUN, CommandsByPanel
from situ.cli.planning import planning
from situ.core.errors import SituWarning

app = typer.Typer(
    cls=CommandsByPanel,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"situ {__version__}")
        raise typer.Exit


@app.callback()
def situ(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version, and end.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Detects situations in streams of events. The language of query files: docs/language.md."""


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
def run(
    file: QueryFile,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE=ADDRESS",
            help="The events of a stream: a Parquet, CSV or JSON lines file, or a directory of them. Once per stream. "
            "With --follow a directory into which files are moved, kafka://HOST:PORT/TOPIC or mqtt://HOST/TOPIC.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where results go: a directory on this machine, with <subscription>/, _rejected/, _late/ and "
            "_timed_out/ in it. With --follow also kafka://, mqtt:// or postgresql://. Default: the terminal.",
            show_default=False,
        ),
    ] = None,
    file_format: Annotated[
        Literal["parquet", "csv", "json"] | None,
        typer.Option("--format", help="Of the files in a directory. Default: parquet.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote.")] = False,
    group_readable: Annotated[
        bool,
        typer.Option(
            "--group-readable",
            help="Let the group read results and checkpoint (modes 0750 and 0640). Default: nobody else (0700, 0600).",
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Complex events to show per subscription. Default: 10.", show_default=False
        ),
    ] = None,
    follow: Follow = False,
    checkpoint: CheckpointDir = None,
    control: Control = None,
    every: Every = None,
    once: Once = False,
    shards: Shards = None,
    levels: Levels = None,
    metrics: Metrics = None,
    clock_back_to: ClockBackTo = None,
    engine: EngineName = None,
    master: Master = None,
    conf: Conf = None,
    memory: Memory = None,
    functions: Functions = None,
    as_json: AsJson = False,
) -> None:
    """Detect a query's situations in files of events, or in streams.

    For example, on two cores, with the results in a folder:

    situ run braking.situ --source Vehicle=vehicles.parquet --master 'local[2]' --out found

    Follow a directory into which files are moved, with rules that may change meanwhile:

    situ run braking.situ --follow --source Vehicle=incoming --out found --checkpoint state --control rules

    Follow a topic of Kafka, a micro-batch every second, with the results in another one, and figures for Prometheus:

    situ run braking.situ --follow --source Vehicle=kafka://broker:9092/vehicles --out kafka://broker:9092/braking
    --checkpoint state --every 1s --metrics 9400
    """
    from situ.cli.engines import chosen_spark
    from situ.cli.follow import FollowOptions, follow_file, refuse_with_follow, refuse_without_follow
    from situ.cli.run import Out, run_file
    from situ.io.permissions import GROUP_READABLE, PRIVATE

    with user_errors(as_json):
        permissions = GROUP_READABLE if group_readable else PRIVATE
        options = FollowOptions(checkpoint, control, every, once, shards, levels, metrics, clock_back_to, permissions)
        spark = chosen_spark("spark" if follow and engine is None else engine, master, conf or [], memory)
        if follow:
            refuse_with_follow(options, engine == "embedded", overwrite, limit, out, file_format)
            assert spark is not None
            to_json = error_to_json if as_json else None
            follow_file(file, source or [], out, file_format or "parquet", options, functions, spark, to_json)
            return
        refuse_without_follow(options, out)
        results = Out(Path(out), file_format or "parquet", overwrite, permissions) if out else None
        summary = run_file(file, source or [], results, 10 if limit is None else limit, functions, spark, memory)
        if as_json:
            typer.echo(json.dumps(summary.to_json()))
        else:
            from situ.cli.show import show_summary

            show_summary(summary)


@app.command(rich_help_panel=EXPERIMENTS)
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
    engine: Annotated[
        Literal["spark", "spark-streaming", "embedded"] | None,
        typer.Option(
            help="As for `situ run`; spark-streaming measures warm micro-batches of a streaming query.",
            show_default=False,
        ),
    ] = None,
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
        streaming = engine == "spark-streaming"
        spark = chosen_spark("spark" if engine == "spark-streaming" else engine, master, conf or [])
        measurement = bench_workload(asked, peer_events if peer else None, spark, streaming)
        if as_json:
            typer.echo(json.dumps(measurement.to_json()))
        else:
            show_measurement(measurement)


app.add_typer(planning)
app.add_typer(lab, name="lab", rich_help_panel=EXPERIMENTS)


def main() -> None:
    warnings.simplefilter("ignore", SituWarning)  # the commands show them in their own words
    app()


if __name__ == "__main__":
    main()
