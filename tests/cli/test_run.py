"""`situ run`: from files of events to tables, folders and summaries, the same with both engines.

What `test_run_spark` compares between them is asked of one here.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cli.command import DOORS, situ

SECOND = 1_000_000

#: Door a is shut after 2 s, door b only after 29 s: one situation within 10 s.
EVENTS = pa.table(
    {
        "door": ["a", "b", "a", "a", "b"],
        "state": ["open", "open", "shut", "open", "shut"],
        "n": [1, 2, 3, 4, 5],
        "ts": pa.array([0, 1 * SECOND, 2 * SECOND, 3 * SECOND, 30 * SECOND], pa.timestamp("us", tz="UTC")),
    }
)
FOUND = [{"door": "a", "opened": 1, "shut": 3}]


@pytest.fixture(params=["embedded", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.spark])])
def engine(request: pytest.FixtureRequest) -> str:
    """The engine of a run; Spark's runs in the session that all tests share."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


@pytest.fixture
def doors(tmp_path: Path) -> Path:
    file = tmp_path / "doors.situ"
    file.write_text(DOORS)
    return file


@pytest.fixture
def events(tmp_path: Path) -> Path:
    file = tmp_path / "events.parquet"
    pq.write_table(EVENTS, file)
    return file


def attributes(table: pa.Table) -> list[dict[str, Any]]:
    return table.select(["door", "opened", "shut"]).to_pylist()


def test_the_summary_as_json(engine: str, doors: Path, events: Path) -> None:
    code, out, _ = situ("run", doors, "--engine", engine, "--source", f"Door={events}", "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary.pop("seconds") > 0
    assert summary == {
        "events": 5,
        "rejected": 0,
        "failed_calls": {},
        "reuse": {},
        "demands": [],
        "late": 0,
        "complex_events": {"Shut": 1},
        "timed_out": 0,
        "warnings": [],
        "out": None,
    }


def test_the_first_complex_events_are_shown(engine: str, doors: Path, events: Path) -> None:
    code, out, _ = situ("run", doors, "--engine", engine, "--source", f"Door={events}")
    assert code == 0
    assert "Shut: 1" in out
    assert "1970-01-01 00:00:02" in out
    assert "5 events, 1 complex events" in out


def test_no_more_are_shown_than_asked_for(doors: Path, tmp_path: Path) -> None:
    pairs = [("open", 2 * i) for i in range(50)] + [("shut", 2 * i + 1) for i in range(50)]
    table = pa.table(
        {
            "door": ["a"] * 100,
            "state": [state for state, _ in pairs],
            "n": [n for _, n in pairs],
            "ts": pa.array([n * SECOND * 20 for _, n in pairs], pa.timestamp("us", tz="UTC")),
        }
    )
    pq.write_table(table, tmp_path / "many.parquet")
    doors.write_text(DOORS.replace("10 s", "20 s"))
    source = f"Door={tmp_path / 'many.parquet'}"
    _, out, _ = situ("run", doors, "--engine", "embedded", "--source", source, "--limit", 3)
    assert "Shut: 50, the first 3" in out
    assert sum(line.split()[:1] == ["a"] for line in out.splitlines()) == 3


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "directory"])
def test_every_kind_of_source(engine: str, doors: Path, tmp_path: Path, kind: str) -> None:
    source = tmp_path / f"source.{kind}"
    match kind:
        case "parquet":
            pq.write_table(EVENTS, source)
        case "csv":
            pa.csv.write_csv(EVENTS, source)
        case "jsonl":
            source.write_text("".join(json.dumps(row, default=str) + "\n" for row in EVENTS.to_pylist()))
        case "directory":
            source.mkdir()
            pq.write_table(EVENTS.slice(0, 2), source / "part-0.parquet")
            pq.write_table(EVENTS.slice(2), source / "part-1.parquet")
    out = tmp_path / "out"
    code, _, err = situ("run", doors, "--engine", engine, "--source", f"Door={source}", "--out", out)
    assert code == 0, err
    assert attributes(pq.read_table(out / "Shut")) == FOUND


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_every_format_of_results(doors: Path, events: Path, tmp_path: Path, file_format: str) -> None:
    out = tmp_path / "out"
    code, _, err = situ(
        "run", doors, "--engine", "embedded", "--source", f"Door={events}", "--out", out, "--format", file_format
    )
    assert code == 0, err
    (file,) = (out / "Shut").iterdir()
    match file_format:
        case "parquet":
            found = attributes(pq.read_table(file))
        case "csv":
            found = attributes(pa.csv.read_csv(file))
        case "json":
            found = [{name: row[name] for name in FOUND[0]} for row in map(json.loads, file.read_text().splitlines())]
    assert found == FOUND


