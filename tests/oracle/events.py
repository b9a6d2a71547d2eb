"""Events as the oracle sees them, and their total order (docs/language.md, "Order and time")."""

from __future__ import annotations

import datetime
import decimal
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from situ.core.types import DOUBLE, TIMESTAMP, Decimal, List, Type
from situ.graph.query import Stream

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROS_OF_UNIT = {"s": Fraction(1_000_000), "ms": Fraction(1000), "us": Fraction(1), "ns": Fraction(1, 1000)}

Box = tuple[float, float, float, float]  # x_min, y_min, x_max, y_max


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """An atomic or complex event. Equality is identity: two equal rows are two events.

    Timestamps are datetimes in UTC, durations timedeltas; `time` is microseconds since the epoch.
    `atomic` names the stream events it stems from, as (stream, index in the input list).
    """

    type: str
    attributes: dict[str, Any]
    time: int
    depth: int = 0
    atomic: frozenset[tuple[str, int]] = frozenset()
    box: Box | None = None


def timestamp(micros: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=micros)


def micros_of(value: datetime.datetime) -> int:
    return (value - EPOCH) // datetime.timedelta(microseconds=1)


def union_box(boxes: list[Box | None]) -> Box | None:
    known = [box for box in boxes if box is not None]
    if not known:
        return None
    x_min, y_min, x_max, y_max = zip(*known, strict=True)
    return min(x_min), min(y_min), max(x_max), max(y_max)


def read_value(value: Any, type_: Type) -> Any:
    """A value of the input as the oracle holds it: an int may stand for a double, or for a timestamp in micros."""
    if value is None:
        return None
    if type_ == DOUBLE:
        return float(value)
    if type_ == TIMESTAMP and isinstance(value, int):
        return timestamp(value)
    if isinstance(type_, List):
        return [read_value(element, type_.element) for element in value]
    if isinstance(type_, Decimal):
        return decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-type_.scale), context=decimal.Context(80))
    return value


def read_stream(stream: Stream, rows: list[dict[str, Any]]) -> list[Event]:
    events = []
    for index, row in enumerate(rows):
        attributes = {a.name: read_value(row.get(a.name), a.type) for a in stream.attributes}
        time = attributes[stream.time]
        if isinstance(time, datetime.datetime):
            micros = micros_of(time)
        else:
            micros = math.floor(Fraction(time) * _MICROS_OF_UNIT[stream.time_unit or "us"])
        box = None
        if stream.location is not None:
            x, y = (attributes[name] for name in stream.location)
            box = None if x is None or y is None else (x, y, x, y)
        events.append(Event(stream.name, attributes, micros, 0, frozenset({(stream.name, index)}), box))
    return events


def nulls_first(value: Any) -> tuple[Any, ...]:
    """A sort key: null, then the values, NaN above all others."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, list):  # of results, which are shown in some order
        return (1, [*map(nulls_first, value)])
    return (1, value)


def without_duplicates(events: list[Event], stream: Stream) -> list[Event]:
    """Without `unique` all; with it, of the rows that are one event, the smallest in the order of events."""
    kept = []
    for event in events:
        copies = [other for other in events if other is event or are_one(event, other, stream.unique)]
        if event is min(copies, key=lambda other: order_key(other, stream.order)):
            kept.append(event)
    return kept


def are_one(row: Event, other: Event, unique: str | None) -> bool:
    """Whether two rows of a stream have the same time and the same value, which is not null."""
    if unique is None or row.time != other.time or row.attributes[unique] is None:
        return False
    return nulls_first(row.attributes[unique]) == nulls_first(other.attributes[unique])


def order_key(event: Event, order: str | None, shared: bool = False) -> tuple[Any, ...]:
    """By time, depth (0 for streams), the `order` attribute where it is shared, name; then the `order` attribute, or
    the declared attributes in turn."""
    values = [event.attributes[order]] if order is not None else list(event.attributes.values())
    in_common = nulls_first(event.attributes[order]) if shared and order is not None else ()
    return event.time, event.depth, in_common, event.type, *map(nulls_first, values)
