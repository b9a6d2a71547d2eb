"""Parquet: row groups as chunks, columns on demand, the same rows at every read."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from situ.core.errors import InputError
from situ.core.types import DOUBLE, INT, STRING, TIMESTAMP
from situ.io.files import parquet
from situ.io.files.by_suffix import open_source
from situ.io.files.source import read_ahead

MICROS = pa.timestamp("us", tz="UTC")


def trips(first, last):
    n = range(first, last)
    return pa.table(
        {
            "vehicle": [f"v{i % 7}" for i in n],
            "speed": [i / 2 for i in n],
            "lane": pa.array([i % 3 for i in n], pa.int32()),
            "ts": pa.array(n, MICROS),
            "extra": [[i] for i in n],
        }
    )


def test_every_row_comes_once_and_in_order_whatever_the_chunks(tmp_path, vehicle, monkeypatch):
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 100)
    pq.write_table(trips(0, 250), tmp_path / "a.parquet", row_group_size=30)  # put together
    pq.write_table(trips(250, 550), tmp_path / "b.parquet", row_group_size=300)  # larger than a chunk
    for i in range(20):  # small files
        pq.write_table(trips(550 + i, 551 + i), tmp_path / f"c{i:02}.parquet")
    source = open_source(tmp_path, vehicle)
    chunks = list(source.chunks())
    assert source.rows == 570
    assert [chunk.rows for chunk in chunks] == [90, 90, 70, 300, 20]
    events = pa.concat_tables([chunk.read(["lane", "vehicle", "speed", "ts"]).events for chunk in chunks])
    assert events.combine_chunks() == trips(0, 570).drop_columns("extra").combine_chunks()


def test_read_ahead_gives_what_reading_one_by_one_gives(tmp_path, vehicle, monkeypatch):
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 50)
    pq.write_table(trips(0, 1000), tmp_path / "a.parquet", row_group_size=50)
    source = open_source(tmp_path / "a.parquet", vehicle)
    ahead = [(chunk.time_range, read.events, read.times.tolist()) for chunk, read in read_ahead(source, ["speed"])]
    plain = [(c.time_range, c.read(["speed"]).events, c.read([]).times.tolist()) for c in source.chunks()]
    assert len(plain) == 20
    assert ahead == plain


def test_read_ahead_tells_of_an_error_at_its_chunk_and_can_be_left_early(tmp_path, vehicle, monkeypatch):
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 10)
    pq.write_table(trips(0, 100), tmp_path / "a.parquet", row_group_size=10)
    source = open_source(tmp_path / "a.parquet", vehicle)
    for _, read in read_ahead(source, ["speed"]):
        assert read.times.tolist() == list(range(10))
        break
    (tmp_path / "a.parquet").write_bytes(b"PAR1 gone PAR1")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        list(read_ahead(source, ["speed"]))


def test_later_reads_of_other_columns_give_the_same_rows(tmp_path, make_stream):
    stream = make_stream("ts", a=INT, b=INT, c=STRING, ts=TIMESTAMP)
    table = pa.table(
        {
            "a": [0, 1, 2, 3],
            "b": pa.array([0, 2**63, 2, 3], pa.uint64()),
            "c": ["c0", "c1", "c2", "c3"],
            "ts": pa.array([0, 1, None, 3], MICROS),
            "note": ["n0", "n1", "n2", "n3"],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    [chunk] = open_source(tmp_path / "t.parquet", stream).chunks()
    reads = [chunk.read(columns) for columns in (["a"], ["b"], ["c", "ts"], [])]
    assert [read.times.tolist() for read in reads] == [[0, 3]] * 4
    assert [read.events.to_pydict() for read in reads[:2]] == [{"a": [0, 3]}, {"b": [0, 3]}]
    assert reads[2].events.column("c").to_pylist() == ["c0", "c3"]
    for read in reads:
        assert read.rejected.to_pylist() == [
            {
                "_reason": "b: 9223372036854775808 is no int",
                "_row": '{"a": 1, "b": 9223372036854775808, "c": "c1", '
                '"ts": "1970-01-01T00:00:00.000001Z", "note": "n1"}',
                "_place": f"{tmp_path / 't.parquet'}, row 2",
            },
            {
                "_reason": "ts is null",
                "_row": '{"a": 2, "b": 2, "c": "c2", "ts": null, "note": "n2"}',
                "_place": f"{tmp_path / 't.parquet'}, row 3",
            },
        ]


def test_row_numbers_count_from_the_beginning_of_the_file(tmp_path, vehicle, monkeypatch):
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 10)
    table = trips(0, 40).set_column(3, "ts", pa.array([None if i == 33 else i for i in range(40)], MICROS))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=10)
    rejected = pa.concat_tables([c.read([]).rejected for c in open_source(tmp_path / "t.parquet", vehicle).chunks()])
    assert rejected["_place"].to_pylist() == [f"{tmp_path / 't.parquet'}, row 34"]


def test_files_of_one_chunk_may_have_integers_of_different_widths(tmp_path, make_stream):
    stream = make_stream("ts", n=INT, ts=TIMESTAMP)
    for i, type_ in enumerate([pa.int8(), pa.int64(), pa.uint32()]):
        pq.write_table(pa.table({"n": pa.array([i], type_), "ts": pa.array([i], MICROS)}), tmp_path / f"{i}.parquet")
    [chunk] = open_source(tmp_path, stream).chunks()
    events = chunk.read(["n", "ts"]).events
    assert events.column("n").to_pylist() == [0, 1, 2]
    assert [column.num_chunks for column in events.columns] == [1, 1]
    assert chunk.read([]).times.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("column", "unit", "expected"),
    [
        (pa.array([5, 3], MICROS), None, (3, 5)),
        (pa.array([5, 3], pa.timestamp("ms")), None, (3000, 5000)),
        (pa.array([-1500, 2500], pa.timestamp("ns")), None, (-1, 2)),
        (pa.array([5, 3], pa.int32()), "s", (3_000_000, 5_000_000)),
        (pa.array([5, None], MICROS), None, None),  # nulls: statistics are not of every row
        (pa.array([5, 2**62]), "s", None),  # out of range
        (pa.array([1.0, float("nan")]), "s", None),  # statistics leave NaN out
    ],
)
def test_time_range_is_known_only_where_it_holds_for_every_event(tmp_path, make_stream, column, unit, expected):
    declared = {pa.int32(): INT, pa.int64(): INT, pa.float64(): DOUBLE}.get(column.type, TIMESTAMP)
    pq.write_table(pa.table({"ts": column}), tmp_path / "t.parquet")
    [chunk] = open_source(tmp_path / "t.parquet", make_stream("ts", unit, ts=declared)).chunks()
    assert chunk.time_range == expected
    if expected:
        assert (chunk.read([]).times.min(), chunk.read([]).times.max()) == expected


def test_time_range_is_not_known_without_statistics(tmp_path, vehicle):
    pq.write_table(trips(0, 5), tmp_path / "t.parquet", write_statistics=False)
    [chunk] = open_source(tmp_path / "t.parquet", vehicle).chunks()
    assert chunk.time_range is None


def test_a_file_without_rows_gives_no_events_and_no_error(tmp_path, vehicle):
    pq.write_table(trips(0, 0), tmp_path / "t.parquet")
    source = open_source(tmp_path / "t.parquet", vehicle)
    assert source.rows == 0
    assert sum(chunk.read(["speed"]).events.num_rows for chunk in source.chunks()) == 0


@pytest.mark.parametrize("content", [b"", b"speed,ts\n1,2\n", b"PAR1"], ids=["empty", "csv", "only the magic"])
def test_what_is_no_parquet_is_refused(tmp_path, vehicle, content):
    path = tmp_path / "cars.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as Parquet") as error:
        open_source(path, vehicle)
    assert error.value.place == str(path)
    assert "right suffix" in error.value.remedy


def test_a_cut_off_file_is_refused(tmp_path, vehicle):
    path = tmp_path / "cars.parquet"
    pq.write_table(trips(0, 1000), path)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        open_source(path, vehicle)


def test_damage_within_the_data_is_told_when_it_is_read(tmp_path, vehicle):
    path = tmp_path / "cars.parquet"
    pq.write_table(trips(0, 1000), path)
    content = bytearray(path.read_bytes())
    content[4:2000] = b"\xff" * 1996
    path.write_bytes(bytes(content))
    [chunk] = open_source(path, vehicle).chunks()
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        chunk.read(["vehicle", "speed"])


def test_one_file_with_a_missing_or_wrong_column_is_named_before_anything_is_read(tmp_path, vehicle):
    pq.write_table(trips(0, 5), tmp_path / "a.parquet")
    pq.write_table(trips(5, 9).rename_columns(["vehicle", "sped", "lane", "ts", "extra"]), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="there is no column 'speed'") as error:
        open_source(tmp_path, vehicle)
    assert error.value.place == str(tmp_path / "b.parquet")
    pq.write_table(trips(5, 9).set_column(2, "lane", pa.array(list("abcd"))), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="column 'lane' is string"):
        open_source(tmp_path, vehicle)
