"""Files and directories as sources, by their suffixes."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Literal as OneOf
from typing import TypeAlias

from situ.core.errors import InputError
from situ.graph.query import Stream
from situ.io.files.csv_lines import CsvFormat
from situ.io.files.json_lines import JsonFormat
from situ.io.files.lines import LineSource
from situ.io.files.parquet import ParquetSource
from situ.io.files.source import Source

Format: TypeAlias = OneOf["parquet", "csv", "json"]

SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json.gz": "json",
    ".jsonl.gz": "json",
    ".ndjson.gz": "json",
}


def open_source(path: str | Path, stream: Stream) -> Source:
    """A file, or all files below a directory, as the events of a stream.

    Footers, headers and columns are checked here, before anything is read.

    >>> import tempfile
    >>> from situ.core.types import INT
    >>> from situ.graph.query import AttributeDeclaration
    >>> stream = Stream("Ping", (AttributeDeclaration("n", INT),), time="n", time_unit="s")
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = Path(directory, "pings.csv").write_text("n\\n1\\n2\\n")
    ...     [chunk.read(["n"]).times.tolist() for chunk in open_source(directory, stream).chunks()]
    [[1000000, 2000000]]
    """
    files, format_ = files_of_one_format(Path(path))
    match format_:
        case "parquet":
            return ParquetSource(files, stream)
        case "csv":
            return LineSource([(file, CsvFormat.of_file(file, stream)) for file in files], stream)
        case "json":
            return LineSource(list(zip(files, JsonFormat.of_files(files, stream), strict=True)), stream)


def open_checked_file(path: Path, stream: Stream) -> Source:
    """One of the files of a source that was opened before, in another process: what it lacks is known there."""
    if format_of(path) == "json":
        return LineSource([(path, JsonFormat.of_checked_file(path, stream))], stream)
    return open_source(path, stream)


def files_of_one_format(root: Path) -> tuple[list[Path], Format]:
    """The files that `files_below` gives; InputError if they are of several formats, or of none that situ reads."""
    files = files_below(root)
    formats = {format_of(file) for file in files}
    if len(formats) > 1:
        raise InputError(
            f"holds files of several formats ({', '.join(sorted(formats))})",
            place=str(root),
            remedy="Give each format a directory of its own.",
        )
    return files, formats.pop()


def files_below(root: Path) -> list[Path]:
    """The file itself, or all below the directory in order of their names, without hidden and `_` ones."""
    if not root.exists():
        beside = [p.name for p in root.parent.iterdir()] if root.parent.is_dir() else []
        close = difflib.get_close_matches(root.name, beside, n=1)
        remedy = f"Did you mean '{close[0]}'?" if close else f"Look into {root.parent.resolve()}."
        raise InputError("there is no such file or directory", place=str(root), remedy=remedy)
    if not root.is_dir():
        return [root]
    files = sorted(file for file in root.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(root)))
    if not files:
        raise InputError(
            "the directory holds no files", place=str(root), remedy=f"situ reads {', '.join(SUFFIXES)} files."
        )
    return files


def format_of(file: Path) -> Format:
    """The format that the file's name says.

    >>> format_of(Path("trips.csv.gz"))
    'csv'
    """
    for suffix in ("".join(file.suffixes[-2:]).lower(), file.suffix.lower()):
        if suffix in SUFFIXES:
            return SUFFIXES[suffix]
    raise InputError(
        f"the suffix '{file.suffix}' says no format that situ reads",
        place=str(file),
        remedy=f"situ reads {', '.join(SUFFIXES)}; in a directory, files that begin with _ or . are passed over.",
    )


def _is_hidden(file: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.parts)
