"""Whether interests of a moving subscription may share what is found (RECEP), and by which unit that is judged."""

from __future__ import annotations

from situ.graph.operators import Operator, OperatorGraph
from situ.graph.query import Subscription
from situ.graph.rule_properties import compares_matches, is_one_event


def asks_for_quality(subscription: Subscription) -> bool:
    """Whether it says how good is good enough, for results and not for `update when quality`."""
    quality, update = subscription.quality, subscription.update
    if subscription.around is None or quality is None or (quality.precision is None and quality.recall is None):
        return False
    return update is None or update.when != "quality"


def shared_step(graph: OperatorGraph, subscription: Subscription) -> Operator | None:
    """The one rule of a subscription that correlates events, and whose spans are judged; None: nothing is shared.

    Rules above it take its complex events one by one.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> graph = resolve(parse('''
    ...     stream A(v int, ts int) time ts in s
    ...     define Mean(v) aggr every 5 s detect A as a assign v = avg(a.v)
    ...     subscribe High detect Mean(v > 3) as m
    ...     subscribe Rising detect Mean as m then Mean(v > m.v) as n within 1 min
    ... '''))
    >>> [step.name if (step := shared_step(graph, s)) else None for s in graph.query.subscriptions]
    ['Mean', None]
    """
    if unshared_because(graph, subscription) is not None:
        return None
    return _operators(graph, subscription)[0]


def unshared_because(graph: OperatorGraph, subscription: Subscription) -> str | None:
    """What keeps consumers of a subscription from sharing, as a clause; None: they share.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> graph = resolve(parse('''
    ...     stream A(v int, ts int) time ts in s
    ...     define Pair(v) detect A as a then A as b within 5 s assign v = b.v after match skip past last
    ...     subscribe Pairs detect Pair as p
    ... '''))
    >>> unshared_because(graph, graph.query.subscriptions[0])
    'matches of Pair depend on each other'
    """
    operators = _operators(graph, subscription)
    for operator in operators:
        if compares_matches(operator.rule) is not None:
            return f"matches of {operator.name} depend on each other"
    names = {operator.name for operator in operators}
    for operator in operators:
        of_rules = names & {*operator.inputs}
        if of_rules and (len(operator.inputs) > 1 or not _takes_one_by_one(operator)):
            return f"{operator.name} correlates complex events, so that no one span of time is behind a result"
    return None


def _operators(graph: OperatorGraph, subscription: Subscription) -> list[Operator]:
    needed = graph.needed(subscription.name)
    return [operator for operator in graph.operators if operator.name in needed]


def _takes_one_by_one(operator: Operator) -> bool:
    """Whether each of its complex events is made of one event, and has its time."""
    return operator.rule.kind is None and all(is_one_event(case.detect) for case in operator.rule.cases)
