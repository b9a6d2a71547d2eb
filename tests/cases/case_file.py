"""`.case` files: a sentence of docs/language.md, a query, events, and the complex events that they give.

    -- `then each`: nothing more is asked                       the sentence: the comment up to the first empty line

    stream A(ts int) time ts in s                               the query
    subscribe Pairs
      detect A as a then each A as b within 9 s
      assign a = a.ts, b = b.ts

    === events A                                                in any order: bounded input is sorted
    ts
    1
    2
    === expected Pairs                                          in any order; every attribute, and when
    _time  a  b
    2      1  2                                                 -- why

Other sections: `timed out NAME`, `rejected STREAM`, and for unbounded input `arrivals STREAM` (rows as they come, of
one stream) with `late STREAM`. Times and durations are in seconds (timestamps from the epoch), texts with spaces in
single quotes, binaries as 0x00ff, lists as [1,null,3] without spaces. A file says nothing about engines: a `Run` does.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from situ.core.types import DOUBLE, DURATION, STRING, TIMESTAMP, Decimal, List, Simple, Type, to_arrow
from situ.graph.operators import OperatorGraph
from situ.lang.parse import parse
from situ.lang.resolve import resolve

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)
#: The types of columns that are not attributes.
OWN_TYPES: dict[str, Type] = {
    "_time": TIMESTAMP,
    "_lateness": DURATION,
    "_reason": STRING,
    **dict.fromkeys(("_x_min", "_y_min", "_x_max", "_y_max"), DOUBLE),
}

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Found:
    """What an engine found, by subscription or stream. A name that is not there has no rows; None: it does not say."""

    complex_events: Tables
    timed_out: Tables | None = None
    late: Tables | None = None
    rejected: Tables | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A table of a case file: the names of its columns, and its rows as text."""

    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, slots=True)
class Case:
    """A file. `events` are typed as the streams declare; `unbounded`: they come in this order, and may be late."""

    name: str
    sentence: str
    query: str
    graph: OperatorGraph
    events: dict[str, pa.Table]
    unbounded: bool
    expected: dict[tuple[str, str], Section]

    def __str__(self) -> str:
        return self.name


Run = Callable[[Case], Found]


def load(path: Path) -> Case:
    """A case file; ValueError where it is none."""
    query, *parts = re.split(r"^=== *", path.read_text(), flags=re.MULTILINE)
    sentence = re.match(r"(?:--.*\n)+", query)
    graph = resolve(parse(query, str(path)))
    events: dict[str, pa.Table] = {}
    expected: dict[tuple[str, str], Section] = {}
    unbounded = False
    for part in parts:
        title, _, body = part.partition("\n")
        kind, name = re.fullmatch(r"(\w+|timed out) +(\w+) *", title).groups()  # type: ignore[union-attr]
        section = to_section(body)
        if kind in ("events", "arrivals"):
            events[name] = to_table(section, dict(graph.schemas[name].attributes))
            unbounded = kind == "arrivals"
        elif kind in ("expected", "timed out", "late", "rejected"):
            expected[kind, name] = section
        else:
            raise ValueError(f"{path}: no section is called {kind!r}")
    if sentence is None or (unbounded and len(events) > 1):
        raise ValueError(f"{path}: begins with a sentence; rows arrive on one stream only")
    words = re.sub(r"^--", "", sentence[0], flags=re.MULTILINE).split()
    return Case(path.stem, " ".join(words), query, graph, with_empty(graph, events), unbounded, expected)


def compare(case: Case, run: Run) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What the engine finds and what the file says, in the same form: nothing that is found goes unmentioned."""
    found = run(case)
    given = {
        "expected": found.complex_events,
        "timed out": found.timed_out,
        "late": found.late,
        "rejected": found.rejected,
    }
    shown: dict[str, list[str]] = {}
    wanted: dict[str, list[str]] = {}
    for kind, tables in given.items():
        if tables is None:
            continue
        for name in {name for section_kind, name in case.expected if section_kind == kind} | set(tables):
            section = case.expected.get((kind, name), Section([], []))
            types = OWN_TYPES | dict(case.graph.schemas[name].attributes)
            wanted[f"{kind} {name}"] = to_lines(to_table(section, types), section.columns)
            table = tables.get(name, pa.table({column: [] for column in section.columns}))
            shown[f"{kind} {name}"] = to_lines(table, section.columns or table.column_names)
    return shown, wanted


def to_section(body: str) -> Section:
    lines = [cells for line in body.splitlines() if (cells := to_cells(line))]
    columns, *rows = lines or [[]]
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"{row} has not one cell for each of {columns}")
    return Section(columns, rows)


def to_cells(line: str) -> list[str]:
    """The cells of a line, up to a comment.

    >>> to_cells("1  'it''s late'  null  -- no reason given")
    ['1', "'it''s late'", 'null']
    """
    before_comment = re.match(r"((?!--)('[^']*'|[^']))*", line)
    return re.findall(r"'(?:[^']|'')*'|[^\s']+", before_comment[0])  # type: ignore[index]


def to_table(section: Section, types: Mapping[str, Type]) -> pa.Table:
    columns = {
        name: pa.array([to_value(row[i], types[name]) for row in section.rows], to_arrow(types[name]))
        for i, name in enumerate(section.columns)
    }
    return pa.table(columns)


def to_value(cell: str, type_: Type) -> Any:
    if cell == "null":
        return None
    match type_:
        case Simple.INT:
            return int(cell)
        case Simple.DOUBLE:
            return float(cell)
        case Simple.BOOLEAN:
            return {"true": True, "false": False}[cell]
        case Simple.STRING:
            return cell[1:-1].replace("''", "'") if cell.startswith("'") else cell
        case Simple.BINARY:
            return bytes.fromhex(cell.removeprefix("0x"))
        case Simple.TIMESTAMP:
            return EPOCH + float(cell) * SECOND
        case Simple.DURATION:
            return float(cell) * SECOND
        case Decimal():
            return decimal.Decimal(cell)
        case List(element):
            return [to_value(item, element) for item in cell[1:-1].split(",") if item]
        case _:
            raise ValueError(f"a cell cannot be {type_}")


def with_empty(graph: OperatorGraph, events: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """A table for every stream, with every declared column."""
    types = {s.name: {a.name: to_arrow(a.type) for a in s.attributes} for s in graph.streams}
    return {
        name: pa.table(
            {
                column: events[name].column(column) if name in events else pa.array([], type_)
                for column, type_ in columns.items()
            }
        )
        for name, columns in types.items()
    }


def to_lines(table: pa.Table, columns: list[str]) -> list[str]:
    """The rows as text, sorted: also 1 and 1.0, and decimals of another scale, are different."""
    rows = table.select(columns).to_pylist()
    return sorted("  ".join(f"{name}={show(value)}" for name, value in row.items()) for row in rows)


def show(value: Any) -> str:
    match value:
        case None:
            return "null"
        case float():
            return repr(round(value, 9))
        case datetime.datetime():
            return f"{(value - EPOCH) / SECOND} s"
        case datetime.timedelta():
            return f"{value / SECOND} s"
        case decimal.Decimal():
            return str(value)
        case list():
            return f"[{', '.join(map(show, value))}]"
        case _:
            return repr(value)
