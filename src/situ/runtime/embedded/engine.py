"""The embedded engine: one process, Arrow in, complex events out."""

from __future__ import annotations

import os
import time as wall_clock
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from situ.core.errors import InputError, QueryError, SituWarning, StateError, did_you_mean
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.core.types import to_arrow
from situ.graph.operators import OperatorGraph
from situ.graph.query import Query, Stream
from situ.io.conform import conform
from situ.io.files import open_source
from situ.io.source import Source
from situ.kernel.arrays import NO_DEADLINE
from situ.kernel.batch import Batch, as_timestamps
from situ.kernel.matcher import WORTH_A_THREAD
from situ.kernel.operator import Context, Produced, RunningOperator, Selections, contexts_of
from situ.kernel.snapshot import digest_of, pack, unpack
from situ.lang.parse import parse
from situ.lang.resolve import has_unbounded_state, resolve
from situ.lang.resolve import warnings as warnings_of
from situ.runtime.compile import compile_operator
from situ.runtime.embedded.inbox import Inbox, latest
from situ.runtime.embedded.pieces import StreamReader, read_in_order

#: Rows that `feed` takes.
Rows: TypeAlias = pa.Table | pa.RecordBatch | Mapping[str, Any] | Sequence[Mapping[str, Any]]

#: No event will come any more.
END = NO_DEADLINE
_BEGINNING = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Output:
    """What one step gave, as tables: complex events by subscription, and what did not become one.

    `failed_calls` counts the calls of users' functions that failed, and so gave null. `selections` (on request) are
    those that closed, with their atomic events.

    No complex event with a time before `low_watermark` (microseconds) will follow.
    """

    complex_events: dict[str, pa.Table]
    timed_out: dict[str, pa.Table]
    late: dict[str, pa.Table]
    rejected: dict[str, pa.Table]
    events: int
    failed_calls: dict[str, int]
    selections: dict[str, pa.Table]
    low_watermark: int


@dataclass(slots=True)
class _StreamState:
    """How far an unbounded stream has come. `latest` is its largest event time so far."""

    stream: Stream
    reader: StreamReader
    seen_at: float  # by the engine's clock
    latest: int = _BEGINNING

    @property
    def watermark(self) -> int:
        """No event before it can come without being late."""
        return _BEGINNING if self.latest == _BEGINNING else self.latest - self.stream.watermark_us


@dataclass(slots=True)
class _Node:
    """An operator in the graph, with what it has not read yet."""

    context: Context
    operator: RunningOperator
    inboxes: dict[str, Inbox]
    low_watermark: int = _BEGINNING


