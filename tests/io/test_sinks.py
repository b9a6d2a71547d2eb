"""Part files: complete or not there, never mixed, and readable again as what was written."""

import json
from datetime import UTC, datetime
from decimal import Decimal as D
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situ.core.errors import SituError
from situ.core.types import BINARY, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Decimal, to_arrow
from situ.graph.query import AttributeDeclaration, Stream
from situ.io.files.by_suffix import Format, open_source
from situ.io.files.part_files import DirectorySink, write

EVERY_TYPE = Stream(
    "Every",
    tuple(
        AttributeDeclaration(name, type_)
        for name, type_ in [
            ("s", STRING), ("i", INT), ("d", DOUBLE), ("b", BOOLEAN),
            ("price", Decimal(12, 2)), ("raw", BINARY), ("ts", TIMESTAMP),
        ]
    ),
    time="ts",
)  # fmt: skip
SCHEMA = pa.schema([(a.name, to_arrow(a.type)) for a in EVERY_TYPE.attributes])

row = st.fixed_dictionaries(
    {
        "s": st.none() | st.text(st.characters(codec="utf-8")),
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "b": st.none() | st.booleans(),
        "price": st.none() | st.decimals(-(10**9), 10**9, places=2, allow_nan=False),
        "raw": st.none() | st.binary(max_size=20),
        "ts": st.datetimes(timezones=st.just(UTC)),
    }
)


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
@settings(derandomize=True, deadline=None, max_examples=100)
@given(tables=st.lists(st.lists(row, max_size=5), min_size=1, max_size=3))
def test_what_is_written_is_read_again(tmp_path_factory, format, tables):
    directory = tmp_path_factory.mktemp("round")
    written = [pa.Table.from_pylist(rows, SCHEMA) for rows in tables]
    write(written, directory, "Every", format)
    read = [c.read(SCHEMA.names) for c in open_source(directory / "Every", EVERY_TYPE).chunks()]
    assert [r for part in read for r in part.rejected.to_pylist()] == []
    assert [r for part in read for r in part.events.to_pylist()] == [r for t in written for r in t.to_pylist()]


def test_parts_are_numbered_and_the_first_is_written_even_without_rows(tmp_path):
    empty = SCHEMA.empty_table()
    with DirectorySink(tmp_path / "out", "parquet") as sink:
        sink.write("Jam", empty)
        sink.write("Jam", empty)
        sink.write("Jam", pa.Table.from_pylist([{"i": 1}], SCHEMA))
        sink.write("Empty", empty)
    files = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.parquet"))
    assert files == ["Empty/part-00000.parquet", "Jam/part-00000.parquet", "Jam/part-00001.parquet"]
    assert pq.read_table(tmp_path / "out" / "Empty").schema == SCHEMA
    assert pq.read_table(tmp_path / "out" / "Jam")["i"].to_pylist() == [1]


def test_a_write_that_fails_leaves_no_part_behind(tmp_path):
    sink = DirectorySink(tmp_path, "parquet")
    sink.write("Jam", pa.table({"n": [1]}))
    with pytest.raises(pa.ArrowNotImplementedError):
        sink.write("Jam", pa.table({"n": [1], "u": _union()}))
    assert [p.name for p in (tmp_path / "Jam").iterdir()] == ["part-00000.parquet"]
    assert pq.read_table(tmp_path / "Jam")["n"].to_pylist() == [1]


def _union():
    """A column that Parquet cannot hold."""
    return pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])


def test_times_are_iso_in_utc_and_nested_values_json(tmp_path):
    table = pa.table(
        {
            "at": pa.array([datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)]),
            "naive": pa.array([0], pa.timestamp("ms")),
            "berlin": pa.array([0], pa.timestamp("s", tz="Europe/Berlin")),
            "took": pa.array([1500], pa.duration("ms")),
            "cars": [["a", 'b"c']],
            "box": [{"x": 1.5, "price": D("1.10"), "raw": b"\xff", "at": datetime(2024, 5, 1, tzinfo=UTC)}],
            "nan": [float("nan")],
        }
    )
    write([table], tmp_path / "json", "T", "json")
    [text] = (tmp_path / "json/T/part-00000.jsonl").read_text().splitlines()
    box = {"x": 1.5, "price": "1.10", "raw": "/w==", "at": "2024-05-01T00:00:00+00:00"}
    assert json.loads(text) == {
        "at": "2024-05-01T12:00:00.250000Z",
        "naive": "1970-01-01T00:00:00.000Z",
        "berlin": "1970-01-01T00:00:00Z",
        "took": 1_500_000,
        "cars": ["a", 'b"c'],
        "box": box,
        "nan": None,
    }
    write([table.drop_columns("nan")], tmp_path / "csv", "T", "csv")
    header, line = (tmp_path / "csv/T/part-00000.csv").read_text().splitlines()
    assert header == '"at","naive","berlin","took","cars","box"'
    assert line.startswith(
        '"2024-05-01T12:00:00.250000Z","1970-01-01T00:00:00.000Z","1970-01-01T00:00:00Z",1500000,"[""a"", ""b\\""c""]",'
    )


def test_a_directory_that_is_not_empty_is_refused_unless_situ_wrote_it_and_may_overwrite(tmp_path):
    table = pa.table({"n": [1]})
    write([table, table], tmp_path, "Old", "csv")
    with pytest.raises(SituError, match="would mix with old ones") as error:
        DirectorySink(tmp_path, "json")
    assert error.value.place == str(tmp_path)
    write([table], tmp_path, "New", "json", overwrite=True)
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*")] == ["New/part-00000.jsonl"]


def test_overwriting_never_deletes_what_situ_did_not_write(tmp_path):
    write([pa.table({"n": [1]})], tmp_path, "Old", "csv")
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(SituError, match=r"files that situ did not write, such as thesis\.tex"):
        DirectorySink(tmp_path, "csv", overwrite=True)
    assert (tmp_path / "thesis.tex").exists()
    assert (tmp_path / "Old" / "part-00000.csv").exists()


def test_a_file_where_the_directory_should_be_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(SituError, match="this is a file"):
        DirectorySink(tmp_path / "out", "csv")


def test_an_empty_directory_will_do_and_a_closed_sink_takes_no_more(tmp_path):
    sink = DirectorySink(tmp_path, "csv")
    sink.close()
    with pytest.raises(ValueError, match="closed"):
        sink.write("Jam", pa.table({"n": [1]}))


@pytest.mark.parametrize(
    ("file_format", "suffix", "expected"),
    [("json", "jsonl", '{"v": [1, null]}\n{"v": []}\n'), ("csv", "csv", '"v"\n"[1, null]"\n"[]"\n')],
)
def test_lists_are_arrays_in_json_and_json_text_in_csv(
    tmp_path: Path, file_format: Format, suffix: str, expected: str
) -> None:
    write([pa.table({"v": pa.array([[1, None], []], pa.list_(pa.int64()))})], tmp_path, "Jam", file_format)
    assert (tmp_path / "Jam" / f"part-00000.{suffix}").read_text() == expected
