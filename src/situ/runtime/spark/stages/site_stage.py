"""Logs of a site -> packets, and a stage of its operators at work: what executors run for a Spark site.

What comes was judged where it occurred: there is no lateness here, no idleness and nothing is rejected. Time is what
the offsets of a batch say, and every shard hears of it; what all shards promise, the site promises.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from situ.core.errors import StateError
from situ.core.time import END
from situ.flow.watermarks import Watermarks
from situ.kernel.batch import Batch
from situ.kernel.compile import Programs
from situ.kernel.state.checks import damage_is_told
from situ.kernel.state.snapshot import pack, unpack
from situ.runtime.sites.actions import BatchMade
from situ.runtime.sites.batches import Offsets, offsets_of_json, offsets_to_json, promise_of_shards
from situ.runtime.sites.host import MadeRows
from situ.runtime.sites.messages import LogKind
from situ.runtime.sites.rows import TIME
from situ.runtime.spark.plan.partitioning import OneTask
from situ.runtime.spark.plan.site_plan import SitePlan, site_plan
from situ.runtime.spark.session.task_memory import memory_of_task
from situ.runtime.spark.stages.batch_stage import distribute, rows_to_batch, to_later_stages
from situ.runtime.spark.stages.shards import CLOCK, FINISHED, Address, clock_packets, rows_of, to_packets
from situ.runtime.spark.stages.stage_flow import StageFlow, stage_programs
from situ.runtime.spark.stages.stream_stage import Packet, StageStep

#: The source of what comes from outside, beside the shards of earlier stages.
_OUTSIDE = ""
_WATERMARKS, _SHARDS = "watermarks", b"situ.shards"


@dataclass(frozen=True, slots=True)
class SitePacker:
    """Rows of logs -> packets for the stages that read them. `plan` is JSON: it is compiled where it is needed."""

    plan: str
    site: str
    shards: int

    def packets(self, event_type: str, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows of a log as packets for the routes that read its type."""
        stages = site_plan(self.plan, self.site).stages
        stream = stages.read(event_type)
        times = rows.column(TIME).view(pa.int64())
        rows = rows.set_column(rows.schema.get_field_index(TIME), TIME, times)
        for stage, route in stages.readers(event_type):
            partitioning, address = stages.stages[stage].partitioning(route), Address(stage, route, event_type)
            yield from distribute(rows, partitioning, address, self.shards, stream.stream.unique if stream else None)

    def told(self, since: Offsets, until: Offsets) -> Iterator[pa.RecordBatch]:
        """How far time has come, for all shards; and from where to where the batch reads, for the site."""
        planned = site_plan(self.plan, self.site)
        yield clock_packets(
            [stage.number for stage in planned.stages.stages], self.shards, {"watermarks": planned.watermarks(until)}
        )
        read = {"since": offsets_to_json(since), "until": offsets_to_json(until)}
        yield clock_packets([FINISHED], 1, read)


