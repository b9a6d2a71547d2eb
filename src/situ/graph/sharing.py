"""Whether interests of a moving subscription may share what is found (RECEP)."""

from __future__ import annotations

from situ.graph.operators import OperatorGraph
from situ.graph.query import Subscription
from situ.graph.rule_properties import compares_matches


def asks_for_quality(subscription: Subscription) -> bool:
    """Whether it says how good is good enough, for results and not for `update when quality`."""
    quality, update = subscription.quality, subscription.update
    if subscription.around is None or quality is None or (quality.precision is None and quality.recall is None):
        return False
    return update is None or update.when != "quality"


def dependent(graph: OperatorGraph, subscription: Subscription) -> str | None:
    """A rule that a subscription needs, and whose matches depend on each other.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> graph = resolve(parse('''
    ...     stream A(v int, ts int) time ts in s
    ...     define Pair(v) detect A as a then A as b within 5 s assign v = b.v after match skip past last
    ...     subscribe Pairs detect Pair as p
    ... '''))
    >>> dependent(graph, graph.query.subscriptions[0])
    'Pair'
    """
    needed = graph.needed(subscription.name)
    return next((o.name for o in graph.operators if o.name in needed and compares_matches(o.rule) is not None), None)
