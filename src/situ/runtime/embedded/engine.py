"""The embedded engine: one process, Arrow in, complex events out."""

from __future__ import annotations

import os
import time as wall_clock
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from situ.core.errors import InputError, QueryError, SituWarning, did_you_mean
from situ.core.functions import Functions
from situ.core.functions import default as default_functions
from situ.core.memory import MemoryBudget
from situ.core.time import BEGINNING, END, time_to_micros
from situ.flow.clock import ONLY_SOURCE, Clock
from situ.flow.flow import Flow
from situ.flow.latency import LatencyMonitor, ResultSeen
from situ.flow.lateness import judge_lateness, late_table
from situ.flow.moving import under
from situ.flow.port import Port
from situ.flow.reusing import ReusingFlow, moving_flow
from situ.graph.operators import Operator, OperatorGraph
from situ.graph.query import Definition, Query, Stream, Subscription
from situ.graph.tallies import tallied
from situ.graph.typing import inputs_of
from situ.io.files.by_suffix import open_source
from situ.io.files.source import Source
from situ.io.rows.ahead import reject_ahead
from situ.io.rows.conform import Conformed, conform
from situ.io.rows.python_rows import PythonSource, conform_python_rows
from situ.kernel.batch import EXTENT, ORIGINS, Batch, as_timestamps
from situ.kernel.compile import Programs, RuleProgram, refuse_unbounded_state
from situ.kernel.operator import Chosen, contexts_of, no_events
from situ.kernel.state.checks import FARTHEST, damage_is_told, numbers, require_between, require_times
from situ.kernel.state.snapshot import pack, unpack
from situ.lang.demands import JudgedDemand, judged_latencies
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.lang.resolve import warnings as warnings_of
from situ.mobility.moving_program import MovingProgram
from situ.mobility.moving_query import moving_queries, without_moving
from situ.reuse.totals import Totals
from situ.runtime.embedded.output_show import output_in_words, output_to_html
from situ.runtime.embedded.pieces import StreamReader, read_in_order
from situ.runtime.given import given_by_stream


