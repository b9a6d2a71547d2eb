"""The operator graph as text: each operator with what it reads below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from situ.core.time import format_duration
from situ.graph.operators import Operator, OperatorGraph, Schema
from situ.graph.patterns import Absence, And, Contiguity, EventTest, Follow, Loop, Or, Pattern, Seq, Step
from situ.graph.query import (
    Aggregation,
    AttributeDeclaration,
    Case,
    From,
    Join,
    Pause,
    Rule,
    Skip,
    Stream,
    Window,
    Within,
)


def describe(graph: OperatorGraph) -> str:
    """What reads what, as trees with the results on top; an event type that stands above is not repeated.

    >>> from situ.core.types import INT
    >>> from situ.graph.query import AttributeDeclaration, Query, Subscription
    >>> stream = Stream("A", (AttributeDeclaration("n", INT),), time="n", time_unit="s")
    >>> rule = Rule((Case(Step(EventTest("A"), "a")),))
    >>> every_a = Operator("All", rule, Schema((("n", INT),)), ("A",), 1, Subscription("All", rule))
    >>> print(describe(OperatorGraph(Query(), (stream,), (every_a,))))
    subscription All(n int), depth 1
    │  filter     A as a
    └─ stream A(n int)
          time n in s
    """
    read = {name for operator in graph.operators for name in operator.inputs}
    roots = [item.name for item in (*graph.subscriptions, *graph.operators) if item.name not in read]
    roots += [stream.name for stream in graph.streams if stream.name not in read]
    described: set[str] = set()
    lines = (line for root in dict.fromkeys(roots) for line in _tree(root, graph, described))
    return "\n".join(lines)


def kind_of(rule: Rule) -> str:
    """One word for what an operator does."""
    match rule.kind:
        case Aggregation():
            return "aggregate"
        case Join():
            return "join"
        case None:
            kinds = {_pattern_kind(case.detect) for case in rule.cases}
            return kinds.pop() if len(kinds) == 1 else "cases"
        case _:
            assert_never(rule.kind)


def shape_of(pattern: Pattern) -> str:
    """A pattern in the words of the language, with `(..)` for conditions.

    >>> shape_of(Seq((Follow(Step(EventTest("A"), "a")), Absence(EventTest("B")))))
    'A as a then not B'
    """
    match pattern:
        case Step(test, silence_us=int(length)):
            name = f" as {pattern.alias}" if pattern.has_name else ""
            return f"no {_test(test)} for {format_duration(length)}{name}"
        case Step(test, alias, selector, outer):
            words = ["outer"] * outer + ([selector.value] if selector else []) + [_test(test)]
            return " ".join(words) + _alias(test, alias)
        case Loop(Step(test, alias, silence_us=None), _, _):
            return _test(test) + _times(pattern) + _alias(test, alias)
        case Loop(body):
            return f"({shape_of(body)}){_times(pattern)}"
        case Seq(parts):
            return "".join(_part(part, first=i == 0) for i, part in enumerate(parts))
        case And(steps):
            return " and ".join(map(shape_of, steps))
        case Or(alternatives):
            return " or ".join(map(shape_of, alternatives))
        case _:
            assert_never(pattern)


def window_of(rule: Rule, case: Case) -> str:
    """How far a case reads, as the language says it; empty where nothing limits it."""
    if rule.kind is not None:
        return _every(rule.kind.window)
    return "" if case.within is None else _within(case.within)


def schema_text(schema: Schema) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in schema.attributes)


def declaration_text(attribute: AttributeDeclaration) -> str:
    """`x double from position.x`."""
    return f"{attribute.name} {attribute.type}" + (f" from {attribute.column}" if attribute.path else "")


def _tree(name: str, graph: OperatorGraph, described: set[str]) -> Iterator[str]:
    if name in described:
        yield f"{name} (see above)"
        return
    described.add(name)
    operators = {operator.name: operator for operator in graph.operators}
    if name not in operators:
        (stream,) = (stream for stream in graph.streams if stream.name == name)
        yield f"stream {name}({', '.join(map(declaration_text, stream.attributes))})"
        yield f"   {stream_clauses(stream)}"
        return
    operator = operators[name]
    role = "definition" if operator.subscription is None else "subscription"
    yield f"{role} {name}({schema_text(operator.schema)}), depth {operator.depth}"
    yield from (f"│  {line}" for line in _operator(operator))
    for i, read in enumerate(operator.inputs):
        last = i == len(operator.inputs) - 1
        first, *further = _tree(read, graph, described)
        yield ("└─ " if last else "├─ ") + first
        yield from (("   " if last else "│  ") + line for line in further)


def _operator(operator: Operator) -> Iterator[str]:
    rule = operator.rule
    for case in rule.cases:
        window = window_of(rule, case)
        number = f"case {case.number}: " if case.number is not None else ""
        yield f"{kind_of(rule):<10} {number}{'once ' * case.once}{shape_of(case.detect)}" + (
            f" {window}" if window else ""
        )
        if case.consuming:
            yield f"consuming  {', '.join(case.consuming)}"
    if isinstance(rule.kind, Join):
        yield f"on         {', '.join(rule.kind.on)}"
    if rule.group_by:
        yield f"group by   {', '.join(rule.group_by)}"
    if isinstance(rule.after_match, Pause):
        yield f"pause      {format_duration(rule.after_match.micros)}"
    elif rule.after_match.skip is not Skip.NONE:
        target = f" {rule.after_match.alias}" if rule.after_match.alias else ""
        yield f"skip       {rule.after_match.skip.value}{target}"


def stream_clauses(stream: Stream) -> str:
    """`time ts, at (x, y), key vehicle`.

    >>> from situ.core.types import INT
    >>> attributes = (AttributeDeclaration("id", INT), AttributeDeclaration("ms", INT))
    >>> stream_clauses(Stream("Reading", attributes, time="ms", time_unit="ms", key="id", unique="id"))
    'time ms in ms, key id, unique id'
    """
    clauses = [f"time {stream.time}" + (f" in {stream.time_unit}" if stream.time_unit else "")]
    if stream.order:
        clauses.append(f"order {stream.order}" + " shared" * stream.shared)
    if stream.location:
        clauses.append(f"at ({', '.join(stream.location)})" + " in degrees" * stream.degrees)
    if stream.key:
        clauses.append(f"key {stream.key}")
    if stream.unique:
        clauses.append(f"unique {stream.unique}")
    if stream.watermark_us:
        clauses.append(f"watermark {format_duration(stream.watermark_us)}")
    if stream.idle_after_us is not None:
        clauses.append(f"idle after {format_duration(stream.idle_after_us)}")
    if stream.ahead_us is not None:
        clauses.append(f"ahead {format_duration(stream.ahead_us)}")
    return ", ".join(clauses)


def _pattern_kind(pattern: Pattern) -> str:
    match pattern:
        case Step(silence_us=silence_us):
            return "filter" if silence_us is None else "silence"
        case Loop():
            return "loop"
        case Seq():
            return "sequence"
        case And():
            return "and"
        case Or():
            return "or"
        case _:
            assert_never(pattern)


def _test(test: EventTest) -> str:
    return test.event_type + ("(..)" if test.condition is not None else "")


def _alias(test: EventTest, alias: str) -> str:
    return "" if alias == test.event_type else f" as {alias}"


def _times(loop: Loop) -> str:
    match loop.low, loop.high:
        case 1, None:
            times = "+"
        case 0, None:
            times = "*"
        case 0, 1:
            times = "?"
        case low, None:
            times = f"{{{low},}}"
        case low, high:
            times = f"{{{low}}}" if low == high else f"{{{low},{high}}}"
    inner = {Contiguity.NEXT: "", Contiguity.EACH: " each", Contiguity.IMMEDIATELY: " immediately"}[loop.inner]
    return times + inner + " greedy" * loop.greedy + (f" until {_test(loop.until)}" if loop.until else "")


def _part(part: Follow | Absence, *, first: bool) -> str:
    if isinstance(part, Absence):
        return f" then not {'immediately ' * part.immediately}{_test(part.test)}"
    grouped = isinstance(part.pattern, Seq | Or)
    text = f"({shape_of(part.pattern)})" if grouped else shape_of(part.pattern)
    return text if first else f" {part.contiguity.value} {text}"


def _within(within: Within) -> str:
    start = within.anchor.value if isinstance(within.anchor, From) else within.anchor
    return f"within {format_duration(within.micros)}" + ("" if within.anchor is From.FIRST else f" from {start}")


def _every(window: Window) -> str:
    def length(amount: int) -> str:
        return format_duration(amount) if window.unit == "time" else f"{amount} events"

    over = "" if window.over == window.every else f" over {length(window.over)}"
    return f"every {length(window.every)}{over}"
