"""The total order, beside what a few lines of Python say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from situ.kernel.matching.order import dense_ranks, lexical_order, total_order


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


@pytest.mark.parametrize("seed", range(8))
def test_rows_by_several_columns_are_in_lexical_order(seed: int) -> None:
    """As NumPy sorts them, negative numbers and the ends of 64 bits among them."""
    random = np.random.default_rng(seed)
    length = int(random.choice([1, 300, 600, 3000]))
    ends = np.array([-(2**63), 2**63 - 1, 0, -1])
    columns = [
        random.choice(ends, length),
        random.integers(-(2**40), 2**40, length),
        np.sort(random.integers(0, 5, length)),
        random.integers(0, 3, length).astype(np.uint8),
    ]
    for chosen in (columns, columns[1:], [columns[0]], [columns[2]], columns[::-1]):
        assert lexical_order(chosen).tolist() == np.lexsort(chosen).tolist()


def test_nulls_rank_before_all_values() -> None:
    assert dense_ranks(pa.array([True, None, False])).tolist() == [2, 0, 1]
    assert dense_ranks(pa.nulls(2)).tolist() == [0, 0]
