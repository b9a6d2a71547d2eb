"""The total order and groups, beside what a few lines of Python say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from situ.kernel.order import GroupIndex, dense_ranks, total_order


@pytest.mark.parametrize("seed", range(30))
def test_each_group_is_in_its_total_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(0, 40))
    group, rank = rng.integers(0, 3, size), rng.integers(0, 2, size)
    time = rng.integers(0, 8, size) if seed % 3 else rng.permutation(size).astype(np.int64)
    if seed % 2:
        time.sort()
    first, second = rng.integers(0, 3, size), rng.permutation(size)

    def tie_keys(of_rank: int, rows: np.ndarray) -> list[pa.Array]:
        assert (rank[rows] == of_rank).all()
        return [pa.array(first[rows]), pa.array(second[rows])]

    order = total_order(group, 3, time, rank, tie_keys).tolist()
    assert sorted(order) == list(range(size))
    for number in range(3):
        mine = [row for row in order if group[row] == number]
        assert mine == sorted(mine, key=lambda row: (time[row], rank[row], first[row], second[row]))


@pytest.mark.parametrize("type_", [pa.int8(), pa.int64(), pa.string(), pa.float64()], ids=str)
def test_equal_keys_have_equal_numbers(type_: pa.DataType) -> None:
    rng = np.random.default_rng(3)
    index, numbers = GroupIndex(), {}
    for _ in range(20):
        values = rng.integers(-50, 50, 30).tolist() + [None] * int(rng.integers(0, 2))
        column = pa.array([str(v) if v is not None and type_ == pa.string() else v for v in values], type_)
        for value, number in zip(column.to_pylist(), index.numbers([column], len(column)).tolist(), strict=True):
            assert numbers.setdefault(value, number) == number
    assert len(set(numbers.values())) == len(numbers) == len(index)


def test_far_integers_and_several_keys() -> None:
    index = GroupIndex()
    assert index.numbers([pa.array([5, 2**62, 5, -(2**62)])], 4).tolist() == [0, 1, 0, 2]
    assert index.numbers([pa.array([-(2**62), 5])], 2).tolist() == [2, 0]
    pairs = GroupIndex()
    assert pairs.numbers([pa.array([1, 1, 2]), pa.array(["a", "b", "a"])], 3).tolist() == [0, 1, 2]
    assert pairs.numbers([pa.array([2, 1]), pa.array(["a", "a"])], 2).tolist() == [2, 0]
    assert pairs.known == [(1, "a"), (1, "b"), (2, "a")]


def test_released_numbers_are_given_again() -> None:
    index = GroupIndex()
    assert index.numbers([pa.array([7, 8, 9])], 3).tolist() == [0, 1, 2]
    index.release([1])
    assert index.numbers([pa.array([9, 100, 8])], 3).tolist()[0] == 2
    assert sorted(index.numbers([pa.array([8, 100])], 2).tolist()) == [1, 3]
    assert len(index) == 4


def test_nulls_rank_before_all_values() -> None:
    assert dense_ranks(pa.array([True, None, False])).tolist() == [2, 0, 1]
    assert dense_ranks(pa.nulls(2)).tolist() == [0, 0]
