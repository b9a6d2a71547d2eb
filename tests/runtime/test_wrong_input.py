"""Wrong queries and wrong data through the whole system: place, cause and remedy are said, and nothing else is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command import situ
from situ import Engine, InputError, QueryError
from situ.core.errors import Place, SituWarning

QUERY = """\
stream Reading(sensor int, value double, ts timestamp) time ts

subscribe Rise
  detect   Reading as a then Reading(value > a.value) as b within 10 s
  assign   sensor = a.sensor, by = b.value - a.value
  group by sensor
"""
MICROS = pa.timestamp("us", tz="UTC")


def readings(*rows: tuple[int | None, float | None, int | None]) -> pa.Table:
    """(sensor, value, second) of every reading."""
    sensors, values, seconds = zip(*rows, strict=True) if rows else ((), (), ())
    times = [None if second is None else second * 1_000_000 for second in seconds]
    return pa.table(
        {
            "sensor": pa.array(sensors, pa.int64()),
            "value": pa.array(values, pa.float64()),
            "ts": pa.array(times, MICROS),
        }
    )


#: Sensor 1 rises by 2, then by 3.
READINGS = readings((1, 1.0, 0), (1, 3.0, 1), (1, 6.0, 2))
RISES = [2.0, 3.0]


def run(folder: Path, query: str, data: Path, *options: object) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of `situ run --json`."""
    file = folder / "query.situ"
    file.write_text(query)
    code, out, err = situ("run", file, "--engine", "embedded", "--source", f"Reading={data}", "--json", *options)
    assert err == ""
    return code, json.loads(out)


# --- wrong queries

#: What is written instead of what, where situ sees it (line and column), and what it says of cause and remedy.
WRONG_QUERIES = {
    "a syntax error": (
        ("then Reading(", "thn Reading("),
        (4, 25),
        ("'thn' is unexpected here", "Did you mean 'then'?"),
    ),
    "an unknown type": (
        ("Reading as a", "Readin as a"),
        (4, 12),
        ("no event type 'Readin'", "Did you mean 'Reading'?"),
    ),
    "an unknown attribute": (
        ("value > a.value", "valeu > a.value"),
        (4, 38),
        ("event type Reading has no attribute 'valeu'", "Did you mean 'value'?"),
    ),
    "an unknown alias": (
        ("value > a.value", "value > c.value"),
        (4, 46),
        ("no alias 'c'", "known: a, b."),
    ),
    "an alias that stands later": (
        ("Reading as a", "Reading(value > b.value) as a"),
        (4, 28),
        ("alias 'b' cannot be read here", "move the condition to the step that stands last"),
    ),
    "a type mismatch": (
        ("value > a.value", "value > 'high'"),
        (4, 38),
        ("`>` compares values of one type, not double and string", "cast(... as double)"),
    ),
    "a condition that is none": (
        ("value > a.value", "value"),
        (4, 38),
        ("a condition is true or false, and this one is double", "x > 0"),
    ),
    "an aggregate of one event": (
        ("sensor = a.sensor", "sensor = max(a.sensor)"),
        (5, 21),
        ("max() goes over several events, and 'a' holds one event", "Read it directly: a.sensor"),
    ),
    "one event of a loop": (
        ("Reading as a then", "Reading+ as a then"),
        (4, 47),
        ("'a' holds several events", "last(a.value)"),
    ),
    "an aggregate in an aggregate": (
        ("a.sensor, by", "sum(count(a)), by"),
        (5, 25),
        ("count() stands inside sum()", "An aggregate takes values of single events."),
    ),
    "an unknown function": (
        ("b.value - a.value", "Gain(a.value, b.value)"),
        (5, 36),
        ("no function 'Gain'", "Register your own with @situ.function"),
    ),
    "a group that not all inputs have": (
        ("group by sensor", "group by lane"),
        (3, 1),
        ("event type Reading has no attribute 'lane'", "known: sensor, ts, value."),
    ),
}


@pytest.mark.parametrize("mistake", WRONG_QUERIES)
def test_a_wrong_query(mistake: str, tmp_path: Path) -> None:
    (right, wrong), (line, column), (cause, remedy) = WRONG_QUERIES[mistake]
    assert QUERY.count(right) == 1
    pq.write_table(READINGS, tmp_path / "readings.parquet")
    code, answer = run(tmp_path, QUERY.replace(right, wrong), tmp_path / "readings.parquet", "--out", tmp_path / "out")
    error = answer["error"]
    assert code == 1
    assert error["place"] == {"file": str(tmp_path / "query.situ"), "line": line, "column": column}
    assert cause in error["cause"]
    assert remedy in error["remedy"]
    assert not (tmp_path / "out").exists()


