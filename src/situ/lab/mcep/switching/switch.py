"""A moving subscription, run as MCEP runs it: one operator graph for each consumer, switched with markers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from situ.core.errors import InputError, SituError, did_you_mean
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream, Subscription
from situ.io.rows.conform import conform
from situ.kernel.batch import Batch, as_timestamps
from situ.kernel.operator import Context, contexts_of, no_events
from situ.lab.mcep.switching.arrivals import Arrivals, arrivals_of, located
from situ.lab.mcep.switching.consumer_graph import ConsumerGraph, GraphTemplate
from situ.lab.mcep.switching.initialisation import Initialisation
from situ.lab.mcep.switching.messages import SwitchingCosts
from situ.lab.mcep.switching.provenance import Provenance
from situ.mobility.history import history_us
from situ.mobility.interests import BASIC, Interests, Updates, interests_of
from situ.space.event_store import Asking, EventStore, Region, StoredEvents, evict_before
from situ.space.geometry import Shape

#: Logs of events that readers have already are sent after so much time (t_s of MCEP, section 5.2).
LOG_EVERY_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Switched:
    """What came of it. `delivered`: attributes, consumer, interest and `_time`, for each consumer in spatiotemporal
    order. `expected_completeness`: the mean over all switches (None: nobody knows). `provenance` (on request): by
    consumer."""

    delivered: pa.Table
    counts: SwitchingCosts
    expected_completeness: float | None
    provenance: Mapping[object, Provenance]


def switch(
    graph: OperatorGraph,
    subscription_name: str,
    events: Mapping[str, pa.Table],
    *,
    initialisation: Initialisation = "basic",
    optimise: bool = True,
    deliver: Literal["complete", "best effort"] | None = None,
    per_arrival: int | None = None,
    log_every_us: int = LOG_EVERY_US,
    interests: Interests | None = None,
    provenance: bool = False,
    functions: Functions = default_functions,
) -> Switched:
    """Run a moving subscription over tables of events.

    `deliver`: as the subscription says, if it is not given. `per_arrival`: so many historical events are streamed while
    one event arrives; None: history takes no time. `interests`: in place of those that the subscription's update
    condition gives.

    >>> from situ.lang.parse import parse
    >>> from situ.lang.resolve import resolve
    >>> graph = resolve(parse('''
    ...     stream Car(id int, x double, y double, v int, ts int) time ts in s at (x, y)
    ...     stream Me(id int, x double, y double, ts int) time ts in s at (x, y)
    ...     subscribe Fast for Me(id) detect Car(v > 30) as c assign v = c.v around Me square 10 m lifetime 1 min
    ... '''))
    >>> cars = pa.table({"id": [1, 2], "x": [0.0, 20.0], "y": [0.0, 0.0], "v": [40, 50], "ts": [1, 2]})
    >>> me = pa.table({"id": [7, 7], "x": [0.0, 20.0], "y": [0.0, 0.0], "ts": [0, 9]})
    >>> switched = switch(graph, "Fast", {"Car": cars, "Me": me})
    >>> switched.delivered.select(["v", "consumer", "interest"]).to_pylist()
    [{'v': 40, 'consumer': 7, 'interest': 1}, {'v': 50, 'consumer': 7, 'interest': 2}]
    """
    subscription = _moving(graph, subscription_name)
    needed = graph.needed(subscription_name)
    contexts = contexts_of(graph, functions, provenance=True)
    complete = (deliver or subscription.deliver or "complete") == "complete"
    contexts = {name: context for name, context in contexts.items() if name in needed}
    plan = GraphTemplate(graph, subscription, contexts, initialisation, optimise, complete, per_arrival, log_every_us)
    places = {
        stream.name: _located(stream, events) for stream in graph.streams if _is_read(stream, subscription, needed)
    }
    if interests is None:
        interests = _interests(subscription, places)
    read = arrivals_of({name: places[name] for name in sorted(history_us(graph, subscription_name))})
    graphs = _run(plan, read, interests, provenance)
    counts = SwitchingCosts()
    for consumer_graph, _ in graphs.values():
        counts.add(consumer_graph.counts)
    expected = [share for consumer_graph, _ in graphs.values() for share in consumer_graph.expected]
    return Switched(
        _delivered(plan, {key: consumer_graph for key, (consumer_graph, _) in graphs.items()}, interests.consumer.type),
        counts,
        float(np.mean(expected)) if expected else None,
        {key: origins for key, (_, origins) in graphs.items() if origins is not None},
    )


def _is_read(stream: Stream, subscription: Subscription, needed: Collection[str]) -> bool:
    return stream.name in needed or (subscription.around is not None and stream.name == subscription.around.focal)


def _located(stream: Stream, events: Mapping[str, pa.Table]) -> StoredEvents:
    if stream.name not in events:
        raise InputError(f"no events for stream {stream.name}", remedy=did_you_mean(stream.name, events))
    return located(stream, conform(events[stream.name], stream))


def _moving(graph: OperatorGraph, name: str) -> Subscription:
    subscription_of = {
        subscription.name: subscription for subscription in graph.query.subscriptions if subscription.around
    }
    if name not in subscription_of:
        raise SituError(f"no moving subscription {name!r} in the query", remedy=did_you_mean(name, subscription_of))
    return subscription_of[name]


def _interests(subscription: Subscription, places: Mapping[str, StoredEvents]) -> Interests:
    assert subscription.around is not None, "it moves"
    assert subscription.consumer is not None, "resolved: somebody moves"
    update = subscription.update or BASIC
    if update.when == "quality":
        raise SituError(
            f"{subscription.name} is updated when quality says so, and nobody said when that is",
            remedy="Give the interests that the location monitor finds (mobility/monitor.py).",
        )
    focal = places[subscription.around.focal]
    updates = Updates(focal.batch.columns[subscription.consumer[1]], focal.batch.times, focal.x, focal.y)
    return interests_of(updates, update)


def _run(
    plan: GraphTemplate, arrivals: Arrivals, interests: Interests, provenance: bool
) -> dict[object, tuple[ConsumerGraph, Provenance | None]]:
    """Consumers switch in order of time. They share the event store."""
    store, stored = EventStore(), 0
    arrivals.store(store, 0, 0)
    assert plan.subscription.around is not None, "it moves"
    shape = Shape.of(plan.subscription.around)
    graphs: dict[object, tuple[ConsumerGraph, Provenance | None]] = {}
    consumers = interests.consumer.to_pylist()
    started = {key: int(interests.start_us[row]) for row, key in reversed([*enumerate(consumers)])}
    back_us = history_us(plan.graph, plan.subscription.name)
    for row in np.argsort(interests.start_us, kind="stable").tolist():
        key, start_us = consumers[row], int(interests.start_us[row])
        reached = arrivals.until(start_us)
        arrivals.store(store, stored, reached)
        stored = reached
        if key not in graphs:
            graph_provenance = Provenance(len(arrivals)) if provenance else None
            graphs[key] = ConsumerGraph(plan, store, arrivals, graph_provenance), graph_provenance
        region = Region(float(interests.x[row]), float(interests.y[row]), shape.half_x, shape.half_y, shape.is_round)
        graphs[key][0].switch_to(int(interests.number[row]), start_us, region)
        started[key] = start_us
        asking = Asking(min(started.values()), plan.subscription.lifetime_us or 0, back_us)
        for name, before_us in evict_before([asking]).items():
            store.evict(name, before_us)
    arrivals.store(store, stored, len(arrivals))
    for one, _ in graphs.values():
        one.close()
    return graphs


def _delivered(plan: GraphTemplate, graphs: Mapping[object, ConsumerGraph], type_: pa.DataType) -> pa.Table:
    """The delivered complex events by consumer (their values in order), each consumer's in the order of delivery."""
    context = plan.contexts[plan.subscription.name]
    tables = [_table(context, no_events(context), pa.scalar(None, type_), 0)]
    for key in sorted(graphs):  # type: ignore[type-var]
        for number, batch in graphs[key].consumer.delivered:
            tables.append(_table(context, batch, pa.scalar(key, type_), number))
    return pa.concat_tables(tables)


def _table(context: Context, batch: Batch, consumer: pa.Scalar, number: int) -> pa.Table:
    columns = {name: batch.columns[name] for name in context.operator.schema.names}
    columns |= {
        "consumer": pa.repeat(consumer, len(batch)),
        "interest": pa.repeat(pa.scalar(number, pa.int64()), len(batch)),
        "_time": as_timestamps(batch.times),
    }
    return pa.table(columns)
