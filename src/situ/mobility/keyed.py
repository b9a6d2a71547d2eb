"""Moving subscriptions -> plain ones, in which an interest is a key.

The operator graph starts afresh for every interest, and no operator sees events of two of them (spatial consistency;
MCEP, section 3.1). That is what grouping says. For a moving subscription, every stream that it needs is there a second
time: its events once for each interest that reads them, with attributes that name the interest and the times between
which its complex events are delivered. Every rule that it needs is there a second time, too, passes these attributes on
and groups by them. So a moving query runs wherever a plain one runs, if somebody fills the additional streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from situ.core.errors import QueryError
from situ.core.types import INT, TIMESTAMP, Type
from situ.graph.expressions import Attribute, Binary, EventTime, GroupKey
from situ.graph.operators import OperatorGraph
from situ.graph.patterns import EventTest, Step, rename_types, steps_of
from situ.graph.query import (
    Aggregation,
    Assignment,
    AttributeDeclaration,
    Case,
    Definition,
    Join,
    Query,
    Rule,
    Stream,
    Subscription,
)

#: Attributes that name an event's interest, and say which of its complex events are delivered.
CONSUMER, NUMBER, SINCE, UNTIL = KEYS = ("situ_consumer", "situ_interest", "situ_since", "situ_until")

#: What a moving subscription's complex events have besides their attributes.
DELIVERED = ("consumer", "interest")


def by_interest(event_type: str, subscription: str) -> str:
    """The name of what a moving subscription reads instead of an event type."""
    return f"{event_type}@{subscription}"


def moving_to_plain(graph: OperatorGraph) -> Query:
    """A query with the same results, in which nothing moves.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> plain = moving_to_plain(resolve(parse('''
    ...     stream Car(id int, x double, y double, ts int) time ts in s at (x, y)
    ...     subscribe Near for Car(id) detect Car as a assign x = a.x around Car square 5 m
    ... ''')))
    >>> [stream.name for stream in plain.streams], [definition.name for definition in plain.definitions]
    (['Car', 'Car@Near'], ['Near@Near'])
    >>> resolve(plain).operators[-1].schema.names
    ('x', 'consumer', 'interest')
    """
    streams, definitions = list(graph.query.streams), list(graph.query.definitions)
    subscriptions = []
    for subscription in graph.query.subscriptions:
        if subscription.around is None:
            subscriptions.append(subscription)
            continue
        needed = graph.needed(subscription.name)
        keys = key_types(graph, subscription)
        names = {name: by_interest(name, subscription.name) for name in needed}
        streams += [_keyed_stream(stream, names, keys) for stream in graph.streams if stream.name in needed]
        for operator in graph.operators:
            if operator.name in needed:
                attributes = (*operator.schema.names, *KEYS)
                definitions.append(Definition(names[operator.name], attributes, _keyed(operator.rule, names)))
        (operator,) = (o for o in graph.operators if o.name == subscription.name)
        subscriptions.append(_delivered(subscription, names[subscription.name], operator.schema.names))
    return Query(tuple(streams), tuple(definitions), tuple(subscriptions))


def key_types(graph: OperatorGraph, subscription: Subscription) -> dict[str, Type]:
    """The attributes of an interest: its consumer has the type that the stream of consumers says."""
    assert subscription.consumer is not None, "resolved: somebody moves"
    stream, attribute = subscription.consumer
    return dict(zip(KEYS, (graph.schemas[stream].type_of(attribute), INT, TIMESTAMP, TIMESTAMP), strict=True))


def _keyed_stream(stream: Stream, names: Mapping[str, str], keys: Mapping[str, Type]) -> Stream:
    """Its rows have been read: attributes lie in columns of their own names. They come by time, and once."""
    declared = [replace(attribute, path=()) for attribute in stream.attributes]
    declared += [AttributeDeclaration(name, type_) for name, type_ in keys.items()]
    return replace(stream, name=names[stream.name], attributes=tuple(declared), unique=None, watermark_us=0)


def _keyed(rule: Rule, names: Mapping[str, str]) -> Rule:
    """A rule that reads by interest, passes the interest on and groups by it; a join joins on it."""
    cases = tuple(replace(case, detect=rename_types(case.detect, names)) for case in rule.cases)
    if isinstance(rule.kind, Join):
        cases = tuple(_passing_on(case, next(steps_of(case.detect)).alias) for case in cases)
        return replace(rule, cases=cases, kind=replace(rule.kind, on=(*rule.kind.on, *KEYS)))
    group_by = (*rule.group_by, *KEYS)
    if isinstance(rule.kind, Aggregation) and rule.kind.post:
        kind = replace(rule.kind, post=(*rule.kind.post, *_of_group()))
        return replace(rule, cases=cases, kind=kind, group_by=group_by)
    cases = tuple(replace(case, assign=(*case.assign, *_of_group())) for case in cases)
    return replace(rule, cases=cases, group_by=group_by)


def _of_group() -> list[Assignment]:
    return [Assignment(name, GroupKey(name)) for name in KEYS]


def _passing_on(case: Case, alias: str) -> Case:
    return replace(case, assign=(*case.assign, *(Assignment(name, Attribute(alias, name)) for name in KEYS)))


def _delivered(subscription: Subscription, found: str, attributes: tuple[str, ...]) -> Subscription:
    """Of what is found for an interest, that with a time from its start less the lifetime to the start of the next."""
    for name in DELIVERED:
        if name in attributes:
            raise QueryError(
                f"{subscription.name} assigns {name!r}, which every moving subscription has of its own",
                place=subscription.place,
                remedy="Choose another name.",
            )
    time, since, until = EventTime("found"), Attribute("found", SINCE), Attribute("found", UNTIL)
    wanted = Binary("and", Binary(">=", time, since), Binary("<=", time, until))
    step = Step(EventTest(found, wanted), "found")
    given = [Assignment(name, Attribute("found", name)) for name in attributes]
    whose = [Assignment(name, Attribute("found", key)) for name, key in zip(DELIVERED, KEYS, strict=False)]
    return Subscription(subscription.name, Rule((Case(step, assign=(*given, *whose)),)))
