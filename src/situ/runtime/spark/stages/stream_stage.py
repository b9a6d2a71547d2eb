"""A stage of a streaming query at work: the packets of a micro-batch, and the state of a shard.

Every shard hears of every row's time, so all shards of all stages agree on how far time has come, without a word
between them; and what is decided by time passing is found in the same micro-batch.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from situ.core.errors import StateError
from situ.core.functions import Function, Functions
from situ.core.time import BEGINNING
from situ.flow.clock import Clock
from situ.flow.flow import Flow, operators_in
from situ.flow.moving import MovingFlow, under
from situ.flow.port import Port
from situ.flow.reusing import ReusingFlow, moving_flow
from situ.flow.watermarks import Watermarks
from situ.io.files.json_text import rows_to_json
from situ.kernel.batch import EXTENT, Batch
from situ.kernel.compile import Programs
from situ.kernel.operator import SLICE, Produced
from situ.kernel.state.checks import FARTHEST, damage_is_told, numbers, require_between, require_times
from situ.kernel.state.snapshot import pack, unpack
from situ.mobility.moving_program import MovingProgram
from situ.reuse.tiles import Shards
from situ.reuse.totals import Totals
from situ.runtime.spark.plan.partitioning import BySlice, EveryTask, OneTask
from situ.runtime.spark.plan.plan import SparkPlan, Stage
from situ.runtime.spark.session.functions import loaded
from situ.runtime.spark.session.task_memory import memory_of_task
from situ.runtime.spark.stages.batch_stage import finished, pieces_of, rows_to_batch, tagged, to_later_stages
from situ.runtime.spark.stages.output import COMPLEX_EVENT, TaggedOutput
from situ.runtime.spark.stages.restart import AS_BEFORE, Restart, put_back
from situ.runtime.spark.stages.shards import CLOCK, clock_packets, rows_of
from situ.runtime.spark.stages.stage_flow import StageFlow, stage_programs
from situ.runtime.spark.stages.stream_packer import REPORTS

#: In a state: the time to which its clock was put back.
_PUT_BACK = b"situ.put_back_to_us"


@dataclass(frozen=True, slots=True)
class Packet:
    """A row of PACKETS."""

    stage: int
    shard: int
    route: int
    type: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class StageStep:
    """What a step gives: the state after it, packets, and when, without further rows, wall time lets time pass."""

    state: bytes
    packets: list[pa.RecordBatch]
    idle_at: float | None


@dataclass
class _Shard:
    """The state of a shard, brought to life. `watermarks`: how far complex events of earlier stages have come, by their
    type and the shard that makes them. `put_back_to_us`: the time to which the clock was put back last."""

    number: int
    flow: Flow
    moving: dict[str, MovingFlow]
    ports: dict[tuple[int, str], Port]
    clock: Clock
    watermarks: Watermarks
    put_back_to_us: int | None


@dataclass(frozen=True)
class StreamStage:
    """`step` is all that a stage does: no clock, no file, no Spark."""

    plan: SparkPlan
    number: int
    shards: int
    output: TaggedOutput
    functions: tuple[Function, ...]
    restart: Restart = AS_BEFORE
    memory_bytes: int | None = None

    def step(self, shard: int, state: bytes | None, packets: Iterable[Packet], now: float) -> StageStep:
        """The state before and what came -> the state after, and packets. `now`, in seconds, tells idle streams."""
        begun = time.perf_counter()
        running = self._restored(shard, state)
        self._resume(running.clock, now)
        made: list[pa.RecordBatch] = []
        arrived: dict[tuple[int, str], list[pa.RecordBatch]] = defaultdict(list)
        told = []
        for packet in packets:
            if packet.route == CLOCK:
                told.append(json.loads(packet.payload))
            else:
                arrived[packet.route, packet.type] += rows_of(packet.payload)
        events = 0
        for (route, type_), rows in arrived.items():
            read = self.plan.read(type_)
            batch = rows_to_batch(rows, read)
            events += len(batch) if read and self._counts(shard, route) else 0
            made += self._admit(running, route, type_, batch)
        rows_read = self._hear(running, told, now)
        passed = running.clock.advance(now)
        produced = running.flow.advance(passed, running.watermarks.by_type())
        made += self._hand_on(shard, running, produced)
        delivered = {name: moving.advance(passed) for name, moving in running.moving.items()}
        made += self._deliver(running, delivered)
        reusing = [moving.totals for moving in running.moving.values() if isinstance(moving, ReusingFlow)]
        shared = sum(reusing, Totals())
        after = pack(self._tables(running))
        figures = {
            "stage": self.number,
            "shard": shard,
            "input": rows_read if (self.number, shard) == (0, 0) else 0,  # all shards hear of all rows
            "events": events,
            "duplicates": running.flow.duplicates,
            "reuse": asdict(shared),
            "state_bytes": len(after),
            "watermark": None if passed == BEGINNING else passed,
            "busy_ms": (time.perf_counter() - begun) * 1e3,
        }
        complex_events = {name: result.events for name, result in produced.items()} | delivered
        made += finished(self.output.figures(figures | self._latency(complex_events)), self.shards)
        return StageStep(after, made, running.clock.idle_at(now))

    def _resume(self, clock: Clock, now: float) -> None:
        """Takes the time in which the query did not run out of the silence of its streams.

        A start counts from the first micro-batch that was planned after it. One that was planned before, and is done
        again after the start, gives what it gave.
        """
        for start in self.restart.starts:
            if clock.looked_at is not None and clock.looked_at < start <= now:
                clock.resume(start)

    # --- state

    @property
    def _stage(self) -> Stage:
        stages = self.plan.stages
        return stages[self.number] if self.number < len(stages) else Stage(self.number, ())

    def _counts(self, shard: int, route: int) -> bool:
        """Whether this shard counts and reports a route's events: what all shards get, the first one does."""
        return shard == 0 or not isinstance(self._stage.partitioning(route), EveryTask)

    @cached_property
    def _known_programs(self) -> dict[bool, Programs]:
        """By whether the task owns rules that run in one task, the programs that were made: in each step the same."""
        return {}

    def _programs(self, functions: Functions, owns: bool) -> Programs:
        if owns not in self._known_programs:
            self._known_programs[owns] = stage_programs(self.plan, self._stage, functions, owns)
        return self._known_programs[owns]

    @cached_property
    def _moving_programs(self) -> dict[str, MovingProgram]:
        """The programs of moving subscriptions, made once as well."""
        functions = loaded(self.functions)
        return {query.name: MovingProgram.of(query, functions) for query in self._stage.moving}

    def _restored(self, shard: int, state: bytes | None) -> _Shard:
        functions = loaded(self.functions)
        memory = memory_of_task(self.memory_bytes)
        stage = StageFlow.of(self.plan, self._stage, self._programs(functions, shard == OneTask.shard), memory)
        handed = {port.type for port in stage.ports.values() if port.stream is None}
        watermarks = Watermarks.of(sorted(handed), map(str, range(self.shards)))
        clock = Clock.of(self.plan.graph.streams)
        here = Shards((shard,), self.shards)
        moving = {name: moving_flow(program, memory, shards=here) for name, program in self._moving_programs.items()}
        back_to_us = self.restart.clock_back_to_us
        running = _Shard(shard, stage.flow, moving, stage.ports, clock, watermarks, back_to_us)
        if state is not None:
            tables = unpack(state)
            with damage_is_told():
                self._restore(running, tables)
        return running

    def _restore(self, running: _Shard, tables: Mapping[str, pa.Table]) -> None:
        shards = json.loads(tables["shards"].schema.metadata[b"situ.shards"])
        if shards != self.shards:
            raise StateError(
                f"the checkpoint's state is in {shards} shards, and the query runs with {self.shards}",
                remedy=f"Run it with shards={shards}, as before, or with a new checkpoint.",
            )
        before_us = json.loads(tables["shards"].schema.metadata.get(_PUT_BACK, b"null"))
        if running.put_back_to_us is None:
            running.put_back_to_us = before_us
        elif running.put_back_to_us != before_us:
            tables = put_back(tables, running.put_back_to_us)
        moved = {name.split("/")[1] for name in tables if name.startswith("moving/")}
        gone = (operators_in(tables) - {*running.flow.nodes}) | (moved - {*running.moving})
        if unknown := sorted(gone - self.restart.changed):
            raise StateError(
                f"the checkpoint has state of {unknown[0]}, which the query does not have"
                + (" in this place" if any(o.name == unknown[0] for o in self.plan.graph.operators) else ""),
                remedy=f"Is it the checkpoint of another query? If not, let {unknown[0]} go: changed={unknown}.",
            )
        require_times(numbers(tables["clock"].column("time"), np.int64, "times"), "times")
        seen_s = tables["clock"].column("seen_at").drop_null()
        require_between(numbers(seen_s, np.float64, "times"), 0, FARTHEST, "times of the wall")
        running.clock.restore(tables["clock"])
        running.flow.restore(tables, self.restart.changed, running.clock.passed)
        for name, moving in running.moving.items():
            if name in moved:
                moving.restore(under(f"moving/{name}/", tables), afresh=name in self.restart.changed)
        running.watermarks.restore(tables["shards"])

    def _tables(self, running: _Shard) -> dict[str, pa.Table]:
        tables = running.flow.snapshot() | {"clock": running.clock.table(), "shards": self._about(running)}
        for name, moving in running.moving.items():
            tables |= {f"moving/{name}/{part}": table for part, table in moving.snapshot().items()}
        return tables

    def _about(self, running: _Shard) -> pa.Table:
        about = {b"situ.shards": self.shards, _PUT_BACK: running.put_back_to_us}
        table = running.watermarks.table()
        return table.replace_schema_metadata({key: json.dumps(value).encode() for key, value in about.items()})

    # --- what comes in

    def _admit(self, running: _Shard, route: int, type_: str, batch: Batch) -> Iterator[pa.RecordBatch]:
        """Events wait for their turn; late ones do not."""
        reports = batch.columns.pop(REPORTS, None)
        if (read := self.plan.read(type_)) is not None:
            limit = running.clock.limit(read.stream.name)
            late = batch.times < limit
            if late.any():
                told = late if reports is None else late & reports.to_numpy(zero_copy_only=False)
                told = told & self._counts(running.number, route)
                partitioning = self._stage.partitioning(route)
                if isinstance(partitioning, BySlice):  # the slice before may have got the row, too
                    into = batch.times - batch.columns[SLICE].to_numpy()
                    told = told & (into < partitioning.length_us)
                yield from self._late(read.stream.name, batch.take(told), limit)
                batch = batch.take(~late)
        if (route, type_) in running.ports:
            running.flow.add(running.ports[route, type_], batch)
            return
        number, is_update = divmod(route - len(self._stage.routes), 2)
        moving = running.moving[self._stage.moving[number].name]
        if is_update:
            moving.add_updates(batch)
        else:
            moving.add(type_, batch)

    def _late(self, stream: str, batch: Batch, limit: int) -> Iterator[pa.RecordBatch]:
        if len(batch):
            columns = {name: c for name, c in batch.columns.items() if name not in (*EXTENT, SLICE)}
            rows = rows_to_json(pa.table(columns)) if columns else pa.repeat("{}", len(batch))
            yield from finished(self.output.late(stream, batch.times, limit - batch.times, rows), self.shards)

    def _hear(self, running: _Shard, told: list[dict[str, object]], now: float) -> int:
        """How far streams and earlier stages have come; the number of rows behind it."""
        rows_read = 0
        for words in told:
            match words:
                case {"stream": str(stream), "latest": int(latest), "rows": int(rows)}:
                    running.clock.see(stream, latest, now)
                    rows_read += rows
                case {"shard": int(shard), "lows": dict(lows)}:
                    for name, low in lows.items():
                        running.watermarks.see(name, str(shard), low)
        return rows_read

    # --- what goes out

    def _hand_on(self, shard: int, running: _Shard, produced: Mapping[str, Produced]) -> Iterator[pa.RecordBatch]:
        for name, result in produced.items():
            yield from to_later_stages(self.plan, self.number, name, result.events, self.shards)
        for rows in pieces_of(tagged(self.output, produced)):
            yield from finished(rows, self.shards)
        # Of rules that found nothing, too: rules of one shape are known by what they find.
        for later in self.plan.stages[self.number + 1 :]:
            of_later = {type_ for route in later.routes for type_ in route.reads if type_ in running.flow.nodes}
            if of_later:
                lows = {name: running.flow.nodes[name].low_watermark for name in sorted(of_later)}
                yield clock_packets([later.number], self.shards, {"shard": shard, "lows": lows})
        yield from self._failed(running.flow.failed_calls)

    def _deliver(self, running: _Shard, delivered: Mapping[str, Batch]) -> Iterator[pa.RecordBatch]:
        """What moving subscriptions found."""
        for name, batch in delivered.items():
            if len(batch):
                yield from finished(self.output.rows(COMPLEX_EVENT, name, batch), self.shards)
            yield from self._failed(running.moving[name].failed_calls)

    def _failed(self, failed_calls: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        for function, calls in failed_calls.items():
            yield from finished(self.output.failed_calls(function, calls), self.shards)

    def _latency(self, found: Mapping[str, Batch]) -> dict[str, object]:
        """From the time of complex events that users see to now."""
        times = [batch.times for name, batch in found.items() if name in self.output.shown and len(batch)]
        if not times:
            return {"found": 0, "latency_sum_s": 0.0, "latency_max_s": None}
        latencies = time.time() - np.concatenate(times) / 1e6
        return {
            "found": len(latencies),
            "latency_sum_s": float(latencies.sum()),
            "latency_max_s": float(latencies.max()),
        }
