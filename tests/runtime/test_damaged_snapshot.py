"""Snapshots in which bits were turned over: StateError, or the state as it was; never a crash or another error."""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from situ.core.errors import StateError
from situ.kernel.state import snapshot
from situ.runtime.embedded import Engine

STREAMS = """
stream Car(id int, x double, y double, lane string, v double, price decimal(10, 2), w double, ts int)
  time ts in s  at (x, y)  key id  watermark 3 s
"""
#: One for each kind of state: partial matches, waiting ones, paths with loops, windows of time and of events, joins,
#: chains, interests, regions that interests share, and consumers who leave.
RULES = {
    "sequence": "subscribe S detect Car as a then Car(v > a.v) as b then Car(v > b.v) as c within 9 s "
    "assign lane = c.lane, v = c.v group by lane",
    "skipping": "subscribe S detect Car as a then Car(v > a.v)+ as b then Car(v < a.v) as c within 9 s "
    "assign n = count(b), id = c.id group by lane after match skip past last",
    "pausing": "subscribe S detect Car as a then Car(v > a.v) as b within 9 s assign id = b.id, v = b.v group by lane "
    "after match pause 4 s",
    "once": "subscribe S detect once Car(v > 20){2} as a then Car(v > 30)+ as b then Car(v < 2) as c within 9 s "
    "assign n = count(b), id = c.id",
    "last": "subscribe S detect Car as a then last Car(v > a.v) as b within 6 s assign id = b.id group by lane, id",
    "consuming": "subscribe S detect Car as a then not Car(v > 30) then Car(v > a.v) as b within 9 s assign id = b.id "
    "consuming b",
    "absence": "subscribe S detect Car(v > 20) as a then not Car(v < 10) within 4 s assign id = a.id, p = a.price "
    "group by price",
    "windows": "subscribe S aggr every 2 s over 8 s detect Car as a assign n = count(a), v = avg(a.v) group by lane",
    "counts": "subscribe S aggr every 3 events over 6 events detect Car as a assign v = sum(a.v) group by lane",
    "join": "subscribe S join every 5 s on lane detect Car(v > 15) as a and Car(v < 20) as b assign a = a.id, b = b.id",
    "chain": "define Fast(id, lane, v) detect Car(v > 12) as a assign id = a.id, lane = a.lane, v = a.v\n"
    "subscribe S detect Fast as a then Fast(v > a.v) as b within 9 s assign lane = b.lane group by lane",
    "moving": "subscribe S for Car(id) detect Car as a then Car(v > a.v) as b within 4 s assign id = b.id, v = b.v "
    "around Car square 60 m lifetime 3 s update every 2 s",
    "sharing": "subscribe S for Car(id) detect Car as a then Car(v > a.v) as b within 4 s assign id = b.id, v = b.v "
    "around Car circle 40 m lifetime 3 s update every 2 s quality precision 0.5 recall 0.5",
    "leaving": "subscribe S for Car(id) detect Car as a then Car(v > a.v) as b within 4 s assign id = b.id, v = b.v "
    "around Car circle 40 m lifetime 3 s update every 2 s leave when v > 36 leave after 3 s "
    "quality precision w recall w",
}
CASES = [*((name, False) for name in RULES), ("sequence", True), ("windows", True), ("moving", True)]
#: So often is each state damaged where it takes a whole run to see what comes of it.
DAMAGES = 30
IDS = [name + " with provenance" * provenance for name, provenance in CASES]
#: What takes longer: one in three for `make test`.
SOME = [
    pytest.param(*case, id=name, marks=() if i % 3 == 0 else pytest.mark.storm)
    for i, (case, name) in enumerate(zip(CASES, IDS, strict=True))
]


def engine_of(rule: str, provenance: bool) -> Engine:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Engine(STREAMS + RULES[rule], provenance=provenance, threads=2)


def cars(since: int, until: int) -> pa.Table:
    chance = random.Random(since)
    rows = [
        {
            "id": n % 5,
            "x": float(chance.randrange(100)),
            "y": float(chance.randrange(100)),
            "lane": chance.choice(["a", "b", None]),
            "v": float(chance.randrange(40)),
            "w": chance.choice([0.3, 0.6, None]),
            "ts": second,
        }
        for n, second in enumerate(second for second in range(since, until) for _ in range(3))
    ]
    prices = pa.array(range(len(rows)), pa.decimal128(10, 2))
    return pa.Table.from_pylist(rows).append_column("price", prices)


