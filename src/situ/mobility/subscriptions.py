"""Which subscriptions move, and what remains of a query without them."""

from __future__ import annotations

from dataclasses import replace

from situ.core.errors import QueryError
from situ.core.functions import Functions
from situ.graph.operators import OperatorGraph
from situ.graph.query import Subscription
from situ.lang.resolve import resolve


def moving(graph: OperatorGraph) -> tuple[Subscription, ...]:
    """Subscriptions around something that moves.

    >>> from situ.lang.parse import parse
    >>> text = '''
    ...     stream Car(id int, x double, y double, ts int) time ts in s at (x, y)
    ...     subscribe Near for Car(id) detect Car(x > 0) as a around Car circle 50 m
    ...     subscribe All detect Car(x > 0) as a
    ... '''
    >>> [subscription.name for subscription in moving(resolve(parse(text)))]
    ['Near']
    """
    return tuple(s for s in graph.query.subscriptions if s.around is not None)


def without_moving(graph: OperatorGraph, functions: Functions) -> OperatorGraph:
    """The same streams and definitions, and the subscriptions that stay where they are."""
    stays = tuple(s for s in graph.query.subscriptions if s.around is None)
    return (
        resolve(replace(graph.query, subscriptions=stays), functions)
        if len(stays) < len(graph.query.subscriptions)
        else graph
    )


def refuse_moving(graph: OperatorGraph) -> None:
    """An error, where moving subscriptions do not run: on Spark, and on unbounded input."""
    for subscription in moving(graph):
        raise QueryError(
            f"{subscription.name} moves (`around`), and runs with the embedded engine on bounded input only",
            place=subscription.place,
            remedy="Run it with `situ run --engine embedded`, or Engine.run.",
        )
