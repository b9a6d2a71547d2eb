"""Every `.case` file gives what it says: by the oracle, and by the embedded engine however the events come."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from cases.case_file import Case, Found, Run, compare, load
from oracle import Match, detect
from runtime.comparison import check_low_watermarks
from situ.runtime.embedded import Engine, Output

DIRECTORY = Path(__file__).parent
FILES = sorted(DIRECTORY.glob("*.case"))
LANGUAGE = DIRECTORY.parents[1] / "docs" / "language.md"


def by_oracle(case: Case) -> Found:
    """What the oracle says of accepted events: those that have a time, and are not late."""
    events = {}
    for stream in case.graph.streams:
        rows = [row for row in case.events[stream.name].to_pylist() if row[stream.time] is not None]
        late = case.expected.get(("late", stream.name))
        for cells in late.rows if late else ():
            time = float(cells[late.columns.index(stream.time)])
            rows.remove(next(row for row in rows if row[stream.time] == time))
        events[stream.name] = rows
    result = detect(case.graph, events)
    subscribed = {operator.name for operator in case.graph.subscriptions}
    return Found(
        {name: to_table(case, name, matches) for name, matches in result.matches.items() if name in subscribed},
        {name: to_table(case, name, matches) for name, matches in result.timed_out.items()},
    )


def to_table(case: Case, name: str, matches: list[Match]) -> pa.Table:
    boxes = [match.event.box or (None, None, None, None) for match in matches]
    columns = {a: pa.array([m.attributes[a] for m in matches]) for a in case.graph.schemas[name].names}
    times = pa.array([match.time for match in matches], pa.timestamp("us", tz="UTC"))
    extent = zip(("_x_min", "_y_min", "_x_max", "_y_max"), zip(*boxes, strict=True) if boxes else [[]] * 4, strict=True)
    return pa.table(columns | {"_time": times} | {side: pa.array(values, pa.float64()) for side, values in extent})


def by_engine(case: Case) -> Found:
    """Bounded input: whole tables."""
    return to_found(list(Engine(case.graph).run(case.events)))


def row_by_row(case: Case) -> Found:
    return fed(case, range(1, 1 + sum(table.num_rows for table in case.events.values())))


def in_pieces(seed: int) -> Run:
    def run(case: Case) -> Found:
        rows = sum(table.num_rows for table in case.events.values())
        generator = random.Random(f"{case.name} {seed}")
        return fed(case, sorted(generator.sample(range(rows + 1), generator.randint(1, max(1, min(3, rows))))))

    run.__name__ = f"in_pieces_{seed}"
    return run


def fed(case: Case, cuts: range | list[int]) -> Found:
    """Unbounded input: all events in order of time (or of their arrival), cut into pieces, stream by stream."""
    engine = Engine(case.graph)
    arrivals = [(stream, row) for stream, table in case.events.items() for row in range(table.num_rows)]
    if not case.unbounded:
        arrivals.sort(key=lambda arrival: time_of(case, *arrival))
    outputs = []
    for start, end in zip([0, *cuts], [*cuts, len(arrivals)], strict=True):
        for name, table in case.events.items():
            if rows := [row for stream, row in arrivals[start:end] if stream == name]:
                outputs.append(engine.feed(table.take(rows), name))
    outputs.append(engine.close())
    check_low_watermarks(outputs)
    return to_found(outputs)


def time_of(case: Case, stream: str, row: int) -> float:
    """The stream's time attribute, for sorting. A row without one is rejected whenever it comes."""
    (time,) = (s.time for s in case.graph.streams if s.name == stream)
    column = case.events[stream].column(time)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return float(column[row].as_py() or 0)


def to_found(outputs: list[Output]) -> Found:
    parts: dict[str, dict[str, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
    for output in outputs:
        for kind in ("complex_events", "timed_out", "late", "rejected"):
            for name, table in getattr(output, kind).items():
                parts[kind][name].append(table)
    return Found(**{kind: {n: pa.concat_tables(t) for n, t in tables.items()} for kind, tables in parts.items()})


RUNS = (by_oracle, by_engine, row_by_row, in_pieces(1), in_pieces(2))
#: Bounded input is sorted and never late: cases of arrivals are not for it.
CASES = [
    pytest.param(path, run, id=f"{path.stem}-{run.__name__}")
    for path in FILES
    for run in RUNS
    if run is not by_engine or "=== arrivals" not in path.read_text()
]


@pytest.mark.parametrize(("path", "run"), CASES)
def test_case(path: Path, run: Run) -> None:
    found, expected = compare(load(path), run)
    assert found == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_sentence_is_in_the_language_definition(path: Path) -> None:
    assert plain(load(path).sentence) in plain(LANGUAGE.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_result_is_written_down(path: Path) -> None:
    """Every subscription is expected, with its time and all its attributes."""
    case = load(path)
    for operator in case.graph.subscriptions:
        for kind in ("expected", "timed out") if operator.rule.timed_out else ("expected",):
            columns = case.expected[kind, operator.name].columns
            assert {"_time", *operator.schema.names} <= set(columns)


def plain(markdown: str) -> str:
    return " ".join(re.sub(r"[`*]", "", markdown).split())