class SupportsArrowStream(Protocol):
    """Arrow's PyCapsule interface, by which tables change hands between libraries without copies."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


#: What has Arrow's stream interface is a table: DataFrames of pandas and Polars, relations of DuckDB.
ArrowTable: TypeAlias = pa.Table | pa.RecordBatch | SupportsArrowStream
#: Rows that `feed` takes.
Rows: TypeAlias = ArrowTable | Mapping[str, Any] | Sequence[Mapping[str, Any]]
#: What `run` takes for a stream.
Bounded: TypeAlias = Source | ArrowTable | Sequence[Mapping[str, Any]] | str | Path


@dataclass(frozen=True, slots=True, repr=False)
class Output:
    """What one step gave, as tables: complex events by subscription, and what did not become one.

    `events` counts rows that were read, `duplicates` those dropped by `unique`, `failed_calls` the calls of users'
    functions that failed, and so gave null. `selections` (on request) are those that closed, with their atomic events.

    No complex event with a time before `low_watermark` (microseconds) will follow.
    """

    complex_events: dict[str, pa.Table]
    timed_out: dict[str, pa.Table]
    late: dict[str, pa.Table]
    rejected: dict[str, pa.Table]
    events: int
    duplicates: int
    failed_calls: dict[str, int]
    selections: dict[str, pa.Table]
    low_watermark: int

    def __repr__(self) -> str:
        return f"Output({output_in_words(self._kinds, self.events)})"

    def _repr_html_(self) -> str:
        return output_to_html(self._kinds, self.events)

    @property
    def _kinds(self) -> dict[str, dict[str, pa.Table]]:
        return {"": self.complex_events, "timed out": self.timed_out, "late": self.late, "rejected": self.rejected}


@dataclass(repr=False)
class Engine:
    """Runs a query.

    With `provenance`, complex events name their selection (`_selection`) and atomic events (`_origins`), and closed
    selections are an output of their own. `only_selections` processes no others: by operator and group key, their
    numbers. `show_definitions` gives the complex events of definitions too. `threads`: all processors, if not given.
    `memory`: the bytes that the process may use, if not given half of the machine's; a query that needs more ends with
    MemoryExceeded.
    `sources` has, by stream, the names of its sources, where rows come from several and are given with their names
    (`feed(rows, source=...)`): each has its own watermark, and time has passed where it has on all of them.
    `clock`, in seconds, counts how long streams are silent; `wall_time`, in seconds since the epoch, tells which rows
    lie ahead of it. `tallies`: definitions whose matches are only counted or summed make none, unless this is False
    (`situ.graph.tallies`).
    `start`: when silences that come first begin, in rules without groups; if not given, with the first event.

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

    query: str | Path | Query | OperatorGraph
    functions: Functions = default_functions
    provenance: bool = False
    show_definitions: bool = False
    only_selections: Mapping[str, Chosen] | None = None
    threads: int | None = None
    memory: int | None = None
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    clock: Callable[[], float] = wall_clock.monotonic
    wall_time: Callable[[], float] = wall_clock.time
    start: datetime | None = None
    tallies: bool = True
    graph: OperatorGraph = field(init=False)

    def __post_init__(self) -> None:
        query = parse(self.query) if isinstance(self.query, str | Path) else self.query
        self.graph = query if isinstance(query, OperatorGraph) else resolve(query, self.functions)
        if self.start is not None:
            self.graph = replace(self.graph, start_us=time_to_micros(self.start))
        for message in warnings_of(self.graph):
            warnings.warn(message, SituWarning, stacklevel=3)
        plain = without_moving(self.graph)
        if self.tallies and not (self.provenance or self.show_definitions or self.only_selections):
            plain = tallied(plain)
        self._tallied = frozenset(operator.name for operator in plain.operators if operator.rule.tallied)
        self._threads = self.threads or os.cpu_count() or 1
        memory = MemoryBudget.of_process() if self.memory is None else MemoryBudget(self.memory)
        self._moving = {
            query.name: moving_flow(MovingProgram.of(query, self.functions, self.provenance), memory, self._threads)
            for query in moving_queries(self.graph, self.functions)
        }
        contexts = contexts_of(plain, self.functions, self.provenance)
        #: The programs of all rules that do not move.
        self.programs = Programs(contexts)
        readers = {s.name: tuple(o.name for o in plain.operators if s.name in o.inputs) for s in plain.streams}
        self._ports = {s.name: Port(s.name, readers[s.name], s) for s in plain.streams}
        ports, chosen = list(self._ports.values()), self.only_selections or {}
        self._flow = Flow(self.programs, ports, self._threads, chosen, memory=memory)
        self._readers = {stream.name: self._reader(stream) for stream in plain.streams}
        operators = {operator.name: operator for operator in plain.operators}
        self._shown = {n: o for n, o in operators.items() if self.show_definitions or o.subscription is not None}
        self._timing_out = {name: operator for name, operator in operators.items() if operator.rule.timed_out}
        self._empty_tables: dict[str, pa.Table] = {}
        self._time = Clock.of(plain.streams, self._named_sources())
        self._time.advance(self.clock())
        self._latency = LatencyMonitor()
        self._measured = frozenset(s.name for s in self.graph.query.subscriptions if s.demands)
        self._closed = self._is_bounded = False

    def _named_sources(self) -> Mapping[str, Sequence[str]]:
        for stream, names in self.sources.items():
            if stream not in {declared.name for declared in self.graph.streams}:
                streams = [declared.name for declared in self.graph.streams]
                raise InputError(f"sources of {stream!r}, which is no stream", remedy=did_you_mean(stream, streams))
            if not names or len({*names}) < len(names):
                raise InputError(f"the sources of {stream} have no distinct names", remedy="Name each of them once.")
        return self.sources

    def _reader(self, stream: Stream) -> StreamReader:
        return StreamReader(stream, self._columns_read(stream), self.provenance)

    def _columns_read(self, stream: Stream) -> frozenset[str]:
        read: frozenset[str] = frozenset()
        read |= self._flow.columns_read(stream.name)
        for moving in self._moving.values():
            read |= moving.program.columns_read(stream.name)
            if stream.name == moving.query.focal.name:
                read |= moving.program.updates_read()
        return read

    @property
    def reuse(self) -> dict[str, Totals]:
        """What moving subscriptions that ask for a quality have shared so far."""
        return {name: moving.totals for name, moving in self._moving.items() if isinstance(moving, ReusingFlow)}

    @property
    def demands(self) -> tuple[JudgedDemand, ...]:
        """What subscriptions demand, and which of it is kept: latencies, from when rows were given to the engine to
        when results came out, as the mean of the last ones. All else that can be demanded is about places, and means
        nothing in one process."""
        return judged_latencies(self.graph.query.subscriptions, self._latency.latencies_us())

    def _arrived(self, stream: str, source: str, latest_us: int) -> None:
        """Rows have come, up to an event time."""
        if self._measured:
            self._latency.reached.arrived(stream, source, latest_us, round(self.clock() * 1e6))

    def _found(self, subscription: str, found: Batch | None) -> None:
        """A subscription has results, if it has."""
        if subscription in self._measured and found is not None and len(found):
            seen = ResultSeen(int(found.times.max()), round(self.clock() * 1e6))
            self._latency.results[subscription].append(seen)

    def __repr__(self) -> str:
        return f"Engine({self.graph.query.contents})"

    # --- unbounded input

    def feed(self, rows: Rows, stream: str | None = None, source: str = ONLY_SOURCE) -> Output:
        """Read some rows of a stream, in the order in which they came (the stream's name may be left out if there is
        one only): a table or record batch, one event as a dict, or several. `source` is one of the engine's `sources`.
        Complex events come out as soon as the watermark makes them certain."""
        self._require_bounded_state()
        reader = self._reader_of(stream)
        name, now_s = reader.stream.name, self.clock()
        self._require_source(name, source)
        conformed = _conformed(rows, reader.stream)
        if reader.stream.ahead_us is not None:
            conformed = reject_ahead(conformed, reader.stream, int(self.wall_time() * 1e6), f"rows of {name}")
        latest_us = self._time.latest(name, source)
        late, limit = judge_lateness(conformed.times, reader.stream, latest_us, self._time.passed)
        batch = reader.batch(conformed, source=source)
        batch.require(reader.derived)
        self._arrived(name, source, int(conformed.times[~late].max(initial=BEGINNING)))
        self._add(name, batch.take(~late) if late.any() else batch)
        self._time.see(name, int(conformed.times[~late].max(initial=BEGINNING)), now_s, source)
        return self._advance(
            self._time.advance(now_s),
            late={name: late_table(conformed.events, late, limit - conformed.times)} if late.any() else {},
            rejected={name: conformed.rejected} if conformed.rejected.num_rows else {},
            events=len(conformed.times),
        )

    def _require_bounded_state(self) -> None:
        if not self._is_bounded:
            refuse_unbounded_state(self.graph)
            self._is_bounded = True  # rules that come later are asked when they come

    def advance(self) -> Output:
        """Let time pass by the wall clock, without rows; for a loop that has nothing to read just now.

        A stream that has been silent for its `idle after` holds the others back no longer. When all have been, time
        goes on from the largest time seen, at the pace of the wall clock. Call it only while no source has rows to
        read: what waits to be read is no silence.
        """
        self._require_bounded_state()
        self._require_open()
        return self._advance(self._time.advance(self.clock()))

    def close(self) -> Output:
        """The end of all streams: what windows still held comes out."""
        if self._closed:
            raise InputError("the engine is closed already", remedy="Make a new Engine for more events.")
        return self._finish()

    def _finish(self, rejected: dict[str, pa.Table] | None = None, events: int = 0) -> Output:
        self._closed = True
        return self._advance(END, rejected=rejected, events=events)

    def _require_open(self) -> None:
        if self._closed:
            raise InputError("the engine is closed", remedy="Make a new Engine for more events.")

    def _reader_of(self, name: str | None) -> StreamReader:
        self._require_open()
        if name is None and len(self._readers) == 1:
            return next(iter(self._readers.values()))
        if name not in self._readers:
            remedy = did_you_mean(name or "", self._readers)
            raise InputError(f"no stream {name!r} in the query" if name else "which stream?", remedy=remedy)
        return self._readers[name]

    def _require_source(self, stream: str, source: str) -> None:
        if (stream, source) in self._time.sources:
            return
        names = [name for of, name in self._time.sources if of == stream]
        if names == [ONLY_SOURCE]:
            raise InputError(
                f"{stream} has no sources with names, and rows came from {source!r}",
                remedy=f"Name them when the engine is made: Engine(query, sources={{'{stream}': ['{source}', ...]}}).",
            )
        problem = f"which source of {stream}?" if source == ONLY_SOURCE else f"{stream} has no source {source!r}"
        raise InputError(problem, remedy=did_you_mean(source, names))

    # --- bounded input

    def run(self, sources: Mapping[str, Bounded] | Bounded) -> Iterator[Output]:
        """Read bounded sources whole: tables, or paths of files and directories, by the names of their streams (a query
        of one stream takes its source by itself). They are sorted, never late, and their end closes all windows of
        time."""
        self._require_open()
        opened = {
            name: _opened(source, self._readers[name].stream)
            for name, source in given_by_stream(self.graph, sources, "source").items()
        }
        for piece, following in read_in_order(opened, self._readers):
            self._add(piece.stream, piece.batch)
            self._arrived(piece.stream, ONLY_SOURCE, int(piece.batch.times.max(initial=BEGINNING)))
            rejected = {piece.stream: piece.rejected} if piece.rejected.num_rows else {}
            if following < END:
                yield self._advance(following, rejected=rejected, events=len(piece.batch))
            else:
                yield self._finish(rejected=rejected, events=len(piece.batch))
        if not self._closed:
            yield self._finish()

    # --- a step

    def _add(self, stream: str, batch: Batch) -> None:
        """Events that have come; they wait until time has passed them."""
        self._flow.add(self._ports[stream], batch)
        for moving in self._moving.values():
            moving.add(stream, batch)
            if stream == moving.query.focal.name:
                moving.add_updates(batch)

    def _advance(
        self,
        passed: int,
        late: dict[str, pa.Table] | None = None,
        rejected: dict[str, pa.Table] | None = None,
        events: int = 0,
    ) -> Output:
        """Time has passed up to `passed`: let operators read what came before it."""
        self._time.passed = passed
        produced = self._flow.advance(passed)
        complex_ = {
            name: self._table(operator, produced[name].events if name in produced else None)
            for name, operator in self._shown.items()
        }
        for name in self._shown.keys() & produced.keys():
            self._found(name, produced[name].events)
        for name, moving in self._moving.items():
            found = moving.advance(passed)
            self._found(name, found)
            complex_[name] = _table(moving.query.delivered, found)
        timed_out = {
            name: self._table(operator, produced[name].timed_out if name in produced else None)
            for name, operator in self._timing_out.items()
        }
        selections = {name: r.selections for name, r in produced.items() if r.selections is not None}
        low = self._flow.low_watermark(self._shown, passed)
        failed = self._failed_calls_since()
        duplicates, self._flow.duplicates = self._flow.duplicates, 0
        return Output(complex_, timed_out, late or {}, rejected or {}, events, duplicates, failed, selections, low)

    def _table(self, operator: Operator, found: Batch | None) -> pa.Table:
        """What an operator found, as a table. That of nothing is made once."""
        if found is not None and len(found):
            return _table(operator, found)
        if operator.name not in self._empty_tables:
            context = self._flow.nodes[operator.name].context(operator.name)
            self._empty_tables[operator.name] = _table(operator, no_events(context))
        return self._empty_tables[operator.name]

    def _failed_calls_since(self) -> dict[str, int]:
        """The calls that failed since somebody asked."""
        counts = [self._flow.failed_calls, *(moving.failed_calls for moving in self._moving.values())]
        if not any(counts):
            return {}
        failed = sum(counts, Counter[str]())
        for count in counts:
            count.clear()
        return dict(failed)

    # --- snapshots

    def snapshot(self) -> bytes:
        """The whole state, for `restore` in another engine of the same query."""
        tables = self._flow.snapshot() | {"clock": self._time.table(), "read": self._rows_read()}
        for name, moving in self._moving.items():
            tables |= {f"moving/{name}/{part}": table for part, table in moving.snapshot().items()}
        return pack(tables)

    def _rows_read(self) -> pa.Table:
        """How many rows of each source were read, so that numbers of rows go on after a restart."""
        schema = pa.schema([("stream", pa.string()), ("source", pa.string()), ("rows", pa.int64())])
        read = [
            {"stream": stream, "source": source, "rows": rows}
            for stream, reader in self._readers.items()
            for source, rows in reader.rows_read.items()
        ]
        return pa.Table.from_pylist(read, schema)

    def restore(self, snapshot: bytes, *, changed: Collection[str] = ()) -> None:
        """Go on from a snapshot. Operators whose program is not that of the snapshot start afresh if they are named
        in `changed`, and are refused otherwise. New ones begin with the next event.

        StateError if the snapshot is damaged; then make a new Engine, because this one may have taken over a part."""
        tables = unpack(snapshot)
        with damage_is_told():
            self._restore(tables, changed)

    def _restore(self, tables: Mapping[str, pa.Table], changed: Collection[str]) -> None:
        rows_read = numbers(tables["read"].column("rows"), np.int64, "counts of rows")
        require_between(rows_read, 0, FARTHEST, "counts of rows")
        require_times(numbers(tables["clock"].column("time"), np.int64, "times"), "times")
        self._time.restore(tables["clock"])
        self._flow.restore(tables, changed, self._time.passed)
        for name, moving in self._moving.items():
            of_moving = under(f"moving/{name}/", tables)
            if of_moving:
                moving.restore(of_moving, afresh=name in changed)
        self._time.resume(self.clock())
        streams, sources = (tables["read"].column(name).to_pylist() for name in ("stream", "source"))
        for stream, source, rows in zip(streams, sources, rows_read.tolist(), strict=True):
            if stream in self._readers:
                self._readers[stream].rows_read[source] = rows

    # --- rules that come and go

    def add(self, rules: str) -> tuple[str, ...]:
        """Take in more rules, definitions and subscriptions, while the engine runs; their names. They read the events
        that time has not passed yet. What it costs depends on them, not on how many rules there are."""
        self._require_open()
        parsed = parse(rules)
        if parsed.streams or any(subscription.around for subscription in parsed.subscriptions):
            raise QueryError(
                "an engine that runs takes neither streams nor moving subscriptions", remedy="Make a new Engine."
            )
        known = {definition.name: definition for definition in self.graph.query.definitions}
        new: dict[str, Definition | Subscription] = {d.name: d for d in parsed.definitions}
        new |= {s.name: s for s in parsed.subscriptions}
        for name in new.keys() & self._flow.nodes.keys():
            raise QueryError(f"{name} is there already", remedy=f"Remove it first: engine.remove('{name}').")
        for name in self._tallied & {type_ for rule in new.values() for type_ in inputs_of(rule.rule)}:
            raise QueryError(
                f"the matches of {name} are counted and not made, so no other rule can read them",
                remedy="Make the engine with all rules at once, or as Engine(query, tallies=False).",
            )
        needed, open_ = dict[str, Definition](), [*new.values()]
        while open_:
            for type_ in inputs_of(open_.pop().rule):
                if type_ in known and type_ not in needed:
                    needed[type_] = known[type_]
                    open_.append(known[type_])
        query = replace(parsed, streams=self.graph.query.streams, definitions=(*needed.values(), *parsed.definitions))
        graph = replace(resolve(query, self.functions), start_us=self.graph.start_us)
        refuse_unbounded_state(graph)
        contexts = contexts_of(graph, self.functions, self.provenance)
        added = [operator for operator in graph.operators if operator.name in new]
        for operator in added:
            self._flow.add_rule(contexts[operator.name])
        self._change_graph(parsed.definitions, parsed.subscriptions, (*self.graph.operators, *added))
        for name in new:
            for type_, columns in self.programs.columns_read(name).items():
                if type_ in self._readers:
                    self._readers[type_].also_read(columns)
        return tuple(new)

    def remove(self, name: str) -> None:
        """Give up a rule, with its state, while the engine runs."""
        readers = [operator.name for operator in self.graph.operators if name in operator.inputs]
        if name not in self._flow.nodes or readers:
            cause = f"{readers[0]} reads it" if readers else "there is no such rule"
            raise QueryError(f"{name} cannot be removed: {cause}", remedy="" if readers else did_you_mean(
                name, [*self._flow.nodes]))  # fmt: skip
        self._flow.remove_rule(name)
        query = self.graph.query
        self.graph = replace(
            self.graph,
            query=replace(
                query,
                definitions=tuple(d for d in query.definitions if d.name != name),
                subscriptions=tuple(s for s in query.subscriptions if s.name != name),
            ),
            operators=tuple(operator for operator in self.graph.operators if operator.name != name),
        )
        for of_name in (self._shown, self._timing_out, self._empty_tables):
            of_name.pop(name, None)

    def _change_graph(
        self, definitions: Sequence[Definition], subscriptions: Sequence[Subscription], operators: Sequence[Operator]
    ) -> None:
        query = self.graph.query
        query = replace(
            query,
            definitions=(*query.definitions, *definitions),
            subscriptions=(*query.subscriptions, *subscriptions),
        )
        for operator in operators[len(self.graph.operators) :]:
            if self.show_definitions or operator.subscription is not None:
                self._shown[operator.name] = operator
            if operator.rule.timed_out:
                self._timing_out[operator.name] = operator
        self.graph = replace(self.graph, query=query, operators=tuple(operators))

    def one_of_each_shape(self) -> list[str]:
        """A rule of each program that runs, those of most rules first."""
        return self._flow.one_of_each_shape()

    def describe_rules(self) -> str:
        """Which rules run as one, and how the index finds what rules ask of events; empty if each runs by itself."""
        return self._flow.describe_rules()

    def program(self, name: str) -> RuleProgram:
        """What the kernel runs for a definition or subscription; prints itself."""
        moving = [moving.program.programs for moving in self._moving.values()]
        return next(programs[name] for programs in [self._flow.programs, *moving] if name in programs)


