"""Declarations for files and tables: they parse, they run unchanged, and they say what was guessed."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import situ
from cli.command import situ as command
from situ.core.types import BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Decimal
from situ.io.rows.declare import declare_columns
from situ.io.rows.found_columns import FoundColumn

ROWS = [
    {
        "vehicle id": f"car{n}",
        "zip": "01234",
        "order": n,
        "Speed (m/s)": n + 0.5,
        "position": {"lon": 11.4, "lat": 48.7},
        "on": n % 2 == 0,
        "ts": f"2026-03-01T10:0{n}:00",
        "tags": ["a"],
    }
    for n in range(4)
]
DECLARED = """\
stream Vehicle(
  vehicle_id string from `vehicle id`,
  zip string,
  order int,
  Speed_m_s double from `Speed (m/s)`,
  position_lon double from position.lon,
  position_lat double from position.lat,
  on boolean,
  ts timestamp
)
  time ts  at (position_lon, position_lat) in degrees  key vehicle_id
"""


def written(directory: Path) -> dict[str, Path]:
    """The same rows as JSON lines, Parquet and, without nesting, CSV."""
    (directory / "vehicles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS) + '{"cut off')
    typed = [row | {"ts": datetime.fromisoformat(row["ts"])} for row in ROWS]
    pq.write_table(pa.Table.from_pylist(typed), directory / "vehicles.parquet")
    flat = [{k: v for k, v in row.items() if k not in ("position", "tags")} for row in ROWS]
    lines = [",".join(flat[0]), *(",".join(map(str, row.values())) for row in flat)]
    (directory / "vehicles.csv").write_text("\n".join(lines))
    return {path.suffix: path for path in directory.iterdir()}


def events_read(declaration: str, events: object) -> tuple[int, int]:
    """How many events a query with the declaration reads, and how many rows it rejects."""
    name = situ.parse(declaration).streams[0].name
    engine = situ.Engine(declaration + f"subscribe All detect {name} as e assign n = 1")
    outputs = list(engine.run(events))
    return sum(o.events for o in outputs), sum(t.num_rows for o in outputs for t in o.rejected.values())


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv"])
def test_a_file_is_declared_and_runs_unchanged(tmp_path: Path, suffix: str) -> None:
    file = written(tmp_path)[suffix]
    code, text, err = command("declare", file)
    assert (code, err) == (0, "")
    assert situ.declare(file) == text
    if suffix == ".csv":
        assert [str(a.type) for a in situ.parse(text).streams[0].attributes] == [
            "string", "string", "int", "double", "boolean", "timestamp",
        ]  # fmt: skip
    else:
        assert text.endswith(DECLARED)
        assert "-- left out: 'tags', which is list" in text
    assert "-- time: ts is a timestamp\n" in text
    assert "-- key: vehicle_id is called like an identifier\n" in text
    assert ("-- types: by the first rows" in text) == (suffix != ".parquet")
    assert events_read(text, file) == (4, 1 if suffix == ".jsonl" else 0)
    assert json.loads(command("declare", file, "--name", "Car", "--json")[1])["declaration"].count("stream Car(") == 1


def test_tables_and_pandas_are_declared(tmp_path: Path) -> None:
    table = pq.read_table(written(tmp_path)[".parquet"])
    assert situ.declare(table, "Vehicle").endswith(DECLARED)
    assert situ.declare(table.to_pandas(), "Vehicle").count("double from position.lon") == 1
    with pytest.raises(situ.InputError, match="list of builtins has no columns"):
        situ.declare([1])


@pytest.mark.slow
def test_a_dataframe_of_sparks_is_declared(spark: object, tmp_path: Path) -> None:
    df = spark.createDataFrame(pq.read_table(written(tmp_path)[".parquet"]))
    text = situ.declare(df, "Vehicle")
    assert text.endswith(DECLARED)
    detection = situ.detect(text + "subscribe All detect Vehicle as v assign speed = v.Speed_m_s", df)
    assert sorted(row.speed for row in detection["All"].collect()) == [0.5, 1.5, 2.5, 3.5]


@pytest.mark.parametrize(
    ("columns", "time", "note"),
    [
        ({"n": [1], "made": [datetime(2026, 1, 1)], "event_time": [datetime(2026, 1, 1)]}, "event_time", "also a"),
        ({"n": [1], "eventTimeMs": [5.0]}, "eventTimeMs in ms", "by its name"),
        ({"epoch": [1_772_359_200]}, "epoch in s", "by the size of its values"),
        ({"time": [1_772_359_200_000]}, "time in ms", "by the size of its values"),
        ({"time": [1_772_359_200_000_000]}, "time in us", "by the size of its values"),
        ({"time": [1_772_359_200_000_000_000]}, "time in ns", "by the size of its values"),
        ({"value": [0.5], "count": [3]}, "count in s", "NOTHING LOOKS LIKE A TIME"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_time_by_plain_rules(columns: dict[str, list[object]], time: str, note: str) -> None:
    text = situ.declare(pa.table(columns))
    assert f"\n  time {time}\n" in text
    assert note in text
    assert events_read(text, pa.table(columns)) == (1, 0)


@pytest.mark.parametrize(
    ("columns", "clauses"),
    [
        ({"x": [1.0], "y": [2], "car": ["a"], "t": [0]}, "at (x, y)  key car"),
        ({"Latitude": [1.0], "LNG": [2.0], "shop_id": [1], "t": [0]}, "at (LNG, Latitude) in degrees  key shop_id"),
        ({"x": ["a"], "y": [2.0], "paid": [1], "t": [0]}, ""),
    ],
)
def test_place_and_key_by_plain_rules(columns: dict[str, list[object]], clauses: str) -> None:
    text = situ.declare(pa.table(columns), "SportsCar")
    assert text.endswith(f"\n  time t in s  {clauses}".rstrip() + "\n")


def test_what_cannot_be_declared(tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("first,last\nann,lee\n")
    code, out, err = command("declare", tmp_path / "names.csv")
    assert (code, out) == (1, "")
    assert f"{tmp_path / 'names.csv'}: no column can be the time of an event" in err
    assert command("declare", tmp_path / "none.csv")[0] == 1
    twice = pa.table([[1], [2], [3], [4]], names=["a", "a", "", "ts"])
    text = situ.declare(twice)
    assert text.count("-- left out") == 2
    assert events_read(text, twice) == (1, 0)


PATHS = st.lists(st.text(max_size=6), min_size=1, max_size=2).map(tuple)
WORDS = st.sampled_from(
    ["time", "stream", "from", "key", "in", "as", "null", "at", "order", "_id", "2nd", "a b", "a_b"]
)


@given(
    st.lists(st.one_of(PATHS, WORDS.map(lambda word: (word,))), max_size=8),
    st.lists(st.sampled_from([INT, DOUBLE, STRING, BOOLEAN, TIMESTAMP, Decimal(9, 2), None]), min_size=8, max_size=8),
    st.one_of(st.just("Event"), st.text(min_size=1, max_size=5)),
)
def test_whatever_the_columns_are_called_the_text_is_a_declaration(
    paths: list[tuple[str, ...]], types: list[object], name: str
) -> None:
    columns = [FoundColumn(path, type_, "found") for path, type_ in zip(paths, types, strict=False)]
    columns.append(FoundColumn(("a column of time",), TIMESTAMP, "found"))
    declaration = declare_columns(columns, name)
    query = situ.parse(str(declaration))
    assert query.streams == (declaration.stream,)
    situ.resolve(query)
    declared = [attribute.source for attribute in declaration.stream.attributes]
    assert len(set(declared)) == len(declared)
