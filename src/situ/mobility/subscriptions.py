"""Which subscriptions move, and where they cannot."""

from __future__ import annotations

from situ.core.errors import QueryError
from situ.graph.operators import OperatorGraph
from situ.graph.query import Subscription


def moving(graph: OperatorGraph) -> tuple[Subscription, ...]:
    """Subscriptions around something that moves.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> text = '''
    ...     stream Car(id int, x double, y double, ts int) time ts in s at (x, y)
    ...     subscribe Near for Car(id) detect Car(x > 0) as a around Car circle 50 m
    ...     subscribe All detect Car(x > 0) as a
    ... '''
    >>> [subscription.name for subscription in moving(resolve(parse(text)))]
    ['Near']
    """
    return tuple(s for s in graph.query.subscriptions if s.around is not None)


def refuse_moving(graph: OperatorGraph) -> None:
    """An error, where moving subscriptions do not run: on Spark, and on unbounded input."""
    for subscription in moving(graph):
        raise QueryError(
            f"{subscription.name} moves (`around`), and runs with the embedded engine on bounded input only",
            place=subscription.place,
            remedy="Run it with `situ run --engine embedded`, or Engine.run.",
        )
