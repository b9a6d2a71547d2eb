"""The filterer against evaluating every condition on every event."""

from __future__ import annotations

import decimal
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from situ.core.functions import default
from situ.core.types import BINARY, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Decimal, Type, to_arrow
from situ.filter.content import content_of
from situ.filter.filterer import Filterer
from situ.filter.index import rows_by_part
from situ.graph.expressions import Attribute, Binary, BinaryOperator, Call, Cast, Expression, In, IsNull, Literal, Unary
from situ.kernel.batch import Batch, BatchRows, Calls
from situ.kernel.columns.evaluate import evaluate_condition
from situ.kernel.operator import Conditions

TYPES: dict[str, Type] = {
    "i": INT, "f": DOUBLE, "s": STRING, "b": BOOLEAN, "t": TIMESTAMP, "d": Decimal(9, 2), "long": Decimal(30, 3),
    "raw": BINARY,
}  # fmt: skip
CALLS = Calls(functions=default, errors=Counter())

INTS = [0, 1, 2, 3, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 0.5, 1.0, 2.0, -1.5, float("nan"), float("inf"), float("-inf"), 1e300, 2.0**53]
TEXTS = ["", "a", "b", "ab", "ä", "a\0"]
DECIMALS = [decimal.Decimal(text) for text in ("0", "0.01", "1.00", "1.50", "-1.50", "2", "9999999.99")]
TIMES = [0, 1, 1_000_000, -1, 86_400_000_000]
OPERATORS: tuple[BinaryOperator, ...] = ("=", "<", "<=", ">", ">=", "!=")
VALUES: dict[str, Sequence[object]] = {
    "i": INTS, "f": FLOATS, "s": TEXTS, "b": [True, False], "t": TIMES, "d": DECIMALS, "long": DECIMALS,
    "raw": [b"", b"a", b"\0"],
}  # fmt: skip


def events(random: np.random.Generator, count: int) -> Batch:
    def column(name: str) -> pa.Array:
        values = [VALUES[name][n] for n in random.integers(0, len(VALUES[name]), count)]
        return pa.array([None if random.random() < 0.15 else v for v in values], to_arrow(TYPES[name]))

    columns = {name: column(name) for name in TYPES}
    if random.random() < 0.2:
        columns["i"] = pa.nulls(count, pa.int64())
    return Batch(np.arange(count), columns)


def pick(random: np.random.Generator, values: Sequence[object]) -> object:
    return values[int(random.integers(len(values)))]


def literal(random: np.random.Generator, name: str) -> Expression:
    """A constant that may be compared with an attribute, often of another type."""
    if name == "s":
        return Literal(str(pick(random, TEXTS)))
    if name == "b":
        return Literal(bool(random.integers(2)))
    if name == "t":
        return Cast(Literal(str(pick(random, ["1970-01-01 00:00:01", "1970-01-02", "no time"]))), TIMESTAMP)
    if name == "raw":
        return Cast(Literal(str(pick(random, TEXTS))), BINARY)
    kinds: list[list[object]] = [[*INTS], [*FLOATS, 0.25, 1.75], [*DECIMALS, decimal.Decimal("1.005")]]
    constant = Literal(pick(random, kinds[random.integers(3)]))  # type: ignore[arg-type]
    return Unary("-", constant) if random.random() < 0.1 and constant.value != -(2**63) else constant


def conjunct(random: np.random.Generator) -> Expression:
    name = str(pick(random, [*TYPES]))
    attribute = Attribute("this", name)
    kind = random.random()
    if kind < 0.45:
        operator: BinaryOperator = OPERATORS[random.integers(6)]
        sides = [attribute, literal(random, name)]
        return Binary(operator, *(sides if random.random() < 0.7 else sides[::-1]))
    if kind < 0.65 and name in ("i", "f", "d"):
        low, high = literal(random, name), literal(random, name)
        return Binary("and", Binary(">=", attribute, low), Binary("<", attribute, high))
    if kind < 0.8 and name in ("i", "f", "s", "d"):
        values = [literal(random, name) for _ in range(random.integers(1, 5))]
        items = tuple(v for v in values if isinstance(v, Literal)) + ((Literal(None),) if random.random() < 0.2 else ())
        return In(attribute, items or (Literal(None),), bool(random.random() < 0.2))
    if kind < 0.9:
        return IsNull(attribute, bool(random.integers(2)))
    return Binary(
        "or", Binary("=", Attribute("this", "i"), Literal(1)), Binary("=", Attribute("this", "s"), Literal("a"))
    )


def content(random: np.random.Generator) -> Conditions:
    return tuple(conjunct(random) for _ in range(random.integers(0, 4)))


def expected(conditions: Conditions, batch: Batch) -> list[int]:
    """The oracle: every condition on every event."""
    holds = np.ones(len(batch), np.bool_)
    for condition in conditions:
        holds &= evaluate_condition(condition, BatchRows(batch), **CALLS)
    return np.flatnonzero(holds).tolist()


def require_right(filterer: Filterer, numbers: dict[int, Conditions], batch: Batch) -> None:
    hits = filterer.hits(batch, CALLS)
    assert len({*hits.contents.tolist()}) == len(hits.contents)
    for number, conditions in numbers.items():
        assert hits.rows_of(number).tolist() == expected(conditions, batch), (conditions, content_of(conditions, TYPES))
    assert {*hits.contents.tolist()} <= {*numbers}