def test_rows_that_do_not_fit_are_kept_with_the_reason(engine: str, doors: Path, tmp_path: Path) -> None:
    source = tmp_path / "doors.csv"
    source.write_text(
        "door,state,n,ts\n"
        "a,open,1,1970-01-01 00:00:00Z\n"
        "a,open,many,1970-01-01 00:00:01Z\n"
        "a,shut,3,1970-01-01 00:00:02Z\n"
        "a,shut,4,soon\n"
    )
    out = tmp_path / "out"
    code, text, err = situ("run", doors, "--engine", engine, "--source", f"Door={source}", "--out", out, "--json")
    assert code == 0, err
    summary = json.loads(text)
    assert (summary["rejected"], summary["complex_events"]) == (2, {"Shut": 1})
    reasons = pq.read_table(out / "_rejected" / "Door").column("_reason").to_pylist()
    assert "many" in reasons[0]
    assert "soon" in reasons[1]


def test_matches_that_time_out_are_kept_where_asked_for(doors: Path, events: Path, tmp_path: Path) -> None:
    doors.write_text(DOORS + "  report timed out\n")
    out = tmp_path / "out"
    code, text, err = situ("run", doors, "--engine", "embedded", "--source", f"Door={events}", "--out", out, "--json")
    assert code == 0, err
    assert json.loads(text)["timed_out"] == 2
    table = pq.read_table(out / "_timed_out" / "Shut")
    assert sorted(table.column("opened").to_pylist()) == [2, 4]
    assert table.column("shut").null_count == 2


def test_functions_of_a_module(engine: str, tmp_path: Path, events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "door_functions.py").write_text(
        "from situ.core.functions import function\n"
        "@function(returns='boolean', name='IsFront')\n"
        "def is_front(door):\n"
        "    return door == 'a'\n"
    )
    query = tmp_path / "front.situ"
    query.write_text(DOORS.replace("Door(state = 'open')", "Door(state = 'open' and IsFront(door))"))
    monkeypatch.chdir(tmp_path)
    code, out, err = situ(
        "run", query, "--engine", engine, "--source", f"Door={events}", "--functions", "door_functions", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["complex_events"] == {"Shut": 1}


def test_results_are_not_overwritten_unasked(engine: str, doors: Path, events: Path, tmp_path: Path) -> None:
    command = ["run", doors, "--engine", engine, "--source", f"Door={events}", "--out", tmp_path / "out"]
    assert situ(*command)[0] == 0
    code, _, err = situ(*command)
    assert code == 1
    assert "overwriting" in err
    assert situ(*command, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([], "no source for stream Door.\n  Add --source Door=PATH"),
        (["Dor=x.csv"], "Did you mean 'Door'?"),
        (["Door"], "names no path"),
        (["Door="], "names no path"),
        (["Door=x.csv", "Door=y.csv"], "two sources for stream 'Door'"),
        (["Door=no/such/file.csv"], "no/such/file.csv"),
    ],
)
def test_sources_that_do_not_fit_the_query(
    engine: str, doors: Path, tmp_path: Path, sources: list[str], message: str
) -> None:
    options = [option for source in sources for option in ("--source", source)]
    code, out, err = situ("run", doors, "--engine", engine, *options, "--out", tmp_path / "out")
    assert (code, out) == (1, "")
    assert message in err
    assert not (tmp_path / "out").exists()


def test_a_source_that_is_not_what_its_name_says(engine: str, doors: Path, tmp_path: Path) -> None:
    (tmp_path / "fake.parquet").write_text("this is no Parquet")
    code, _, err = situ("run", doors, "--engine", engine, "--source", f"Door={tmp_path / 'fake.parquet'}")
    assert code == 1
    assert "fake.parquet" in err


def test_a_source_without_a_column(engine: str, doors: Path, tmp_path: Path) -> None:
    pq.write_table(EVENTS.drop_columns(["state"]), tmp_path / "events.parquet")
    code, _, err = situ("run", doors, "--engine", engine, "--source", f"Door={tmp_path / 'events.parquet'}")
    assert code == 1
    assert "state" in err


def test_where_the_time_went(engine: str, doors: Path, events: Path) -> None:
    asked = ("run", doors, "--engine", engine, "--source", f"Door={events}", "--timing")
    code, out, _ = situ(*asked, "--json")
    assert code == 0
    seconds = json.loads(out)["timing"]
    assert all(taken >= 0 for taken in seconds.values())
    hops = {hop.partition(": ")[2] for hop in seconds}
    assert {"scan", "tests", "sorting", "kernel", "results", "the rest"} <= hops
    code, out, _ = situ(*asked)
    assert code == 0
    assert "seconds of all tasks" in out
    code, _, error = situ(*asked, "--follow", "--checkpoint", doors.parent / "state")
    assert code == 1
    assert "--timing is for files" in error
