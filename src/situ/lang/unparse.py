"""Query to text: canonical, laid out as in docs/language.md, and `parse(unparse(query)) == query`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from situ.core.time import format_duration
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
    Stream,
    Subscription,
    Update,
    Window,
    Within,
)
from situ.lang.unparse_expression import unparse_expression, unparse_name
from situ.lang.unparse_pattern import outer_parts, unparse_pattern

__all__ = [
    "unparse",
    "unparse_attribute",
    "unparse_expression",
    "unparse_name",
    "unparse_pattern",
    "unparse_stream_clauses",
]

LINE_LENGTH = 100
INDENT = "\n" + " " * 11  # under the first word after `  detect   `


def unparse(query: Query) -> str:
    """The query as text: streams, definitions, subscriptions.

    >>> from situ.lang.parse import parse
    >>> print(unparse(parse("SUBSCRIBE Hot detect ( Room(degrees>30) as r ) ASSIGN room=r.room")), end="")
    subscribe Hot
      detect   Room(degrees > 30) as r
      assign   room = r.room
    """
    statements = [
        *map(_stream, query.streams),
        *map(_definition, query.definitions),
        *map(_subscription, query.subscriptions),
    ]
    return "\n\n".join("\n  ".join(lines) for lines in statements) + ("\n" if statements else "")


# ---- streams


def _stream(stream: Stream) -> list[str]:
    declarations = ", ".join(map(unparse_attribute, stream.attributes))
    return [f"stream {unparse_name(stream.name)}({declarations})", "  ".join(unparse_stream_clauses(stream))]


def unparse_attribute(attribute: AttributeDeclaration) -> str:
    """`speed double`, as it stands in the declaration of a stream."""
    source = f" from {'.'.join(map(unparse_name, attribute.path))}" if attribute.path else ""
    return f"{unparse_name(attribute.name)} {attribute.type}{source}"


def unparse_stream_clauses(stream: Stream) -> Iterator[str]:
    """`time ts`, `at (x, y)` and the others, each by itself."""
    yield f"time {unparse_name(stream.time)}" + (f" in {stream.time_unit}" if stream.time_unit else "")
    if stream.order is not None:
        yield f"order {unparse_name(stream.order)}" + " shared" * stream.shared
    if stream.location is not None:
        yield f"at ({_names(stream.location)})" + " in degrees" * stream.degrees
    if stream.key is not None:
        yield f"key {unparse_name(stream.key)}"
    if stream.unique is not None:
        yield f"unique {unparse_name(stream.unique)}"
    if stream.watermark_us:
        yield f"watermark {format_duration(stream.watermark_us)}"
    if stream.idle_after_us is not None:
        yield f"idle after {format_duration(stream.idle_after_us)}"
    if stream.ahead_us is not None:
        yield f"ahead {format_duration(stream.ahead_us)}"


# ---- definitions and subscriptions


def _definition(definition: Definition) -> list[str]:
    head = f"define {unparse_name(definition.name)}({_names(definition.attributes)})"
    return [head, *_rule(definition.rule)]


def _subscription(subscription: Subscription) -> list[str]:
    if subscription.sequence is not None and subscription.subscriber is not None and subscription.actor is not None:
        parties = f"from {unparse_name(subscription.subscriber)} to {unparse_name(subscription.actor)}"
        head = f"Subscription seq {subscription.sequence} {parties}"
    else:
        head = f"subscribe {unparse_name(subscription.name)}"
    if subscription.consumer is not None:
        consumer, key = subscription.consumer
        head += f" for {unparse_name(consumer)}({unparse_name(key)})"
    return [head, *_rule(subscription.rule), *_interest(subscription)]


def _rule(rule: Rule) -> Iterator[str]:
    match rule.kind:
        case Aggregation(window, post):
            yield f"aggr {_window(window)}"
        case Join(window, on):
            yield f"join {_window(window)} on {_names(on)}"
            post = ()
        case None:
            post = ()
        case _:
            assert_never(rule.kind)
    if post:
        yield "< pre >"
    for case in rule.cases:
        yield from _case(case)
    if post:
        yield "< post >"
        yield _listed("where", map(_assignment, post))
    if rule.group_by:
        yield f"group by {_names(rule.group_by)}"
    if rule.after_match != AfterMatch():
        yield _after_match(rule.after_match)
    if rule.timed_out:
        yield "report timed out"


def _window(window: Window) -> str:
    def length(amount: int) -> str:
        return format_duration(amount) if window.unit == "time" else f"{amount} events"

    return f"every {length(window.every)}" + (f" over {length(window.over)}" if window.over != window.every else "")


def _case(case: Case) -> Iterator[str]:
    if case.number is not None:
        yield f"case {case.number}:"
    within = f" {_within(case.within)}" if case.within else ""
    once = "once " * case.once
    detect = f"detect   {once}{unparse_pattern(case.detect)}{within}"
    # A long pattern has one line for each of its outermost parts.
    yield detect if len(detect) <= LINE_LENGTH else f"detect   {once}{INDENT.join(outer_parts(case.detect))}{within}"
    if case.assign:
        yield _listed("assign", map(_assignment, case.assign))
    if case.consuming:
        yield f"consuming {_names(case.consuming)}"


def _within(within: Within) -> str:
    length = f"within {format_duration(within.micros)}"
    match within.anchor:
        case From.FIRST:
            return length
        case From.PREVIOUS:
            return f"{length} from previous"
        case str() as alias:
            return f"{length} from {unparse_name(alias, frozenset({'previous'}))}"
        case _:
            assert_never(within.anchor)


def _assignment(assignment: Assignment) -> str:
    return f"{unparse_name(assignment.name)} = {unparse_expression(assignment.expression)}"


def _after_match(after: AfterMatch | Pause) -> str:
    if isinstance(after, Pause):
        return f"after match pause {format_duration(after.micros)}"
    alias = f" {unparse_name(after.alias)}" if after.alias is not None else ""
    return f"after match skip {after.skip.value}{alias}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(unparse_name, names))


def _listed(word: str, items: Iterable[str]) -> str:
    """The clause on one line, or one line for each item."""
    texts = list(items)
    line = f"{word:<8} {', '.join(texts)}"
    return line if len(line) <= LINE_LENGTH else f"{word:<8} {(',' + INDENT).join(texts)}"


# ---- what only a subscription has


def _interest(subscription: Subscription) -> Iterator[str]:
    if subscription.around is not None:
        yield _around(subscription.around)
    if subscription.lifetime_us is not None:
        yield f"lifetime {format_duration(subscription.lifetime_us)}"
    if subscription.update is not None:
        yield _update(subscription.update)
    if subscription.leave_when is not None:
        yield f"leave    when {unparse_expression(subscription.leave_when)}"
    if subscription.leave_after_us is not None:
        yield f"leave    after {format_duration(subscription.leave_after_us)}"
    if subscription.deliver is not None:
        yield f"deliver  {subscription.deliver}"
    if subscription.quality is not None:
        yield _quality(subscription.quality)
    if subscription.demands:
        yield _listed("demand", map(unparse_demand, subscription.demands))


def _around(around: Around) -> str:
    sizes = " x ".join(f"{_number(size)} m" for size in around.sizes_m)
    return f"around   {unparse_name(around.focal)} {around.shape} {sizes}"


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def _update(update: Update) -> str:
    match update.when, update.amount:
        case "every", int() as micros:
            return f"update   every {format_duration(micros)}"
        case "moved", int() | float() as metres:
            return f"update   moved {_number(metres)} m"
        case "quality", _:
            return "update   when quality"
        case when, _:
            return f"update   {when}"


def _quality(quality: Quality) -> str:
    measures = (("precision", quality.precision), ("recall", quality.recall), ("disparity", quality.disparity))
    return "quality  " + " ".join(f"{name} {_threshold(value)}" for name, value in measures if value is not None)


def _threshold(value: float | str) -> str:
    return unparse_name(value) if isinstance(value, str) else _number(value)


def unparse_demand(demand: Demand) -> str:
    """
    >>> unparse_demand(Demand("overhead", 1500)), unparse_demand(Demand("hops", 3))
    ('overhead < 1500 B', 'hops < 3')
    """
    match demand.metric:
        case "latency":
            return f"latency < {format_duration(int(demand.limit))}"
        case "overhead":
            for unit, size in (("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000)):
                if demand.limit and demand.limit % size == 0:
                    return f"overhead < {int(demand.limit) // size} {unit}"
            return f"overhead < {int(demand.limit)} B"
        case "load" | "hops" | "bandwidth-delay":
            return f"{demand.metric} < {_number(demand.limit)}"
