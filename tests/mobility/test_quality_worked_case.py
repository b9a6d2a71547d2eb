"""Two squares of which one is served by the other's region until that misses what is there: by hand, in every engine.

Squares of 100 m, A at (0, 0), and B at (15, 0) from t = 10 on. Ten events at x = 0, which both squares hold; then a
hundred at x = 60, which only B's holds. B gets all of them, the first ten from A's region.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from mobility.interests_by_words import Row
from mobility.quality_by_words import Shared
from mobility.test_moving import SCHEMA
from mobility.test_quality import same, shared_rows, tagged
from runtime.spark.streaming_without_spark import StreamingQuery
from runtime.spark.without_spark import detect_without_spark, output_without_spark
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.reuse.totals import Totals
from situ.runtime.embedded import Engine

DRIVER_SCHEMA = pa.schema(
    [("id", pa.string()), ("x", pa.float64()), ("y", pa.float64()), ("ts", SCHEMA.field("ts").type)]
)
SCHEMAS = {"Car": SCHEMA, "Driver": DRIVER_SCHEMA}
CARS: list[Row] = [{"id": t, "x": 0.0, "y": 0.0, "v": t, "ts": t} for t in range(10)] + [
    {"id": t, "x": 60.0, "y": 0.0, "v": t, "ts": t} for t in range(11, 111)
]
DRIVERS: list[Row] = [{"id": "A", "x": 0.0, "y": 0.0, "ts": 0}, {"id": "B", "x": 15.0, "y": 0.0, "ts": 10}]
#: They let time pass, and are nowhere.
LAST: dict[str, Row] = {
    "Car": {"id": 0, "x": None, "y": 0.0, "v": 0, "ts": 1000},
    "Driver": {"id": "A", "x": None, "y": 0.0, "ts": 1000},
}
ROWS = {"Car": [*CARS, LAST["Car"]], "Driver": [*DRIVERS, LAST["Driver"]]}


@dataclass(frozen=True)
class WorkedCase:
    """A rule, and what everyone gets by it: (consumer, time, value, whose region)."""

    rule: str
    delivered: list[tuple[str, int, int, str]]

    @property
    def text(self) -> str:
        return f"""
            stream Car(id int, x double, y double, v int, ts int) time ts in s at (x, y)
            stream Driver(id string, x double, y double, ts int) time ts in s at (x, y)
            subscribe Near for Driver(id) {self.rule}
              around Driver square 100 m lifetime 10 s quality precision 0.8 recall 0.8"""

    @property
    def expected(self) -> list[Shared]:
        """All of them at 1 and 1: what was served by A's region lies in both squares."""
        rows: list[Shared] = [
            (who, 1, float(time), (("n", value),), 1.0, 1.0, region, 1) for who, time, value, region in self.delivered
        ]
        return sorted(rows, key=repr)


CASES = {
    "events": WorkedCase(
        "detect Car as a assign n = a.v",
        [
            *(("A", t, t, "A") for t in range(10)),
            *(("B", t, t, "A") for t in range(10)),
            *(("B", t, t, "B") for t in range(11, 111)),
        ],
    ),
    "windows": WorkedCase(
        "aggr every 10 s detect Car as cars assign n = count(cars)",
        [
            ("A", 10, 10, "A"),
            ("B", 10, 10, "A"),
            ("B", 20, 9, "B"),
            *(("B", t, 10, "B") for t in range(30, 120, 10)),
            ("B", 120, 1, "B"),
        ],
    ),
}  # fmt: skip


#: Cases and numbers of shards that take seconds each.
STORMY = (("events", 1), ("windows", 1), ("windows", 3))


def second_by_second() -> Iterator[dict[str, pa.Table]]:
    for second in [*range(112), 1000]:
        now = {name: [row for row in rows if row["ts"] == second] for name, rows in ROWS.items()}
        yield {name: pa.Table.from_pylist(rows, SCHEMAS[name]) for name, rows in now.items() if rows}


TABLES = {name: pa.Table.from_pylist(rows, SCHEMAS[name]) for name, rows in ROWS.items()}


def is_shared_once(totals: Totals) -> bool:
    """B begins in A's region, and leaves it at the first span that is not good enough."""
    return (totals.interests, totals.covered, totals.regions, totals.fallbacks) == (2, 1, 2, 1)


def is_as_by_hand(case: WorkedCase) -> bool:
    """Whether the embedded engine gives what is so by hand, of all rows at once."""
    outputs = Engine(case.text).run(TABLES)
    return same([row for output in outputs for row in shared_rows(output.complex_events["Near"])], case.expected)


@pytest.mark.parametrize("case", CASES.values(), ids=[*CASES])
def test_the_embedded_engine_gives_what_is_so_by_hand(case: WorkedCase) -> None:
    assert sum(row[0] == "B" for row in CASES["events"].expected) == 110
    whole = Engine(case.text)
    assert same([row for o in whole.run(TABLES) for row in shared_rows(o.complex_events["Near"])], case.expected)
    assert is_shared_once(whole.reuse["Near"])
    for restart in (False, True):
        engine, found, counted = Engine(case.text), [], Totals()
        for piece in second_by_second():
            for name, table in piece.items():
                found += shared_rows(engine.feed(table, name).complex_events["Near"])
            if restart:
                counted += engine.reuse["Near"]
                snapshot, engine = engine.snapshot(), Engine(case.text)
                engine.restore(snapshot)
        found += shared_rows(engine.close().complex_events["Near"])
        assert same(found, case.expected)
        assert is_shared_once(counted + engine.reuse["Near"])


@pytest.mark.parametrize("case", CASES.values(), ids=[*CASES])
def test_the_batch_stage_of_spark_gives_the_same(case: WorkedCase) -> None:
    graph = resolve(parse(case.text))
    batch = detect_without_spark(graph, TABLES, random.Random(1))
    assert same(tagged(output_without_spark(graph), batch), case.expected)


@pytest.mark.parametrize(
    ("name", "shards"),
    [
        pytest.param("events", 3, marks=pytest.mark.slow),
        *(pytest.param(*which, marks=pytest.mark.storm) for which in STORMY),
    ],
)
def test_the_stream_stage_of_spark_gives_the_same(name: str, shards: int) -> None:
    case = CASES[name]
    query = StreamingQuery(resolve(parse(case.text)), random.Random(shards), shards)
    found, counted = [], Totals()
    for piece in second_by_second():
        found += tagged(query.output, query.micro_batch(piece))
        counted = sum((Totals(**figures["reuse"]) for figures in query.figures), counted)
    assert same(found, case.expected)
    assert is_shared_once(counted)
