"""Conditions that join events: the kernel's code and Python's evaluation of the same condition agree."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from situ.kernel.program import compiled_case, conditions
from situ.runtime.embedded import Engine

STREAM = "stream E(x int, y double, s string, d decimal(10, 2), b boolean, ts int) time ts in s\n"
QUERY = STREAM + "subscribe M detect E as a then each E({}) as c within 30 s assign a = a.ts, c = c.ts"
NATIVE = [
    "x > a.x + 1",
    "x * a.x - 3 > y or a.b",
    "x % a.x = 1",
    "y / a.y < 2.5 and not (b and a.b)",
    "s = a.s",
    "s < a.s",
    "d >= a.d",
    "a.x is null or x = a.x",
    "coalesce(a.x, 0) + x > 3",
    "abs(x - a.x) <= 1",
    "distance(x, y, a.x, a.y) < 2.0",
    "time(this) - time(a) > 4 s",
    "-x < a.y",
    "x * 9223372036854775807 > a.x",
]
HOST = ["concat(s, a.s) = 'uv'", "d + a.d > 1.5d", "greatest(x, a.x) > 2", "(x in (1, 2)) = (a.x in (1, 2))"]


def events(seed: int, size: int = 24) -> pa.Table:
    rng = np.random.default_rng(seed)

    def some(values: list[object]) -> list[object]:
        return [values[i] for i in rng.integers(0, len(values), size)]

    return pa.table(
        {
            "x": pa.array(some([None, -2, 0, 1, 2, 3, 2**62]), pa.int64()),
            "y": pa.array(some([None, -1.5, 0.0, 1.0, 2.5, float("nan")]), pa.float64()),
            "s": pa.array(some([None, "u", "v", "w"]), pa.string()),
            "d": pa.array(some([None, "0.50", "1.00", "2.25"]), pa.string()).cast(pa.decimal128(10, 2)),
            "b": pa.array(some([None, True, False]), pa.bool_()),
            "ts": pa.array(rng.permutation(size), pa.int64()),
        }
    )


def matches(condition: str, table: pa.Table) -> list[tuple[int, int]]:
    outputs = Engine(QUERY.format(condition)).run({"E": table})
    rows = [row for output in outputs for row in output.complex_events["M"].to_pylist()]
    return sorted((row["a"], row["c"]) for row in rows)


@pytest.mark.parametrize("condition", NATIVE)
def test_code_and_python_agree(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = events(len(condition))
    by_code = matches(condition, table)
    assert "host" not in str(Engine(QUERY.format(condition)).program("M"))
    monkeypatch.setattr(conditions, "STACK_DEPTH", 0)  # so that no condition fits
    monkeypatch.setattr(compiled_case, "_compile", compiled_case._compile.__wrapped__)  # which nobody has compiled yet
    assert "host" in str(Engine(QUERY.format(condition)).program("M"))
    assert matches(condition, table) == by_code


@pytest.mark.parametrize("condition", HOST)
def test_what_code_cannot_say_is_asked_of_python(condition: str) -> None:
    assert "evaluated in Python" in str(Engine(QUERY.format(condition)).program("M"))
    assert isinstance(matches(condition, events(5)), list)


def test_host_conditions_give_the_right_answer() -> None:
    table = events(11)
    by_ts = {row["ts"]: row for row in table.to_pylist()}
    expected = [
        (a, c) for a in by_ts for c in by_ts if a < c <= a + 30 and (by_ts[c]["s"], by_ts[a]["s"]) == ("u", "v")
    ]
    assert matches("concat(s, a.s) = 'uv'", table) == sorted(expected) != []


def test_deep_conditions_do_not_overrun_the_stack() -> None:
    deep = "a.x"
    for _ in range(90):
        deep = f"(x + ({deep}))"
    assert "host" in str(Engine(QUERY.format(f"{deep} > 0")).program("M"))
