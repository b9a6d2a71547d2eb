"""Attributes that come from nested fields, or from columns of other names: the same from every kind of input."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from situ.core.errors import InputError
from situ.core.types import DOUBLE, INT, STRING, TIMESTAMP
from situ.graph.query import AttributeDeclaration, Stream
from situ.io.files.by_suffix import open_source
from situ.io.files.parquet import ParquetFile
from situ.io.rows.conform import conform
from situ.lang.parse import parse

MICROS = pa.timestamp("us", tz="UTC")

[STREAM] = parse(
    """stream Vehicle(vehicle string, x double from position.x, lane int from `road.part`.lane."no.",
         again string from vehicle, ts timestamp from "event time") time ts"""
).streams

ROWS = [
    {
        "vehicle": "a",
        "position": {"x": 1.5, "y": 2.0},
        "road.part": {"lane": {"no.": 3, "width": 4}},
        "event time": "2024-05-01T12:00:00Z",
    },
    {"vehicle": "b", "position": None, "road.part": {"lane": None}, "event time": "2024-05-01T12:00:01Z"},
    {"vehicle": "c", "position": {"x": None, "y": 1.0}, "road.part": None, "event time": "2024-05-01T12:00:02Z"},
]
EVENTS = {
    "vehicle": ["a", "b", "c"],
    "x": [1.5, None, None],
    "lane": [3, None, None],
    "again": ["a", "b", "c"],
}
TIMES = [1714564800000000, 1714564801000000, 1714564802000000]


def as_table(rows):
    table = pa.Table.from_pylist(rows)
    times = table.column("event time").cast(MICROS)
    return table.set_column(table.column_names.index("event time"), "event time", times)


def read_all(path, stream):
    parts = [chunk.read([a.name for a in stream.attributes]) for chunk in open_source(path, stream).chunks()]
    events = pa.concat_tables([part.events for part in parts])
    return events, [time for part in parts for time in part.times.tolist()], parts[0].rejected.to_pylist()


def check(events, times, rejected):
    assert events.drop_columns("ts").to_pydict() == EVENTS
    assert events.column("ts").cast(pa.int64()).to_pylist() == times == TIMES
    assert rejected == []


def test_tables():
    conformed = conform(as_table(ROWS), STREAM)
    check(conformed.events, conformed.times.tolist(), conformed.rejected.to_pylist())


def test_values_of_a_struct_without_nulls_are_not_copied():
    table = as_table(ROWS[:1])
    taken = conform(table, STREAM).events.column("x").chunk(0)
    given = table.column("position").chunk(0).field("x")
    assert taken.buffers()[1].address == given.buffers()[1].address


def test_parquet_reads_the_field_and_nothing_beside_it(tmp_path):
    pq.write_table(as_table(ROWS), tmp_path / "a.parquet", row_group_size=2)
    check(*read_all(tmp_path, STREAM))
    read = ParquetFile.checked(tmp_path / "a.parquet", STREAM).read([0], ["position.x", "road.part.lane.no."])
    assert read.schema.field("position").type == pa.struct([("x", pa.float64())])
    assert read.schema.field("road.part").type == pa.struct([("lane", pa.struct([("no.", pa.int64())]))])


def test_the_statistics_of_a_nested_time_order_the_chunks(tmp_path):
    stream = Stream("Ping", (AttributeDeclaration("ms", INT, ("head", "at")),), time="ms", time_unit="ms")
    head = pa.array([{"at": 5, "from": "x"}, {"at": 7, "from": "y"}])
    pq.write_table(pa.table({"head": head}), tmp_path / "nested.parquet")
    [chunk] = open_source(tmp_path / "nested.parquet", stream).chunks()
    assert chunk.time_range == (5000, 7000)
    # A column of that very name has statistics of its own, which say nothing about the field.
    pq.write_table(pa.table({"head.at": [1, 2], "head": head}), tmp_path / "both.parquet")
    [chunk] = open_source(tmp_path / "both.parquet", stream).chunks()
    assert chunk.time_range is None
    assert chunk.read([]).times.tolist() == [5000, 7000]
    pq.write_table(pa.table({"head": pa.array([{"at": 5}, None])}), tmp_path / "null.parquet")
    [chunk] = open_source(tmp_path / "null.parquet", stream).chunks()
    assert chunk.time_range is None
    assert chunk.read([]).rejected.column("_reason").to_pylist() == ["ms is null"]


def test_json_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    check(*read_all(path, STREAM))


def test_json_lines_reject_what_is_no_object(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [*ROWS, ROWS[0] | {"position": 7}, ROWS[0] | {"road.part": {"lane": {"no.": "left"}}}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    events, times, rejected = read_all(path, STREAM)
    check(events, times, [])
    assert [(row["_reason"], row["_place"]) for row in rejected] == [
        ("position: 7 is no object", f"{path}:4"),
        ("lane: 'left' is no int", f"{path}:5"),
    ]


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ([("x", INT, ("a",)), ("y", INT, ("a", "b"))], "'a' cannot be read as object and as int64"),
        ([("y", INT, ("a", "b")), ("x", DOUBLE, ("a", "b"))], "'a.b' cannot be read as double and as int64"),
    ],
)
def test_json_lines_give_one_key_one_kind(tmp_path, paths, says):
    (tmp_path / "a.jsonl").write_text('{"a": {"b": 1}}\n')
    stream = Stream("S", tuple(AttributeDeclaration(*path) for path in paths), time="x", time_unit="s")
    with pytest.raises(InputError, match=says):
        open_source(tmp_path, stream)


def test_csv(tmp_path):
    header = 'vehicle,position.x,position.y,road.part.lane.no.,"event time"'
    lines = ["a,1.5,2,3,2024-05-01T12:00:00Z", "b,,,,2024-05-01T12:00:01Z", "c,,1,,2024-05-01T12:00:02Z"]
    (tmp_path / "a.csv").write_text("\n".join([header, *lines]))
    check(*read_all(tmp_path, STREAM))
    (tmp_path / "a.csv").write_text("")
    assert list(open_source(tmp_path, STREAM).chunks()) == []


def renamed(**paths):
    attributes = tuple(AttributeDeclaration(a.name, a.type, paths.get(a.name, a.path)) for a in STREAM.attributes)
    return Stream("Vehicle", attributes, time="ts")


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        (
            renamed(x=("position", "xs")),
            "there is no column 'position.xs', which stream Vehicle declares.\n"
            "  known: position.x, position.y. Did you mean 'position.x'?",
        ),
        (
            renamed(x=("positoin", "x")),
            "there is no column 'positoin', which stream Vehicle declares.\n"
            "  known: event time, position, road.part, vehicle. Did you mean 'position'?",
        ),
    ],
)
def test_a_field_that_is_missing_is_named_with_those_beside_it(tmp_path, stream, says):
    pq.write_table(as_table(ROWS), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reversed(ROWS)))
    for file in ("a.parquet", "a.jsonl"):
        with pytest.raises(InputError) as error:
            open_source(tmp_path / file, stream)
        assert str(error.value) == f"{tmp_path / file}: {says}"


def test_a_field_of_a_column_without_fields(tmp_path):
    with pytest.raises(InputError) as error:
        conform(as_table(ROWS), renamed(x=("vehicle", "x")), place="t")
    assert str(error.value) == (
        "t: column 'vehicle' is string and has no field 'x', which stream Vehicle declares.\n"
        "  Only a column of structs has fields."
    )


def test_a_field_that_is_there_twice_or_of_another_type_is_refused():
    fields = [pa.field("x", pa.float64()), pa.field("x", pa.float64())]
    twice = pa.StructArray.from_arrays([pa.array([1.0]), pa.array([2.0])], fields=fields)
    table = as_table(ROWS[:1])
    with pytest.raises(InputError, match=r"column 'position\.x' occurs 2 times"):
        conform(table.set_column(1, "position", twice), STREAM)
    text = pa.array([{"x": "1"}])
    with pytest.raises(InputError, match=r"column 'position\.x' is string, but stream Vehicle declares it as double"):
        conform(table.set_column(1, "position", text), STREAM)


def test_a_csv_file_without_the_column(tmp_path):
    (tmp_path / "a.csv").write_text("id,position.z,ts\n")
    attributes = (AttributeDeclaration("x", STRING, ("position", "x")), AttributeDeclaration("ts", TIMESTAMP))
    with pytest.raises(InputError, match=r"no column 'position\.x'.*\n.*Did you mean 'position\.z'\?"):
        open_source(tmp_path, Stream("S", attributes, time="ts"))
