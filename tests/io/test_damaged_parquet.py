"""Parquet files in which bits were turned over: an InputError that names the file, or rows; nothing else."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from situ.core.errors import InputError
from situ.io.files.by_suffix import open_source

ROWS = 200


def read_all(path, stream):
    """Everything that an engine asks of a source; the text of all events must be text."""
    for chunk in open_source(path, stream).chunks():
        assert chunk.time_range is None or len(chunk.time_range) == 2
        chunk.read(["vehicle", "speed", "lane"]).events.validate(full=True)


@pytest.fixture
def trips(tmp_path):
    times = pa.array([1_000_000 * i for i in range(ROWS)], pa.timestamp("us", tz="UTC"))
    columns = {"vehicle": [f"car {i % 7}" for i in range(ROWS)], "speed": [i * 0.5 for i in range(ROWS)]}
    pq.write_table(
        pa.table(columns | {"lane": range(ROWS), "ts": times}), tmp_path / "whole.parquet", row_group_size=80
    )
    return (tmp_path / "whole.parquet").read_bytes()


def test_a_column_name_that_is_no_text_is_refused(tmp_path, vehicle, trips):
    path = tmp_path / "damaged.parquet"
    path.write_bytes(trips.replace(b"vehicle", b"vehic\xffe"))
    with pytest.raises(InputError, match="cannot be read as Parquet") as error:
        open_source(path, vehicle)
    assert error.value.place == str(path)


def test_text_of_a_damaged_page_is_refused(tmp_path, vehicle):
    path = tmp_path / "damaged.parquet"
    times = pa.array([0], pa.timestamp("us", tz="UTC"))
    whole = pa.table({"vehicle": ["a car that stands"], "speed": [0.0], "lane": [1], "ts": times})
    pq.write_table(whole, path, compression="none", use_dictionary=False, write_statistics=False)
    path.write_bytes(path.read_bytes().replace(b"a car that", b"a car \xff\xff\xff\xff"))
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_all(path, vehicle)


@pytest.mark.parametrize("where", ["anywhere", "footer"])
def test_every_damage_is_an_input_error_or_none(tmp_path, vehicle, trips, where):
    """Arrow ended the process where it was asked for the statistics of some of these footers."""
    path, chance = tmp_path / "damaged.parquet", random.Random(9)
    footer = int.from_bytes(trips[-8:-4], "little") + 8
    first = 0 if where == "anywhere" else 8 * (len(trips) - footer)
    places = []
    for _ in range(150):
        damaged = bytearray(trips)
        bit = chance.randrange(first, 8 * len(trips))
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            read_all(path, vehicle)
        except InputError as error:
            places.append(error.place)
    assert 20 < len(places) < 150
    assert {*places} == {str(path)}
