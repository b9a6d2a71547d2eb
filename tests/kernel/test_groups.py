"""Groups: keys of all types as numbers and back, beside a dictionary of tuples."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from situ.kernel.state.groups import GroupIndex

#: For each type of key, a value for each of some numbers.
VALUES: dict[pa.DataType, Callable[[int], object]] = {
    pa.bool_(): lambda n: n % 2 == 0,
    pa.int8(): lambda n: n % 100 - 50,
    pa.int64(): lambda n: (n - 20) * 2**57,
    pa.float64(): lambda n: (n - 20) / 3,
    pa.string(): lambda n: "" if n == 0 else "straße " * (n % 4) + str(n),
    pa.large_string(): str,
    pa.binary(): lambda n: bytes(n),
    pa.timestamp("us", tz="UTC"): lambda n: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=n),
    pa.duration("us"): lambda n: timedelta(seconds=n - 20),
    pa.decimal128(30, 2): lambda n: Decimal(n - 20) * 10**20 / 100,
    pa.null(): lambda n: None,
}
TYPES = list(VALUES)


def random_columns(rng: np.random.Generator, types: list[pa.DataType], size: int) -> list[pa.Array]:
    """With nulls now and then; parts of larger arrays, as batches are."""
    columns = []
    for type_ in types:
        numbers, nulls = rng.integers(0, 40, size + 5), rng.random(size + 5) < rng.choice([0, 0.2])
        values = [None if null else VALUES[type_](int(n)) for n, null in zip(numbers, nulls, strict=True)]
        columns.append(pa.array(values, type_).slice(int(rng.integers(0, 5)), size))
    return columns


def rows_of(columns: list[pa.Array]) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_equal_keys_have_equal_numbers_and_come_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width = 1 if seed < len(TYPES) else int(rng.integers(2, 5))
    types = [TYPES[seed]] if seed < len(TYPES) else [TYPES[i] for i in rng.integers(0, len(TYPES), width)]
    groups = GroupIndex()
    known: dict[tuple[object, ...], int] = {}
    for _ in range(6):
        columns = random_columns(rng, types, int(rng.integers(0, 80)))
        rows = rows_of(columns)
        numbers = groups.numbers(columns, len(rows)).tolist()
        assert numbers == [known.setdefault(row, len(known)) for row in rows]
        assert len(groups) == len(known)
    some = rng.integers(0, len(known), 50)
    keys = groups.keys(some, types)
    assert [key.type for key in keys] == types
    assert rows_of(keys) == [list(known)[number] for number in some]


@pytest.mark.parametrize("type_", [pa.int32(), pa.string()], ids=str)
def test_released_numbers_are_given_again(type_: pa.DataType) -> None:
    rng = np.random.default_rng(5)
    groups = GroupIndex()
    numbers: dict[object, int] = {}
    most = 0
    for _ in range(30):
        column = pa.array(rng.integers(0, 10_000, 100)).cast(type_)
        for key, number in zip(column.to_pylist(), groups.numbers([column], len(column)).tolist(), strict=True):
            assert numbers.setdefault(key, number) == number
        assert len(set(numbers.values())) == len(numbers)
        most = max(most, len(numbers))
        idle = rng.random(len(groups)) < 0.5
        groups.release(idle)
        numbers = {key: number for key, number in numbers.items() if not idle[number]}
        assert sorted(numbers.values()) == np.flatnonzero(groups.used).tolist()
        kept = list(numbers.values())
        assert groups.keys(np.array(kept, np.int64), [type_])[0].to_pylist() == list(numbers)
    assert len(groups) == most


def test_all_nan_are_one_group_and_so_are_both_zeros() -> None:
    payload = np.array([0x7FF8000000000001, 0x7FF8000000000000]).view(np.float64)
    column = pa.array([*payload, 0.0, -0.0, None])
    assert GroupIndex().numbers([column], 5).tolist() == [0, 0, 1, 1, 2]


def test_integers_of_different_width_are_one_group() -> None:
    groups = GroupIndex()
    assert groups.numbers([pa.array([-1, 7], pa.int8())], 2).tolist() == [0, 1]
    assert groups.numbers([pa.array([7, 8, -1], pa.int64())], 3).tolist() == [1, 2, 0]


def test_nulls_are_told_apart_by_column() -> None:
    columns = [pa.array([None, 0, None, 1]), pa.array([0, None, None, None])]
    groups = GroupIndex()
    assert groups.numbers(columns, 4).tolist() == [0, 1, 2, 3]
    assert rows_of(groups.keys(np.arange(4), [pa.int64()] * 2)) == [(None, 0), (0, None), (None, None), (1, None)]


def test_without_columns_there_is_one_group() -> None:
    groups = GroupIndex()
    assert groups.numbers([], 0).tolist() == []
    assert len(groups) == 0
    assert groups.numbers([], 3).tolist() == [0, 0, 0]
    assert len(groups) == 1
    assert groups.keys(np.array([0]), []) == []


def test_equal_hashes_are_not_equal_keys() -> None:
    """Both halves of the hash depend on the key, so keys with one hash are made by undoing it."""
    mix, inverse = 0x9E3779B97F4A7C15, pow(0x9E3779B97F4A7C15, -1, 2**64)

    def mixed(value: int) -> int:
        value = value * mix % 2**64
        return value ^ value >> 32

    def unmixed(value: int) -> int:
        return (value ^ value >> 32) * inverse % 2**64

    target = mixed(mixed(2 ^ 5) ^ 6)  # the hash of the key (5, 6), of two words
    others = [(first, unmixed(target) ^ mixed(2 ^ first)) for first in range(100)]
    assert (5, 6) in others
    first, second = (pa.array(np.array(part, np.uint64).view(np.int64)) for part in zip(*others, strict=True))
    groups = GroupIndex()
    assert groups.numbers([first, second], 100).tolist() == list(range(100))
    assert len(np.unique(groups._slots[groups._slots[:, 1] > 0, 0])) == 1
