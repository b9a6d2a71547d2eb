"""Rows that are one event, delivered more than once, beside what a few lines of Python say."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from situ.core.types import TIMESTAMP_ARROW
from situ.kernel.batch import Batch, without_duplicates

#: For every type, a few values; some are written in two ways.
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [False, True]),
    (pa.int8(), [-1, 0, 1, 2]),
    (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    (pa.float64(), [-0.0, 0.0, 1.5, math.nan, -math.nan, math.inf]),
    (pa.decimal128(10, 2), [decimal.Decimal("1.10"), decimal.Decimal("-3")]),
    (pa.string(), ["", "a", "b", "ä", "ab"]),
    (pa.binary(), [b"", b"\x00", b"\xff"]),
    (TIMESTAMP_ARROW, [datetime.datetime(2020, 1, day, tzinfo=datetime.UTC) for day in (1, 2)]),
]


def key(value: Any) -> tuple[Any, ...]:
    """Nulls first, NaN last."""
    if value is None:
        return (0,)
    return (2,) if value != value else (1, value)


def expected(times: list[int], ids: list[Any], ties: list[list[Any]]) -> list[int]:
    """The rows that stay: the first of each time and value, by the ties and then as they stand."""
    order = sorted(range(len(times)), key=lambda row: [key(column[row]) for column in ties])
    kept: dict[Any, int] = {}
    for row in order:
        same = (times[row], key(ids[row])) if ids[row] is not None else row
        kept.setdefault(same, row)
    return sorted(kept.values())


@pytest.mark.parametrize(("type_", "values"), VALUES, ids=[str(type_) for type_, _ in VALUES])
@pytest.mark.parametrize("in_order", [True, False])
def test_random_rows(type_: pa.DataType, values: list[Any], in_order: bool) -> None:
    for seed in range(40):
        rng = random.Random(f"{type_} {seed}")
        size, span = rng.randint(0, 30), rng.choice([1, 5, 200])
        times = [rng.randint(-span, span) for _ in range(size)]
        if in_order:
            times.sort()
        ids = [rng.choice([*values, None]) for _ in range(size)]
        other = [rng.choice(["x", "y", None]) for _ in range(size)]
        columns = {"id": pa.array(ids, type_), "other": pa.array(other), "row": pa.array(range(size), pa.int64())}
        batch = Batch(np.array(times, np.int64), columns)
        ties = rng.choice([("other",), ("id", "other"), ("other", "row"), ()])

        kept, dropped = without_duplicates(batch, "id", ties)

        rows = expected(times, ids, [columns[name].to_pylist() for name in ties])
        assert kept.column("row").to_pylist() == rows
        assert kept.times.tolist() == [times[row] for row in rows]
        assert dropped == size - len(rows)


@pytest.mark.parametrize("seed", range(20))
def test_rows_apart(seed: int) -> None:
    """As if each value of the other columns had a batch of its own; null is one of them."""
    rng = random.Random(seed)
    columns = {
        "id": pa.array(rng.choices([1, 2, None], k=40)),
        "slice": pa.array(rng.choices([0, 60, None], k=40)),
        "part": pa.array(rng.choices("ab", k=40)),
        "row": pa.array(rng.sample(range(40), 40)),
    }
    batch = Batch(np.array(rng.choices(range(4), k=40), np.int64), columns)
    of_row = [*zip(columns["slice"].to_pylist(), columns["part"].to_pylist(), strict=True)]
    kept, dropped = without_duplicates(batch, "id", ("row",), ("slice", "part"))
    masks = [np.array([other == one for other in of_row]) for one in dict.fromkeys(of_row)]
    alone = [without_duplicates(batch.take(mask), "id", ("row",)) for mask in masks]
    assert dropped == sum(dropped for _, dropped in alone) > 0
    assert sorted(kept.column("row").to_pylist()) == sorted(r for b, _ in alone for r in b.column("row").to_pylist())


def test_all_values_are_null() -> None:
    for column in (pa.nulls(3), pa.nulls(3, pa.string())):
        batch = Batch(np.array([1, 1, 1]), {"id": column})
        kept, dropped = without_duplicates(batch, "id", ("id",))
        assert kept is batch
        assert dropped == 0


class Loads:
    """A batch whose columns are loaded, and which of them were."""

    def __init__(self, times: list[int], columns: dict[str, list[Any]]) -> None:
        self.names: list[str] = []
        self.columns = columns
        self.batch = Batch(np.array(times, np.int64), {}, self.load)

    def load(self, names: Iterable[str]) -> dict[str, pa.Array]:
        self.names += names
        return {name: pa.array(self.columns[name]) for name in names}


def test_only_what_is_needed_is_read() -> None:
    """Where no times are equal nothing is read, and what orders rows only where there are duplicates."""
    columns = {"id": [1, 1, 2, 3], "value": [5, 4, 3, 2], "note": list("abcd")}
    for times, names in [([4, 2, 3, 1], []), ([4, 2, 4, 2], ["id"]), ([4, 4, 4, 2], ["id", "value"])]:
        loads = Loads(times, columns)
        kept, dropped = without_duplicates(loads.batch, "id", ("value",))
        assert loads.names == names
        assert dropped == (names == ["id", "value"])
        assert dropped or kept is loads.batch
        assert kept.column("note").to_pylist() == ["a", "b", "c", "d"][dropped:]


def test_columns_at_hand_stay_at_hand() -> None:
    """Waiting events go into snapshots with the columns that they have."""
    columns = {"id": pa.array([1, 1]), "value": pa.array([5, 4])}
    kept, _ = without_duplicates(Batch(np.array([7, 7]), columns), "id", ("value",))
    assert {name: column.to_pylist() for name, column in kept.columns.items()} == {"id": [1], "value": [4]}