@dataclass
class Engine:
    """Runs a query.

    With `provenance`, complex events name their selection (`_selection`) and atomic events (`_origins`), and closed
    selections are an output of their own. `only_selections` processes no others: by operator and group key, their
    numbers. `show_definitions` gives the complex events of definitions too. `threads`: all processors, if not given.

    >>> engine = Engine('''
    ...     stream Reading(sensor int, value double, ts int) time ts in s
    ...     subscribe Rise
    ...       detect   Reading as a then Reading(value > a.value + 5) as b within 10 s
    ...       assign   sensor = a.sensor, by = b.value - a.value
    ...       group by sensor
    ... ''')
    >>> out = engine.feed(pa.table({"sensor": [1, 1, 1], "value": [2.0, 3.0, 9.0], "ts": [0, 4, 8]}))
    >>> sorted(engine.close().complex_events["Rise"].column("by").to_pylist())
    [6.0, 7.0]
    """

    query: str | Query | OperatorGraph
    functions: Functions = default_functions
    provenance: bool = False
    show_definitions: bool = False
    only_selections: Selections | None = None
    threads: int | None = None
    clock: Callable[[], float] = wall_clock.monotonic
    graph: OperatorGraph = field(init=False)

    def __post_init__(self) -> None:
        query = parse(self.query) if isinstance(self.query, str) else self.query
        self.graph = query if isinstance(query, OperatorGraph) else resolve(query, self.functions)
        for message in warnings_of(self.graph):
            warnings.warn(message, SituWarning, stacklevel=3)
        contexts = contexts_of(self.graph, self.functions, self.provenance, self.only_selections)
        self._failed_calls = next(iter(contexts.values())).calls["errors"] if contexts else Counter()
        self._threads = self.threads or os.cpu_count() or 1
        of_one = self._threads // max(len(contexts), 1)  # operators run side by side first
        threads = 1 << max(of_one.bit_length() - 1, 0)
        self._nodes = {name: self._node(context, threads) for name, context in contexts.items()}
        started = self.clock()
        self._streams = {s.name: _StreamState(s, self._reader(s), started) for s in self.graph.streams}
        depths = sorted({context.operator.depth for context in contexts.values()})
        self._levels = [[n for n in self._nodes.values() if n.context.operator.depth == depth] for depth in depths]
        self._passed = _BEGINNING
        self._closed = False
        self._pending = {s.name: Inbox() for s in self.graph.streams}

    def _node(self, context: Context, threads: int) -> _Node:
        operator = compile_operator(context, threads)
        return _Node(context, operator, {name: Inbox() for name in context.inputs})

    def _reader(self, stream: Stream) -> StreamReader:
        read: frozenset[str] = frozenset()
        for node in self._nodes.values():
            read |= node.operator.columns_read().get(stream.name, frozenset())
        return StreamReader(stream, read, self.provenance)

    # --- unbounded input

    def feed(self, rows: Rows, stream: str | None = None) -> Output:
        """Read some rows of a stream, in the order in which they came (the stream's name may be left out if there is
        one only): a table or record batch, one event as a dict, or several. Complex events come out as soon as the
        watermark makes them certain."""
        self._refuse_unbounded()
        state = self._stream(stream)
        conformed = conform(_as_table(rows, state.stream), state.stream, place=f"rows of {state.stream.name}")
        state.seen_at = self.clock()
        before = latest(conformed.times, state.latest)
        limit = np.where(before == _BEGINNING, _BEGINNING, before - state.stream.watermark_us)
        late = (conformed.times < limit) | (conformed.times < self._passed)
        if len(conformed.times):
            state.latest = max(state.latest, int(conformed.times[~late].max(initial=_BEGINNING)))
        lateness = np.maximum(limit, self._passed) - conformed.times
        batch = state.reader.batch(conformed)
        batch.require(state.reader.derived)
        self._pending[state.stream.name].add(batch.take(~late) if late.any() else batch)
        return self._advance(
            self._watermark(),
            late={state.stream.name: _late_table(conformed.events, late, lateness)} if late.any() else {},
            rejected={state.stream.name: conformed.rejected} if conformed.rejected.num_rows else {},
            events=len(conformed.times),
        )

    def close(self) -> Output:
        """The end of all streams: what windows still held comes out."""
        if self._closed:
            raise InputError("the engine is closed already", remedy="Make a new Engine for more events.")
        return self._finish()

    def _finish(self, rejected: dict[str, pa.Table] | None = None, events: int = 0) -> Output:
        self._closed = True
        return self._advance(END, rejected=rejected, events=events)

    def _watermark(self) -> int:
        """How far time has passed: the slowest stream decides, but for those that have been silent too long."""
        now = self.clock()

        def is_idle(state: _StreamState) -> bool:
            after = state.stream.idle_after_us
            return after is not None and (now - state.seen_at) * 1e6 >= after

        active = [state.watermark for state in self._streams.values() if not is_idle(state)]
        return max(self._passed, min(active, default=self._passed))

    def _stream(self, name: str | None) -> _StreamState:
        if self._closed:
            raise InputError("the engine is closed", remedy="Make a new Engine for more events.")
        if name is None and len(self._streams) == 1:
            return next(iter(self._streams.values()))
        if name not in self._streams:
            known = did_you_mean(name or "", self._streams)
            raise InputError(f"no stream {name!r} in the query" if name else "which stream?", remedy=known)
        return self._streams[name]

    def _refuse_unbounded(self) -> None:
        for node in self._nodes.values():
            if has_unbounded_state(node.context.operator):
                raise QueryError(
                    f"{node.context.operator.name} has no window: on an unbounded stream its state would grow for ever",
                    place=node.context.operator.rule.cases[0].place,
                    remedy="Add `within T` to its detect, or run it on files or tables: Engine.run.",
                )

    # --- bounded input

    def run(self, sources: Mapping[str, Source | pa.Table | str | Path]) -> Iterator[Output]:
        """Read bounded sources whole: tables, or paths of files and directories. They are sorted, never late, and
        their end closes all windows of time."""
        for name in sources:
            self._stream(name)
        missing = [name for name in self._streams if name not in sources]
        if missing:
            raise InputError(
                f"no source for stream {missing[0]}", remedy=f"Sources are needed for: {', '.join(missing)}."
            )
        readers = {name: state.reader for name, state in self._streams.items()}
        opened = {
            name: open_source(source, self._streams[name].stream) if isinstance(source, str | Path) else source
            for name, source in sources.items()
        }
        for piece, following in read_in_order(opened, readers):
            self._pending[piece.stream].add(piece.batch)
            rejected = {piece.stream: piece.rejected} if piece.rejected.num_rows else {}
            if following < END:
                yield self._advance(following, rejected=rejected, events=len(piece.batch))
            else:
                yield self._finish(rejected=rejected, events=len(piece.batch))
        if not self._closed:
            yield self._finish()

    # --- a step

    def _advance(
        self,
        passed: int,
        late: dict[str, pa.Table] | None = None,
        rejected: dict[str, pa.Table] | None = None,
        events: int = 0,
    ) -> Output:
        """Time has passed up to `passed`: let every operator read what came before it, inputs first."""
        self._passed = passed
        ready = {name: inbox.before(passed) for name, inbox in self._pending.items()}
        produced: dict[str, Produced] = {}
        for level in self._levels:
            for node in level:
                for input_, inbox in node.inboxes.items():
                    batch = produced[input_].events if input_ in self._nodes else ready[input_]
                    if batch is not None:
                        inbox.add(batch)
            produced |= self._process(level, passed, sum(len(batch) for batch in ready.values() if batch is not None))
        shown = {
            name: result
            for name, result in produced.items()
            if self.show_definitions or self._nodes[name].context.operator.subscription is not None
        }
        complex_ = {name: _table(self._nodes[name].context, result.events) for name, result in shown.items()}
        timed_out = {
            name: _table(self._nodes[name].context, result.timed_out)
            for name, result in produced.items()
            if self._nodes[name].context.operator.rule.timed_out
        }
        selections = {name: r.selections for name, r in produced.items() if r.selections is not None}
        low = min((result.low_watermark for result in shown.values()), default=passed)
        failed = dict(self._failed_calls)
        self._failed_calls.clear()
        return Output(complex_, timed_out, late or {}, rejected or {}, events, failed, selections, low)

    def _process(self, level: list[_Node], passed: int, events: int) -> dict[str, Produced]:
        """Operators that do not read each other, side by side where there is enough to do."""

        def step(node: _Node) -> Produced:
            limit = min([passed, *(self._nodes[name].low_watermark for name in node.inboxes if name in self._nodes)])
            inputs = {t: batch for t, inbox in node.inboxes.items() if (batch := inbox.before(limit)) is not None}
            return node.operator.process(inputs, limit)

        if len(level) > 1 and self._threads > 1 and events >= WORTH_A_THREAD:
            with ThreadPoolExecutor(self._threads) as pool:
                results = list(pool.map(step, level))
        else:
            results = [step(node) for node in level]
        for node, result in zip(level, results, strict=True):
            node.low_watermark = result.low_watermark
        return {node.context.operator.name: result for node, result in zip(level, results, strict=True)}

    # --- snapshots

    def snapshot(self) -> bytes:
        """The whole state, for `restore` in another engine of the same query."""
        tables: dict[str, pa.Table] = {}
        for name, node in self._nodes.items():
            tables |= {f"operator/{name}/{part}": table for part, table in node.operator.snapshot().items()}
            tables |= {f"inbox/{name}/{type_}": inbox.table() for type_, inbox in node.inboxes.items()}
        tables |= {f"stream/{name}": inbox.table() for name, inbox in self._pending.items()}
        tables["engine"] = self._progress()
        return pack(tables)

    def restore(self, snapshot: bytes, *, changed: Collection[str] = ()) -> None:
        """Go on from a snapshot. Operators named in `changed` (and those new in the query) start afresh; any other
        whose program is not that of the snapshot is refused."""
        tables = unpack(snapshot)
        for name, node in self._nodes.items():
            parts = {part: tables.get(f"operator/{name}/{part}") for part in node.operator.digests()}
            if name in changed or all(table is None for table in parts.values()):
                continue
            for part, digest in node.operator.digests().items():
                if parts[part] is None or digest_of(parts[part]) != digest:
                    raise StateError(
                        f"the snapshot's state of {name} is of another program",
                        remedy=f"Restore with changed=['{name}'] to start it afresh, or use the query of the snapshot.",
                    )
            node.operator.restore(parts)
            for type_, inbox in node.inboxes.items():
                inbox.restore(tables[f"inbox/{name}/{type_}"])
        for name, inbox in self._pending.items():
            if f"stream/{name}" in tables:
                inbox.restore(tables[f"stream/{name}"])
        self._restore_progress(tables["engine"])

    def _progress(self) -> pa.Table:
        """How far every stream and operator has come."""
        streams = [(f"stream/{name}", state.latest, state.reader.rows_read) for name, state in self._streams.items()]
        operators = [(f"operator/{name}", node.low_watermark, 0) for name, node in self._nodes.items()]
        names, times, rows = zip(*streams, *operators, ("engine", self._passed, 0), strict=True)
        return pa.table({"name": names, "time": pa.array(times, pa.int64()), "rows": pa.array(rows, pa.int64())})

    def _restore_progress(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            kind, _, name = row["name"].partition("/")
            if kind == "engine":
                self._passed = row["time"]
            elif kind == "stream" and name in self._streams:
                self._streams[name].latest, self._streams[name].reader.rows_read = row["time"], row["rows"]
            elif kind == "operator" and name in self._nodes:
                self._nodes[name].low_watermark = row["time"]

    def program(self, name: str) -> object:
        """What the kernel runs for a definition or subscription; prints itself."""
        return self._nodes[name].operator


def _table(context: Context, batch: Batch) -> pa.Table:
    columns = {name: batch.columns[name] for name, _ in context.operator.schema.attributes}
    extra = {name: column for name, column in batch.columns.items() if name.startswith("_")}
    return pa.table(columns | {"_time": as_timestamps(batch.times)} | extra)


def _as_table(rows: Rows, stream: Stream) -> pa.Table | pa.RecordBatch:
    if isinstance(rows, pa.Table | pa.RecordBatch):
        return rows
    events = [rows] if isinstance(rows, Mapping) else list(rows)
    schema = pa.schema([(a.name, to_arrow(a.type)) for a in stream.attributes])
    try:
        return pa.Table.from_pylist([dict(event) for event in events], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"the rows do not fit stream {stream.name}: {error}",
            remedy=f"Its attributes: {', '.join(f'{a.name} {a.type}' for a in stream.attributes)}.",
        ) from error


def _late_table(events: pa.Table, late: np.ndarray, lateness: np.ndarray) -> pa.Table:
    rows = events.filter(pa.array(late))
    return rows.append_column("_lateness", pa.array(lateness[late], pa.duration("us")))
