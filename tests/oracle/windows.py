"""Aggregations and window joins (docs/language.md, "Aggregation: aggr" and "Window join: join")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from oracle.events import Event
from oracle.expressions import Scope, evaluate, holds
from situ.graph.patterns import Step, steps_of
from situ.graph.query import Aggregation, Assignment, Case, Join, Window


@dataclass(frozen=True, slots=True)
class Content:
    """A window: its number among the windows of its kind, the time that its complex events have, and its events."""

    number: int
    time: int
    events: list[Event]


@dataclass(frozen=True, slots=True)
class WindowMatch:
    """What becomes a complex event: its attributes, its time, and its events by alias."""

    attributes: dict[str, Any]
    time: int
    slots: tuple[tuple[str, Event], ...]


def contents(window: Window, events: Sequence[Event]) -> Iterator[Content]:
    """The windows that hold an event, of one group's events in their order."""
    if not events:
        return
    if window.unit == "time":
        first = events[0].time // window.every
        last = (events[-1].time + window.over) // window.every
        for number in range(first, last + 1):
            end = number * window.every
            inside = [event for event in events if end - window.over <= event.time < end]
            if inside:
                yield Content(number, end, inside)
        return
    for number in range(1, len(events) // window.every + 1):
        end = number * window.every
        inside = list(events[max(0, end - window.over) : end])
        yield Content(number, inside[-1].time, inside)


def accepted(step: Step, events: Sequence[Event], group: Mapping[str, Any]) -> list[Event]:
    """The events of a window that a step accepts by its condition on the single event."""
    return [
        event
        for event in events
        if event.type == step.test.event_type and holds(step.test.condition, Scope({}, group, (step.alias, event)))
    ]


def assigned(assignments: tuple[Assignment, ...], scope: Scope) -> dict[str, Any]:
    return {assignment.name: evaluate(assignment.expression, scope) for assignment in assignments}


def aggregate_windows(
    kind: Aggregation, cases: Sequence[tuple[Case, Sequence[Event]]], group: Mapping[str, Any]
) -> list[WindowMatch]:
    """The complex events of one group; each case comes with the events of the types that it names."""
    records: dict[int, list[WindowMatch]] = {}
    for case, events in cases:
        for content in contents(kind.window, events):
            record = record_of(case, content, group)
            if record is not None:
                records.setdefault(content.number, []).append(record)
    if not kind.post:
        return [record for number in sorted(records) for record in records[number]]
    return [post(kind.post, records[number], group) for number in sorted(records)]


def record_of(case: Case, content: Content, group: Mapping[str, Any]) -> WindowMatch | None:
    """One record for a case and a window: every step has an event, `outer` excepted, and at least one has one."""
    taken: dict[str | None, list[Event]] = {}
    for step in steps_of(case.detect):
        taken[step.alias] = accepted(step, content.events, group)
        if not taken[step.alias] and not step.outer:
            return None
    slots = tuple((str(alias), event) for alias, events in taken.items() for event in events)
    return WindowMatch(assigned(case.assign, Scope(taken, group)), content.time, slots) if slots else None


def post(assignments: tuple[Assignment, ...], records: list[WindowMatch], group: Mapping[str, Any]) -> WindowMatch:
    """`<post>` aggregates over the records of a window: each name that `<pre>` assigned is a column."""
    time = max(record.time for record in records)
    rows = [Event("record", record.attributes, record.time) for record in records]
    slots = tuple(slot for record in records for slot in record.slots)
    return WindowMatch(assigned(assignments, Scope({None: rows}, group)), time, slots)


def join_windows(kind: Join, case: Case, events: Sequence[Event], group: Mapping[str, Any]) -> list[WindowMatch]:
    """Every combination of one event of a window for each step that agrees in `on` and satisfies the conditions."""
    steps = list(steps_of(case.detect))
    found = []
    for content in contents(kind.window, events):
        of_type = [[event for event in content.events if event.type == step.test.event_type] for step in steps]
        for combination in product(*of_type):
            taken: dict[str | None, list[Event]] = {
                step.alias: [event] for step, event in zip(steps, combination, strict=True)
            }
            if agree(combination, kind.on) and conditions_hold(steps, combination, group):
                attributes = assigned(case.assign, Scope(taken, group))
                slots = tuple((step.alias, event) for step, event in zip(steps, combination, strict=True))
                found.append(WindowMatch(attributes, content.time, slots))
    return found


def agree(combination: Sequence[Event], on: tuple[str, ...]) -> bool:
    for name in on:
        values = [event.attributes[name] for event in combination]
        if None in values or any(value != values[0] for value in values):
            return False
    return True


def conditions_hold(steps: Sequence[Step], combination: Sequence[Event], group: Mapping[str, Any]) -> bool:
    taken: dict[str | None, list[Event]] = {}
    for step, event in zip(steps, combination, strict=True):
        if not holds(step.test.condition, Scope(taken, group, (step.alias, event))):
            return False
        taken[step.alias] = [event]
    return True
