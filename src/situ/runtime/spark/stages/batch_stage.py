"""A stage at work, inside Spark's Python workers: rows to packets, packets to complex events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.functions import Function
from situ.core.hops import hop
from situ.core.time import END
from situ.core.types import to_arrow
from situ.flow.reusing import ReusingFlow, moving_flow
from situ.kernel.arrays import I64
from situ.kernel.batch import EXTENT, Batch, one_chunk
from situ.kernel.operator import SLICE, Produced
from situ.mobility.moving_program import MovingProgram
from situ.mobility.moving_query import MovingQuery
from situ.reuse.tiles import Shards
from situ.runtime.spark.plan.partitioning import (
    Anywhere,
    ByKey,
    ByKeyAndSlice,
    BySlice,
    EveryTask,
    OneTask,
    Partitioning,
)
from situ.runtime.spark.plan.plan import Read, SparkPlan, Stage
from situ.runtime.spark.session.functions import loaded
from situ.runtime.spark.session.task_memory import memory_of_task
from situ.runtime.spark.stages.output import COMPLEX_EVENT, TIMED_OUT, TaggedOutput
from situ.runtime.spark.stages.row_index import RowIndex
from situ.runtime.spark.stages.shards import BEGIN, FINISHED, Address, from_packets, shard_numbers, to_packets
from situ.runtime.spark.stages.stage_flow import StageFlow, stage_programs

TIME = "_time"
#: Marks of tests come in columns of this many bits: a bigint, without its sign.
MARKS_PER_COLUMN = 63
#: Rows that are packed together: enough for long packets, few enough to lie in memory beside Spark.
ROWS_PER_PIECE, BYTES_PER_PIECE = 1 << 20, 1 << 28


#: The rows that have come for a stage, by route and event type.
Arrived: TypeAlias = dict[tuple[int, str], list[pa.RecordBatch]]


def mark_columns(read: Read, always: bool = False) -> list[str]:
    """Which tests rows fulfil. `always`: also where all rows that cross fulfil the only one."""
    marked = any(test.pushed for test in read.tests) and not read.indexed if always else read.marked
    return [f"_marks{n}" for n in range(-(-len(read.tests) // MARKS_PER_COLUMN))] if marked else []


@dataclass(frozen=True)
class Packer:
    """Rows of a stream -> packets for the routes that read it, of all stages. A moving subscription is divided into
    fewer shards than others, because each gets all events."""

    read: Read
    plan: SparkPlan
    shards: int
    moving_shards: int

    def pack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = [TIME, *mark_columns(self.read), *self.read.columns]
        for rows in pieces_of(batches):
            yield from self.packets(rows.rename_columns(names))

    @cached_property
    def _index(self) -> RowIndex:
        return RowIndex(self.read)

    def packets(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows with their times, marks and columns, for each route those that it takes."""
        takers = self.read.takers
        hits = None
        if self.read.indexed and any(taker.tests is not None for taker in takers):
            hits = self._index.hits(rows.column(TIME).to_numpy(), rows)
        for taker in takers:
            taken = rows
            if taker.tests is not None and hits is not None:
                taken = rows.filter(pa.array(self._index.taken(hits, taker.tests, rows.num_rows)))
            elif taker.tests is not None and len(takers) > 1 and self.read.marked:
                taken = rows.filter(pa.array(marked_rows(rows, taker.tests)))
            address = Address(taker.stage, taker.route, self.read.stream.name)
            stage = self.plan.stages[taker.stage]
            shards = self.shards if taker.route < len(stage.routes) else self.moving_shards
            yield from distribute(taken, stage.partitioning(taker.route), address, shards, self.read.stream.unique)


