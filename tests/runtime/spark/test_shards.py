"""Rows to packets and back, and the shards of keys."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from situ.runtime.spark.stages import shards
from situ.runtime.spark.stages.shards import Address, from_packets, shard_numbers, to_packets

COLUMNS = {
    "int": pa.array([1, 2, 1, None]),
    "narrow": pa.array([1, 2, 1, None], pa.int16()),
    "double": pa.array([0.0, 1.5, -0.0, None]),
    "nan": pa.array([float("nan"), 1.0, -float("nan"), None]),
    "string": pa.array(["a", "", "a", None]),
    "binary": pa.array([b"\x00", b"", b"\x00", None]),
    "boolean": pa.array([True, False, True, None]),
    "decimal": pa.array([decimal.Decimal("1.10"), decimal.Decimal(0), decimal.Decimal("1.10"), None]),
    "timestamp": pa.array(
        [datetime.datetime(2024, 5, 1), datetime.datetime(1970, 1, 1)] * 2, pa.timestamp("us", "UTC")
    ),
    "null": pa.nulls(4),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_equal_keys_have_equal_shards(name: str) -> None:
    numbers = shard_numbers([COLUMNS[name]], 1 << 40)
    assert numbers[0] == numbers[2]
    assert len(set(numbers.tolist())) == len({"nan" if v != v else v for v in COLUMNS[name].to_pylist()})


def test_slices_of_columns_have_the_shards_of_their_rows() -> None:
    for column in COLUMNS.values():
        assert shard_numbers([column], 99)[1:3].tolist() == shard_numbers([column.slice(1, 2)], 99).tolist()


def test_integers_of_any_width_have_one_shard() -> None:
    wide, narrow = (shard_numbers([COLUMNS[name]], 1 << 40).tolist() for name in ("int", "narrow"))
    assert wide == narrow


def test_the_order_of_keys_matters_and_all_of_them_do() -> None:
    a, b = pa.array([1, 1, 2]), pa.array([1, 2, 1])
    assert len(set(shard_numbers([a, b], 1 << 40).tolist())) == 3


def test_shards_are_the_same_in_every_process() -> None:
    keys = "[pa.array(['x', 'y']), pa.array([1, 2])]"
    imports = "import pyarrow as pa; from situ.runtime.spark.stages.shards import shard_numbers"
    code = f"{imports}; print(shard_numbers({keys}, 99).tolist())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert other.strip() == str(shard_numbers([pa.array(["x", "y"]), pa.array([1, 2])], 99).tolist())


def test_keys_spread_over_shards() -> None:
    """Of a thousand neighbouring keys, no shard of ten gets twice its share."""
    counts = np.bincount(shard_numbers([pa.array(range(1000))], 10), minlength=10)
    assert counts.min() > 50
    assert counts.max() < 200


def test_packets_hold_every_row_once_under_its_shard() -> None:
    rng = np.random.default_rng(1)
    rows = pa.record_batch({"n": pa.array(range(500)), "s": pa.array([f"row {n}" for n in range(500)])})
    shard = rng.integers(0, 7, 500)
    (packets,) = to_packets(rows, shard, 7, Address(2, 1, "A"))
    assert set(packets.column("stage").to_pylist()) == {2}
    assert packets.column("shard").to_pylist() == sorted(set(shard.tolist()))  # few rows: a packet for each
    for number, (route, type_, batches) in zip(packets.column("shard").to_pylist(), from_packets(packets), strict=True):
        assert (route, type_) == (1, "A")
        (batch,) = batches
        assert batch.column("n").to_pylist() == np.flatnonzero(shard == number).tolist()
        assert batch.column("s").to_pylist() == [f"row {n}" for n in np.flatnonzero(shard == number)]


def test_no_rows_are_no_packets() -> None:
    assert list(to_packets(pa.record_batch({"n": pa.array([], pa.int64())}), 0, 4, Address(0, 0, "A"))) == []


def test_packets_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "PACKET_BYTES", 80)
    rows = pa.record_batch({"n": pa.array(range(25))})
    shard = np.array([0, 3, 3, 3, 3] * 5)
    (packets,) = to_packets(rows, shard, 4, Address(0, 0, "A"))
    assert packets.column("shard").to_pylist() == [0, 3, 3]
    found = [batch.column("n").to_pylist() for _, _, (batch,) in from_packets(packets)]
    assert found[0] == [0, 5, 10, 15, 20]
    assert len(found[1]) == 10
    assert found[1] + found[2] == [n for n in range(25) if n % 5]
