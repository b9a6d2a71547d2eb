"""`situ run`: a query over files, on Spark or with the embedded engine."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from situ.cli.engines import OnSpark
from situ.cli.query_file import import_functions, read_query
from situ.cli.results import ResultFolder, StagedResults
from situ.cli.run_options import SHOWN, RunOptions, refuse_without_follow, time_given
from situ.cli.summary import Summary
from situ.core.errors import InputError
from situ.core.hops import Stopwatch
from situ.core.memory import parse_memory
from situ.graph.operators import OperatorGraph
from situ.io.addresses import is_url, shown_address
from situ.io.files.by_suffix import Format, files_below, open_source
from situ.io.files.source import Source
from situ.io.permissions import PRIVATE, Permissions
from situ.io.sink_names import FolderNames, require_names
from situ.lang.resolve import resolve, warnings
from situ.runtime.given import given_by_stream


@dataclass(frozen=True, slots=True)
class Out:
    """Where results go: a directory, in which format, whether an earlier run's may be replaced, and who may read."""

    directory: Path
    format: Format
    overwrite: bool
    permissions: Permissions = PRIVATE

    @classmethod
    def of(cls, options: RunOptions) -> Out | None:
        """Where the options say that results go; None is the terminal."""
        if not options.out:
            return None
        return cls(Path(options.out), options.file_format or "parquet", options.overwrite, options.permissions)


def run_file(options: RunOptions, spark: OnSpark | None) -> Summary:
    """Runs the query in a file over files of events, on Spark if one is given, else in this process."""
    refuse_without_follow(options)
    out = Out.of(options)
    start = time.perf_counter()
    module = import_functions(options.functions)
    graph = resolve(read_query(options.file))
    if options.start is not None:
        graph = replace(graph, start_us=time_given("--start", options.start))
    if out is not None:
        require_names(graph, FolderNames())
    paths = paths_of_streams(graph, options.source or [])
    limit = SHOWN if options.limit is None else options.limit
    summary = Summary(limit, warnings=tuple(map(str, warnings(graph))), out=out.directory if out else None)
    summary.complex_events.update({operator.name: 0 for operator in graph.subscriptions})
    summary.timing = {} if options.timing else None
    if spark is None:
        memory = options.engine_options.memory
        _run_embedded(graph, paths, out, summary, None if memory is None else parse_memory(memory))
    else:
        from situ.runtime.spark.session.session import require_pyspark

        require_pyspark()
        from situ.cli.run_spark import run_on_spark

        if any(demand.metric == "latency" for s in graph.query.subscriptions for demand in s.demands):
            summary.warnings += ("demands of latency are not measured: a batch on Spark answers when all is read.",)
        if spark.is_here:
            say_if_compiling()
        for path in paths.values():
            files_below(path)  # what is not there is said at once, not when Spark has started
        staged = _staged(out) if out else None
        run_on_spark(graph, paths, spark, staged, summary, module)
    summary.seconds = time.perf_counter() - start
    return summary


def _folder(out: Out) -> ResultFolder:
    return ResultFolder(out.directory, out.format, overwrite=out.overwrite, permissions=out.permissions)


def _staged(out: Out) -> StagedResults:
    return StagedResults(out.directory, out.format, overwrite=out.overwrite, permissions=out.permissions)


def _run_embedded(
    graph: OperatorGraph, paths: dict[str, Path], out: Out | None, summary: Summary, memory: int | None
) -> None:
    """Runs the query in this process, and writes results while it runs."""
    from situ.runtime.embedded import Engine

    streams = {stream.name: open_source(paths[stream.name], stream) for stream in graph.streams}
    engine = Engine(graph, memory=memory)
    gc.freeze()  # thousands of rules are many objects, which stay: no need to look for garbage among them again
    say_if_compiling()
    folder = _folder(out) if out else None
    with folder or nullcontext(), progress_bar(list(streams.values())) as show_progress:
        outputs = engine.run(streams)
        watch = None if summary.timing is None else Stopwatch()
        for output in outputs if watch is None else watch.through(outputs, "writing and showing"):
            summary.add(output)
            if folder:
                folder.write(output)
            show_progress(summary.events)
    if watch is not None:
        summary.timing = {f"embedded: {hop}": seconds for hop, seconds in watch.seconds.items()}
    summary.demands = engine.demands
    for name, totals in engine.reuse.items():
        summary.shared(name, totals)


def say_if_compiling() -> None:
    from situ.kernel.matching.match import is_compiled

    if not is_compiled():
        print("compiling the kernel, which happens once and takes some twenty seconds ...", file=sys.stderr)


def paths_of_streams(graph: OperatorGraph, sources: list[str]) -> dict[str, Path]:
    """`["Vehicle=cars.parquet"]` -> {"Vehicle": Path("cars.parquet")}: each stream of the query exactly once."""
    addresses = addresses_of_streams(graph, sources)
    for address in addresses.values():
        if is_url(address):
            raise InputError(
                f"{shown_address(address)} is a stream that does not end, and here situ reads files",
                remedy="`situ run` with --follow and --checkpoint DIR reads streams.",
            )
    return {name: Path(address) for name, address in addresses.items()}


def addresses_of_streams(graph: OperatorGraph, sources: list[str]) -> dict[str, str]:
    """The address of each stream of the query, each exactly once. Addresses may hold secrets: no error shows one as it
    is."""
    addresses: dict[str, str] = {}
    for source in sources:
        name, equals, address = source.partition("=")
        if not equals or not address or "://" in name:  # an address alone may have a `=` in its options
            raise InputError(
                f"--source '{shown_address(source)}' names no path or no stream",
                remedy="Write it as Type=PATH: --source Vehicle=cars.csv",
            )
        if name in addresses:
            raise InputError(
                f"two sources for stream '{name}'", remedy="Put the files into one directory, and give that."
            )
        addresses[name] = address
    return given_by_stream(graph, addresses, "source", "--source {}=PATH")


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