def distribute(
    rows: pa.RecordBatch, partitioning: Partitioning, address: Address, shards: int, unique: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of one event type as packets for a route; copies of an event, which agree in `unique`, stay together."""
    if rows.num_rows == 0:
        return
    match partitioning:
        case ByKey(keys):
            shard: I64 | int = shard_numbers([rows.column(key) for key in keys], shards)
        case BySlice():
            rows = _sliced(rows, partitioning)
            shard = shard_numbers([rows.column(SLICE)], shards)
        case ByKeyAndSlice(keys, slices):
            rows = _sliced(rows, slices)
            shard = shard_numbers([rows.column(key) for key in (*keys, SLICE)], shards)
        case OneTask():
            shard = partitioning.shard
        case EveryTask():
            for shard in range(shards):
                yield from to_packets(rows, shard, shards, address)
            return
        case Anywhere():
            shard = shard_numbers([rows.column(unique)], shards) if unique else some_shard(rows, shards)
    yield from to_packets(rows, shard, shards, address)


def some_shard(rows: pa.RecordBatch, shards: int) -> int:
    """One for all of these rows, and most likely another one for others."""
    return int(shard_numbers([rows.column(TIME).slice(0, 1)], shards)[0])


def _sliced(rows: pa.RecordBatch, slices: BySlice) -> pa.RecordBatch:
    """The rows with the slices that read them: their own, and the one before if it reaches so far."""
    times = rows.column(TIME).to_numpy()
    into = times % slices.length_us
    follows = np.flatnonzero(into <= slices.overlap_us)
    begins = times - into
    of_slice = np.concatenate([begins, begins[follows] - slices.length_us])
    taken = rows.take(pa.array(np.concatenate([np.arange(len(times)), follows])))
    return taken.append_column(SLICE, pa.array(of_slice))


def marked_rows(rows: pa.RecordBatch, tests: frozenset[int]) -> np.ndarray:
    """Which rows fulfil one of the tests."""
    is_marked = np.zeros(rows.num_rows, np.bool_)
    for column in {test // MARKS_PER_COLUMN for test in tests}:
        bits = sum(1 << test % MARKS_PER_COLUMN for test in tests if test // MARKS_PER_COLUMN == column)
        is_marked |= (rows.column(f"_marks{column}").to_numpy() & bits) != 0
    return is_marked


def pieces_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer, larger batches."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_PER_PIECE or size >= BYTES_PER_PIECE:
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if any(batch.schema != batches[0].schema for batch in batches):
        # Files may have integers of different widths, and columns that order equal times may have stayed behind.
        table = pa.concat_tables(map(pa.Table.from_batches, ([b] for b in batches)), promote_options="permissive")
    else:
        table = pa.Table.from_batches(batches)
    return pa.RecordBatch.from_arrays([one_chunk(column) for column in table.columns], names=table.column_names)


@dataclass
class _OnceEach:
    """Every shard gets all events of a moving subscription, and a task may have several shards: one copy is enough."""

    stage: Stage
    shards: tuple[int, ...] = ()  # that are here

    def of(self, packets: pa.RecordBatch) -> pa.RecordBatch:
        copies = pc.is_in(packets.column("route"), pa.array(self.stage.in_every_task, pa.int32()))
        if not copies.true_count:
            return packets
        shards = packets.column("shard").filter(copies).unique().to_pylist()
        self.shards = tuple(dict.fromkeys([*self.shards, *shards]))
        return packets.filter(pc.or_(pc.equal(packets.column("shard"), self.shards[0]), pc.invert(copies)))


@dataclass(frozen=True)
class StageRun:
    """Packets of a stage -> packets for later stages, or, from the last one, rows of the tagged table."""

    plan: SparkPlan
    number: int
    shards: int
    moving_shards: int
    output: TaggedOutput
    functions: tuple[Function, ...]
    memory_bytes: int | None = None

    @property
    def is_last(self) -> bool:
        return self.number == len(self.plan.stages) - 1

    def run(self, packets: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrived: Arrived = defaultdict(list)
        once = _OnceEach(self.plan.stages[self.number])
        owns = False
        for batch in packets:
            mine = pc.equal(batch.column("stage"), self.number)
            if mine.false_count:
                yield from self._onward(batch.filter(pc.invert(mine)))
                batch = batch.filter(mine)
            begins = pc.equal(batch.column("route"), BEGIN)
            if begins.true_count:
                owns = True
                batch = batch.filter(pc.invert(begins))
            for number, type_, rows in from_packets(once.of(batch)):
                arrived[number, type_] += rows
        stage = self.plan.stages[self.number]
        yield from self._run_operators(stage, arrived, owns)
        for number, query in enumerate(stage.moving):
            routes = stage.events_of(number), stage.updates_of(number)
            yield from self._run_moving(query, *routes, arrived, Shards(once.shards, self.moving_shards))

    def _run_operators(self, stage: Stage, arrived: Arrived, owns: bool) -> Iterator[pa.RecordBatch]:
        """All operators of the stage on all that has come; then the input ends. `owns`: those that one task owns begin
        here, at the start of the query."""
        programs = stage_programs(self.plan, stage, loaded(self.functions), owns, in_order=False)
        running = StageFlow.of(self.plan, stage, programs, memory_of_task(self.memory_bytes))
        for (route, name), port in running.ports.items():
            with hop("unpacking"):
                batch = rows_to_batch(arrived.pop((route, name), []), self.plan.read(name))
            running.flow.add(port, batch)
        all_produced = running.flow.advance(END)
        for name, produced in all_produced.items():
            yield from to_later_stages(self.plan, self.number, name, produced.events, self.shards)
        for rows in pieces_of(tagged(self.output, all_produced)):
            yield from self._result(rows)
        yield from self._failed(running.flow.failed_calls)

    def _run_moving(
        self, query: MovingQuery, events: int, updates: int, arrived: Arrived, shards: Shards
    ) -> Iterator[pa.RecordBatch]:
        if not arrived.get((updates, query.focal.name)):
            return  # nobody is here
        memory = memory_of_task(self.memory_bytes)
        moving = moving_flow(MovingProgram.of(query, loaded(self.functions)), memory, shards=shards)
        for name in query.before_us:
            moving.add(name, rows_to_batch(arrived.get((events, name), []), self.plan.read(name)))
        moving.add_updates(rows_to_batch(arrived[updates, query.focal.name], self.plan.read(query.focal.name)))
        delivered = moving.advance(END)
        if len(delivered):
            yield from self._result(self.output.rows(COMPLEX_EVENT, query.name, delivered))
        if isinstance(moving, ReusingFlow):
            yield from self._result(self.output.shared(query.name, moving.totals))
        yield from self._failed(moving.failed_calls)

    def _failed(self, failed_calls: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        for function, calls in failed_calls.items():
            yield from self._result(self.output.failed_calls(function, calls))

    def _result(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self.is_last:
            yield rows
        else:
            yield from finished(rows, self.shards)

    def _onward(self, packets: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What is not for this stage."""
        if not self.is_last:
            yield packets
            return
        for _, _, rows in from_packets(packets):
            yield from rows


def tagged(output: TaggedOutput, produced: Mapping[str, Produced]) -> Iterator[pa.RecordBatch]:
    """What operators found, as rows of the tagged table."""
    shown = frozenset(output.shown)
    for name, result in produced.items():
        if name in shown and len(result.events):
            yield output.rows(COMPLEX_EVENT, name, result.events)
        if len(result.timed_out):
            yield output.rows(TIMED_OUT, name, result.timed_out)


def to_later_stages(
    plan: SparkPlan, stage: int, event_type: str, events: Batch, shards: int
) -> Iterator[pa.RecordBatch]:
    """Complex events as packets for the routes of later stages that read them."""
    readers = [(later, route) for later, route in plan.readers(event_type) if later > stage]
    if not readers or not len(events):
        return
    columns = {TIME: pa.array(events.times), **events.columns}
    rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    for later, route in readers:
        partitioning = plan.stages[later].routes[route].partitioning
        yield from distribute(rows, partitioning, Address(later, route, event_type), shards)


def finished(rows: pa.RecordBatch, shards: int) -> Iterator[pa.RecordBatch]:
    """Rows of the tagged table as packets, spread over tasks."""
    yield from to_packets(rows, some_shard(rows, shards), shards, Address(FINISHED, 0, ""))


def rows_to_batch(rows: list[pa.RecordBatch], read: Read | None) -> Batch:
    """Rows of packets as a batch; `read` says what is known of them, if they are a stream's."""
    if not rows:
        return Batch(np.zeros(0, np.int64), {})
    # Files are often in order of time: then so is each group, and nothing needs to be sorted.
    joined = _joined(sorted(rows, key=lambda packet: packet.column(TIME)[0].as_py()))
    times = joined.column(TIME).to_numpy()
    columns = {name: joined.column(name) for name in joined.schema.names if not name.startswith("_marks")}
    columns.pop(TIME)
    if read is None:
        return Batch(times, columns)
    typed = {a.name: to_arrow(a.type) for a in read.stream.attributes}
    for name, column in columns.items():
        if name in typed and not pa.types.is_integer(column.type):  # integers are of any width
            columns[name] = column.cast(typed[name])
    if read.stream.location and {*read.stream.location} <= {*columns}:
        x, y = (columns[name].cast(pa.float64()) for name in read.stream.location)
        columns |= dict(zip(EXTENT, (x, y, x, y), strict=True))
    length = len(times)

    def left_behind(names: Iterable[str]) -> dict[str, pa.Array]:
        """What only orders rows of equal times did not come along, because there are none; copies are alike."""
        return {name: pa.nulls(length, typed[name]) for name in names}

    batch = Batch(times, columns, left_behind)
    marked = "_marks0" in joined.schema.names
    for number, test in enumerate(read.tests):
        if test.complete and test.conditions and not read.indexed:
            is_accepted = marked_rows(joined, frozenset({number})) if marked else np.ones(len(times), np.bool_)
            batch.masks[test.conditions] = is_accepted
    return batch
