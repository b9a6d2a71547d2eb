"""Streams by their addresses: files that come into a directory, and messages; what fits, and what does not and why."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.spark.input_comparison import read_by_situ, stream_of
from runtime.spark.judged_rows import AT, AT_MICROS, CAR, car, follow, split, text
from situ.core.errors import InputError
from situ.io.addresses import directory_of, scheme_of
from situ.io.files.arriving import check_files
from situ.io.files.json_lines import JsonFormat
from situ.io.messages import conform_messages
from situ.runtime.spark.inputs.files import Root
from situ.runtime.spark.inputs.stream_files import FileReader
from situ.runtime.spark.inputs.stream_messages import MessageReader
from situ.runtime.spark.inputs.stream_rows import NOW_US, rows_type
from situ.runtime.spark.inputs.stream_sources import open_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# ---- messages


def messages(*values: str | bytes | None, reasons: Sequence[str | None] | None = None) -> pa.RecordBatch:
    data = [v.encode() if isinstance(v, str) else v for v in values]
    columns = {
        "value": pa.array(data, pa.binary()).view(pa.string()),  # as Spark hands over what is no text
        "_place": pa.array([f"topic:{number}" for number in range(len(values))]),
        NOW_US: pa.array([AT_MICROS] * len(values), pa.int64()),
    }
    return pa.record_batch(columns | ({"_reason": pa.array(reasons, pa.string())} if reasons else {}))


def read(*values: str | bytes | None, reasons: Sequence[str | None] | None = None) -> tuple[list[Any], list[Any]]:
    return split(MessageReader(CAR).rows(iter([messages(*values, reasons=reasons)])))


def test_a_message_is_an_event() -> None:
    events, misfits = read(text("a"), text("b", lane=None), '{"ts": "2024-05-01T08:00:00.000001Z", "more": [1]}')
    assert misfits == []
    assert events == [
        {"name": "a", "speed": 3.5, "lane": 1, "ts": AT_MICROS, "_time": AT_MICROS},
        {"name": "b", "speed": 3.5, "lane": None, "ts": AT_MICROS, "_time": AT_MICROS},
        {"name": None, "speed": None, "lane": None, "ts": AT_MICROS + 1, "_time": AT_MICROS + 1},
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("nonsense", "malformed JSON: Expecting value at 1"),
        ('{"name": "a"', "malformed JSON: Expecting ',' delimiter at 13"),
        ("[1]", "the line is no JSON object"),
        ("null", "the line is no JSON object"),
        ('{"name": "a"} {"name": "b"}', "malformed JSON: Extra data at 15"),
        (text("a", speed="fast"), "speed: 'fast' is no double"),
        (text("a", lane=1.5, speed=True), "speed: True is no double; lane: 1.5 is no int"),
        (text("a", ts=None), "ts is null"),
        (text("a", ts="soon"), "ts: 'soon' is no timestamp"),
        (b'{"name": "M\xfcller"}', "not UTF-8: byte 0xfc at 12"),
        (None, "the message has no value"),
        ("", "the message is empty"),
        (" \n ", "the message is empty"),
        ('{"name": "a\nb", "ts": "2024-05-01T08:00:00Z"}', "malformed JSON: Invalid control character at at 12"),
    ],
)
def test_a_message_that_does_not_fit_is_rejected_with_reason_text_and_place(
    value: str | bytes | None, reason: str
) -> None:
    events, misfits = read(text("a"), value, text("b"))
    assert [event["name"] for event in events] == ["a", "b"]
    shown = value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
    assert misfits == [{"_reason": reason, "_row": shown, "_place": "topic:1"}]


def test_why_a_broker_has_no_text_is_taken_over() -> None:
    events, misfits = read(text("a"), None, None, reasons=[None, "a tombstone", "not UTF-8: bytes 0xff"])
    assert len(events) == 1
    assert [(m["_reason"], m["_row"], m["_place"]) for m in misfits] == [
        ("a tombstone", None, "topic:1"),
        ("not UTF-8: bytes 0xff", None, "topic:2"),
    ]


def test_a_message_may_have_several_lines() -> None:
    pretty = json.dumps(car("a"), indent=2).replace("\n", "\r\n")
    wrong = json.dumps(car("b", lane="x"), indent=1)
    events, misfits = read(pretty, wrong, text("c"))
    assert [event["name"] for event in events] == ["a", "c"]
    assert misfits == [{"_reason": "lane: 'x' is no int", "_row": wrong, "_place": "topic:1"}]


def test_no_message_is_lost_or_doubled_wherever_bad_ones_stand() -> None:
    rng = random.Random(7)
    bad = [None, "", "{", "\n", text("x", lane="y"), b"\xff", '{"name":\n"n"}', "[]"]
    for _ in range(50):
        values = [text(f"c{n}") if rng.random() < 0.7 else rng.choice(bad) for n in range(rng.randrange(30))]
        events, misfits = read(*values)
        good = [n for n, value in enumerate(values) if value not in bad]
        assert [event["name"] for event in events] == [f"c{n}" for n in good]
        assert sorted(int(m["_place"].removeprefix("topic:")) for m in misfits) == [
            n for n in range(len(values)) if n not in good
        ]


def test_large_messages_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from situ.io import messages
    from situ.runtime.spark.inputs import stream_messages

    sizes = []

    def conform(piece: pa.RecordBatch, *rest: Any) -> Any:
        sizes.append(piece.num_rows)
        return conform_messages(piece, *rest)

    monkeypatch.setattr(messages, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(stream_messages, "conform_messages", conform)
    events, _ = read(*(text("n" * 400) for _ in range(7)))
    assert len(events) == 7
    assert max(sizes) == 2


def test_messages_without_rows() -> None:
    assert read() == ([], [])
    nothing = conform_messages(messages(), JsonFormat(b"", CAR), CAR, 0)
    assert (len(nothing.times), nothing.rejected.num_rows) == (0, 0)


# ---- files, in a task


def rows_of(directory: Path, *names: str) -> tuple[list[Any], list[Any]]:
    """What a task makes of files, in this order."""
    reader = FileReader(CAR, Root("in", str(directory)))
    return split(reader.rows(iter([paths_of([f"file:{directory / name}" for name in names])])))


def paths_of(paths: list[str]) -> pa.RecordBatch:
    """Files of a micro-batch, as Spark hands them over."""
    return pa.record_batch({"path": pa.array(paths, pa.string()), NOW_US: pa.array([AT_MICROS] * len(paths))})


def write_parquet(path: Path, rows: list[dict[str, Any]], **types: pa.DataType) -> None:
    usual = {"name": pa.string(), "speed": pa.float64(), "lane": pa.int64(), "ts": pa.timestamp("us", tz="UTC")}
    columns = {
        name: pa.array([row[name] for row in rows]).cast(type_)
        for name, type_ in (usual | types).items()
        if all(name in row for row in rows)
    }
    pq.write_table(pa.table(columns), path)


def at(second: int) -> int:
    return AT_MICROS + second * 1_000_000


def test_text_files_are_read_as_the_embedded_engine_reads_them(tmp_path: Path) -> None:
    lines = [text("a"), "nonsense", "", text("b", lane="x"), text("c"), '{"ts": null}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with gzip.open(tmp_path / "b.json.gz", "wt") as file:
        file.write("\ufeff" + text("d") + "\r\n" + text("e", speed="1") + "\r\n")
    events, misfits = rows_of(tmp_path, "a.jsonl", "b.json.gz")
    expected, rejected = read_by_situ(tmp_path, CAR)
    assert events == expected
    assert [event["name"] for event in events] == ["a", "c", "d"]
    given = [{"_stream": "Car", **m} for m in misfits]
    assert given == [row | {"_place": row["_place"].replace(str(tmp_path), "in")} for row in rejected]
    assert [m["_place"] for m in misfits] == ["in/a.jsonl:2", "in/a.jsonl:4", "in/a.jsonl:6", "in/b.json.gz:2"]


def test_each_csv_file_has_its_own_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f'name,speed,lane,ts\n"a\nb",1.5,1,{AT}\nc,fast,2,{AT}\n')
    (tmp_path / "b.csv").write_text(f"ts,more,lane,name,speed\n{AT},x,2,d,2\n{AT},d\n")
    events, misfits = rows_of(tmp_path, "a.csv", "b.csv")
    assert [(event["name"], event["speed"], event["lane"]) for event in events] == [("a\nb", 1.5, 1), ("d", 2.0, 2)]
    assert [(m["_reason"], m["_row"], m["_place"]) for m in misfits] == [
        ("speed: 'fast' is no double", f"c,fast,2,{AT}", "in/a.csv:4"),
        ("2 fields, but the header has 5", f"{AT},d", "in/b.csv:3"),
    ]


def test_a_csv_file_without_a_declared_column_is_rejected_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"name,sped,lane,ts\r\nM\xfcller,1,2,now\r\n\r\nlast,1,2,now")
    events, misfits = rows_of(tmp_path, "a.csv")
    assert events == []
    assert {m["_reason"] for m in misfits} == {"there is no column 'speed', which stream Car declares"}
    assert [(m["_row"], m["_place"]) for m in misfits] == [
        ("name,sped,lane,ts", "in/a.csv:1"),
        ("M\\xfcller,1,2,now", "in/a.csv:2"),
        ("last,1,2,now", "in/a.csv:4"),
    ]


def test_lines_that_are_rejected_in_several_blocks_keep_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from situ.io.files import arriving

    lines = ["nothing", *("x" * (n % 23) for n in range(200))]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    monkeypatch.setattr(arriving, "BLOCK_BYTES", 64)
    _, misfits = rows_of(tmp_path, "a.csv")
    assert [(m["_row"], m["_place"]) for m in misfits] == [
        (line, f"in/a.csv:{number}") for number, line in enumerate(lines, 1) if line
    ]


def test_a_parquet_file_is_read_by_its_own_schema(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [car("a", ts=at(0)), car("b", ts=None)])
    write_parquet(tmp_path / "b.parquet", [car("c", ts=at(1), lane=7)], lane=pa.int16(), speed=pa.float32())
    write_parquet(tmp_path / "c.parquet", [{"name": "d", "speed": 1.0, "ts": at(2)}] * 2)
    write_parquet(tmp_path / "d.parquet", [car("e", ts=at(3), lane="x")], lane=pa.string())
    events, misfits = rows_of(tmp_path, "a.parquet", "b.parquet", "c.parquet", "d.parquet")
    assert [(event["name"], event["lane"], event["_time"]) for event in events] == [("a", 1, at(0)), ("c", 7, at(1))]
    assert [(m["_reason"], m["_place"]) for m in misfits] == [
        ("ts is null", "in/a.parquet, row 2"),
        ("there is no column 'lane', which stream Car declares", "in/c.parquet, row 1"),
        ("there is no column 'lane', which stream Car declares", "in/c.parquet, row 2"),
        ("column 'lane' is string, but stream Car declares it as int", "in/d.parquet, row 1"),
    ]
    assert json.loads(misfits[1]["_row"]) == {"name": "d", "speed": 1, "ts": "2024-05-01T08:00:02.000000Z"}


def test_a_file_that_cannot_be_read_is_one_rejected_row(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no Parquet at all")
    (tmp_path / "b.csv.gz").write_bytes(b"no gzip")
    (tmp_path / "c.txt").write_text("what is this?")
    events, misfits = rows_of(tmp_path, "a.parquet", "b.csv.gz", "c.txt")
    assert events == []
    assert [(m["_row"], m["_place"]) for m in misfits] == [
        (None, f"in/{n}") for n in ("a.parquet", "b.csv.gz", "c.txt")
    ]
    reasons = [m["_reason"] for m in misfits]
    assert reasons[0].startswith("cannot be read as Parquet:")
    assert reasons[1].startswith("cannot be read: ")
    assert reasons[2] == "the suffix '.txt' says no format that situ reads"


def test_of_a_file_that_is_cut_off_the_beginning_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from situ.io.files import lines

    monkeypatch.setattr(lines, "BLOCK_BYTES", 1000)
    rng = random.Random(1)
    whole = "\n".join(text(f"car {rng.random()}") for _ in range(500))
    data = gzip.compress(whole.encode())
    (tmp_path / "a.jsonl.gz").write_bytes(data[: len(data) // 2])
    events, misfits = rows_of(tmp_path, "a.jsonl.gz")
    assert 0 < len(events) < 500
    assert [(m["_row"], m["_place"]) for m in misfits] == [(None, "in/a.jsonl.gz")]
    assert "Truncated" in misfits[0]["_reason"]


def test_a_file_that_is_gone_is_an_error_so_that_the_batch_is_repeated(tmp_path: Path) -> None:
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        with pytest.raises(InputError, match=rf"^in/{name}: the file is gone, and was not read yet"):
            rows_of(tmp_path, name)


def test_trouble_with_the_disk_is_an_error_and_no_rejected_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from situ.io.files import arriving

    def refuse(file: Path, _: Any) -> Any:
        raise InputError("cannot be read: Input/output error", place=str(file)) from OSError(5, "Input/output error")

    (tmp_path / "a.csv").write_text("")
    monkeypatch.setattr(arriving, "open_checked_file", refuse)
    with pytest.raises(InputError, match=r"^in/a\.csv: cannot be read: Input/output error"):
        rows_of(tmp_path, "a.csv")


def test_a_conflict_in_the_declaration_is_told_of_json_only(tmp_path: Path) -> None:
    stream = stream_of("Car(a int from p, b string from p, ts timestamp) time ts")
    (tmp_path / "a.jsonl").write_text("{}")
    reader = FileReader(stream, Root("in", str(tmp_path)))
    _, misfits = split(reader.rows(iter([paths_of([f"file:{tmp_path}/a.jsonl"])])))
    assert [m["_reason"] for m in misfits] == ["'p' cannot be read as string and as int64"]


def test_names_that_spark_hands_over_although_they_are_hidden(tmp_path: Path) -> None:
    (tmp_path / "_a=1.csv").write_text("nonsense")
    assert rows_of(tmp_path, "_a=1.csv") == ([], [])


# ---- addresses


def test_an_address_is_a_directory_unless_it_has_another_scheme(tmp_path: Path) -> None:
    assert [scheme_of(a) for a in ("in", "/in/a:b", "file:///in", "MQTT://h/t", "postgres://u@h/d")] == [
        "directory",
        "directory",
        "directory",
        "mqtt",
        "postgresql",
    ]
    assert directory_of("file:///in%20put/x") == Path("/in put/x")
    with pytest.raises(InputError, match="another machine"):
        directory_of("file://there/in")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://ann:secret@host/cars", "'http://' is no source for situ"),
        ("postgresql://ann:secret@host/cars", "postgresql:// is an output, and no source"),
        ("", "the address is empty"),
    ],
)
def test_an_address_of_another_kind(address: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        open_stream(None, address, CAR, tmp_path)  # type: ignore[arg-type]
    assert message in str(error.value)
    assert "secret" not in str(error.value)


def test_a_directory_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(InputError, match="there is no such directory"):
        open_stream(None, str(tmp_path / "nowhere"), CAR, tmp_path / "work")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is a file, not a directory"):
        open_stream(None, str(tmp_path / "a.csv"), CAR, tmp_path / "work")  # type: ignore[arg-type]
    assert not (tmp_path / "work").exists()


def test_files_are_checked_before_anything_runs(tmp_path: Path) -> None:
    check_files(tmp_path, CAR)
    (tmp_path / ".tmp").mkdir()
    (tmp_path / ".tmp" / "half.csv").write_text("x")
    check_files(tmp_path, CAR)
    (tmp_path / "a.csv").write_text("name,sped,lane,ts\n")
    with pytest.raises(InputError, match="Did you mean 'sped'"):
        check_files(tmp_path, CAR)
    (tmp_path / "b.jsonl").write_text("{}")
    with pytest.raises(InputError, match=r"several formats \(csv, json\)"):
        check_files(tmp_path, CAR)
    (tmp_path / "b.jsonl").rename(tmp_path / "b.txt")
    with pytest.raises(InputError, match="says no format"):
        check_files(tmp_path, CAR)


def test_columns_of_judged_rows() -> None:
    assert rows_type(CAR).simpleString() == (
        "struct<name:string,speed:double,lane:bigint,ts:timestamp,_time:bigint,"
        "_misfit:struct<_reason:string,_row:string,_place:string>>"
    )


# ---- with Spark


@pytest.mark.slow
def test_lines_that_come_into_a_directory(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "in {1} *"
    directory.mkdir()
    work = tmp_path / "work"
    assert follow(spark, str(directory), work) == ([], [])
    (directory / "a b%20.jsonl").write_text(f"{text('a')}\nnonsense\n{text('b')}\n")
    (directory / ".half.jsonl").write_text(text("x"))
    events, misfits = follow(spark, directory.as_uri(), work)
    assert [event["name"] for event in events] == ["a", "b"]
    assert [(m["_row"], m["_place"]) for m in misfits] == [("nonsense", f"{directory}/a b%20.jsonl:2")]
    (directory / ".half.jsonl").rename(directory / "whole.jsonl")
    (directory / "day=2").mkdir()
    with gzip.open(directory / "day=2" / "c.jsonl.gz", "wt") as file:
        file.write(text("c"))
    events, misfits = follow(spark, str(directory), work)
    assert [event["name"] for event in events] == ["c", "x"]
    assert misfits == []


@pytest.mark.slow
def test_csv_and_parquet_files_of_another_schema_that_come_later(spark: SparkSession, tmp_path: Path) -> None:
    directory, work = tmp_path / "in", tmp_path / "work"
    directory.mkdir()
    (directory / "a.csv").write_text("name,sped,lane,ts\n")
    with pytest.raises(InputError, match="there is no column 'speed'"):
        follow(spark, str(directory), work)
    (directory / "a.csv").write_text(f"name,speed,lane,ts\na,1,2,{AT}\n")
    assert [event["name"] for event in follow(spark, str(directory), work)[0]] == ["a"]
    (directory / "b.csv").write_text(f"name,lane,ts\nb,2,{AT}\n")
    write_parquet(directory / "c.parquet", [car("c", ts=at(1))])
    write_parquet(directory / "d.parquet", [car("d", ts=at(1), lane="x")], lane=pa.string())
    events, misfits = follow(spark, str(directory), work)
    assert [(event["name"], event["_time"]) for event in events] == [("c", at(1))]
    no_column = "there is no column 'speed', which stream Car declares"
    assert [(m["_reason"], m["_place"]) for m in misfits] == [
        ("column 'lane' is string, but stream Car declares it as int", f"{directory}/d.parquet, row 1"),
        (no_column, f"{directory}/b.csv:2"),
        (no_column, f"{directory}/b.csv:1"),
    ]
