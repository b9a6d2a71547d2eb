"""What a condition on single events asks, taken apart: points and intervals, which an index finds, and the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from situ.core.functions import BUILT_INS
from situ.core.types import Type
from situ.filter.keys import LARGEST, LEAST, has_names, has_order, interval
from situ.graph.expressions import (
    Attribute,
    Binary,
    Call,
    Duration,
    EventTime,
    Expression,
    GroupKey,
    In,
    Literal,
    WholeEvent,
    conjuncts,
    walk,
)
from situ.kernel.columns.evaluate import EventRows, evaluate
from situ.kernel.operator import Conditions

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: A condition has at most so many combinations of points in the index.
MOST_COMBINATIONS = 64

#: A point: the key of a value, or the text or bytes that it is.
Point = int | str | bytes


@dataclass(frozen=True, slots=True)
class Content:
    """A conjunction. By attribute: the `points` of which one must be its value, and the `intervals` of keys in which it
    must lie, ends included; `rest` is everything else, and `never` says that no event can fulfil it.

    `calls`: it calls users' functions, so it is asked of all events, as it is.
    """

    points: Mapping[str, tuple[Point, ...]]
    intervals: Mapping[str, tuple[int, int]]
    rest: Conditions
    never: bool = False
    calls: bool = False

    @property
    def is_indexed(self) -> bool:
        return bool(self.points or self.intervals) and not self.calls

    def __str__(self) -> str:
        if self.never:
            return "never"
        if not self.is_indexed:
            return "evaluated as it is"
        ways = [f"{name} by value" for name in self.points] + [f"{name} by range" for name in self.intervals]
        return ", ".join(ways) + (", then the rest" if self.rest else "")


def content_of(conditions: Conditions, types: Mapping[str, Type]) -> Content:
    """Conditions on a single event, all of which must hold, taken apart; `types` are those of the attributes.

    >>> from situ.core.types import INT, STRING
    >>> content = content_of((Binary(">", Attribute("this", "v"), Literal(3)),), {"v": INT, "k": STRING})
    >>> content.intervals["v"] == (4, LARGEST), str(content)
    (True, 'v by range')
    """
    points: dict[str, frozenset[Point]] = {}
    naming: dict[str, list[Expression]] = {}
    intervals: dict[str, tuple[int, int]] = {}
    rest: list[Expression] = []
    for conjunct in (part for condition in conditions for part in conjuncts(condition)):
        found = _points_of(conjunct, types) or _interval_of(conjunct, types)
        match found:
            case (str(name), frozenset() as values):
                points[name] = points[name] & values if name in points else values
                naming.setdefault(name, []).append(conjunct)
            case (str(name), (int(first), int(last))):
                before = intervals.get(name, (LEAST, LARGEST))
                intervals[name] = max(before[0], first), min(before[1], last)
            case _:
                rest.append(conjunct)
    for name in points.keys() & intervals.keys():
        first, last = intervals.pop(name)
        points[name] = frozenset(p for p in points[name] if isinstance(p, int) and first <= p <= last)
    for name, (first, last) in list(intervals.items()):
        if first == last:
            points[name] = frozenset({intervals.pop(name)[0]})
    never = any(not values for values in points.values()) or any(first > last for first, last in intervals.values())
    for name in _too_many(points):
        del points[name]
        rest += naming[name]
    return Content(
        {name: tuple(sorted(points[name])) for name in sorted(points)},
        dict(sorted(intervals.items())),
        tuple(rest),
        never,
        any(map(_calls_users, rest)),
    )


def _too_many(points: Mapping[str, frozenset[Point]]) -> list[str]:
    """The attributes whose points are left to the rest, so that the combinations of the others are few."""
    combinations, left = 1, []
    for name in sorted(points, key=lambda name: len(points[name])):
        if combinations * len(points[name]) > MOST_COMBINATIONS:
            left.append(name)
        else:
            combinations *= len(points[name])
    return left


def _points_of(conjunct: Expression, types: Mapping[str, Type]) -> tuple[str, frozenset[Point]] | None:
    """`x in (1, 2)`, and `x = 'text'`."""
    match conjunct:
        case In(Attribute(_, name) | GroupKey(name), items, False) if name in types and len(items) <= MOST_COMBINATIONS:
            values = [_point(item.value, types[name]) for item in items if item.value is not None]
            return None if None in values else (name, frozenset(v for one in values for v in one or ()))
        case Binary("=", left, right):
            for side, other in ((left, right), (right, left)):
                if isinstance(side, Attribute | GroupKey) and has_names(types.get(side.name)):  # type: ignore[arg-type]
                    value = _constant(other)
                    return (side.name, frozenset({value})) if isinstance(value, str | bytes) else None
    return None


def _point(value: Any, type_: Type) -> tuple[Point, ...] | None:
    """The points that equal a value: one, or none; None if keys cannot say it."""
    if has_names(type_):
        return (value,) if isinstance(value, str | bytes) else None
    between = interval("=", value, type_) if has_order(type_) else None
    if between is None:
        return None
    return (between[0],) if between[0] == between[1] else ()


def _interval_of(conjunct: Expression, types: Mapping[str, Type]) -> tuple[str, tuple[int, int]] | None:
    if not isinstance(conjunct, Binary) or conjunct.operator not in _FLIPPED:
        return None
    left, right, written = conjunct.left, conjunct.right, conjunct.operator
    for side, other, operator in ((left, right, written), (right, left, _FLIPPED[written])):
        if isinstance(side, Attribute | GroupKey) and side.name in types and has_order(types[side.name]):
            constant = _constant(other)
            between = None if constant is None else interval(operator, constant, types[side.name])
            if between is not None:
                return side.name, between
    return None


_NO_EVENT = EventRows("", pa.record_batch({"nothing": pa.nulls(1)}), pa.nulls(1))


def _constant(expression: Expression) -> Any:
    """The value of an expression that reads nothing; None if it reads something, or is null."""
    if isinstance(expression, Literal):
        value = expression.value
        return None if isinstance(value, Duration) else value
    if any(isinstance(node, Attribute | EventTime | WholeEvent | GroupKey) for node in walk(expression)):
        return None
    if _calls_users(expression):
        return None
    scalar = evaluate(expression, _NO_EVENT)[0]
    if pa.types.is_duration(scalar.type):
        return None
    return scalar.value if pa.types.is_timestamp(scalar.type) else scalar.as_py()


def _calls_users(expression: Expression) -> bool:
    return any(isinstance(node, Call) and node.function not in BUILT_INS for node in walk(expression))