@cache
def packed(rule: str, provenance: bool) -> bytes:
    engine = engine_of(rule, provenance)
    engine.feed(cars(0, 20))
    return engine.snapshot()


def answers(rule: str, provenance: bool, data: bytes) -> list[dict[str, Any]]:
    """All that a restored engine still finds."""
    engine = engine_of(rule, provenance)
    engine.restore(data)
    outputs = [engine.feed(cars(20, 30)), engine.feed(cars(30, 34)), engine.close()]
    tables = [t for output in outputs for t in (*output.complex_events.values(), *output.selections.values())]
    for table in tables:
        table.validate(full=True)
    return [row for table in tables for row in table.to_pylist()]


def flipped(data: bytes, chance: random.Random, first: int = 0) -> bytes:
    changed = bytearray(data)
    bit = chance.randrange(8 * first, 8 * len(data))
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def sealed(data: bytes) -> bytes:
    """With the checksum that the bytes have now, as if somebody had written them so."""
    size = snapshot._HEADER.size
    return snapshot._HEADER.pack(b"situ", snapshot.VERSION, zlib.crc32(data[size:])) + data[size:]


def refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except StateError:
        return True
    return False


@pytest.mark.parametrize(("rule", "provenance"), CASES, ids=IDS)
def test_a_flipped_bit_is_refused(rule: str, provenance: bool) -> None:
    whole, chance = packed(rule, provenance), random.Random(8)
    engine = engine_of(rule, provenance)
    assert all(refused(lambda: engine.restore(flipped(whole, chance))) for _ in range(100))


@pytest.mark.parametrize(("rule", "provenance"), CASES, ids=IDS)
def test_bytes_that_end_too_soon_or_too_late_are_refused(rule: str, provenance: bool) -> None:
    whole = packed(rule, provenance)
    for data in (whole[:-1], whole[:5], whole[:50], whole + b"\0"):
        assert refused(lambda data=data: engine_of(rule, provenance).restore(data))


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "provenance"), SOME)
def test_a_flipped_bit_under_a_right_checksum_is_refused_or_runs(rule: str, provenance: bool) -> None:
    """Values of attributes may be others then. But nothing crashes, and there is no error but StateError."""
    whole, chance = packed(rule, provenance), random.Random(9)
    expected = answers(rule, provenance, sealed(whole))
    assert expected == answers(rule, provenance, whole)
    outcomes = [
        refused(lambda: answers(rule, provenance, sealed(flipped(whole, chance, snapshot._HEADER.size))))
        for _ in range(DAMAGES)
    ]
    assert any(outcomes)


def with_other_value(data: bytes, chance: random.Random) -> bytes:
    """With one value of one table replaced by another one of its type, or by null."""
    tables = snapshot.unpack(data)
    name = chance.choice([name for name, table in tables.items() if table.num_rows])
    rows = tables[name].to_pylist()
    holder: Any = chance.choice(rows)
    key: Any = chance.choice([*holder])
    while isinstance(holder[key], dict | list) and holder[key]:
        holder = holder[key]
        key = chance.choice([*holder] if isinstance(holder, dict) else range(len(holder)))
    others = {int: [-1, 1, 7, 2**31 - 1, 2**62, -(2**63), 2**63 - 1], float: [float("nan"), -1.0, 1e300], str: ["x"]}
    holder[key] = chance.choice([None, *others.get(type(holder[key]), [])])
    try:
        changed = pa.Table.from_pylist(rows, tables[name].schema)
    except (pa.ArrowInvalid, OverflowError):  # no value of this type
        return data
    return snapshot.pack({**tables, name: changed})


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "provenance"), SOME)
def test_another_value_under_a_right_checksum_is_refused_or_runs(rule: str, provenance: bool) -> None:
    whole, chance = packed(rule, provenance), random.Random(12)
    outcomes = [refused(lambda: answers(rule, provenance, with_other_value(whole, chance))) for _ in range(DAMAGES)]
    assert any(outcomes)