@pytest.mark.parametrize("part", [1 << 12, 4])
@pytest.mark.parametrize("seed", range(6))
def test_contents_find_what_evaluating_them_finds(seed: int, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where tables are so large that they are looked at part by part."""
    monkeypatch.setattr("situ.filter.index._PART_SLOTS", part)
    random = np.random.default_rng(seed)
    filterer = Filterer(TYPES)
    contents = [content(random) for _ in range(150)]
    numbers = dict(zip(filterer.add(contents), contents, strict=True))
    assert len(filterer) == len({*contents})
    for size in (0, 1, 60, 200):
        require_right(filterer, numbers, events(random, size))


def test_a_large_table_is_looked_at_part_by_part() -> None:
    """Values of which some are null, and contents that name several of them."""
    random = np.random.default_rng(3)
    this = Attribute("this", "i")
    values = random.permutation(40_000).reshape(20_000, 2).tolist()
    contents: list[Conditions] = [(In(this, (Literal(a), Literal(b))),) for a, b in values]
    filterer = Filterer({"i": INT})
    numbers = filterer.add(contents)
    column = random.integers(-5, 40_000, 30_000)
    batch = Batch(np.arange(30_000), {"i": pa.array(column, mask=random.random(30_000) < 0.1)})
    filterer.take_in_new()
    (level,) = (indexed.level for indexed in filterer._levels)
    assert rows_by_part(0, filterer._keys(batch), level) is not None
    hits = filterer.hits(batch, CALLS)
    rows: dict[int, list[int]] = {}
    for row, value in enumerate(batch.columns["i"].to_pylist()):
        rows.setdefault(value, []).append(row)
    for number, (a, b) in zip(numbers, values, strict=True):
        assert hits.rows_of(number).tolist() == sorted(rows.get(a, []) + rows.get(b, []))


@pytest.mark.parametrize("seed", range(3))
def test_contents_come_and_go(seed: int) -> None:
    random = np.random.default_rng(seed)
    filterer = Filterer(TYPES)
    uses: list[tuple[int, Conditions]] = []
    for _ in range(25):
        if uses and random.random() < 0.45:
            random.shuffle(uses)
            gone = uses[: random.integers(1, len(uses) + 1)]
            uses = uses[len(gone) :]
            filterer.remove([number for number, _ in gone])
        else:
            contents = [content(random) for _ in range(random.integers(1, 80))]
            uses += zip(filterer.add(contents), contents, strict=True)
        assert len(filterer) == len({conditions for _, conditions in uses})
        require_right(filterer, dict(uses), events(random, 20))


def test_intervals_are_found_in_a_tree() -> None:
    random = np.random.default_rng(5)
    bounds = np.sort(random.integers(0, 1000, (400, 2)), axis=1)
    this = Attribute("this", "i")
    is_a = Binary("=", Attribute("this", "s"), Literal("a"))
    contents = [
        (is_a, Binary(">", this, Literal(low)), Binary("<=", this, Literal(high))) for low, high in bounds.tolist()
    ]
    filterer = Filterer({"i": INT, "s": STRING})
    numbers = dict(zip(filterer.add(contents), contents, strict=True))
    texts = pa.array([("a", "b", None)[n] for n in random.integers(0, 3, 300)])
    batch = Batch(np.arange(300), {"i": pa.array(random.integers(0, 1000, 300)), "s": texts})
    hits = filterer.hits(batch, CALLS)
    assert len(hits.rows) > 1000
    for number, conditions in numbers.items():
        assert hits.rows_of(number).tolist() == expected(conditions, batch)


def test_many_combinations_of_attributes_share_tables() -> None:
    names = [f"a{n}" for n in range(8)]
    random = np.random.default_rng(7)
    contents = []
    for _ in range(200):
        chosen = random.choice(names, random.integers(1, 5), replace=False).tolist()
        contents.append(tuple(Binary("=", Attribute("this", n), Literal(int(random.integers(3)))) for n in chosen))
    filterer = Filterer(dict.fromkeys(names, INT))
    numbers = dict(zip(filterer.add(contents), contents, strict=True))
    batch = Batch(np.arange(100), {name: pa.array(random.integers(0, 3, 100)) for name in names})
    hits = filterer.hits(batch, CALLS)
    for number, conditions in numbers.items():
        assert hits.rows_of(number).tolist() == expected(conditions, batch)


def test_a_function_of_the_user_is_called_for_every_event() -> None:
    condition = Binary("=", Call("no_such_built_in", (Attribute("this", "i"),)), Literal(1))
    found = content_of((Binary("=", Attribute("this", "i"), Literal(1)), condition), TYPES)
    assert found.calls
    assert not found.is_indexed


def test_contents_say_how_they_are_found() -> None:
    filterer = Filterer(TYPES)
    this = Attribute("this", "i")
    text = Binary("=", Attribute("this", "s"), Literal("a"))
    by_value, by_range, as_it_is = filterer.add(
        [(text, IsNull(this)), (Binary(">", this, Literal(3)), text), (IsNull(this),)]
    )
    assert filterer.describe(by_value) == "s by value, then the rest"
    assert filterer.describe(by_range) == "s by value, i by range"
    assert filterer.describe(as_it_is) == "evaluated as it is"
