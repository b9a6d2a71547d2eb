"""From a query to its operator graph: every name is known, every expression has a type, inputs come first."""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from situ.core.errors import Place, QueryError, did_you_mean
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.core.types import TIMESTAMP, Decimal, Type, is_numeric
from situ.graph.operators import Operator, OperatorGraph, Schema
from situ.graph.patterns import tests_of
from situ.graph.query import Definition, Query, Stream, Subscription
from situ.graph.typing import inputs_of
from situ.lang.resolve_expressions import check_decimal
from situ.lang.resolve_rules import check_own_name, resolve_rule
from situ.lang.resolve_warnings import unsupported_clauses, warnings

__all__ = ["resolve", "unsupported_clauses", "warnings"]


def resolve(query: Query, functions: Functions = default_functions) -> OperatorGraph:
    """The operator graph of a query; QueryError, with place and remedy, where the query means nothing.

    >>> from situ.core.types import INT
    >>> from situ.graph.patterns import EventTest, Step
    >>> from situ.graph.query import AttributeDeclaration, Case, Rule
    >>> stream = Stream("A", (AttributeDeclaration("n", INT),), time="n", time_unit="s")
    >>> every_a = Subscription("All", Rule((Case(Step(EventTest("A"), "a")),)))
    >>> resolve(Query(streams=(stream,), subscriptions=(every_a,))).operators[0].schema
    Schema(attributes=(('n', <Simple.INT: 'int'>),))
    """
    _check_event_types_are_unique(query)
    for stream in query.streams:
        _check_stream(stream)
    _check_shared_orders(query.streams)
    _check_inputs_exist(query)
    schemas = {s.name: Schema(tuple((a.name, a.type) for a in s.attributes)) for s in query.streams}
    depths = dict.fromkeys(schemas, 0)
    operators = []
    for definition in _inputs_first(query.definitions):
        _check_unique(definition.attributes, f"{definition.name} has two attributes", definition.place)
        operator = _operator(definition, definition.attributes, schemas, depths, functions)
        schemas[operator.name], depths[operator.name] = operator.schema, operator.depth
        operators.append(operator)
    for subscription in query.subscriptions:
        _check_interest(subscription, query.streams)
        _check_quality(subscription, query.streams)
        operators.append(_operator(subscription, None, schemas, depths, functions))
    for operator in operators:
        _check_orders_read_together(operator, query)
    graph = OperatorGraph(query, query.streams, tuple(operators))
    for subscription in query.subscriptions:
        if subscription.around is not None:
            _check_located(subscription, graph)
    return graph


def _operator(
    item: Definition | Subscription,
    attributes: tuple[str, ...] | None,
    schemas: dict[str, Schema],
    depths: dict[str, int],
    functions: Functions,
) -> Operator:
    rule, schema = resolve_rule(item.rule, attributes, schemas, functions, item.place)
    inputs = inputs_of(rule)
    return Operator(
        name=item.name,
        rule=rule,
        schema=schema,
        inputs=inputs,
        depth=1 + max(depths[name] for name in inputs),
        subscription=item if isinstance(item, Subscription) else None,
    )


