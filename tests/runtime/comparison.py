"""The embedded engine beside the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from oracle.detect import OracleResult
from situ.core.types import to_arrow
from situ.graph.operators import OperatorGraph
from situ.runtime.embedded import Engine, Output
from strategies import Rows

Found = dict[str, Counter[tuple[Any, ...]]]


def tables(graph: OperatorGraph, rows: Rows) -> dict[str, pa.Table]:
    """The events of every stream as a table."""
    return {
        stream.name: pa.table(
            {
                a.name: pa.array([row[a.name] for row in rows.get(stream.name, [])], to_arrow(a.type))
                for a in stream.attributes
            }
        )
        for stream in graph.streams
    }


def run(graph: OperatorGraph, rows: Rows, **options: Any) -> Found:
    """All complex events of bounded input."""
    engine = Engine(graph, show_definitions=True, **options)
    return counted(graph, engine.run(tables(graph, rows)))


def feed(
    graph: OperatorGraph, fed: Iterable[Rows], between: Callable[[Engine], Engine] = lambda e: e, **options: Any
) -> Found:
    """All complex events of input that comes in pieces; `between` may exchange the engine after each."""
    engine = Engine(graph, show_definitions=True, **options)
    outputs = []
    for piece in fed:
        for name, table in tables(graph, piece).items():
            outputs.append(engine.feed(table, name))
        engine = between(engine)
    outputs.append(engine.close())
    assert not any(output.late for output in outputs)
    check_low_watermarks(outputs)
    return counted(graph, outputs)


def check_low_watermarks(outputs: list[Output]) -> None:
    """No complex event is earlier than a low watermark announced before it."""
    low = -(2**63)
    for output in outputs:
        for table in output.complex_events.values():
            for time in table.column("_time").cast(pa.int64()).to_pylist():
                assert time >= low
        assert output.low_watermark >= low
        low = output.low_watermark


def counted(graph: OperatorGraph, outputs: Iterable[Output]) -> Found:
    found: Found = {operator.name: Counter() for operator in graph.operators}
    found |= {f"{operator.name} timed out": Counter() for operator in graph.operators if operator.rule.timed_out}
    for output in outputs:
        for name, table in output.complex_events.items():
            found[name].update(_rows(graph, name, table))
        for name, table in output.timed_out.items():
            found[f"{name} timed out"].update(_rows(graph, name, table))
    return found


def _rows(graph: OperatorGraph, name: str, table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [table.column(attribute).to_pylist() for attribute in graph.schemas[name].names]
    times = table.column("_time").cast(pa.int64()).to_pylist()
    return [(*map(_rounded, row),) for row in zip(*columns, times, strict=True)]


def expected(graph: OperatorGraph, result: OracleResult) -> Found:
    """What the oracle says."""
    found: Found = {}
    for name, matches in result.matches.items():
        names = graph.schemas[name].names
        found[name] = Counter((*(_rounded(m.attributes[n]) for n in names), m.time) for m in matches)
    for name, matches in result.timed_out.items():
        names = graph.schemas[name].names
        found[f"{name} timed out"] = Counter((*(_rounded(m.attributes[n]) for n in names), m.time) for m in matches)
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return (*map(_rounded, value),)
    return round(value, 9) if isinstance(value, float) else value
