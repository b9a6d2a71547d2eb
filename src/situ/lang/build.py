"""Queries in Python: the same frozen objects that `parse` makes of a text.

>>> from situ.lang.build import define, detect, query, stream, subscribe
>>> vehicle = stream("Vehicle", {"id": "string", "speed": "double", "ts": "timestamp"}, time="ts", key="id")
>>> a, b = vehicle.as_("a"), vehicle.as_("b")
>>> braking = define(
...     "Braking",
...     detect(
...         a.then(b.where(b.speed < a.speed - 5)),
...         within="3 s",
...         assign={"id": b.id, "drop": a.speed - b.speed},
...     ),
...     group_by="id",
... )
>>> hard = subscribe("HardBraking", detect(braking.where(braking.drop > 8), assign={"id": braking.id}))
>>> from situ.lang.unparse import unparse
>>> print(unparse(query(vehicle, braking, hard)), end="")
stream Vehicle(id string, speed double, ts timestamp)
  time ts  key id
<BLANKLINE>
define Braking(id, drop)
  detect   Vehicle as a then Vehicle(speed < a.speed - 5) as b within 3 s
  assign   id = b.id, drop = a.speed - b.speed
  group by id
<BLANKLINE>
subscribe HardBraking
  detect   Braking(drop > 8)
  assign   id = Braking.id
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, TypeAlias

from situ.core.errors import QueryError
from situ.core.types import Type
from situ.graph.patterns import EventTest, Step
from situ.graph.query import (
    AfterMatch,
    Aggregation,
    Around,
    Assignment,
    AttributeDeclaration,
    Case,
    Definition,
    Demand,
    From,
    Join,
    Pause,
    Quality,
    Query,
    Rule,
    Skip,
    Stream,
    Subscription,
    TimeUnit,
    Update,
    Window,
    Within,
)
from situ.lang.build_expressions import (
    Aliased,
    Expr,
    Operand,
    avg,
    collect,
    count,
    count_distinct,
    first,
    fn,
    group_key,
    last,
    literal,
    max_,
    min_,
    stddev,
    sum_,
    this,
    time_of,
    to_expression,
    to_micros,
    to_type,
)
from situ.lang.build_patterns import (
    EventType,
    OneEvent,
    Part,
    Quiet,
    Repeatable,
    Repeated,
    Sequence,
    all_of,
    any_of,
    event_type,
    group,
    no,
)

__all__ = [
    "EventType",
    "Expr",
    "OneEvent",
    "Part",
    "Quality",
    "Quiet",
    "Repeatable",
    "Repeated",
    "Sequence",
    "aggr",
    "all_of",
    "any_of",
    "avg",
    "circle",
    "collect",
    "count",
    "count_distinct",
    "define",
    "detect",
    "event_type",
    "every",
    "first",
    "fn",
    "group",
    "group_key",
    "join",
    "last",
    "latency",
    "literal",
    "max_",
    "min_",
    "moved",
    "no",
    "numbered",
    "overhead",
    "pause",
    "query",
    "rectangle",
    "skip_past_last",
    "skip_to_first",
    "skip_to_last",
    "skip_to_next",
    "square",
    "stddev",
    "stream",
    "subscribe",
    "sum_",
    "this",
    "time_of",
]

Name: TypeAlias = str | Aliased  # an alias or an event type, by name or as the object
Names: TypeAlias = Name | Iterable[Name]
Span: TypeAlias = str | timedelta  # "3 s"
Declared: TypeAlias = str | Type | tuple[str | Type, str | Iterable[str]]  # "double", ("double", "position.x")


# ---- streams


def stream(
    name: str,
    attributes: Mapping[str, Declared],
    *,
    time: str,
    unit: TimeUnit | None = None,
    order: str | None = None,
    at: tuple[str, str] | None = None,
    key: str | None = None,
    unique: str | None = None,
    watermark: Span = "0 s",
    idle_after: Span | None = None,
    ahead: Span | None = None,
    degrees: bool = False,
    shared: bool = False,
) -> EventType:
    """`stream Vehicle(...) time ts at (x, y) key vehicle`. With `degrees`, `at` is longitude and latitude. With
    `shared`, `order` is an attribute that all streams have, and that decides between their events of equal time.

    An attribute is its type, or its type and where it comes from: `{"x": ("double", "position.x")}` reads the field x
    of the column position. A name that has a dot itself stands in a sequence: `("double", ["a.b", "x"])`.

    >>> stream("Vehicle", {"speed": "double", "ts": "int"}, time="ts", unit="ms").speed.node
    Attribute(alias='Vehicle', name='speed')
    """
    declarations = tuple(_declaration(attribute, declared) for attribute, declared in attributes.items())
    idle_after_us, ahead_us = (None if span is None else to_micros(span) for span in (idle_after, ahead))
    places = (order, at, key, to_micros(watermark), idle_after_us, unique, degrees, ahead_us, shared)
    statement = Stream(name, declarations, time, unit, *places)
    return EventType(Step(EventTest(name), name), tuple(attributes), statement)


# ---- what definitions and subscriptions are made of


def detect(
    pattern: Part,
    *,
    within: Span | None = None,
    from_: Name | None = None,
    assign: Mapping[str, Operand] | None = None,
    consuming: Names = (),
    case: int | None = None,
    once: bool = False,
) -> Case:
    """One `detect [once] ... within ... assign ... consuming ...`; `from_` is an alias or "previous"."""
    return Case(pattern.node, _within(within, from_), _assignments(assign), _names(consuming), case, once)


def aggr(every: Span, *, over: Span | None = None, post: Mapping[str, Operand] | None = None) -> Aggregation:
    """`aggr every 1 min over 10 min`, or `"10 events"`; `post` is the `< post > where` part."""
    return Aggregation(_window(every, over), _assignments(post))


def join(every: Span, *, on: Names, over: Span | None = None) -> Join:
    """`join every 1 min on lane`."""
    return Join(_window(every, over), _names(on))


def skip_to_next() -> AfterMatch:
    return AfterMatch(Skip.TO_NEXT)


def skip_past_last() -> AfterMatch:
    return AfterMatch(Skip.PAST_LAST)


def skip_to_first(alias: Name) -> AfterMatch:
    return AfterMatch(Skip.TO_FIRST, _name(alias))


def skip_to_last(alias: Name) -> AfterMatch:
    return AfterMatch(Skip.TO_LAST, _name(alias))


def pause(span: Span) -> Pause:
    """`after match pause 1 h`."""
    return Pause(to_micros(span))


def define(
    name: str,
    *cases: Case,
    attributes: Iterable[str] | None = None,
    window: Aggregation | Join | None = None,
    group_by: Names = (),
    after_match: AfterMatch | Pause | None = None,
    report_timed_out: bool = False,
) -> EventType:
    """`define Name(attributes) ...`; without `attributes`, those that are assigned, in that order.

    Several cases are numbered from 0, unless they have numbers.
    """
    rule = _rule(cases, window, group_by, after_match, report_timed_out)
    post = window.post if isinstance(window, Aggregation) else ()
    assigned = post or (rule.cases[0].assign if rule.cases else ())
    names = tuple(assignment.name for assignment in assigned) if attributes is None else tuple(attributes)
    return EventType(Step(EventTest(name), name), names, Definition(name, names, rule))


# ---- subscriptions


@dataclass(frozen=True, slots=True)
class Numbered:
    """The head of an EdgeCEP subscription."""

    sequence: int
    subscriber: str
    actor: str


def numbered(sequence: int, *, subscriber: str, actor: str) -> Numbered:
    """`Subscription seq 1 from User1 to AirController`, in the place of a subscription's name."""
    return Numbered(sequence, subscriber, actor)


