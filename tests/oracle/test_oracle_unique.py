"""docs/language.md, "Duplicates", on examples worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from oracle import detect
from situ.lang.parse import parse
from situ.lang.resolve import resolve

Row = tuple[Any, ...]

NAN = math.nan

#: The clauses of a stream with attributes id, v and ts; rows, and those of them that are events.
EXAMPLES: list[tuple[str, str, list[Row], list[Row]]] = [
    ("without the clause all rows are events", "", [(1, 5, 1), (1, 5, 1)], [(1, 5, 1), (1, 5, 1)]),
    ("one of equal rows counts", "unique id", [(1, 5, 1), (1, 5, 1), (1, 5, 1)], [(1, 5, 1)]),
    ("another value", "unique id", [(1, 5, 1), (2, 5, 1)], [(1, 5, 1), (2, 5, 1)]),
    ("another time", "unique id", [(1, 5, 1), (1, 5, 2)], [(1, 5, 1), (1, 5, 2)]),
    ("nulls are not equal", "unique id", [(None, 5, 1), (None, 5, 1)], [(None, 5, 1), (None, 5, 1)]),
    ("the smallest by the declared attributes", "unique id", [(1, 7, 1), (1, 5, 1), (1, 6, 1)], [(1, 5, 1)]),
    ("nulls are smallest", "unique id", [(1, 7, 1), (1, None, 1)], [(1, None, 1)]),
    ("NaN is largest", "unique id", [(1, NAN, 1), (1, 5, 1)], [(1, 5, 1)]),
    ("the smallest by `order`", "unique v order id", [(3, 5, 1), (2, 5, 1), (4, 5, 1)], [(2, 5, 1)]),
    ("NaN is NaN", "unique v", [(2, NAN, 1), (1, NAN, 1)], [(1, NAN, 1)]),
    ("zero has no sign", "unique v", [(2, -0.0, 1), (1, 0.0, 1)], [(1, 0.0, 1)]),
    ("by the time itself", "unique ts", [(2, 5, 1), (1, 6, 1), (3, 7, 2)], [(1, 6, 1), (3, 7, 2)]),
]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("clauses", "rows", "events"), [pytest.param(*e[1:], id=e[0]) for e in EXAMPLES])
def test_examples(clauses: str, rows: list[Row], events: list[Row], backwards: bool) -> None:
    text = f"stream S(id int, v double, ts int) time ts in s {clauses} subscribe M detect S"
    given = [dict(zip(("id", "v", "ts"), row, strict=True)) for row in (reversed(rows) if backwards else rows)]
    result = detect(resolve(parse(text)), {"S": given})
    found = [tuple(match.attributes.values()) for match in result.matches["M"]]
    expected = [(id_, None if v is None else float(v), ts) for id_, v, ts in events]
    assert sorted(map(str, found)) == sorted(map(str, expected))  # as text NaN is NaN, too
    assert result.duplicates == ({"S": len(rows) - len(events)} if clauses else {})
