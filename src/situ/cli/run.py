"""`situ run`: a query over files, with the embedded engine."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from situ.cli.query_file import import_functions, read_query
from situ.cli.results import ResultFolder
from situ.core.errors import InputError, did_you_mean
from situ.graph.operators import OperatorGraph
from situ.io.files import Format, open_source
from situ.io.source import Source
from situ.kernel.match import is_compiled
from situ.lang.resolve import resolve, warnings
from situ.runtime.embedded import Engine, Output


@dataclass(slots=True)
class Summary:
    """What a run has read and found so far; `first` holds the first complex events of each subscription."""

    limit: int
    events: int = 0
    rejected: int = 0
    late: int = 0
    timed_out: int = 0
    complex_events: Counter[str] = field(default_factory=Counter)
    first: dict[str, pa.Table] = field(default_factory=dict)
    failed_calls: Counter[str] = field(default_factory=Counter)
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    out: Path | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "rejected": self.rejected,
            "late": self.late,
            "complex_events": dict(self.complex_events),
            "timed_out": self.timed_out,
            "failed_calls": dict(self.failed_calls),
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
            "out": str(self.out) if self.out else None,
        }

    def add(self, output: Output) -> None:
        """Counts one piece of the engine's output, and keeps its complex events while fewer than `limit` are kept."""
        self.events += output.events
        self.rejected += _rows(output.rejected)
        self.late += _rows(output.late)
        self.timed_out += _rows(output.timed_out)
        self.failed_calls.update(output.failed_calls)
        for name, table in output.complex_events.items():
            missing = self.limit - min(self.limit, self.complex_events[name])
            if missing and table.num_rows:
                # take copies: a slice would keep the whole piece in memory.
                head = table.take(list(range(min(missing, table.num_rows))))
                self.first[name] = pa.concat_tables([self.first[name], head]) if name in self.first else head
            self.complex_events[name] += table.num_rows


def _rows(tables: dict[str, pa.Table]) -> int:
    return sum(table.num_rows for table in tables.values())


def run_file(
    file: Path,
    sources: list[str],
    out: Path | None,
    file_format: Format,
    overwrite: bool,
    limit: int,
    functions: str | None,
) -> Summary:
    """Runs the query in a file over the sources (`Type=PATH`), and writes to `out` while it runs."""
    start = time.perf_counter()
    import_functions(functions)
    graph = resolve(read_query(file))
    paths = paths_of_streams(graph, sources)
    streams = {stream.name: open_source(paths[stream.name], stream) for stream in graph.streams}
    engine = Engine(graph)
    summary = Summary(limit, warnings=tuple(map(str, warnings(graph))), out=out)
    if not is_compiled():
        print("compiling the kernel, which happens once and takes some twenty seconds ...", file=sys.stderr)
    summary.complex_events.update({operator.name: 0 for operator in graph.subscriptions})
    folder = ResultFolder(out, file_format, overwrite=overwrite) if out else None
    with folder or nullcontext(), progress_bar(list(streams.values())) as show_progress:
        for output in engine.run(streams):
            summary.add(output)
            if folder:
                folder.write(output)
            show_progress(summary.events)
    summary.seconds = time.perf_counter() - start
    return summary


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