def test_definitions_in_a_circle(tmp_path: Path) -> None:
    circle = "define P(x) detect Q as q assign x = q.x\ndefine Q(x) detect P as p assign x = p.x\n"
    _, answer = run(tmp_path, circle + QUERY, tmp_path / "readings.parquet")
    assert answer["error"]["kind"] == "QueryError"
    assert answer["error"]["place"]["line"] == 1
    assert "P -> Q -> P" in answer["error"]["cause"]
    assert "do not need it themselves" in answer["error"]["remedy"]


# --- wrong files


def write(name: str, content: pa.Table | bytes) -> Callable[[Path], Path]:
    def written(folder: Path) -> Path:
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            pq.write_table(content, folder / name)
        return folder / name

    return written


def cut_off(folder: Path) -> Path:
    whole = write("whole.parquet", READINGS)(folder).read_bytes()
    return write("cut.parquet", whole[: len(whole) // 2])(folder)


#: A file that cannot be read as the stream, and what situ says of cause and remedy. The place is the file.
WRONG_FILES: dict[str, tuple[Callable[[Path], Path], tuple[str, str]]] = {
    "is missing": (
        lambda folder: write("readings.parquet", READINGS)(folder).with_name("reading.parquet"),
        ("there is no such file or directory", "Did you mean 'readings.parquet'?"),
    ),
    "lacks a column": (
        write("a.parquet", READINGS.rename_columns(["sensor", "valeu", "ts"])),
        ("there is no column 'value', which stream Reading declares", "Did you mean 'valeu'?"),
    ),
    "has a column of another type": (
        write("a.parquet", READINGS.set_column(1, "value", pa.array(["low", "high", "low"]))),
        ("column 'value' is string, but stream Reading declares it as double", "Declare it as string"),
    ),
    "has numbers for times": (
        write("a.parquet", READINGS.set_column(2, "ts", pa.array([1, 2, 3]))),
        ("column 'ts' is int64, but stream Reading declares it as timestamp", "`time ts in ms`"),
    ),
    "is no Parquet": (
        write("a.parquet", b"sensor,value,ts\n"),
        ("cannot be read as Parquet", "give it the right suffix"),
    ),
    "is empty, which no Parquet file is": (
        write("a.parquet", b""),
        ("cannot be read as Parquet", "write it again"),
    ),
    "is cut off": (cut_off, ("cannot be read as Parquet", "cut off or damaged")),
    "is of a format that situ does not know": (
        write("a.xlsx", b"PK"),
        ("the suffix '.xlsx' says no format that situ reads", "situ reads .parquet, .csv"),
    ),
    "is a CSV file without a column": (
        write("a.csv", b"sensor,ts\n1,1970-01-01\n"),
        ("there is no column 'value', which stream Reading declares", "known: sensor, ts."),
    ),
    "is one JSON array": (
        write("a.json", b'[{"sensor": 1, "value": 2, "ts": "1970-01-01"}]'),
        ("holds a JSON array, not one object per line", "jq -c"),
    ),
}


@pytest.mark.parametrize("fault", WRONG_FILES)
def test_a_file_that(fault: str, tmp_path: Path) -> None:
    make, (cause, remedy) = WRONG_FILES[fault]
    path = make(tmp_path)
    code, answer = run(tmp_path, QUERY, path, "--out", tmp_path / "out")
    error = answer["error"]
    assert (code, error["kind"], error["place"]) == (1, "InputError", str(path))
    assert cause in error["cause"]
    assert remedy in error["remedy"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "empty",
    [
        write("a.parquet", READINGS.slice(0, 0)),
        write("a.csv", b"sensor,value,ts\n"),
        write("a.csv", b""),
        write("a.jsonl", b""),
        write("a.jsonl", b"\n\n"),
    ],
    ids=["parquet", "header only", "csv", "json", "blank lines"],
)
def test_no_events_are_no_mistake(empty: Callable[[Path], Path], tmp_path: Path) -> None:
    code, summary = run(tmp_path, QUERY, empty(tmp_path))
    assert (code, summary["events"], summary["rejected"], summary["complex_events"]) == (0, 0, 0, {"Rise": 0})


# --- wrong rows: they are rejected one by one, and the others live on


def test_nulls_in_the_time_column(tmp_path: Path) -> None:
    rows = readings((1, 1.0, 0), (1, 99.0, None), (1, 3.0, 1), (None, None, None), (1, 6.0, 2))
    path = write("a.parquet", rows)(tmp_path)
    _, summary = run(tmp_path, QUERY, path, "--out", tmp_path / "out")
    assert (summary["events"], summary["rejected"], summary["complex_events"]) == (3, 2, {"Rise": 2})
    assert pq.read_table(tmp_path / "out" / "Rise").column("by").to_pylist() == RISES
    rejected = pq.read_table(tmp_path / "out" / "_rejected" / "Reading").to_pylist()
    assert [row["_reason"] for row in rejected] == ["ts is null"] * 2
    assert [row["_place"] for row in rejected] == [f"{path}, row 2", f"{path}, row 4"]
    assert json.loads(rejected[0]["_row"]) == {"sensor": 1, "value": 99, "ts": None}


def test_times_that_no_calendar_has(tmp_path: Path) -> None:
    query = QUERY.replace("ts timestamp) time ts", "ts int) time ts in s")
    rows = READINGS.set_column(2, "ts", pa.array([0, 10**15, 2]))
    _, summary = run(tmp_path, query, write("a.parquet", rows)(tmp_path), "--out", tmp_path / "out")
    assert (summary["events"], summary["rejected"], summary["complex_events"]) == (2, 1, {"Rise": 1})
    (reason,) = pq.read_table(tmp_path / "out" / "_rejected" / "Reading").column("_reason").to_pylist()
    assert reason == "ts: 1000000000000000 s is no time in range"


def test_lines_of_every_fault(tmp_path: Path) -> None:
    lines = [
        '{"sensor": 1, "value": 1.0, "ts": "1970-01-01T00:00:00Z"}',
        '{"sensor": 1, "value": 2.0, "ts": "1970-01-01T00:00:00Z"',
        '{"sensor": "one", "value": 2.0, "ts": "1970-01-01T00:00:00Z"}',
        '{"sensor": 1, "value": 2.0, "ts": "yesterday"}',
        "null",
        '{"sensor": 1, "value": 3.0, "ts": "1970-01-01T00:00:01Z"}',
    ]
    path = write("a.jsonl", "\n".join(lines).encode())(tmp_path)
    _, summary = run(tmp_path, QUERY, path, "--out", tmp_path / "out")
    assert (summary["events"], summary["rejected"], summary["complex_events"]) == (2, 4, {"Rise": 1})
    rejected = pq.read_table(tmp_path / "out" / "_rejected" / "Reading").to_pylist()
    assert [row["_place"] for row in rejected] == [f"{path}:{line}" for line in (2, 3, 4, 5)]
    assert [row["_row"] for row in rejected] == lines[1:5]
    causes = ["malformed JSON", "sensor: 'one' is no int", "ts: 'yesterday' is no timestamp", "no JSON object"]
    assert all(cause in row["_reason"] for cause, row in zip(causes, rejected, strict=True))


def test_one_malformed_line_in_a_million(tmp_path: Path) -> None:
    query = """
        stream Reading(sensor int, value int, ts int) time ts in ms
        subscribe Climb
          detect   Reading(value = 0) as a then Reading(value = 999) as b within 10 s
          assign   sensor = a.sensor, top = b.ts
          group by sensor
    """
    # Ten sensors climb from 0 to 999 a hundred times; the malformed line is the 0 of sensor 3 in round 65.
    lines = [f'{{"sensor": {i % 10}, "value": {i // 10 % 1000}, "ts": {i}}}\n' for i in range(1_000_000)]
    lines[650_003] = '{"sensor": 3, "value": 0, "ts": }\n'
    path = tmp_path / "readings.jsonl"
    path.write_text("".join(lines))
    code, summary = run(tmp_path, query, path, "--out", tmp_path / "out")
    assert code == 0
    assert (summary["events"], summary["rejected"], summary["late"]) == (999_999, 1, 0)
    assert summary["complex_events"] == {"Climb": 999}
    (rejected,) = pq.read_table(tmp_path / "out" / "_rejected" / "Reading").to_pylist()
    assert rejected["_place"] == f"{path}:650004"
    assert rejected["_row"] == lines[650_003].rstrip()
    assert "malformed JSON" in rejected["_reason"]
    tops = pq.read_table(tmp_path / "out" / "Climb").column("top").to_pylist()
    rounds = [10_000 * number + 9_990 + sensor for number in range(100) for sensor in range(10)]
    assert sorted(tops) == [top for top in rounds if top != 659_993]


# --- unbounded input


def rises(*outputs: Any) -> list[float]:
    return [by for output in outputs for by in output.complex_events["Rise"].column("by").to_pylist()]


WRONG_ROWS: dict[str, tuple[Callable[[Engine], object], tuple[str | None, str, str]]] = {
    "an unknown stream": (
        lambda engine: engine.feed(READINGS, "Readings"),
        (None, "no stream 'Readings' in the query", "Did you mean 'Reading'?"),
    ),
    "a missing column": (
        lambda engine: engine.feed(READINGS.drop_columns(["value"])),
        ("rows of Reading", "there is no column 'value'", "known: sensor, ts."),
    ),
    "a column of another type": (
        lambda engine: engine.feed(READINGS.set_column(0, "sensor", pa.array(["a", "b", "c"]))),
        ("rows of Reading", "column 'sensor' is string, but stream Reading declares it as int", "Declare it as string"),
    ),
    "a source for no stream": (
        lambda engine: list(engine.run({"Readings": READINGS})),
        (None, "no stream 'Readings' in the query", "Did you mean 'Reading'?"),
    ),
    "no source for a stream": (
        lambda engine: list(engine.run({})),
        (None, "no source for stream Reading", "Sources are needed for: Reading."),
    ),
}


@pytest.mark.parametrize("mistake", WRONG_ROWS)
def test_the_engine_lives_on_after(mistake: str) -> None:
    act, (place, cause, remedy) = WRONG_ROWS[mistake]
    engine = Engine(QUERY)
    before = engine.feed(READINGS.slice(0, 1))
    with pytest.raises(InputError) as caught:
        act(engine)
    assert caught.value.place == place
    assert cause in caught.value.cause
    assert remedy in caught.value.remedy
    assert rises(before, engine.feed(READINGS.slice(1)), engine.close()) == RISES


def test_rejected_rows_of_a_feed() -> None:
    engine = Engine(QUERY)
    output = engine.feed(pa.concat_tables([READINGS, readings((1, 7.0, None))]))
    assert output.rejected["Reading"].column("_place").to_pylist() == ["rows of Reading, row 4"]
    assert rises(output, engine.close()) == RISES


@pytest.mark.parametrize(
    "act", [lambda e: e.feed(READINGS), lambda e: e.close(), lambda e: list(e.run({"Reading": READINGS}))]
)
def test_nothing_comes_after_the_end(act: Callable[[Engine], object]) -> None:
    engine = Engine(QUERY)
    engine.feed(READINGS)
    engine.close()
    with pytest.raises(InputError, match="the engine is closed") as caught:
        act(engine)
    assert caught.value.remedy == "Make a new Engine for more events."


def test_a_pattern_without_a_window() -> None:
    """It is refused on unbounded input, and runs on bounded input with a warning."""
    query = QUERY.replace(" within 10 s", "")
    with pytest.warns(SituWarning, match="Rise: a pattern of several events without `within`"):
        engine = Engine(query)
    with pytest.raises(QueryError, match="Rise has no window") as caught:
        engine.feed(READINGS)
    assert caught.value.place == Place("<query>", 4, 3)
    assert "Add `within T`" in caught.value.remedy
    assert rises(*engine.run({"Reading": READINGS})) == RISES


# --- clauses without effect

CLAUSES = {
    "lifetime": "lifetime 30 min",
    "update": "update when quality",
    "deliver": "deliver best effort",
    "quality": "quality precision 0.9 recall 0.9",
    "demand hops": "demand hops < 4",
}


@pytest.mark.filterwarnings("ignore::situ.core.errors.SituWarning")
@pytest.mark.parametrize("clause", CLAUSES)
def test_a_clause_without_effect_is_said_to_have_none(clause: str, tmp_path: Path) -> None:
    located = "stream Reading(sensor int, value double, ts timestamp, x double, y double) time ts at (x, y)\n"
    query = located + QUERY[QUERY.index("\n") + 1 :] + f"  {CLAUSES[clause]}\n"
    rows = READINGS.append_column("x", pa.array([0.0] * 3)).append_column("y", pa.array([0.0] * 3))
    path = write("a.parquet", rows)(tmp_path)
    code, summary = run(tmp_path, query, path)
    assert (code, summary["complex_events"]) == (0, {"Rise": 2})
    (warning,) = summary["warnings"]
    assert f"subscription Rise: `{clause}` has no effect" in warning
    _, out, _ = situ("check", tmp_path / "query.situ")
    assert f"warning: {warning}" in out
    with pytest.warns(SituWarning, match=re.escape(warning)):
        Engine(query)
