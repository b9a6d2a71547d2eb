"""A query whose subscriptions move -> plain queries, in which an interest is a key.

The operator graph starts afresh for every interest, and no operator sees events of two of them (spatial consistency;
MCEP, section 3.1). That is what grouping says. For each moving subscription there is a graph of its own, of the rules
that it needs: their events have one attribute more, which names an interest; every rule passes it on and groups by it.
So what moves runs on the operators that everything runs on, if somebody says which interests read an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from situ.core.errors import QueryError
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.core.types import DOUBLE, INT, Type
from situ.graph.expressions import Aggregate, Attribute, Call, EventTime, Expression, GroupKey
from situ.graph.operators import Operator, OperatorGraph, Schema
from situ.graph.patterns import EventTest, Step, repeating_aliases, steps_of
from situ.graph.query import (
    Aggregation,
    Around,
    Assignment,
    AttributeDeclaration,
    Case,
    Definition,
    Query,
    Rule,
    Stream,
    Subscription,
)
from situ.graph.sharing import asks_for_quality, shared_step
from situ.lang.resolve import resolve
from situ.mobility.history import history_us, span_us

#: The attributes that name an event's interest, and say which of the events of one time come first.
INTEREST, ORDER = "situ_interest", "situ_order"
#: The attribute of complex events that may be shared: the time at which the span begins that they were found in.
BEGIN = "situ_begin"

#: What a moving subscription's complex events have besides their attributes, and what those have that may be found on
#: behalf of others: how good they are, and whose region they were found in.
DELIVERED = ("consumer", "interest")
QUALITY = ("precision", "recall")
FOUND_IN = ("region_consumer", "region_interest")


@dataclass(frozen=True, slots=True)
class Spans:
    """What the correlating rule of a subscription reads at once: from `begin` to `begin` + `length_us`, included.

    An event that its first step accepts opens one; or, if there is `every_us`, they are windows, and end right before
    its multiples.
    """

    step: str  # the name of the rule
    length_us: int
    every_us: int | None = None

    @classmethod
    def of(cls, step: Operator) -> Spans:
        kind = step.rule.kind
        if kind is None:
            return cls(step.name, span_us(step))
        return cls(step.name, kind.window.over - 1, kind.window.every)


@dataclass(frozen=True)
class MovingQuery:
    """A subscription that moves. `graph` finds its complex events by interest; `delivered` is the operator as its
    users see it. An interest reads a stream from its start, less the lifetime, less `before_us`."""

    subscription: Subscription
    graph: OperatorGraph
    delivered: Operator
    before_us: Mapping[str, int]
    streams: Mapping[str, Stream]  # that are read, as they are declared
    spans: Spans | None  # by which it is judged what interests may share, at the quality that the subscription asks for
    leaving: Operator | None = None  # takes the location updates with which consumers leave

    @property
    def name(self) -> str:
        return self.subscription.name

    @property
    def reuses(self) -> bool:
        """Whether interests may share what is found."""
        return self.spans is not None

    @property
    def around(self) -> Around:
        assert self.subscription.around is not None, "it moves"
        return self.subscription.around

    @property
    def consumer(self) -> tuple[str, str]:
        """The stream of location updates, and its attribute that names a consumer."""
        assert self.subscription.consumer is not None, "resolved: somebody moves"
        return self.subscription.consumer

    @property
    def lifetime_us(self) -> int:
        return self.subscription.lifetime_us or 0

    @property
    def complete(self) -> bool:
        return self.subscription.deliver != "best effort"

    @property
    def focal(self) -> Stream:
        return self.streams[self.around.focal]


def moving_queries(graph: OperatorGraph, functions: Functions = default_functions) -> tuple[MovingQuery, ...]:
    """The subscriptions of a query that move.

    >>> from situ.lang.parse import parse
    >>> (near,) = moving_queries(resolve(parse('''
    ...     stream Car(id int, x double, y double, ts int) time ts in s at (x, y)
    ...     subscribe Near for Car(id) detect Car(x > 0) as a assign x = a.x around Car square 5 m
    ...     subscribe All detect Car(x > 0) as a
    ... ''')))
    >>> near.graph.operators[0].rule.group_by, near.delivered.schema.names
    (('situ_interest',), ('x', 'consumer', 'interest'))
    """
    return tuple(_moving(graph, s, functions) for s in graph.query.subscriptions if s.around is not None)


def without_moving(graph: OperatorGraph) -> OperatorGraph:
    """What does not move: all streams, and the rules that are not there for moving subscriptions alone."""
    moving = [s.name for s in graph.query.subscriptions if s.around is not None]
    if not moving:
        return graph
    for_moving = frozenset[str]().union(*map(graph.needed, moving))
    others = [o.name for o in graph.operators if o.name not in for_moving]
    kept = frozenset[str]().union(*map(graph.needed, others))
    query = replace(
        graph.query,
        definitions=tuple(d for d in graph.query.definitions if d.name in kept),
        subscriptions=tuple(s for s in graph.query.subscriptions if s.around is None),
    )
    return replace(graph, query=query, operators=tuple(o for o in graph.operators if o.name in kept))


def _moving(graph: OperatorGraph, subscription: Subscription, functions: Functions) -> MovingQuery:
    needed = graph.needed(subscription.name)
    operators = [operator for operator in graph.operators if operator.name in needed]
    for operator in operators:
        if operator.rule.timed_out:
            raise QueryError(
                f"{subscription.name} moves, and {operator.name} reports what timed out: nothing says to whom",
                place=subscription.place,
                remedy="Leave `report timed out` out, or let a subscription that does not move read it.",
            )
    before_us = history_us(graph, subscription.name)
    focal = subscription.around.focal if subscription.around else ""
    streams = {stream.name: stream for stream in graph.streams if stream.name in (*before_us, focal)}
    step = shared_step(graph, subscription) if asks_for_quality(subscription) else None
    spans = None if step is None else Spans.of(step)
    passed_on = (INTEREST,) if spans is None or spans.every_us else (INTEREST, BEGIN)
    rules = [_grouped(_with_begin(o.rule, step is o) if BEGIN in passed_on else o.rule) for o in operators]
    definitions = [
        Definition(o.name, (*o.schema.names, *passed_on), rule)
        for o, rule in zip(operators[:-1], rules[:-1], strict=True)
    ]
    by_interest = tuple(_by_interest(stream) for stream in streams.values() if stream.name in before_us)
    query = Query(by_interest, tuple(definitions), (Subscription(subscription.name, rules[-1]),))
    delivered = replace(operators[-1], schema=_delivered(graph, operators[-1], subscription, spans is not None))
    leaving = _leaving(subscription, streams[focal], functions)
    return MovingQuery(subscription, resolve(query, functions), delivered, before_us, streams, spans, leaving)


def _leaving(subscription: Subscription, focal: Stream, functions: Functions) -> Operator | None:
    """A rule that takes the location updates of which `leave when` is true."""
    if subscription.leave_when is None:
        return None
    test = EventTest(focal.name, subscription.leave_when, place=subscription.place)
    case = Case(Step(test, "update"), assign=(Assignment("time", EventTime("update")),))
    (rule,) = resolve(Query((focal,), (), (Subscription("leave when", Rule((case,))),)), functions).operators
    return rule


def _by_interest(stream: Stream) -> Stream:
    """Its rows have been read: attributes lie in columns of their own names. They come in order, each of them once for
    every interest; the order is decided once."""
    declared = [replace(attribute, path=()) for attribute in stream.attributes]
    declared += [AttributeDeclaration(name, INT) for name in (INTEREST, ORDER)]
    return replace(stream, attributes=tuple(declared), order=ORDER, unique=None)


def _grouped(rule: Rule) -> Rule:
    """A rule that passes the interest on and groups by it."""
    group_by = (INTEREST, *rule.group_by)
    of_group = Assignment(INTEREST, GroupKey(INTEREST))
    if isinstance(rule.kind, Aggregation) and rule.kind.post:
        return replace(rule, kind=replace(rule.kind, post=(*rule.kind.post, of_group)), group_by=group_by)
    cases = tuple(replace(case, assign=(*case.assign, of_group)) for case in rule.cases)
    return replace(rule, cases=cases, group_by=group_by)


def _with_begin(rule: Rule, correlates: bool) -> Rule:
    """A pattern rule whose complex events say when their span begins: with the first event of a match, or where that of
    the one event does that it takes."""
    cases = tuple(
        replace(case, assign=(*case.assign, Assignment(BEGIN, _first_time(case) if correlates else _passed_on(case))))
        for case in rule.cases
    )
    return replace(rule, cases=cases)


def _first_time(case: Case) -> Expression:
    """The smallest time of the events of a match."""
    repeating = repeating_aliases(case.detect)
    times: list[Expression] = []
    for alias in dict.fromkeys(step.alias for step in steps_of(case.detect) if step.silence_us is None):
        times.append(Aggregate("first", EventTime(alias)) if alias in repeating else EventTime(alias))
    return times[0] if len(times) == 1 else Call("least", tuple(times))


def _passed_on(case: Case) -> Expression:
    begins: list[Expression] = [Attribute(step.alias, BEGIN) for step in steps_of(case.detect)]
    return begins[0] if len(begins) == 1 else Call("coalesce", tuple(begins))


def _delivered(graph: OperatorGraph, operator: Operator, subscription: Subscription, shares: bool) -> Schema:
    assert subscription.consumer is not None, "resolved: somebody moves"
    stream, attribute = subscription.consumer
    own: dict[str, Type] = dict(zip(DELIVERED, (graph.schemas[stream].type_of(attribute), INT), strict=True))
    if shares:
        own |= dict.fromkeys(QUALITY, DOUBLE) | dict(zip(FOUND_IN, own.values(), strict=True))
    for name in own:
        if name in operator.schema.names:
            raise QueryError(
                f"{subscription.name} assigns {name!r}, which every moving subscription has of its own",
                place=subscription.place,
                remedy="Choose another name.",
            )
    return Schema((*operator.schema.attributes, *own.items()))
