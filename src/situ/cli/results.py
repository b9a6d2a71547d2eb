"""What a run writes: a folder for each subscription, and folders for the events that did not make it into one.

    DIR/<subscription>/part-00000.parquet
    DIR/_rejected/<stream>/part-00000.parquet       events that do not fit the schema, with the reason
    DIR/_late/<stream>/part-00000.parquet
    DIR/_timed_out/<subscription>/part-00000.parquet

Every piece of the engine's output is a part of its own and is there as soon as the engine has given it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from situ.io.files import Format
from situ.io.sinks import DirectorySink

if TYPE_CHECKING:
    import pyarrow as pa

    from situ.runtime.embedded import Output


class ResultFolder:
    """The folder DIR of a run. Results of an earlier run are replaced only with `overwrite`."""

    def __init__(self, directory: Path, file_format: Format, *, overwrite: bool) -> None:
        self._open = ExitStack()

        def sink(folder: Path) -> DirectorySink:
            return self._open.enter_context(DirectorySink(folder, file_format, overwrite=overwrite))

        # The inner ones first: DIR's own sink takes files that lie deeper than its own for somebody else's.
        self._rejected = sink(directory / "_rejected")
        self._late = sink(directory / "_late")
        self._timed_out = sink(directory / "_timed_out")
        self._complex_events = sink(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def write(self, output: Output) -> None:
        """One piece. Without complex events a subscription gets an empty part; without rows the others get none."""
        for name, table in output.complex_events.items():
            self._complex_events.write(name, table)
        _write_rows(self._rejected, output.rejected)
        _write_rows(self._late, output.late)
        _write_rows(self._timed_out, output.timed_out)


def _write_rows(sink: DirectorySink, tables: dict[str, pa.Table]) -> None:
    for name, table in tables.items():
        if table.num_rows:
            sink.write(name, table)
