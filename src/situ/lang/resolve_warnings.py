"""What a person should know about a query that is well formed: nothing is ignored in silence."""

from __future__ import annotations

from collections.abc import Iterator

from situ.core.time import format_duration
from situ.graph.operators import OperatorGraph
from situ.graph.patterns import steps_before
from situ.graph.query import From, Subscription
from situ.graph.rule_properties import free_choices, lacks_window, marks_every_key, windows_of_event
from situ.graph.sharing import asks_for_quality, unshared_because


def warnings(graph: OperatorGraph) -> tuple[str, ...]:
    """One sentence for each thing that is allowed and probably not meant."""
    return (
        *_unbounded(graph), *_late_anchors(graph), *_costly(graph), *_unused(graph), *unsupported_clauses(graph),
    )  # fmt: skip


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
        for clause, value in (
            ("lifetime", subscription.lifetime_us),
            ("update", subscription.update),
            ("leave when", subscription.leave_when),
            ("leave after", subscription.leave_after_us),
            ("deliver", subscription.deliver),
        ):
            if value is not None:
                yield clause, "without `around`, nothing moves"
    if (quality := subscription.quality) is not None:
        if subscription.around is None:
            yield "quality", "without `around`, results are always exact"
        elif quality.precision is None and quality.recall is None:
            yield "quality", "what is shared is judged by `precision` and `recall`, and neither is given"
        elif asks_for_quality(subscription) and (reason := unshared_because(graph, subscription)) is not None:
            yield "quality", f"{reason}: interests do not share"
    for metric in dict.fromkeys(demand.metric for demand in subscription.demands):
        if metric != "latency":
            yield f"demand {metric}", "it means nothing in one process: `situ plan` and sites look at it"


def _unbounded(graph: OperatorGraph) -> Iterator[str]:
    for operator in graph.operators:
        if lacks_window(operator):
            yield (
                f"{operator.name}: a pattern of several events without `within` keeps every event: "
                "it runs on bounded input, and is refused on unbounded input."
            )
        if marks_every_key(operator):
            yield (
                f"{operator.name}: `detect once` with `group by` keeps a mark for every key: "
                "it runs on bounded input, and is refused on unbounded input."
            )


#: Windows of one event from which on a person should know of them.
MANY_WINDOWS = 10_000
#: Steps after which every combination of events is a match, from which on a person should know of it.
MANY_CHOICES = 3


def _costly(graph: OperatorGraph) -> Iterator[str]:
    """What is computed may be far more than what is read."""
    for operator in graph.operators:
        if (windows := windows_of_event(operator.rule)) >= MANY_WINDOWS:
            yield (
                f"{operator.name}: every event lies in {windows:,} windows, each of which gives a result: "
                "let windows begin less often."
            )
        if (choices := max(free_choices(case.detect) for case in operator.rule.cases)) >= MANY_CHOICES:
            yield (
                f"{operator.name}: of n events in its window there may be as many matches as n to the power of "
                f"{choices + 1}, because {choices} steps take each event that fits: shorten the window, group by a "
                "key, or say `then` instead of `then each`."
            )


def _late_anchors(graph: OperatorGraph) -> Iterator[str]:
    """`within T from d` holds all events in [d, d + T]: what stands before d has hardly room."""
    for operator in graph.operators:
        for case in operator.rule.cases:
            if case.within is None or isinstance(case.within.anchor, From):
                continue
            anchor, length = case.within.anchor, format_duration(case.within.micros)
            earlier = [step.alias for step in steps_before(case.detect, anchor)]
            if earlier:
                yield (
                    f"{operator.name}: `within {length} from {anchor}` takes no event before {anchor}: "
                    f"{' and '.join(earlier)} can only have the very time of {anchor}. "
                    f"Write `within {length} from previous`, or define what ends with {anchor}, and begin with that: "
                    f"`detect Defined as {anchor} then ... within {length}`."
                )


def _unused(graph: OperatorGraph) -> Iterator[str]:
    if not graph.subscriptions:
        definitions = [operator.name for operator in graph.operators]
        read = definitions[-1] if definitions else "..."
        shown = ", or ask for the definitions (show_definitions=True)" if definitions else ""
        yield f"nothing is subscribed to, so there are no results: add `subscribe Name detect {read}`{shown}."
        return
    read_names: set[str] = set()
    for operator in reversed(graph.operators):  # readers come after what they read
        if operator.subscription is not None or operator.name in read_names:
            read_names.update(operator.inputs)
    for operator in graph.operators:
        if operator.subscription is None and operator.name not in read_names:
            yield f"definition {operator.name} feeds no subscription."
