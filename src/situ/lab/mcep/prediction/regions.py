"""The events of a moving query's streams in one order of time, and what an operator graph makes of a region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from situ.core.errors import QueryError
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream
from situ.io.rows.conform import conform
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import in_total_order
from situ.kernel.operator import tie_attributes
from situ.lab.mcep.switching.arrivals import located
from situ.mobility.moving_query import INTEREST, ORDER, MovingQuery, moving_queries
from situ.runtime.embedded.engine import Engine
from situ.space.event_store import StoredEvents
from situ.space.geometry import Shape


@dataclass(frozen=True, slots=True)
class Processing:
    """A region that a graph processes: around a place, for an interest from its start to that of the next one."""

    x: float
    y: float
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class QueryEvents:
    """A moving query with its events: those of all streams that it reads, by time. Event k is row `rows[k]` of stream
    number `codes[k]`."""

    query: MovingQuery
    shape: Shape
    streams: Mapping[str, StoredEvents]
    times_us: I64
    x: F64
    y: F64
    codes: I64
    rows: I64

    @classmethod
    def of(cls, graph: OperatorGraph, tables: Mapping[str, pa.Table]) -> QueryEvents:
        """Tables by the name of the stream."""
        queries = moving_queries(graph)
        if len(queries) != 1:
            raise QueryError(
                f"the query has {len(queries)} subscriptions that move",
                remedy="Give a query with one subscription that says `around`.",
            )
        (query,) = queries
        names = {*query.before_us, query.around.focal}
        streams = {s.name: _in_order(s, tables[s.name]) for s in graph.streams if s.name in names}
        read = [streams[name] for name in query.before_us]
        times, x, y = (np.concatenate(c) for c in zip(*((s.batch.times, s.x, s.y) for s in read), strict=True))
        codes = np.repeat(np.arange(len(read)), [len(s) for s in read])
        rows = np.concatenate([np.arange(len(s)) for s in read])
        order = np.argsort(times, kind="stable")
        in_order = (times[order], x[order], y[order], codes[order], rows[order])
        return cls(query, Shape.of(query.around), streams, *in_order)

    def between(self, since_us: int, until_us: int) -> slice:
        first, last = np.searchsorted(self.times_us, [since_us, until_us + 1])
        return slice(int(first), int(last))

    def atoms(self, region: Processing) -> I64:
        """The events that a graph reads for a region, from its initialisation points to its end, by time."""
        before_us = np.array(list(self.query.before_us.values()))
        since = region.start_us - self.query.lifetime_us - before_us
        some = self.between(int(since.min()), region.end_us)
        inside = self.shape.holds(self.x[some], self.y[some], np.array([region.x]), np.array([region.y]))[0]
        inside &= self.times_us[some] >= since[self.codes[some]]
        return np.flatnonzero(inside) + some.start

    def complex_events(self, regions: Sequence[Processing], atoms: Sequence[I64]) -> list[I64]:
        """For each region, the times of the complex events that are to be delivered, sorted.

        The kernel finds them: regions run side by side, as interests do.
        """
        number = np.repeat(np.arange(len(regions)), [len(atoms_of_region) for atoms_of_region in atoms])
        every = np.concatenate([np.zeros(0, np.int64), *atoms])
        tables = {}
        for code, name in enumerate(self.query.before_us):
            own = self.codes[every] == code
            rows = pa.array(self.rows[every[own]])
            read = pa.table(self.streams[name].batch.columns).take(rows)
            tables[name] = read.append_column(INTEREST, pa.array(number[own])).append_column(ORDER, rows)
        detected = pa.concat_tables([o.complex_events[self.query.name] for o in Engine(self.query.graph).run(tables)])
        times, interest = detected.column("_time").cast(pa.int64()).to_numpy(), detected.column(INTEREST).to_numpy()
        since = np.array([region.start_us for region in regions], np.int64)[interest] - self.query.lifetime_us
        until = np.array([region.end_us for region in regions], np.int64)[interest]
        wanted = (times >= since) & (times <= until)
        times, interest = times[wanted], interest[wanted]
        order = np.lexsort((times, interest))
        return np.split(times[order], np.searchsorted(interest[order], np.arange(1, len(regions))))


def _in_order(stream: Stream, table: pa.Table) -> StoredEvents:
    """Events of one time, too, stand in their order: it is that of rows from here on."""
    events = located(stream, conform(table, stream))
    return events.take(in_total_order(events.batch, tie_attributes(stream)))
