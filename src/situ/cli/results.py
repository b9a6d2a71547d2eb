"""What a run writes: a folder for each subscription, and folders for the events that did not make it into one.

    DIR/<subscription>/part-00000.parquet
    DIR/_rejected/<stream>/part-00000.parquet       events that do not fit the schema, with the reason
    DIR/_late/<stream>/part-00000.parquet
    DIR/_timed_out/<subscription>/part-00000.parquet

With the embedded engine, every piece of its output is a part of its own and is there as soon as the engine has given
it. Spark's tasks end in any order, so its results appear together, when all of them are there.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from situ.io.files.by_suffix import Format
from situ.io.files.part_files import DirectorySink
from situ.io.permissions import PRIVATE, Permissions
from situ.io.sink_names import KIND_FOLDERS

if TYPE_CHECKING:
    import pyarrow as pa

    from situ.runtime.embedded import Output

_UNFINISHED = ".unfinished-"


class ResultFolder:
    """The folder DIR of a run. Results of an earlier run are replaced only with `overwrite`."""

    def __init__(
        self, directory: Path, file_format: Format, *, overwrite: bool, permissions: Permissions = PRIVATE
    ) -> None:
        self._open = ExitStack()

        def sink(folder: Path) -> DirectorySink:
            opened = DirectorySink(folder, file_format, overwrite=overwrite, permissions=permissions)
            return self._open.enter_context(opened)

        if overwrite:
            for unfinished in directory.glob(f"{_UNFINISHED}*/"):  # of a run that was killed
                shutil.rmtree(unfinished)
        # The inner ones first: DIR's own sink takes files that lie deeper than its own for somebody else's.
        self._sinks = {kind: sink(directory / folder) for kind, folder in KIND_FOLDERS.items()}
        self._sinks["complex event"] = sink(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def write(self, output: Output) -> None:
        """One piece. Without complex events a subscription gets an empty part; without rows the others get none."""
        for name, table in output.complex_events.items():
            self.write_table("complex event", name, table)
        for name, table in output.rejected.items():
            self.write_table("rejected", name, table)
        for name, table in output.late.items():
            self.write_table("late", name, table)
        for name, table in output.timed_out.items():
            self.write_table("timed out", name, table)

    def write_table(self, kind: str, name: str, table: pa.Table) -> None:
        """One more part: of a subscription's complex events, or of rows that are rejected, late or timed out."""
        if table.num_rows or kind == "complex event":
            self._sinks[kind].write(name, table)


class StagedResults:
    """The folder DIR of a run whose results appear in it together, when all of them are written; else none does.

    Whether DIR may be used is checked when this object is made, before anything is computed.
    """

    def __init__(
        self, directory: Path, file_format: Format, *, overwrite: bool, permissions: Permissions = PRIVATE
    ) -> None:
        self._directory, self._format, self._permissions = directory, file_format, permissions
        self._is_new = not directory.exists()
        ResultFolder(directory, file_format, overwrite=overwrite).__exit__(None, None, None)

    def __enter__(self) -> ResultFolder:
        self._permissions.make_directory(self._directory)
        # Inside DIR: beside it may be another disk, or no permission. Those who read DIR pass over hidden folders.
        self._stage = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self._directory))
        return ResultFolder(self._stage, self._format, overwrite=False, permissions=self._permissions)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._publish()
        finally:
            shutil.rmtree(self._stage, ignore_errors=True)
            if kind is not None and self._is_new:
                with suppress(OSError):  # not empty: somebody else uses it by now
                    self._directory.rmdir()

    def _publish(self) -> None:
        """Each result's folder is moved as a whole."""
        for folder in sorted({file.parent for file in self._stage.rglob("*") if file.is_file()}):
            target = self._directory / folder.relative_to(self._stage)
            self._permissions.make_directory(target.parent)
            folder.rename(target)
