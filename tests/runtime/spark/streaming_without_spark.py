"""A streaming query in this process: micro-batches, tasks, shuffles and the state store by hand, in any order."""

from __future__ import annotations

import datetime
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.comparison import Found, _rows, tables
from runtime.spark.without_spark import partitions
from situ.core.functions import default
from situ.graph.operators import OperatorGraph
from situ.graph.query import Stream
from situ.io.rows.conform import Conformed, conform
from situ.kernel.batch import Batch
from situ.lang.unparse import unparse
from situ.runtime.spark.plan.plan import Read, SparkPlan, plan_on_spark
from situ.runtime.spark.stages.batch_stage import MARKS_PER_COLUMN, mark_columns
from situ.runtime.spark.stages.output import FIGURES, KINDS, TaggedOutput
from situ.runtime.spark.stages.restart import AS_BEFORE, Restart
from situ.runtime.spark.stages.shards import FINISHED, rows_of
from situ.runtime.spark.stages.stream_packer import PartPacker, StreamPacker
from situ.runtime.spark.stages.stream_stage import Packet, StreamStage
from strategies import SECOND, Rows, random_scenario

#: Where a stage runs, and which shard of it.
Place = tuple[int, int]
#: What says how long something took: no two runs agree in it.
_MEASURED = ("busy_ms", "latency_sum_s", "latency_max_s")


@dataclass
class StreamingQuery:
    """What Spark does for a streaming query. `states` is its checkpoint: a query with the states of another one goes
    on where that one stopped. Some steps are made twice, because Spark repeats micro-batches."""

    graph: OperatorGraph
    rng: random.Random
    shards: int = 1
    levels: int | None = None
    restart: Restart = AS_BEFORE
    states: dict[Place, bytes] = field(default_factory=dict)
    timers: dict[Place, float] = field(default_factory=dict)
    figures: list[dict[str, Any]] = field(default_factory=list)
    most_in_catalyst: int = 100  # 0: conditions are judged by an index, as if there were many rules

    def __post_init__(self) -> None:
        self.plan: SparkPlan = plan_on_spark(self.graph, most_in_catalyst=self.most_in_catalyst, tallies=False)
        self.output = TaggedOutput.of(
            self.plan.contexts(default), True, streams=tuple(stream.name for stream in self.graph.streams)
        )
        numbers = range(self.levels or len(self.plan.stages))
        self.stages = [StreamStage(self.plan, n, self.shards, self.output, (), self.restart) for n in numbers]

    def restarted(
        self, graph: OperatorGraph, restart: Restart = AS_BEFORE, most_in_catalyst: int = 100
    ) -> StreamingQuery:
        """Another query that goes on from this one's checkpoint."""
        levels, states, timers = self.levels or len(self.plan.stages), dict(self.states), dict(self.timers)
        return StreamingQuery(
            graph, self.rng, self.shards, levels, restart, states, timers, most_in_catalyst=most_in_catalyst
        )

    @property
    def state_bytes(self) -> int:
        return sum(map(len, self.states.values()))

    def micro_batch(self, tables: Mapping[str, pa.Table], now: float = 0.0) -> pa.Table:
        """The tagged table of what comes of some rows; without rows, of the time that has passed."""
        packets = list(self._packed(tables))
        for stage in self.stages:
            packets = list(self._run(stage, packets, now))
        assert all(packet.stage == FINISHED for packet in packets)
        rows = [batch for packet in packets for batch in rows_of(packet.payload)]
        events = pa.Table.from_batches(rows, pa.schema(list(self.output.fields.items())))
        for column, words in (("_kind", KINDS), ("_name", self.output.names)):
            spelt = pa.array([words[number] for number in events.column(column).to_pylist()], pa.string())
            events = events.set_column(events.column_names.index(column), column, spelt)
        figures = pc.equal(events.column("_kind"), FIGURES)
        self.figures = [row for (row,) in events.filter(figures).column("_figures").to_pylist()]
        return events.filter(pc.invert(figures)).drop_columns(["_figures"])

    def found(self, results: list[pa.Table]) -> Found:
        """The complex events of all operators, and what timed out."""
        return found_in(self.graph, self.output, pa.concat_tables(results))

    def _packed(self, tables: Mapping[str, pa.Table]) -> Iterator[Packet]:
        """Rows come through Catalyst, or are read and packed in one place."""
        for read in self.plan.stream_reads:
            if read.stream.name in tables:
                packer = StreamPacker(read, self.plan, self.shards, len(self.stages), self.output, _reject)
                table = tables[read.stream.name]
                if self.rng.random() < 0.5:
                    for partition in partitions(table, self.rng):
                        yield from _packets(PartPacker(packer, _PartReader(read.stream)).pack(iter(partition)))
                    continue
                for partition in partitions(crossing_of_stream(read, table), self.rng):
                    yield from _packets(packer.pack(iter(partition)))

    def _run(self, stage: StreamStage, packets: list[Packet], now: float) -> Iterator[Packet]:
        """Spark calls a shard if there are rows with its key, and after that if its timer has expired."""
        arrived: dict[int, list[Packet]] = defaultdict(list)
        for packet in packets:
            if packet.stage != stage.number:
                yield packet
            arrived[packet.shard] += [packet] * (packet.stage == stage.number)
        called = list(arrived.items())
        self.rng.shuffle(called)
        for shard, mine in called:
            self.rng.shuffle(mine)
            yield from self._step(stage, shard, mine, now)
        for shard in range(self.shards):
            if self.timers.get((stage.number, shard), now + 1) <= now:
                yield from self._step(stage, shard, [], now)

    def _step(self, stage: StreamStage, shard: int, packets: list[Packet], now: float) -> list[Packet]:
        place = stage.number, shard
        before = self.states.get(place)
        step = stage.step(shard, before, packets, now)
        made = list(_packets(step.packets))
        if self.rng.random() < 0.2:
            again = stage.step(shard, before, packets, now)
            assert (step.state, step.idle_at) == (again.state, again.idle_at), "a repeated step gave another state"
            assert _lasting(made) == _lasting(list(_packets(again.packets))), "a repeated step gave other packets"
        self.states[place] = step.state
        self.timers.pop(place, None)
        if step.idle_at is not None:
            self.timers[place] = step.idle_at
        return made


