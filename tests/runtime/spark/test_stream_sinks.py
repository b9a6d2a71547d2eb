"""Where results go: files that hold every result once, whatever happens; messages; tables."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from runtime.spark.tagged_events import (
    ALL_KINDS,
    LATE,
    OUTPUT,
    REJECTED,
    TABLES,
    TIMED_OUT,
    at,
    fast,
    tagged,
)
from situ.core.errors import InputError, SituError, StateError
from situ.io.files.by_suffix import Format
from situ.io.sink_names import TableNames
from situ.runtime.spark.inputs.files import Root
from situ.runtime.spark.sinks.file_sink import FileSink
from situ.runtime.spark.sinks.message_sinks import ResultWriter
from situ.runtime.spark.sinks.result_packs import Result, ResultPacker
from situ.runtime.spark.sinks.result_tables import Tables, bytes_to_table
from situ.runtime.spark.sinks.stream_sinks import PostgresqlSink, Sink, open_sink, packages_for
from situ.runtime.spark.stages.output import TaggedOutput

if TYPE_CHECKING:
    pass


def results(*rows: dict[str, Any]) -> list[Result]:
    """As they come from Spark: packed in a task."""
    packs = [row for batch in ResultPacker(TABLES)(iter([tagged(*rows)])) for row in batch.to_pylist()]
    return [(row["kind"], row["name"], bytes_to_table(row["packed"])) for row in packs]


def sink(directory: Path, file_format: Format = "parquet", query: str = "q1", tables: Tables = TABLES) -> FileSink:
    return FileSink(Root.of(directory), file_format, tables, query)


def files_in(directory: Path) -> list[str]:
    found = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.name != ".situ-query")


def names_in(directory: Path, folder: str = "Fast") -> list[str]:
    """What a reader finds, who knows nothing of batches."""
    found: list[str] = pq.read_table(directory / folder).column("name").to_pylist()
    return found


# ---- files


def test_a_folder_for_each_subscription_and_for_what_did_not_become_one(tmp_path: Path) -> None:
    sink(tmp_path / "out").write_results(results(*ALL_KINDS), 17)
    assert files_in(tmp_path / "out") == [
        "Fast/batch-000000017.parquet",
        "Twice/batch-000000017.parquet",
        "_late/Car/batch-000000017.parquet",
        "_rejected/Car/batch-000000017.parquet",
        "_timed_out/Twice/batch-000000017.parquet",
    ]
    assert pq.read_table(tmp_path / "out" / "Fast").to_pylist() == [
        {"name": "a", "speed": 31.0, "_time": at(1)},
        {"name": "b", "speed": 31.0, "_time": at(3)},
    ]
    assert pq.read_table(tmp_path / "out" / "_timed_out" / "Twice").to_pylist() == [{"name": 3, "_time": at(9)}]
    assert pq.read_table(tmp_path / "out" / "_rejected" / "Car").to_pylist() == [
        {"_reason": "ts is null", "_row": "{}", "_place": "cars.csv:2"}
    ]
    assert pq.read_table(tmp_path / "out" / "_late" / "Car").to_pylist() == [
        {"_time": at(1), "_lateness": timedelta(seconds=5), "_row": '{"name": "x"}'}
    ]


def test_text_formats(tmp_path: Path) -> None:
    first, second = results(fast(1, "a"), LATE), results(fast(2, "b"))
    sink(tmp_path / "csv", "csv").write_results([*first, *second], 0)
    assert (tmp_path / "csv" / "Fast" / "batch-000000000.csv").read_text() == (
        '"name","speed","_time"\n"a",31,"1970-01-01T00:00:01.000000Z"\n"b",31,"1970-01-01T00:00:02.000000Z"\n'
    )
    assert (tmp_path / "csv" / "Twice" / "batch-000000000.csv").read_text() == '"name","_time"\n'
    sink(tmp_path / "json", "json").write_results([*first, *second], 0)
    lines = (tmp_path / "json" / "Fast" / "batch-000000000.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["a", "b"]
    (late,) = (tmp_path / "json" / "_late" / "Car").iterdir()
    assert json.loads(late.read_text())["_lateness"] == 5_000_000


def test_the_first_file_of_a_subscription_has_its_columns_and_others_have_rows(tmp_path: Path) -> None:
    writer = sink(tmp_path)
    for batch, rows in enumerate([[], [fast(1, "a")], []]):
        writer.write_results(results(*rows), batch)
    sink(tmp_path).write_results([], 3)  # another process
    assert files_in(tmp_path) == [
        "Fast/batch-000000000.parquet",
        "Fast/batch-000000001.parquet",
        "Twice/batch-000000000.parquet",
    ]
    assert names_in(tmp_path) == ["a"]
    assert pq.read_schema(tmp_path / "Twice" / "batch-000000000.parquet").names == ["name", "_time"]


@pytest.mark.parametrize("same_process", [True, False])
def test_a_repeated_batch_replaces_its_first_attempt_in_all_folders(tmp_path: Path, same_process: bool) -> None:
    writer = sink(tmp_path)
    writer.write_results(results(fast(1, "a")), 0)
    writer.write_results(results(fast(2, "b"), REJECTED, LATE, TIMED_OUT), 1)
    again = writer if same_process else sink(tmp_path)
    again.write_results(results(fast(2, "c")), 1)
    assert sorted(names_in(tmp_path)) == ["a", "c"]
    assert not list(tmp_path.glob("_*/*/*"))
    again.write_results([], 1)
    assert names_in(tmp_path) == ["a"]


def test_a_repeated_batch_replaces_also_what_other_rules_or_another_format_left(tmp_path: Path) -> None:
    before = Tables(TaggedOutput(OUTPUT.operators, OUTPUT.located, ("Fast",), streams=("Car",)))
    sink(tmp_path, "csv", tables=before).write_results(results(fast(1, "a"), TIMED_OUT), 0)
    without = Tables(TaggedOutput((), frozenset(), (), streams=("Car",)))
    sink(tmp_path, tables=without).write_results(results(REJECTED), 0)
    assert files_in(tmp_path) == ["_rejected/Car/batch-000000000.parquet"]


def test_pieces_of_a_table_are_one_file(tmp_path: Path) -> None:
    pieces = [result for n in range(5) for result in results(fast(n, f"c{n}"))]
    sink(tmp_path).write_results(pieces, 0)
    assert names_in(tmp_path) == [f"c{n}" for n in range(5)]


def test_a_batch_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[Result]:
        yield from results(*ALL_KINDS)
        raise RuntimeError("Spark gives up")

    writer = sink(tmp_path)
    writer.write_results(results(fast(1, "a")), 0)
    before = files_in(tmp_path)
    with pytest.raises(RuntimeError):
        writer.write_results(broken(), 1)
    assert files_in(tmp_path) == before
    sink(tmp_path).write_results(results(*ALL_KINDS), 1)
    assert names_in(tmp_path) == ["a", "a", "b"]


def test_a_process_that_is_killed_while_it_publishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    real, done = Path.rename, []

    def rename(path: Path, target: Path) -> Path:
        if len(done) == 3:
            raise Killed
        done.append(target)
        return real(path, target)

    def left_as_it_is(*_: object) -> None:
        """Nobody tidies up after a process that is killed."""

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", rename)
        patched.setattr("situ.runtime.spark.sinks.file_sink._BatchFiles.__exit__", left_as_it_is)
        with pytest.raises(Killed):
            sink(tmp_path).write_results(results(*ALL_KINDS), 0)
    assert [name for name in files_in(tmp_path) if "/.batch-" in name], "the test kills it too late"
    sink(tmp_path).write_results(results(fast(2, "b")), 0)
    assert files_in(tmp_path) == ["Fast/batch-000000000.parquet", "Twice/batch-000000000.parquet"]
    assert names_in(tmp_path) == ["b"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    directory = tmp_path / "small"
    directory.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system to fill")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", directory], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    yield directory
    subprocess.run(["umount", directory], check=True)


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_a_full_disk_is_a_clear_error_and_the_batch_can_be_repeated(small_disk: Path, file_format: Format) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (40 << 10))
    out = small_disk / "out"
    writer = sink(out, file_format)
    writer.write_results(results(fast(1, "a")), 0)
    before = files_in(out)
    many = results(*(fast(n, os.urandom(20).hex()) for n in range(2000)))
    with pytest.raises(SituError) as error:
        writer.write_results(many, 1)
    assert str(error.value).startswith(f"{out}: batch 1 cannot be written: No space left on device.\n  Make room")
    assert files_in(out) == before
    ballast.unlink()
    few = results(*(fast(n, f"c{n}") for n in range(20)))
    sink(out, file_format).write_results(few, 1)
    assert len(files_in(out)) == len(before) + 1


def test_a_directory_belongs_to_one_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink(out).write_results(results(fast(1, "a")), 0)
    sink(out).check()
    other = sink(out, query="q2")
    for refused in (other.check, lambda: other.write_results([], 0)):
        with pytest.raises(StateError, match="results of another checkpoint"):
            refused()
    assert names_in(out) == ["a"]


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(SituError, match="is not empty"):
        open_sink(str(tmp_path), "parquet", OUTPUT, "q1")
    with pytest.raises(SituError, match="this is a file"):
        open_sink(str(tmp_path / "mine.txt"), "parquet", OUTPUT, "q1")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_directory_that_was_half_claimed_is_free(tmp_path: Path) -> None:
    (tmp_path / "..situ-query.tmp").write_text("q")
    sink(tmp_path).write_results([], 0)
    assert (tmp_path / ".situ-query").read_text() == "q1\n"


def test_a_checkpoint_that_is_older_than_the_results_is_refused(tmp_path: Path) -> None:
    writer = sink(tmp_path)
    for batch in range(3):
        writer.write_results(results(fast(batch, f"c{batch}")), batch)
    with pytest.raises(StateError, match="there are results of batch 2 already"):
        sink(tmp_path).write_results([], 1)
    assert len(names_in(tmp_path)) == 3


# ---- packs


def test_few_rows_are_sent_along_and_the_rest_waits() -> None:
    batches = [tagged(*(fast(n, f"c{n}") for n in range(start + 20, start, -1))) for start in (0, 20, 40)]
    packs = [row for batch in ResultPacker(TABLES, 1, 2000)(iter(batches)) for row in batch.to_pylist()]
    assert [row["waits"] for row in packs] == [False, True, True]
    tables = [bytes_to_table(row["packed"]) for row in packs]
    assert [name for table in tables for name in table.column("name").to_pylist()] == [f"c{n}" for n in range(1, 61)]
    (one,) = [row for batch in ResultPacker(TABLES)(iter(batches)) for row in batch.to_pylist()]
    assert not one["waits"]


# ---- messages


def test_a_message_says_what_it_is() -> None:
    texts = [
        row["text"] for batch in ResultWriter(TABLES).texts(iter([tagged(*ALL_KINDS)])) for row in batch.to_pylist()
    ]
    assert sorted((json.loads(text) for text in texts), key=repr) == sorted(
        [
            {
                "_kind": "complex event",
                "_name": "Fast",
                "name": name,
                "speed": 31,
                "_time": f"1970-01-01T00:00:0{s}.000000Z",
            }
            for s, name in ((1, "a"), (3, "b"))
        ]
        + [
            {"_kind": "timed out", "_name": "Twice", "name": 3, "_time": "1970-01-01T00:00:09.000000Z"},
            {"_kind": "rejected", "_name": "Car", "_reason": "ts is null", "_text": "{}", "_place": "cars.csv:2"},
            {
                "_kind": "late",
                "_name": "Car",
                "_time": "1970-01-01T00:00:01.000000Z",
                "_lateness": 5_000_000,
                "_text": '{"name": "x"}',
            },
        ],
        key=repr,
    )


# ---- tables


def test_a_table_for_each_subscription() -> None:
    kinds = [("complex event", "Fast"), ("timed out", "Twice"), ("late", "Car"), ("rejected", "Car")]
    names = [TableNames.table(kind, name) for kind, name in kinds]
    assert names == ["Fast", "_timed_out_Twice", "_late", "_rejected"]
    rows = {kind: PostgresqlSink.for_table(kind, name, table) for kind, name, table in results(*ALL_KINDS)}
    assert rows["rejected"].to_pylist() == [
        {"_stream": "Car", "_reason": "ts is null", "_text": "{}", "_place": "cars.csv:2"}
    ]
    assert rows["late"].column_names == ["_stream", "_time", "_lateness", "_text"]
    assert rows["complex event"].column_names == ["name", "speed", "_time"]


# ---- addresses


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://ann:secret@host/cars", "'http://' is no output for situ"),
        ("mqtt://ann:secret@host/cars/#", "which is many topics"),
        ("kafka://host:9092/cars?startingOffsets=latest", "for reading only"),
        ("postgresql://ann:secret@host", "names no database"),
    ],
)
def test_an_output_that_is_none(address: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        open_sink(address, "parquet", OUTPUT, "q1")
    assert message in str(error.value)
    assert "secret" not in str(error.value)


def test_a_format_that_situ_does_not_write(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'parquet'"):
        open_sink(str(tmp_path), "parket", OUTPUT, "q1")


@pytest.mark.parametrize("address", ["{}/out", "kafka://h:1/t", "mqtt://ann:secret@h/t", "postgresql://ann:secret@h/d"])
def test_a_sink_travels_and_keeps_its_password_to_itself(address: str, tmp_path: Path) -> None:
    opened = open_sink(address.format(tmp_path), "parquet", OUTPUT, "q1")
    travelled: Sink = cloudpickle.loads(cloudpickle.dumps(opened))
    assert repr(travelled) == repr(opened)
    assert "secret" not in repr(opened)


def test_what_a_session_needs_for_addresses() -> None:
    assert packages_for(["in", "mqtt://h/t"], {"spark.jars": "more.jar"}) == {}
    assert packages_for(["kafka://h:1/t"], {"spark.jars": "/jars/spark-sql-kafka-0-10_2.13-4.3.0.jar"}) == {}
