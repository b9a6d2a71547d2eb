"""The embedded engine answers FlinkCEP's own test cases as Flink does: whole, event by event, and from text.

No case is answered differently; one that had to be would be listed here, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pytest

from conformance.flink import E_STREAM, FlinkCase, load
from situ.core.types import to_arrow
from situ.graph.query import Query, Within
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.lang.unparse import unparse
from situ.runtime.embedded import Engine, Output

# Most of Flink's patterns have no window.
pytestmark = pytest.mark.filterwarnings("ignore::situ.core.errors.SituWarning")

CASES = load()
SCHEMA = pa.schema([(attribute.name, to_arrow(attribute.type)) for attribute in E_STREAM.attributes])
HOUR_US = 3_600_000_000


def answers_as_flink(case: FlinkCase, outputs: Iterable[Output]) -> bool:
    """`_origins` counts rows as they were read, which is how Flink's tests number their events."""
    found = [
        [origin["row"] for origin in match]
        for output in outputs
        for match in output.complex_events["M"].column("_origins").to_pylist()
    ]
    return case.by_values(found) == case.by_values(case.expected)


def table_of(case: FlinkCase) -> pa.Table:
    return pa.Table.from_pylist(case.events, SCHEMA)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_whole(case: FlinkCase) -> None:
    engine = Engine(case.query, provenance=True)
    assert answers_as_flink(case, engine.run({"E": table_of(case)}))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_event_by_event(case: FlinkCase) -> None:
    engine = Engine(with_a_window(case.query), provenance=True)
    events = table_of(case)
    outputs = [engine.feed(events.slice(row, 1)) for row in range(events.num_rows)]
    assert answers_as_flink(case, [*outputs, engine.close()])


def with_a_window(query: Query) -> Query:
    """A pattern without a window is refused on unbounded input; an hour is longer than any of the tests."""
    (subscription,) = query.subscriptions
    (case,) = subscription.rule.cases
    cases = (replace(case, within=case.within or Within(HOUR_US)),)
    return replace(query, subscriptions=(replace(subscription, rule=replace(subscription.rule, cases=cases)),))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_from_text(case: FlinkCase) -> None:
    graph, read = resolve(case.query), resolve(parse(unparse(case.query)))
    assert (read.streams, read.operators) == (graph.streams, graph.operators)
    engine = Engine(unparse(case.query), provenance=True)
    assert answers_as_flink(case, engine.run({"E": table_of(case)}))
