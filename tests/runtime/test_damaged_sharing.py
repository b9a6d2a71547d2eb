"""State of consumers who share and leave, with a wrong value in any column: StateError, or it runs; nothing crashes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from runtime.test_damaged_snapshot import answers, packed, refused
from situ.kernel.state import snapshot

STATE = "moving/S/"
#: By the type of a value, what may stand in its place.
OTHERS: dict[type, tuple[Any, ...]] = {
    int: (None, -1, 0, 7, 2**31 - 1, 2**62, -(2**63), 2**63 - 1),
    float: (None, float("nan"), float("inf"), -1.0, 2.0, 1e300),
    bool: (None, True, False),
    str: (None, "x"),
}


def columns() -> list[tuple[str, str]]:
    """All columns of the state, but those of operators."""
    tables = snapshot.unpack(packed("leaving", False))
    mine = {name: table for name, table in tables.items() if name.startswith(STATE) and "/flow/" not in name}
    return [(name, column) for name, table in mine.items() for column in table.column_names]


def with_value(name: str, column: str, row: int, value: Any) -> bytes | None:
    """The state with another value; None, if the column cannot hold it."""
    tables = snapshot.unpack(packed("leaving", False))
    rows = tables[name].to_pylist()
    if not rows:
        return None
    rows[row % len(rows)][column] = value
    try:
        changed = pa.Table.from_pylist(rows, tables[name].schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    return snapshot.pack({**tables, name: changed})


def outcomes(name: str, column: str, row: int, number: int | None = None) -> list[bool]:
    """For some values in a row, whether the state is refused."""
    table = snapshot.unpack(packed("leaving", False))[name]
    values = OTHERS.get(type(next((v for v in table[column].to_pylist() if v is not None), 0)), (None,))
    damaged = [with_value(name, column, row, value) for value in values[:number]]
    return [refused(lambda data=data: answers("leaving", False, data)) for data in damaged if data is not None]


@pytest.mark.slow
def test_one_value_in_each_column() -> None:
    """Nulls: those in what decides are refused; an event may have some."""
    told = [outcomes(name, column, 1, number=1) for name, column in columns()]
    assert sum(map(any, told)) > len(told) / 2


@pytest.mark.storm
@pytest.mark.parametrize("row", range(12))
def test_any_value_in_each_column(row: int) -> None:
    assert any(any(outcomes(name, column, row)) for name, column in columns())