@dataclass(frozen=True)
class _PartReader:
    """Rows of a table as what situ reads itself."""

    stream: Stream

    def parts(self, batch: pa.RecordBatch) -> Iterator[Conformed]:
        part = conform(batch, self.stream)
        rejected = _reject(pa.record_batch({"row": part.rejected.column("_row").combine_chunks()}))
        yield Conformed(part.events, part.times, pa.Table.from_batches([rejected]))


def found_in(graph: OperatorGraph, output: TaggedOutput, events: pa.Table) -> Found:
    """The rows of a tagged table, in which attributes of one name may have different columns."""
    found: Found = {}
    for operator in graph.operators:
        for kind, suffix in (("complex event", ""), ("timed out", " timed out")):
            if not suffix or operator.rule.timed_out:
                of_kind = pc.and_(pc.equal(events["_kind"], kind), pc.equal(events["_name"], operator.name))
                rows = events.filter(of_kind)
                names = {name: output.columns[operator.name, name][0] for name in operator.schema.names}
                columns = {name: rows[column] for name, column in names.items()}
                found[operator.name + suffix] = Counter(
                    _rows(graph, operator.name, pa.table(columns | {"_time": rows["_time"]}))
                )
    return found


def _packets(batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> Iterator[Packet]:
    for batch in batches:
        for row in batch.to_pylist():
            yield Packet(**row)


def _lasting(packets: list[Packet]) -> list[str]:
    """Packets without what was measured, as text: NaN is not equal to itself."""
    lasting = []
    for packet in packets:
        if packet.stage != FINISHED:
            lasting.append(repr(packet))
            continue
        for row in (row for batch in rows_of(packet.payload) for row in batch.to_pylist()):
            (measured,) = row["_figures"] or [{}]
            lasting.append(repr(row | {"_figures": {k: v for k, v in measured.items() if k not in _MEASURED}}))
    return lasting


def crossing_of_stream(read: Read, table: pa.Table) -> pa.Table:
    """What Catalyst would send across, judged by the kernel: all rows with their times, or as misfits; other columns
    where some rule takes the row."""
    conformed = conform(table, read.stream)
    columns = {name: conformed.events.column(name).combine_chunks() for name in conformed.events.column_names}
    batch = Batch(conformed.times, columns)
    judged = _judged(read, batch)
    crossing = [pa.array(batch.times)]
    for n in range(len(mark_columns(read, always=True))):
        some = judged[n * MARKS_PER_COLUMN :][:MARKS_PER_COLUMN]
        width = next(type_ for bits, type_ in _WIDTHS.items() if len(some) <= bits)
        bits = np.bitwise_or.reduce([mask.astype(np.int64) << i for i, mask in enumerate(some)])
        crossing.append(pa.array(bits.astype(width)))
    crosses = np.ones(len(batch), np.bool_) if read.indexed or not read.takers else _taken(read, judged)
    taken = pa.array(crosses)
    crossing += [pc.if_else(taken, columns[name], pa.scalar(None, columns[name].type)) for name in read.columns]
    misfits = pa.array(conformed.rejected.column("_row").to_pylist(), pa.string())
    crossing = [pa.concat_arrays([column, pa.nulls(len(misfits), column.type)]) for column in crossing]
    whole = pa.concat_arrays([pa.nulls(len(batch), pa.string()), misfits])
    crossing.append(pa.StructArray.from_arrays([whole], ["row"], mask=whole.is_null()))
    return pa.table(crossing, names=[f"c{n}" for n in range(len(crossing))])


def _judged(read: Read, batch: Batch) -> list[np.ndarray]:
    """What Catalyst says of every test."""
    masks = [batch.mask(test.pushed, {"functions": default, "errors": Counter()}) for test in read.tests]
    return [np.ones(len(batch), np.bool_) if mask is None else mask for mask in masks]


def _taken(read: Read, judged: list[np.ndarray]) -> np.ndarray:
    """Which rows some rule takes."""
    if not read.filtered:
        return np.ones(len(judged[0]), np.bool_)
    return np.logical_or.reduce([judged[n] for taker in read.takers for n in taker.tests or ()])


def rows_taken(read: Read, table: pa.Table) -> list[bool]:
    """The same of rows that fit."""
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    batch = Batch(conform(table, read.stream).times, columns)
    return list(_taken(read, _judged(read, batch)))


_WIDTHS = {7: np.int8, 15: np.int16, 31: np.int32, MARKS_PER_COLUMN: np.int64}


def _reject(misfits: pa.RecordBatch) -> pa.RecordBatch:
    rows = misfits.column("row")
    return pa.record_batch(
        {"_reason": pa.repeat("misfit", len(rows)), "_row": rows, "_place": pa.repeat("", len(rows))}
    )


# --- what the docs say of time, without an engine


@dataclass(frozen=True)
class Late:
    """A late row; `lateness_s` is how far time had come beyond it."""

    stream: str
    row: dict[str, Any]
    lateness_s: int


@dataclass
class Reference:
    """Judges the rows of micro-batches, in seconds: a row is late if its time is before the largest of its stream in
    earlier micro-batches minus the watermark, or before the time that had passed on all streams."""

    streams: tuple[Stream, ...]
    latest: dict[str, int] = field(default_factory=dict)
    seen_at: dict[str, float] = field(default_factory=dict)
    passed: int | None = None

    def micro_batch(self, rows: Rows, now: float) -> tuple[Rows, list[Late]]:
        """The rows that are in time, and those that are not."""
        accepted: Rows = {}
        late: list[Late] = []
        for stream in self.streams:
            bounds = [bound for bound in (self._watermark(stream), self.passed) if bound is not None]
            for row in rows.get(stream.name, []):
                if bounds and row["ts"] < max(bounds):
                    late.append(Late(stream.name, row, max(bounds) - row["ts"]))
                else:
                    accepted.setdefault(stream.name, []).append(row)
        for stream in self.streams:
            if times := [row["ts"] for row in rows.get(stream.name, [])]:
                self.latest[stream.name] = max(*times, self.latest.get(stream.name, times[0]))
                self.seen_at[stream.name] = now
        if self.seen_at:  # before the first row, nothing runs
            self._let_time_pass(now)
        return accepted, late

    def _watermark(self, stream: Stream) -> int | None:
        latest = self.latest.get(stream.name)
        return None if latest is None else latest - stream.watermark_us // SECOND

    def _let_time_pass(self, now: float) -> None:
        active = []
        for stream in self.streams:
            silent = now - self.seen_at.setdefault(stream.name, now)
            if stream.idle_after_us is None or silent < stream.idle_after_us / SECOND:
                active.append(self._watermark(stream))
        marks = [mark for mark in active if mark is not None]
        if active and len(marks) == len(active):
            self._pass(min(marks))
        known = [mark for stream in self.streams if (mark := self._watermark(stream)) is not None]
        if not active and known:  # all are silent, and time goes on at the pace of the wall clock
            self._pass(max(known) + round(now - max(self.seen_at.values())))

    def _pass(self, mark: int) -> None:
        self.passed = max(mark, mark if self.passed is None else self.passed)


def late_rows(table: pa.Table) -> Counter[tuple[str, int, str]]:
    """Stream, lateness in seconds and text of the late rows of a tagged table."""
    rows = table.filter(pc.equal(table.column("_kind"), "late")).to_pylist()
    for row in rows:
        ts = json.loads(row["_row"]).get("ts")
        assert ts is None or row["_time"] == datetime.datetime.fromtimestamp(ts, datetime.UTC)
    return Counter((row["_name"], int(row["_lateness"].total_seconds()), row["_row"]) for row in rows)


def late_of_reference(query: StreamingQuery, late: list[Late]) -> Counter[tuple[str, int, str]]:
    """The same of the late rows that some rule would have read."""
    expected: Counter[tuple[str, int, str]] = Counter()
    for read in query.plan.reads:
        mine = [item for item in late if item.stream == read.stream.name]
        rows = tables(query.graph, {read.stream.name: [item.row for item in mine]})[read.stream.name]
        taken = rows_taken(read, rows)
        for item, is_taken in zip(mine, taken, strict=True):
            if is_taken:
                text = json.dumps({name: item.row[name] for name in read.columns})
                expected[read.stream.name, item.lateness_s, text] += 1
    return expected


@dataclass
class Observed:
    """A query beside the reference: what has come in time, and what has been found."""

    query: StreamingQuery
    text: str
    accepted: Rows = field(default_factory=dict)
    found: Found = field(default_factory=dict)
    reference: Reference = field(init=False)

    def __post_init__(self) -> None:
        self.reference = Reference(self.query.graph.streams)

    def give(self, rows: Rows, now: float = 0.0) -> pa.Table:
        """A micro-batch. Every late row that a rule would have read is reported once; time is what it should be."""
        result = self.query.micro_batch(tables(self.query.graph, rows), now)
        in_time, late = self.reference.micro_batch(rows, now)
        assert late_rows(result) == late_of_reference(self.query, late), self.text
        passed = None if self.reference.passed is None else self.reference.passed * SECOND
        assert {_micros(figure["watermark"]) for figure in self.query.figures} <= {passed}, self.text
        for name, some in in_time.items():
            self.accepted.setdefault(name, []).extend(row for row in some if row["ts"] < FAR_S)
        for name, events in self.query.found([result]).items():
            self.found[name] = self.found.get(name, Counter()) + events
        return result

    def change(self, graph: OperatorGraph, changed: frozenset[str]) -> None:
        """Other rules from now on."""
        self.query = self.query.restarted(graph, Restart(changed))


def _micros(time: datetime.datetime | None) -> int | None:
    return None if time is None else int(time.timestamp() * SECOND)


# --- random queries and arrivals


def random_rules(seed: int, names: str = "DM") -> str:
    """The rules of a random query as text: definitions, and a subscription. Some read, instead of A, a definition F
    that judges single events."""
    rng = random.Random(f"rules {seed}")
    text = unparse(replace(random_scenario(seed, definitions=3).query, streams=()))
    text = re.sub(r"\bD(\d)", rf"{names[0]}\1", re.sub(r"\bM\b", names[1], text))
    if rng.random() < 0.4:
        name = f"F{names[0]}"
        judged = f"define {name}(k, v) detect A(v != {rng.choice([1, 2])} or k = 0) as a assign k = a.k, v = a.v\n"
        text = judged + re.sub(r"\bA\b", name, text)
    return text


def random_streams(rng: random.Random, *, idle: bool = False, unique: bool = False) -> str:
    """Declarations of A and B, with watermarks of their own."""
    return "".join(
        f"stream {name}(k int, v int, n int, ts int) time ts in s{' unique n' * unique}"
        f" watermark {rng.choice([0, 1, 2, 3])} s"
        + f" idle after {rng.choice([2, 5])} s" * (idle and rng.random() < 0.6)
        + "\n"
        for name in "AB"
    )


def in_time(rng: random.Random, graph: OperatorGraph, events: Rows) -> list[tuple[str, dict[str, Any]]]:
    """The rows in some order of arrival in which none is late. A stream may be far behind another."""
    arriving = []
    for stream in graph.streams:
        lag = rng.choice([0, 0, 1, 5])
        delays = range(stream.watermark_us // SECOND + 1)
        arriving += [
            (row["ts"] + rng.choice(delays) + lag, rng.random(), stream.name, row) for row in events[stream.name]
        ]
    return [(name, row) for _, _, name, row in sorted(arriving, key=lambda item: item[:2])]


def micro_batches(rng: random.Random, arriving: list[tuple[str, dict[str, Any]]]) -> list[Rows]:
    """Arrivals cut into micro-batches, some of them without rows."""
    chance = rng.choice([0.15, 0.4, 0.8])
    batches: list[Rows] = [{}]
    for name, row in arriving:
        while rng.random() < chance:
            batches.append({})
        batches[-1].setdefault(name, []).append(row)
    return batches


#: A time so late that everything before it is decided.
FAR_S = 1000


def far_away(graph: OperatorGraph) -> Rows:
    """An event for each stream that lets time pass, and is not read itself because none follows it."""
    return {stream.name: [{"k": 99, "v": None, "n": 10**6, "ts": FAR_S}] for stream in graph.streams}
