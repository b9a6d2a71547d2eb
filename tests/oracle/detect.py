"""All complex events of an operator graph over a bounded input, by brute force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from oracle.events import Event, order_key, read_stream, read_value, union_box, without_duplicates
from oracle.expressions import Scope, evaluate
from oracle.matches import Group
from oracle.patterns import PatternMatch, pattern_matches
from oracle.timed_out import timed_out
from oracle.windows import WindowMatch, aggregate_windows, join_windows
from situ.graph.operators import Operator, OperatorGraph
from situ.graph.patterns import tests_of
from situ.graph.query import Aggregation, Case, Join


@dataclass(frozen=True, slots=True)
class Match:
    """A complex event and how it came about.

    `time` is microseconds since the epoch; `slots` are its events with their aliases, in order of position (for
    windows: alias by alias); `event.atomic` names the stream events below it as (stream, index in the input).
    """

    attributes: dict[str, Any]
    time: int
    group: tuple[Any, ...]
    slots: tuple[tuple[str, Event], ...]
    event: Event

    @property
    def atomic(self) -> list[tuple[str, int]]:
        return sorted(self.event.atomic)


@dataclass(frozen=True, slots=True)
class OracleResult:
    """For each definition and subscription: its complex events in their total order, and its timed-out ones. For each
    stream with `unique`: how many of its rows are duplicates."""

    matches: dict[str, list[Match]] = field(default_factory=dict)
    timed_out: dict[str, list[Match]] = field(default_factory=dict)
    duplicates: dict[str, int] = field(default_factory=dict)


class TooLarge(Exception):
    """A pattern has more events in a group than brute force should be tried on."""


def detect(graph: OperatorGraph, events: Mapping[str, list[dict[str, Any]]], limit: int | None = None) -> OracleResult:
    """What docs/language.md says of these events. Streams without events may be left out.

    TooLarge if a pattern would have more than `limit` events in a group (complex events can be very many).
    """
    orders = {stream.name: (stream.order, stream.shared) for stream in graph.streams}
    result = OracleResult()
    known: dict[str, list[Event]] = {}
    for stream in graph.streams:
        rows = read_stream(stream, events.get(stream.name, []))
        known[stream.name] = without_duplicates(rows, stream)
        if stream.unique is not None:
            result.duplicates[stream.name] = len(rows) - len(known[stream.name])
    for operator in graph.operators:
        inputs = [event for name in operator.inputs for event in known[name]]
        inputs.sort(key=lambda event: order_key(event, *orders.get(event.type, (None, False))))
        found, late = [], []
        for key, members in split(inputs, operator.rule.group_by):
            if limit is not None and len(members) > limit and operator.rule.kind is None:
                raise TooLarge(f"{operator.name} has {len(members)} events in a group")
            start_us = None if operator.rule.group_by else graph.start_us
            matches, partial = detect_in_group(operator, key, members, start_us)
            found += matches
            late += partial
        result.matches[operator.name] = in_order(found)
        if operator.rule.timed_out:
            result.timed_out[operator.name] = in_order(late)
        known[operator.name] = [match.event for match in result.matches[operator.name]]
    return result


def in_order(matches: list[Match]) -> list[Match]:
    return sorted(matches, key=lambda match: order_key(match.event, None))


def split(events: Sequence[Event], group_by: tuple[str, ...]) -> list[tuple[dict[str, Any], list[Event]]]:
    """The events of each group; without `group by` all events are one group."""
    groups: dict[tuple[Any, ...], list[Event]] = {} if group_by else {(): []}
    for event in events:
        groups.setdefault(tuple(event.attributes[name] for name in group_by), []).append(event)
    return [(dict(zip(group_by, values, strict=True)), members) for values, members in groups.items()]


def named_by(case: Case, events: Sequence[Event]) -> list[Event]:
    """The events of the types that a `detect` names: their ranks are positions."""
    types = {test.event_type for test in tests_of(case.detect)}
    return [event for event in events if event.type in types]


def detect_in_group(
    operator: Operator, key: dict[str, Any], events: list[Event], start_us: int | None
) -> tuple[list[Match], list[Match]]:
    rule = operator.rule
    found: list[Match] = []
    late: list[Match] = []
    match rule.kind:
        case None:
            for case in rule.cases:
                group = Group(named_by(case, events), key, start_us)
                standing = pattern_matches(case, rule.after_match, group)
                found += [of_pattern(operator, case, match, group) for match in standing]
                if rule.timed_out:
                    partial = timed_out(case, rule.after_match, standing, group)
                    late += [of_pattern(operator, case, match, group) for match in partial]
        case Aggregation():
            cases = [(case, named_by(case, events)) for case in rule.cases]
            found = [of_window(operator, match, key) for match in aggregate_windows(rule.kind, cases, key)]
        case Join():
            for case in rule.cases:
                joined = join_windows(rule.kind, case, named_by(case, events), key)
                found += [of_window(operator, match, key) for match in joined]
        case _:
            assert_never(rule.kind)
    return found, late


def of_pattern(operator: Operator, case: Case, match: PatternMatch, group: Group) -> Match:
    scope = Scope(group.taken(match.placed), group.key)
    attributes = {assignment.name: evaluate(assignment.expression, scope) for assignment in case.assign}
    slots = tuple((alias, group.event(position)) for _, alias, position in match.slots)
    return to_match(operator, attributes, match.time, group.key, slots)


def of_window(operator: Operator, match: WindowMatch, key: Mapping[str, Any]) -> Match:
    return to_match(operator, match.attributes, match.time, key, match.slots)


def to_match(
    operator: Operator,
    attributes: dict[str, Any],
    time: int,
    key: Mapping[str, Any],
    slots: tuple[tuple[str, Event], ...],
) -> Match:
    values = {name: read_value(attributes[name], type_) for name, type_ in operator.schema.attributes}
    atomic = frozenset().union(*(event.atomic for _, event in slots))
    box = union_box([event.box for _, event in slots])
    return Match(
        values, time, tuple(key.values()), slots, Event(operator.name, values, time, operator.depth, atomic, box)
    )
