"""The examples of docs/language.md: events such as `a1 b3:5@1`, by the embedded engine and by the oracle."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from oracle import detect
from oracle.examples import STREAMS, read
from situ.core.time import format_duration
from situ.core.types import to_arrow
from situ.graph.operators import OperatorGraph
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.runtime.embedded import Engine

Origin: TypeAlias = tuple[str, int]  # the stream, and which of its events


@dataclass(frozen=True, slots=True)
class Found:
    """A complex event: the events that it was made of, its time in seconds and its attributes."""

    events: tuple[Origin, ...]
    seconds: float
    attributes: dict[str, Any]


Answer: TypeAlias = tuple[list[Found], list[Found]]  # complex events, and what timed out
Answering: TypeAlias = Callable[[OperatorGraph, str], Answer]


def by_engine(graph: OperatorGraph, events: str) -> Answer:
    given = read(events)
    tables = {
        stream.name: pa.table(
            {a.name: pa.array([row[a.name] for row in given[stream.name]], to_arrow(a.type)) for a in stream.attributes}
        )
        for stream in graph.streams
    }
    outputs = list(Engine(graph, provenance=True).run(tables))
    complex_events = [row for output in outputs for row in output.complex_events["M"].to_pylist()]
    timed_out = [row for output in outputs if "M" in output.timed_out for row in output.timed_out["M"].to_pylist()]
    return [_found(row) for row in complex_events], [_found(row) for row in timed_out]


def _found(row: dict[str, Any]) -> Found:
    return Found(
        tuple((origin["stream"], origin["row"]) for origin in row["_origins"]),
        row["_time"].timestamp(),
        {name: value for name, value in row.items() if not name.startswith("_")},
    )


def by_oracle(graph: OperatorGraph, events: str) -> Answer:
    result = detect(graph, read(events))
    complex_events, timed_out = (
        [Found(tuple(match.atomic), match.time / 1e6, match.attributes) for match in matches.get("M", [])]
        for matches in (result.matches, result.timed_out)
    )
    return complex_events, timed_out


ANSWERS: tuple[Answering, ...] = (by_engine, by_oracle)


def graph_of(rule: str) -> OperatorGraph:
    """The graph of `subscribe M` with this rule, over the streams A, B, C and X."""
    return resolve(parse(f"{STREAMS}\nsubscribe M {rule}"))


def labels(events: str, found: list[Found], *, timed: bool) -> list[str]:
    """The events as they were written, in the order in which they stand there; if asked, `at` the seconds."""
    written: dict[Origin, tuple[int, str]] = {}
    for place, event in enumerate(events.split()):
        stream = event[0].upper()
        written[stream, sum(known == stream for known, _ in written)] = place, event
    shown = []
    for match in found:
        label = " ".join(event for _, event in sorted(written[origin] for origin in set(match.events)))
        shown.append(f"{label} at {match.seconds:g}".lstrip() if timed else label)
    return sorted(shown)


def assignments(found: list[Found]) -> list[str]:
    """`n = 1, s = null at 2`."""
    return sorted(
        ", ".join(f"{name} = {show(value)}" for name, value in match.attributes.items()) + f" at {match.seconds:g}"
        for match in found
    )


def show(value: object) -> str:
    """A value as the language writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f"'{value}'"
        case datetime.datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case datetime.timedelta():
            return format_duration(value // datetime.timedelta(microseconds=1))
        case decimal.Decimal():
            return f"{value}d"
        case list():
            return f"[{', '.join(map(show, value))}]"
        case _:
            return str(value)
