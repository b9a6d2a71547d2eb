"""One consumer's operator graph: range queries, operators and the streams between them (MCEP, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.time import END
from situ.graph.operators import OperatorGraph
from situ.graph.query import Subscription
from situ.kernel.arrays import I64
from situ.kernel.batch import Batch, concat
from situ.kernel.operator import Context, no_events
from situ.lab.mcep.switching.arrivals import Arrivals
from situ.lab.mcep.switching.buffer import NUMBER, Buffer, Numbering, whole_numbers
from situ.lab.mcep.switching.host import OperatorHost
from situ.lab.mcep.switching.initialisation import EndingInterest, History, Initialisation, WindowHistory, basic_history
from situ.lab.mcep.switching.locality import preserves_locality
from situ.lab.mcep.switching.messages import EventChannel, Marker, SwitchingCosts
from situ.lab.mcep.switching.outgoing import ToConsumer, ToReaders
from situ.lab.mcep.switching.provenance import Provenance
from situ.lab.mcep.switching.range_query import RangeQuery
from situ.mobility.history import history_us
from situ.space.event_store import EventStore, Region

#: No place is in it: the region of the interest that ends the last one.
NOWHERE = Region(np.nan, np.nan, 0.0, 0.0, False)


@dataclass(frozen=True, slots=True)
class GraphTemplate:
    """What the graphs of all consumers of a subscription have in common.

    `per_arrival`: so many historical events are streamed while one event arrives; None: history takes no time.
    """

    graph: OperatorGraph
    subscription: Subscription
    contexts: Mapping[str, Context]
    initialisation: Initialisation
    optimise: bool
    complete: bool
    per_arrival: int | None
    log_every_us: int


class ConsumerGraph:
    """The graph starts with its first interest, and is switched from one to the next."""

    def __init__(
        self, plan: GraphTemplate, store: EventStore, arrivals: Arrivals, provenance: Provenance | None = None
    ) -> None:
        self._plan, self._store, self._arrivals = plan, store, arrivals
        self.counts, self._provenance = SwitchingCosts(), provenance
        self._next_number = len(arrivals)
        self._basic = basic_history(plan.graph, plan.subscription.name)
        self._windows = WindowHistory(plan.graph, plan.subscription.name, plan.contexts)
        self.expected: list[float] = []
        self.consumer = ToConsumer(plan.subscription.lifetime_us or 0, self.counts)
        producers = {name: self._to_readers(name, arrivals.streams[name].batch) for name in self._basic.back_us}
        self._queries = [RangeQuery(name, store, outgoing) for name, outgoing in producers.items()]
        self._hosts = []
        for name, context in plan.contexts.items():
            links = [EventChannel(read, name, producers[read].buffer, self.counts) for read in context.operator.inputs]
            for link in links:
                producers[link.producer].links.append(link)
            outgoing: ToReaders | ToConsumer = self.consumer
            if name != plan.subscription.name:
                outgoing = producers[name] = self._to_readers(name, no_events(context))
            self._hosts.append(
                OperatorHost(context, links, outgoing, self.counts, provenance,
                             optimise=plan.optimise, complete=plan.complete)
            )  # fmt: skip
        self._producers = producers
        self._interest: Marker | None = None
        self._at = 0  # arrivals that have been read
        self._began_at, self._streamed = 0, 0
        self._is_switching = False

    def _to_readers(self, name: str, events: Batch) -> ToReaders:
        is_stream = name not in self._plan.contexts
        empty = events.take(np.zeros(0, np.int64))
        buffer = Buffer.empty(Batch(empty.times, empty.columns | {NUMBER: pa.array([], pa.int64())}))
        back_us = {name: 0} if is_stream else history_us(self._plan.graph, name)
        return ToReaders(
            buffer,
            None if is_stream else Numbering(self._fresh),
            self._provenance,
            optimise=self._plan.optimise,
            history_us=back_us if preserves_locality(self._plan.graph, name) else None,
            log_every_us=self._plan.log_every_us,
        )

    def _fresh(self, count: int) -> I64:
        self._next_number += count
        return np.arange(self._next_number - count, self._next_number)

    # --- switching

    def switch_to(self, number: int, start_us: int, region: Region) -> None:
        """The consumer is elsewhere. All events up to `start_us` have arrived."""
        self._arrive_until(self._arrivals.until(start_us))
        self._end_interest(start_us)
        history = self._history(start_us)
        since_us = start_us - (self._plan.subscription.lifetime_us or 0)
        points = {name: since_us - back_us for name, back_us in history.back_us.items()}
        if self._plan.initialisation == "none":
            points, history = dict.fromkeys(points, start_us), History({}, None)
        self._interest = Marker(number, start_us, region, points)
        for query in self._queries:
            query.begin(self._interest, start_us)
        if history.expected_completeness is not None:
            self.expected.append(history.expected_completeness)
        self.counts.switches += 1
        self._began_at, self._streamed, self._is_switching = self._at, 0, True
        self._arrive_until(self._at)

    def close(self) -> None:
        """No event and no interest will follow: the last one ends with the input, complete."""
        self._arrive_until(len(self._arrivals))
        if self._is_switching:
            self._go_live()
        end = Marker(0, END, NOWHERE, dict.fromkeys(self._basic.back_us, END), is_end=True)
        for query in self._queries:
            query.outgoing.begin(end)
        self._work()

    def _end_interest(self, start_us: int) -> None:
        """To be complete, stream all that is of the old interest first. Best effort lets go what is not through yet."""
        if self._interest is None:
            return
        if self._plan.complete and self._is_switching:
            self._go_live()
        elif not self._plan.complete and not self._is_switching:
            self._progress(start_us + 1)

    def _history(self, start_us: int) -> History:
        if self._plan.initialisation != "windows" or self._interest is None:
            return self._basic
        region = self._interest.region
        since_us = self._interest.start_us - (self._plan.subscription.lifetime_us or 0)

        def recent(event_type: str) -> Batch | None:
            """The events of a stream in the old region, or what an operator made for the old interest."""
            if event_type in self._basic.back_us:
                return self._store.inside(event_type, since_us - self._basic.back_us[event_type], start_us, region)
            produced = self._producers[event_type].buffer.now
            return concat(produced) if produced else None

        return self._windows.estimate(EndingInterest(since_us, recent))

    # --- arrivals

    def _arrive_until(self, end: int) -> None:
        """Events arrive, up to the number `end`. While history is streamed, they are buffered."""
        if self._interest is not None:
            if self._is_switching:
                self._switch_while_arriving(end)
            if not self._is_switching:
                self._arrive(end)
        self._at = end

    def _switch_while_arriving(self, end: int) -> None:
        waiting = sum(len(query.history_times_us) for query in self._queries)
        per_arrival = self._plan.per_arrival
        needed = 0 if per_arrival is None else -(-(self._streamed + waiting) // per_arrival)
        through = min(end, self._began_at + needed)
        self._arrive(through)
        if self._began_at + needed <= end:
            self._go_live()
        elif per_arrival is not None:
            self._stream_history(per_arrival * (through - self._began_at) - self._streamed)

    def _arrive(self, end: int) -> None:
        if self._at == end:
            return
        first_us, last_us = (int(self._arrivals.times_us[k]) for k in (self._at, end - 1))
        for query in self._queries:
            stored = self._store.located(query.stream, first_us, last_us)
            numbers = whole_numbers(stored.batch, NUMBER) if len(stored) else np.zeros(0, np.int64)
            new = stored.take(np.flatnonzero((numbers >= self._at) & (numbers < end)))
            if len(new):
                query.arrive(new.batch, new.x, new.y, is_switching=self._is_switching)
        self._at = end

    def _stream_history(self, most: int) -> None:
        """The next historical events of all streams, by time."""
        waiting = [query.history_times_us for query in self._queries]
        times, of_query = np.concatenate(waiting), np.repeat(np.arange(len(waiting)), [len(w) for w in waiting])
        order = np.argsort(times, kind="stable")
        shares = np.bincount(of_query[order[:most]], minlength=len(waiting))
        for query, share in zip(self._queries, shares, strict=True):
            query.stream_history(int(share))
        self._streamed += min(most, len(times))
        if most < len(times):
            self._progress(int(times[order[most]]))

    def _go_live(self) -> None:
        """History is through to the last event, then comes what arrived meanwhile."""
        assert self._interest is not None, "an interest has begun"
        self._stream_history(len(self._arrivals))
        self._progress(self._interest.start_us + 1)
        for query in self._queries:
            query.stream_buffered()
        self._is_switching = False

    def _progress(self, before_us: int) -> None:
        for query in self._queries:
            query.outgoing.progress(before_us)
        self._work()

    def _work(self) -> None:
        for host in self._hosts:
            host.work()