def _inputs_first(definitions: tuple[Definition, ...]) -> Iterable[Definition]:
    """The definitions in the order of the text, but each after those that it reads."""
    by_name = {definition.name: definition for definition in definitions}
    rank = {name: i for i, name in enumerate(by_name)}
    sorter = TopologicalSorter(
        {name: [read for read in inputs_of(by_name[name].rule) if read in by_name] for name in by_name}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        raise QueryError(
            f"definitions feed each other in a circle: {' -> '.join(cycle)}",
            place=by_name[min(cycle, key=rank.__getitem__)].place,
            remedy="A definition reads streams and definitions that do not need it themselves.",
        ) from None
    ready: list[tuple[int, str]] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heappush(ready, (rank[name], name))
        _, name = heappop(ready)
        sorter.done(name)
        yield by_name[name]


def _check_event_types_are_unique(query: Query) -> None:
    kind_of: dict[str, str] = {}
    kinds: tuple[tuple[str, tuple[Stream | Definition | Subscription, ...]], ...] = (
        ("stream", query.streams),
        ("definition", query.definitions),
        ("subscription", query.subscriptions),
    )
    for kind, items in kinds:
        for item in items:
            if item.name in kind_of:
                raise QueryError(
                    f"{kind} {item.name!r}: there is already a {kind_of[item.name]} of this name",
                    place=item.place,
                    remedy="Streams, definitions and subscriptions have different names.",
                )
            kind_of[item.name] = kind


def _check_inputs_exist(query: Query) -> None:
    event_types = [stream.name for stream in query.streams] + [definition.name for definition in query.definitions]
    subscribed = {subscription.name for subscription in query.subscriptions}
    rules: tuple[Definition | Subscription, ...] = (*query.definitions, *query.subscriptions)
    for item in rules:
        for test in (test for case in item.rule.cases for test in tests_of(case.detect)):
            if test.event_type in event_types:
                continue
            remedy = did_you_mean(test.event_type, event_types)
            if test.event_type in subscribed:
                remedy = f"{test.event_type!r} is a subscription: `define` it, and subscribe to the definition."
            raise QueryError(f"no event type {test.event_type!r}", place=test.place or item.place, remedy=remedy)


def _check_stream(stream: Stream) -> None:
    types = {attribute.name: attribute.type for attribute in stream.attributes}
    _check_unique((a.name for a in stream.attributes), f"stream {stream.name} has two attributes", stream.place)
    for attribute, type_ in types.items():
        check_own_name(attribute, stream.place)
        if isinstance(type_, Decimal):
            check_decimal(type_, stream.place)
    named = {
        "time": (stream.time,),
        "order": (stream.order,),
        "at": stream.location or (),
        "key": (stream.key,),
        "unique": (stream.unique,),
    }
    for clause, names in named.items():
        for name in names:
            if name is not None and name not in types:
                raise QueryError(
                    f"stream {stream.name}: `{clause}` names no attribute {name!r}",
                    place=stream.place,
                    remedy=did_you_mean(name, types),
                )
    for name in stream.location or ():
        if not is_numeric(types[name]):
            raise QueryError(
                f"stream {stream.name}: the location {name!r} is {types[name]}",
                place=stream.place,
                remedy="Declare both coordinates as numbers, such as double.",
            )
    if stream.degrees and stream.location and stream.location[0].lower().startswith("lat"):
        x, y = stream.location
        raise QueryError(
            f"stream {stream.name}: a location in degrees is (longitude, latitude), and {x!r} comes first",
            place=stream.place,
            remedy=f"Write `at ({y}, {x}) in degrees`.",
        )
    _check_time(stream, types[stream.time])


def _check_shared_orders(streams: tuple[Stream, ...]) -> None:
    """All streams that share their order have one attribute for it, of one name and one type."""
    first: tuple[Stream, Type] | None = None
    for stream in (stream for stream in streams if stream.shared):
        types = {attribute.name: attribute.type for attribute in stream.attributes}
        if stream.order is None:
            raise QueryError(
                f"stream {stream.name} shares its order, and has none",
                place=stream.place,
                remedy="Name the attribute that all streams share: `order sequence shared`.",
            )
        type_ = types[stream.order]
        first = first or (stream, type_)
        if (stream.order, type_) != (first[0].order, first[1]):
            raise QueryError(
                f"streams {first[0].name} and {stream.name} share their order, but {first[0].name} is ordered by "
                f"{first[0].order!r} ({first[1]}) and {stream.name} by {stream.order!r} ({type_})",
                place=stream.place,
                remedy=f"Give both the same name and type: {first[0].order} {first[1]}, which `from` may read from a "
                "column of another name.",
            )


def _check_orders_read_together(operator: Operator, query: Query) -> None:
    """Of the streams that a rule reads, all share their order, or none does: else some ties would have no order."""
    read = [stream for stream in query.streams if stream.name in operator.inputs]
    shared, alone = [s.name for s in read if s.shared], [s for s in read if not s.shared]
    if shared and alone:
        (order,) = {stream.order for stream in read if stream.shared}
        raise QueryError(
            f"{operator.name} reads {', '.join(shared)}, ordered by the shared {order!r}, together with "
            f"{alone[0].name}, which does not share it",
            place=alone[0].place,
            remedy=f"Write `order {order} shared` in the declaration of {alone[0].name}, too, or leave `shared` out "
            "everywhere.",
        )


def _check_time(stream: Stream, type_: Type) -> None:
    if type_ == TIMESTAMP and stream.time_unit is not None:
        cause, remedy = "is a timestamp and has no unit", f"Write `time {stream.time}`."
    elif type_ != TIMESTAMP and not is_numeric(type_):
        cause, remedy = f"is {type_}", "Declare it as timestamp, or as a number with `time ... in ms`."
    elif type_ != TIMESTAMP and stream.time_unit is None:
        cause = f"is {type_}, and nothing says what it counts"
        remedy = f"Write `time {stream.time} in s` (or ms, us, ns), counted from the epoch."
    else:
        return
    raise QueryError(f"stream {stream.name}: the time {stream.time!r} {cause}", place=stream.place, remedy=remedy)


def _check_interest(subscription: Subscription, streams: tuple[Stream, ...]) -> None:
    """`for Consumer(id)` and `around Consumer` name a stream that has the attribute, and a location."""
    by_name = {stream.name: stream for stream in streams}
    focal = subscription.around.focal if subscription.around else None
    for name in (focal, subscription.consumer and subscription.consumer[0]):
        if name is not None and name not in by_name:
            raise QueryError(f"no stream {name!r}", place=subscription.place, remedy=did_you_mean(name, by_name))
    if subscription.consumer is not None:
        name, key = subscription.consumer
        attributes = [attribute.name for attribute in by_name[name].attributes]
        if key not in attributes:
            raise QueryError(
                f"stream {name} has no attribute {key!r}",
                place=subscription.place,
                remedy=did_you_mean(key, attributes),
            )
    if subscription.leave_after_us == 0:
        raise QueryError(
            f"{subscription.name}: nobody stays: `leave after` no time",
            place=subscription.place,
            remedy="Write a duration above zero, such as `leave after 30 s`.",
        )
    if focal is not None and by_name[focal].location is None:
        raise QueryError(
            f"`around {focal}`: the stream has no location",
            place=subscription.place,
            remedy=f"Declare it: stream {focal}(...) ... at (x, y).",
        )


def _check_quality(subscription: Subscription, streams: tuple[Stream, ...]) -> None:
    """Thresholds are shares, and `update when quality` says how good is good enough."""
    quality = subscription.quality
    for name in ("precision", "recall", "disparity") if quality is not None else ():
        threshold = getattr(quality, name)
        if isinstance(threshold, str):
            _check_threshold(subscription, threshold, streams)
        elif threshold is not None and not 0 <= threshold <= 1:
            raise QueryError(
                f"{subscription.name}: a {name} of {threshold:g} is not between 0 and 1",
                place=subscription.place,
                remedy=f"Write a share, such as `quality {name} 0.9`.",
            )
    if subscription.around is None or subscription.update is None or subscription.update.when != "quality":
        return
    if quality is None or (quality.precision is None and quality.recall is None):
        raise QueryError(
            f"{subscription.name} updates when quality is too low, and says nothing of quality",
            place=subscription.place,
            remedy="Write `quality precision 0.9 recall 0.9`, or one of them.",
        )
    if isinstance(quality.precision, str) or isinstance(quality.recall, str):
        raise QueryError(
            f"{subscription.name} updates when quality is too low, and reads its thresholds from location updates",
            place=subscription.place,
            remedy="Write the thresholds as numbers: `quality precision 0.9 recall 0.9`.",
        )


def _check_threshold(subscription: Subscription, name: str, streams: tuple[Stream, ...]) -> None:
    """A threshold that consumers say themselves is a number of their stream."""
    consumers = subscription.consumer[0] if subscription.consumer else None
    stream = next((stream for stream in streams if stream.name == consumers), None)
    types = {} if stream is None else {attribute.name: attribute.type for attribute in stream.attributes}
    if name not in types:
        raise QueryError(
            f"{subscription.name}: the consumers' stream has no attribute {name!r}",
            place=subscription.place,
            remedy=did_you_mean(name, types) if types else "Write `for Consumer(id)`, or a number, such as 0.9.",
        )
    if not is_numeric(types[name]):
        raise QueryError(
            f"{subscription.name}: the threshold {name!r} is {types[name]}",
            place=subscription.place,
            remedy="Declare it as a number, such as double.",
        )


def _check_located(subscription: Subscription, graph: OperatorGraph) -> None:
    """What moves reads events by their place, so every stream that it reads has one."""
    focal = subscription.around.focal if subscription.around else None
    if subscription.consumer is None or subscription.consumer[0] != focal:
        raise QueryError(
            f"{subscription.name}: nobody is named who moves",
            place=subscription.place,
            remedy=f"Write `subscribe {subscription.name} for {focal}(id)`, with the attribute that names a consumer.",
        )
    needed = graph.needed(subscription.name)
    degrees = {stream.name: stream.degrees for stream in graph.streams if stream.name in needed or stream.name == focal}
    for name in degrees:
        if degrees[name] != degrees[focal]:
            units = {True: "degrees", False: "metres"}
            raise QueryError(
                f"{subscription.name}: places of {focal} are in {units[degrees[focal]]}, and those of {name} in "
                f"{units[degrees[name]]}",
                place=subscription.place,
                remedy="Give both the same unit: `at (longitude, latitude) in degrees`, or `at (x, y)` in metres.",
            )
    for stream in graph.streams:
        if stream.name in needed and stream.location is None:
            raise QueryError(
                f"{subscription.name} reads {stream.name} around {focal}, and {stream.name} has no location",
                place=subscription.place,
                remedy=f"Declare it: stream {stream.name}(...) ... at (x, y).",
            )


def _check_unique(names: Iterable[str], cause: str, place: Place | None) -> None:
    earlier: set[str] = set()
    for name in names:
        if name in earlier:
            raise QueryError(f"{cause} {name!r}", place=place, remedy="Give each its own name.")
        earlier.add(name)