def _table(operator: Operator, batch: Batch) -> pa.Table:
    columns = {name: batch.columns[name] for name in operator.schema.names}
    extra = {name: batch.columns[name] for name in (*EXTENT, "_selection", ORIGINS) if name in batch.columns}
    return pa.table(columns | {"_time": as_timestamps(batch.times)} | extra)


def _opened(source: Bounded, stream: Stream) -> Source | pa.Table:
    if isinstance(source, str | Path):
        return open_source(source, stream)
    if isinstance(source, Sequence):
        return PythonSource(source, stream)
    if isinstance(source, pa.Table) or hasattr(type(source), "chunks"):  # of the type: a DataFrame's columns look alike
        return source
    return _arrow_table(source, stream)


def _conformed(rows: Rows, stream: Stream) -> Conformed:
    if isinstance(rows, pa.RecordBatch) or hasattr(rows, "__arrow_c_stream__"):
        return conform(_arrow_table(rows, stream), stream, place=f"rows of {stream.name}")
    return conform_python_rows([rows] if isinstance(rows, Mapping) else rows, stream, f"rows of {stream.name}")


def _arrow_table(rows: ArrowTable, stream: Stream) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows  # by Arrow's interface it would be taken apart and put together
    try:
        return pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else pa.table(rows)
    except (TypeError, ValueError) as error:  # Arrow's own are among them
        raise InputError(
            f"the rows do not fit stream {stream.name}: {error}",
            remedy=f"Give a table or dicts. The attributes are: "
            f"{', '.join(f'{a.name} {a.type}' for a in stream.attributes)}.",
        ) from error
