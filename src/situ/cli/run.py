"""`situ run`: a query over files, on Spark or with the embedded engine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from situ.cli.engines import OnSpark
from situ.cli.query_file import import_functions, read_query
from situ.cli.results import ResultFolder, StagedResults
from situ.cli.summary import Summary
from situ.core.errors import InputError, did_you_mean
from situ.graph.operators import OperatorGraph
from situ.io.files import Format, files_below, open_source
from situ.io.source import Source
from situ.lang.resolve import resolve, warnings


@dataclass(frozen=True, slots=True)
class Out:
    """Where results go: a directory, in which format, and whether an earlier run's may be replaced."""

    directory: Path
    format: Format
    overwrite: bool


def run_file(
    file: Path, sources: list[str], out: Out | None, limit: int, functions: str | None, spark: OnSpark | None
) -> Summary:
    """Runs the query in a file over the sources (`Type=PATH`); on Spark, if one is given."""
    start = time.perf_counter()
    module = import_functions(functions)
    graph = resolve(read_query(file))
    paths = paths_of_streams(graph, sources)
    summary = Summary(limit, warnings=tuple(map(str, warnings(graph))), out=out.directory if out else None)
    summary.complex_events.update({operator.name: 0 for operator in graph.subscriptions})
    if spark is None:
        _run_embedded(graph, paths, out, summary)
    else:
        from situ.runtime.spark.session import require_pyspark

        require_pyspark()
        from situ.cli.run_spark import run_on_spark

        if spark.is_here:
            say_if_compiling()
        for path in paths.values():
            files_below(path)  # what is not there is said at once, not when Spark has started
        staged = StagedResults(out.directory, out.format, overwrite=out.overwrite) if out else None
        run_on_spark(graph, paths, spark, staged, summary, module)
    summary.seconds = time.perf_counter() - start
    return summary


def _run_embedded(graph: OperatorGraph, paths: dict[str, Path], out: Out | None, summary: Summary) -> None:
    """In this process; results are written while it runs."""
    from situ.runtime.embedded import Engine

    streams = {stream.name: open_source(paths[stream.name], stream) for stream in graph.streams}
    engine = Engine(graph)
    say_if_compiling()
    folder = ResultFolder(out.directory, out.format, overwrite=out.overwrite) if out else None
    with folder or nullcontext(), progress_bar(list(streams.values())) as show_progress:
        for output in engine.run(streams):
            summary.add(output)
            if folder:
                folder.write(output)
            show_progress(summary.events)
    for name, totals in engine.reuse.items():
        summary.shared(name, totals)


def say_if_compiling() -> None:
    from situ.kernel.match import is_compiled

    if not is_compiled():
        print("compiling the kernel, which happens once and takes some twenty seconds ...", file=sys.stderr)


def paths_of_streams(graph: OperatorGraph, sources: list[str]) -> dict[str, Path]:
    """`["Vehicle=cars.parquet"]` -> {"Vehicle": Path("cars.parquet")}: each stream of the query exactly once."""
    names = [stream.name for stream in graph.streams]
    paths: dict[str, Path] = {}
    for source in sources:
        name, equals, path = source.partition("=")
        if not equals or not path:
            raise InputError(
                f"--source '{source}' names no path", remedy="Write it as Type=PATH: --source Vehicle=cars.csv"
            )
        if name not in names:
            raise InputError(
                f"the query has no stream '{name}' for --source '{source}'", remedy=did_you_mean(name, names)
            )
        if name in paths:
            raise InputError(
                f"two sources for stream '{name}'", remedy="Put the files into one directory, and give that."
            )
        paths[name] = Path(path)
    if missing := [name for name in names if name not in paths]:
        remedy = "Add " + " ".join(f"--source {name}=PATH" for name in missing)
        raise InputError(f"no source for stream {', '.join(missing)}", remedy=remedy)
    return paths


@contextmanager
def progress_bar(sources: list[Source]) -> Iterator[Callable[[int], None]]:
    """Gives a function that shows how many events have been read, if a person is watching."""
    if not sys.stderr.isatty():
        yield lambda events: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    rows = [source.rows for source in sources]
    total = None if None in rows else sum(n for n in rows if n is not None)
    columns = BarColumn(), TextColumn("{task.completed:,.0f} events"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda events: progress.update(task, completed=events)