def subscribe(
    name: str | Numbered,
    *cases: Case,
    window: Aggregation | Join | None = None,
    group_by: Names = (),
    after_match: AfterMatch | Pause | None = None,
    report_timed_out: bool = False,
    consumer: tuple[Name, str] | None = None,
    around: Around | None = None,
    lifetime: Span | None = None,
    update: Literal["basic", "when quality"] | Update | None = None,
    deliver: Literal["complete", "best effort"] | None = None,
    quality: Quality | None = None,
    demand: Demand | Iterable[Demand] = (),
    leave_when: Operand | None = None,
    leave_after: Span | None = None,
) -> Subscription:
    """`subscribe Name for Consumer(id) ...`; `consumer` is the event type and its key."""
    subscription = Subscription(
        name if isinstance(name, str) else f"{name.subscriber}_{name.sequence}",
        _rule(cases, window, group_by, after_match, report_timed_out),
        None if consumer is None else (_name(consumer[0]), consumer[1]),
        around,
        None if lifetime is None else to_micros(lifetime),
        _update(update),
        deliver,
        quality,
        (demand,) if isinstance(demand, Demand) else tuple(demand),
        leave_when=None if leave_when is None else to_expression(leave_when),
        leave_after_us=None if leave_after is None else to_micros(leave_after),
    )
    if isinstance(name, str):
        return subscription
    return replace(subscription, sequence=name.sequence, subscriber=name.subscriber, actor=name.actor)


