"""What a person should know about a query that is well formed: nothing is ignored in silence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from situ.graph.operators import Operator, OperatorGraph
from situ.graph.patterns import And, Follow, Loop, Or, Pattern, Seq, Step
from situ.graph.query import Subscription
from situ.graph.sharing import asks_for_quality, dependent


def warnings(graph: OperatorGraph) -> tuple[str, ...]:
    """One sentence for each thing that is allowed and probably not meant."""
    return (*_unbounded(graph), *_unused(graph), *unsupported_clauses(graph))


def has_unbounded_state(operator: Operator) -> bool:
    """Whether a pattern of several slots has no `within`: on unbounded input its state would grow for ever."""
    return operator.rule.kind is None and any(
        case.within is None and _has_several_slots(case.detect) for case in operator.rule.cases
    )


def unsupported_clauses(graph: OperatorGraph) -> tuple[str, ...]:
    """One sentence for each clause that is read and checked and has no effect."""
    return tuple(
        f"subscription {subscription.name}: `{clause}` has no effect: {effect}."
        for subscription in graph.query.subscriptions
        for clause, effect in _clauses_without_effect(graph, subscription)
    )


def _clauses_without_effect(graph: OperatorGraph, subscription: Subscription) -> Iterator[tuple[str, str]]:
    if subscription.around is None:
        if subscription.consumer is not None:
            yield "for", "without `around`, there is one result for all consumers"
        for clause, given in (
            ("lifetime", subscription.lifetime_us),
            ("update", subscription.update),
            ("deliver", subscription.deliver),
        ):
            if given is not None:
                yield clause, "without `around`, nothing moves"
    if (quality := subscription.quality) is not None:
        if subscription.around is None:
            yield "quality", "without `around`, results are always exact"
        elif quality.precision is None and quality.recall is None:
            yield "quality", "what is shared is judged by `precision` and `recall`, and neither is given"
        elif asks_for_quality(subscription) and (name := dependent(graph, subscription)) is not None:
            yield "quality", f"matches of {name} depend on each other, so interests do not share them"
    if subscription.demands:
        yield "demand", "`situ plan` looks at it, an engine does not"


def _unbounded(graph: OperatorGraph) -> Iterator[str]:
    for operator in graph.operators:
        if has_unbounded_state(operator):
            yield (
                f"{operator.name}: a pattern of several events without `within` keeps every event: "
                "it runs on bounded input, and is refused on unbounded input."
            )


def _unused(graph: OperatorGraph) -> Iterator[str]:
    if not graph.subscriptions:
        yield "nothing is subscribed to: the query has no results."
        return
    used: set[str] = set()
    for operator in reversed(graph.operators):  # readers come after what they read
        if operator.subscription is not None or operator.name in used:
            used.update(operator.inputs)
    for operator in graph.operators:
        if operator.subscription is None and operator.name not in used:
            yield f"definition {operator.name} feeds no subscription."


def _has_several_slots(pattern: Pattern) -> bool:
    match pattern:
        case Step():
            return False
        case Loop(body, high=high):
            return high != 1 or _has_several_slots(body)
        case Seq(parts):
            # A sequence of one positive part and an absence at the end has `within`, or is refused.
            return sum(isinstance(part, Follow) for part in parts) > 1 or any(
                _has_several_slots(part.pattern) for part in parts if isinstance(part, Follow)
            )
        case And(steps):
            return len(steps) > 1
        case Or(alternatives):
            return any(map(_has_several_slots, alternatives))
        case _:
            assert_never(pattern)
