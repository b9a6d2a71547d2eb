"""Which operators preserve locality: what they make of some events, they make of more events, too (MCEP, section 5.2).

For any events E and more events E', all that comes out for E comes out for E'. So a complex event that lies in the
overlap of two interests is one of both. That holds where a match is judged by its own events alone: single
events, `and`, `then each`, loops `each`, and window joins. It does not hold where other events have a say: `then` takes
the first event that fits, `then immediately` the very next one, `not`, `until` and `greedy` ask for events that are not
there, selectors, `consuming` and `after match` compare matches, and aggregates sum up all events of a window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from situ.graph.operators import Operator, OperatorGraph
from situ.graph.patterns import Absence, And, Contiguity, Follow, Loop, Or, Pattern, Seq, Step
from situ.graph.query import AfterMatch, Aggregation, Case, Join, Rule


def preserves_locality(graph: OperatorGraph, name: str) -> bool:
    """Whether an event type preserves locality, with all that it is made of; streams do.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> graph = resolve(parse('''
    ...     stream A(v int, ts int) time ts in s
    ...     define Fast(v) detect A(v > 3)
    ...     define Mean(v) aggr every 5 s detect A assign v = sum(A.v)
    ...     subscribe One detect Fast as a then each Fast as b within 5 s
    ...     subscribe Two detect Fast as a then each Mean as b within 5 s
    ... '''))
    >>> preserves_locality(graph, "One"), preserves_locality(graph, "Two")
    (True, False)
    """
    needed = graph.needed(name)
    return not any(why_not_local(operator) for operator in graph.operators if operator.name in needed)


def why_not_local(operator: Operator) -> str | None:
    """The first reason why an operator by itself does not preserve locality, if there is one.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> graph = resolve(parse('''
    ...     stream A(v int, ts int) time ts in s
    ...     subscribe Pair detect A as a then A(v > a.v) as b within 5 s
    ... '''))
    >>> why_not_local(graph.operators[0])
    '`then` takes the first event that fits'
    """
    return next(_reasons(operator.rule), None)


def _reasons(rule: Rule) -> Iterator[str]:
    match rule.kind:
        case Aggregation():
            yield "an aggregate is over all events of its window"
        case Join():
            return
        case None:
            if rule.after_match != AfterMatch():
                yield "`after match` compares matches"
            for case in rule.cases:
                yield from _reasons_of_case(case)
        case _:
            assert_never(rule.kind)


def _reasons_of_case(case: Case) -> Iterator[str]:
    if case.once:
        yield "`detect once` compares matches"
    if case.consuming:
        yield "`consuming` compares matches"
    yield from _reasons_of_pattern(case.detect)


def _reasons_of_pattern(pattern: Pattern) -> Iterator[str]:
    match pattern:
        case Step(selector=selector):
            if selector is not None:
                yield "selectors compare matches"
        case And(either) | Or(either):
            for one in either:
                yield from _reasons_of_pattern(one)
        case Loop(body, _, high, inner):
            if pattern.until is not None or pattern.greedy:
                yield "`until` and `greedy` ask for what is not there"
            if inner is not Contiguity.EACH and high != 1:
                yield _reason_of(inner)
            yield from _reasons_of_pattern(body)
        case Seq(parts):
            yield from _reasons_of_sequence(parts)
        case _:
            assert_never(pattern)


def _reasons_of_sequence(parts: tuple[Follow | Absence, ...]) -> Iterator[str]:
    for number, part in enumerate(parts):
        if isinstance(part, Absence):
            yield "`not` asks for what is not there"
            continue
        contiguity = part.contiguity
        if number > 0 and contiguity is not Contiguity.EACH and not _reads_all(contiguity, part.pattern):
            yield _reason_of(contiguity)
        yield from _reasons_of_pattern(part.pattern)


def _reads_all(contiguity: Contiguity, pattern: Pattern) -> bool:
    """`then (A and B)` reads every combination."""
    return contiguity is Contiguity.NEXT and isinstance(pattern, And)


def _reason_of(contiguity: Contiguity) -> str:
    if contiguity is Contiguity.IMMEDIATELY:
        return "`immediately` takes the very next event"
    return "`then` takes the first event that fits"