def square(focal: Name, side_m: float) -> Around:
    return Around(_name(focal), "square", (float(side_m),))


def rectangle(focal: Name, width_m: float, height_m: float) -> Around:
    return Around(_name(focal), "rectangle", (float(width_m), float(height_m)))


def circle(focal: Name, radius_m: float) -> Around:
    return Around(_name(focal), "circle", (float(radius_m),))


def every(span: Span) -> Update:
    """`update every 5 s`."""
    return Update("every", to_micros(span))


def moved(metres: float) -> Update:
    """`update moved 50 m`."""
    return Update("moved", float(metres))


def latency(below: Span) -> Demand:
    """`demand latency < 100 ms`."""
    return Demand("latency", to_micros(below))


def overhead(below_bytes: int) -> Demand:
    """`demand overhead < 10 KB`, in bytes."""
    return Demand("overhead", below_bytes)


def load(below_per_s: float) -> Demand:
    """`demand load < 500`: input events per second, at each site that takes part."""
    return Demand("load", float(below_per_s))


def hops(below: int) -> Demand:
    """`demand hops < 4`: on the longest way of an event, by all operators to where results go."""
    return Demand("hops", below)


def bandwidth_delay(below_events: float) -> Demand:
    """`demand bandwidth-delay < 2.5`: events that are under way at a time."""
    return Demand("bandwidth-delay", float(below_events))


def query(*statements: EventType | Subscription) -> Query:
    """The query of these streams, definitions and subscriptions."""
    parts = [s.statement if isinstance(s, EventType) else s for s in statements]
    for statement, part in zip(statements, parts, strict=True):
        if part is None:
            raise QueryError(
                f"{_name(statement) if isinstance(statement, Aliased) else statement} is only a name here",
                remedy="Leave it out, or make it with stream(...) or define(...).",
            )
    return Query(
        tuple(part for part in parts if isinstance(part, Stream)),
        tuple(part for part in parts if isinstance(part, Definition)),
        tuple(part for part in parts if isinstance(part, Subscription)),
    )


# ---- from Python's types to the query's


def _declaration(name: str, declared: Declared) -> AttributeDeclaration:
    type_, source = declared if isinstance(declared, tuple) else (declared, ())
    return AttributeDeclaration(name, to_type(type_), tuple(source.split(".") if isinstance(source, str) else source))


def _name(name: Name) -> str:
    return name if isinstance(name, str) else name._alias()


def _names(names: Names) -> tuple[str, ...]:
    return (_name(names),) if isinstance(names, str | Aliased) else tuple(map(_name, names))


def _assignments(assign: Mapping[str, Operand] | None) -> tuple[Assignment, ...]:
    return tuple(Assignment(name, to_expression(value)) for name, value in (assign or {}).items())


def _within(span: Span | None, anchor: Name | None) -> Within | None:
    if span is None:
        return None
    if anchor is None:
        return Within(to_micros(span))
    return Within(to_micros(span), From.PREVIOUS if isinstance(anchor, str) and anchor == "previous" else _name(anchor))


def _window(every: Span, over: Span | None) -> Window:
    counted = [
        re.fullmatch(r"(\d+) events?", span) if isinstance(span, str) else None for span in (every, over or every)
    ]
    match counted:
        case [re.Match() as length, re.Match() as total]:
            return Window(int(length[1]), int(total[1]), "events")
        case _:
            return Window(to_micros(every), to_micros(over or every))


def _update(update: Literal["basic", "when quality"] | Update | None) -> Update | None:
    match update:
        case "basic":
            return Update("basic")
        case "when quality":
            return Update("quality")
        case _:
            return update


def _rule(
    cases: tuple[Case, ...],
    window: Aggregation | Join | None,
    group_by: Names,
    after_match: AfterMatch | Pause | None,
    timed_out: bool,
) -> Rule:
    if len(cases) > 1 and all(case.number is None for case in cases):
        cases = tuple(replace(case, number=number) for number, case in enumerate(cases))
    return Rule(cases, window, _names(group_by), after_match or AfterMatch(), timed_out)