@dataclass(frozen=True, slots=True)
class SiteStage:
    """One stage: `step` is all that it does. No clock, no file, no Spark."""

    plan: str
    site: str
    number: int
    shards: int
    memory_bytes: int | None = None

    def step(self, shard: int, state: bytes | None, packets: Iterable[Packet], now: float = 0.0) -> StageStep:
        """The state before and what came -> the state after, and packets."""
        planned = site_plan(self.plan, self.site)
        stages, stage = planned.stages, planned.stages.stages[self.number]
        programs = _programs(self.plan, self.site, self.number, shard == OneTask.shard)
        running = StageFlow.of(stages, stage, programs, memory_of_task(self.memory_bytes))
        flow = running.flow
        earlier = {name for route in stage.routes for name in route.reads} - {*planned.outside}
        watermarks = Watermarks(
            Watermarks.of(planned.outside, [_OUTSIDE]).by_source
            | Watermarks.of(sorted(earlier), map(str, range(self.shards))).by_source
        )
        if state is not None:
            tables = unpack(state)
            with damage_is_told():
                self._require_shards(tables)
                flow.restore(tables)
                watermarks.restore(tables[_WATERMARKS])
        arrived: dict[tuple[int, str], list[pa.RecordBatch]] = defaultdict(list)
        for packet in packets:
            if packet.route == CLOCK:
                _hear(watermarks, json.loads(packet.payload))
            else:
                arrived[packet.route, packet.type] += rows_of(packet.payload)
        for (route, type_), rows in arrived.items():
            flow.add(running.ports[route, type_], rows_to_batch(rows, stages.read(type_)))
        produced = flow.advance(END, watermarks.by_type())
        made: list[pa.RecordBatch] = []
        for name, result in produced.items():
            made += to_later_stages(stages, self.number, name, result.events, self.shards)
            made += self._finished(planned, shard, "events", name, result.events)
            if flow.operator(name).rule.timed_out:
                made += self._finished(planned, shard, "timed out", name, result.timed_out)
        lows = {name: node.low_watermark for name, node in flow.nodes.items()}
        for later in stages.stages[self.number + 1 :]:
            if of_later := {type_: lows[type_] for route in later.routes for type_ in route.reads if type_ in lows}:
                made.append(clock_packets([later.number], self.shards, {"shard": shard, "lows": of_later}))
        failed = {f"failed calls of {name}": calls for name, calls in flow.failed_calls.items()}
        figures = {"duplicates": flow.duplicates} | failed
        made.append(clock_packets([FINISHED], 1, {"promises": lows, "figures": figures}))
        about = watermarks.table().replace_schema_metadata({_SHARDS: str(self.shards).encode()})
        return StageStep(pack(flow.snapshot() | {_WATERMARKS: about}), made, None)

    def prepare(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compile, in a worker that has nothing to do yet, what its first batch needs. Nothing is made of `batches`."""
        for _ in batches:
            self.step(OneTask.shard, None, [])
        yield from ()

    def _require_shards(self, tables: Mapping[str, pa.Table]) -> None:
        shards = int(tables[_WATERMARKS].schema.metadata[_SHARDS])
        if shards != self.shards:
            raise StateError(
                f"the checkpoint's state is in {shards} shards, and the query runs with {self.shards}",
                remedy=f"Run the site with --shards {shards}, as before.",
            )

    def _finished(
        self, planned: SitePlan, shard: int, kind: LogKind, name: str, batch: Batch
    ) -> Iterator[pa.RecordBatch]:
        """What an operator made, as rows of its log."""
        if len(batch):
            rows = planned.compiled.rows(kind, name, batch)
            yield from to_packets(rows, shard, self.shards, Address(FINISHED, 0, f"{kind}/{name}"))


@lru_cache(maxsize=32)
def _programs(plan: str, site: str, number: int, owns: bool) -> Programs:
    """The programs of a stage, in each step the same."""
    planned = site_plan(plan, site)
    return stage_programs(planned.stages, planned.stages.stages[number], planned.compiled.functions, owns)


def _hear(watermarks: Watermarks, words: dict[str, object]) -> None:
    match words:
        case {"watermarks": dict(lows)}:
            for type_, low in lows.items():
                watermarks.see(type_, _OUTSIDE, low)
        case {"shard": int(shard), "lows": dict(lows)}:
            for name, low in lows.items():
                watermarks.see(name, str(shard), low)


def batch_of_packets(planned: SitePlan, number: int, packets: Iterable[Packet]) -> BatchMade:
    """What all tasks of a batch made, for the core of the site."""
    rows: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    promises: list[Mapping[str, int]] = []
    figures: Counter[str] = Counter()
    offsets: tuple[Offsets, Offsets] | None = None
    for packet in packets:
        if packet.route != CLOCK:
            rows[packet.type] += rows_of(packet.payload)
            continue
        match json.loads(packet.payload):
            case {"since": since, "until": until}:
                offsets = offsets_of_json(since), offsets_of_json(until)
            case {"promises": lows, "figures": counted}:
                promises.append(lows)
                figures.update(counted)
    if offsets is None:
        raise StateError(f"batch {number} does not say what it has read")
    made = []
    for name, low in sorted(promise_of_shards(promises).items()):
        kinds: list[LogKind] = ["events"]
        if any(o.name == name and o.rule.timed_out for o in planned.compiled.graph.operators):
            kinds.append("timed out")
        for kind in kinds:
            parts = rows.get(f"{kind}/{name}", [])
            joined = planned.compiled.rows(kind, name, None) if not parts else _one(parts)
            made.append(MadeRows(kind, name, joined, low))
    counted_figures = {name: count for name, count in figures.items() if count}
    return BatchMade(planned.compiled.plan.version, number, *offsets, tuple(made), counted_figures)


def _one(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
