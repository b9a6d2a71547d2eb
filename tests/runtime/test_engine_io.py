"""What goes into the embedded engine and what comes out: sources, types, provenance, late rows, idle streams."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.comparison import check_low_watermarks
from situ import Engine, InputError, Output
from situ.core.functions import Functions
from situ.graph.query import Stream
from situ.io.files.by_suffix import open_source
from situ.io.rows.conform import Conformed, conform

RISES = """
    stream Reading(value int, ts int) time ts in s
    subscribe Rise
      detect   Reading as a then Reading(value > a.value) as b within 100 s
      assign   by = b.value - a.value
"""


def seconds(*rows: tuple[int | None, int | None]) -> pa.Table:
    """(value, second) of every event."""
    values, times = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"value": pa.array(values, pa.int64()), "ts": pa.array(times, pa.int64())})


def rises(*outputs: Output) -> list[int]:
    return [by for output in outputs for by in output.complex_events["Rise"].column("by").to_pylist()]


# --- bounded input

READINGS = seconds((1, 1), (2, 2), (4, 3), (7, 4), (11, 5), (16, 6))
ALL_RISES = [1, 2, 3, 4, 5]


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk in memory; `damaged` ones cannot be read."""

    table: pa.Table
    stream: Stream
    time_range: tuple[int, int] | None = None
    damaged: bool = False

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    def read(self, columns: Sequence[str]) -> Conformed:
        if self.damaged:
            raise InputError("the page is damaged", place="readings.parquet")
        return conform(self.table, self.stream, columns, place="piece")


@dataclass(frozen=True, slots=True)
class Pieces:
    """A source of chunks."""

    pieces: tuple[Piece, ...]
    rows: int | None = None

    def chunks(self) -> Iterator[Piece]:
        return iter(self.pieces)


def pieces_of(engine: Engine, table: pa.Table, size: int, stream: str = "Reading") -> Pieces:
    """A table in chunks whose times are known, as Parquet's statistics give them."""
    (declared,) = (s for s in engine.graph.streams if s.name == stream)
    parts = [table.slice(start, size) for start in range(0, table.num_rows, size)]
    times = [part.column("ts").to_pylist() for part in parts]
    ranges = [(min(t) * 1_000_000, max(t) * 1_000_000) for t in times]
    return Pieces(tuple(Piece(p, declared, r) for p, r in zip(parts, ranges, strict=True)))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_complex_events_come_out_while_the_source_is_read(size: int) -> None:
    engine = Engine(RISES)
    outputs = list(engine.run({"Reading": pieces_of(engine, READINGS, size)}))
    assert rises(*outputs) == ALL_RISES
    assert rises(*outputs[:-1]) != []
    assert [output.events for output in outputs] == [min(size, 6 - start) for start in range(0, 6, size)]
    check_low_watermarks(outputs)


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 2, 0], [2, 1, 0]])
def test_the_order_of_chunks_does_not_matter(order: list[int]) -> None:
    engine = Engine(RISES)
    pieces = pieces_of(engine, READINGS, 2).pieces
    assert rises(*engine.run({"Reading": Pieces(tuple(pieces[i] for i in order))})) == ALL_RISES


def test_chunks_that_overlap_in_time_are_read_together() -> None:
    engine = Engine(RISES)
    evens, odds = READINGS.take([1, 3, 5]), READINGS.take([0, 2, 4])
    sources = pieces_of(engine, pa.concat_tables([evens, odds]), 3)
    assert rises(*engine.run({"Reading": sources})) == ALL_RISES


def test_chunks_of_unknown_times_are_sorted_too() -> None:
    engine = Engine(RISES)
    pieces = [replace(piece, time_range=None) for piece in reversed(pieces_of(engine, READINGS, 2).pieces)]
    assert rises(*engine.run({"Reading": Pieces(tuple(pieces))})) == ALL_RISES


def test_streams_with_chunks_of_different_sizes() -> None:
    query = """
        stream Reading(value int, ts int) time ts in s
        stream Alarm(value int, ts int) time ts in s
        subscribe Alarmed
          detect   Reading as a then Alarm as b within 2 s
          assign   a = a.ts, b = b.ts
    """
    engine = Engine(query)
    alarms = seconds((0, 3), (0, 6), (0, 7))
    sources = {"Reading": pieces_of(engine, READINGS, 4), "Alarm": pieces_of(engine, alarms, 1, "Alarm")}
    outputs = list(engine.run(sources))
    pairs = [(r["a"], r["b"]) for output in outputs for r in output.complex_events["Alarmed"].to_pylist()]
    assert sorted(pairs) == [(1, 3), (2, 3), (4, 6), (5, 6), (6, 7)]  # at 3 s, the alarm stands before the reading
    check_low_watermarks(outputs)


def test_files_in_any_order_of_time(tmp_path: Path) -> None:
    for name, rows in {"a": [4, 5], "b": [0, 1], "c": [2, 3]}.items():
        pq.write_table(READINGS.take(rows), tmp_path / f"{name}.parquet", row_group_size=1)
    engine = Engine(RISES)
    (stream,) = engine.graph.streams
    assert rises(*engine.run({"Reading": open_source(tmp_path, stream)})) == ALL_RISES


def test_rejected_rows_of_every_chunk_are_given_once() -> None:
    engine = Engine(RISES)
    (stream,) = engine.graph.streams
    bad = seconds((9, None))
    pieces = tuple(Piece(pa.concat_tables([READINGS.slice(n, 2), bad]), stream) for n in (0, 2, 4))
    outputs = list(engine.run({"Reading": Pieces(pieces)}))
    rejected = [row for output in outputs for row in output.rejected["Reading"].to_pylist()]
    assert [row["_place"] for row in rejected] == ["piece, row 3"] * 3
    assert sum(output.events for output in outputs) == 6
    assert rises(*outputs) == ALL_RISES


def test_a_chunk_that_cannot_be_read_ends_the_run_after_what_came_before() -> None:
    engine = Engine(RISES)
    first, second, third = pieces_of(engine, READINGS, 2).pieces
    running = engine.run({"Reading": Pieces((first, second, replace(third, damaged=True)))})
    assert rises(next(running), next(running)) == [1, 2, 3]
    with pytest.raises(InputError, match=r"readings\.parquet: the page is damaged"):
        next(running)


# --- types


@pytest.mark.parametrize("type_", [pa.int8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64()])
def test_integers_of_every_width(type_: pa.DataType) -> None:
    table = pa.table({"value": READINGS.column("value").cast(type_), "ts": READINGS.column("ts").cast(type_)})
    assert rises(*Engine(RISES).run({"Reading": table})) == ALL_RISES


@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000)])
def test_every_unit_of_time(unit: str, per_second: int) -> None:
    times = pa.array([second * per_second for second in READINGS.column("ts").to_pylist()])
    engine = Engine(RISES.replace("in s", f"in {unit}"))
    (output,) = engine.run({"Reading": READINGS.set_column(1, "ts", times)})
    last = output.complex_events["Rise"].column("_time").to_pylist()[-1]
    assert last == datetime.datetime(1970, 1, 1, 0, 0, 6, tzinfo=datetime.UTC)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_of_every_unit_and_zone(unit: str, zone: str | None) -> None:
    times = READINGS.column("ts").cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    zoned = times if zone is None else times.cast(pa.int64()).cast(pa.timestamp(unit, zone))
    engine = Engine(RISES.replace("ts int) time ts in s", "ts timestamp) time ts"))
    assert rises(*engine.run({"Reading": READINGS.set_column(1, "ts", zoned)})) == ALL_RISES


EVERY_TYPE = """
    stream S(p boolean, i int, x double, d decimal(8, 2), s string, b binary, ts timestamp) time ts
    subscribe Copy
      detect   S as e
      assign   p = e.p, i = e.i, x = e.x, d = e.d, s = e.s, b = e.b, ts = e.ts, since = e.ts - e.ts
"""
COPIED = pa.schema(
    [
        ("p", pa.bool_()),
        ("i", pa.int64()),
        ("x", pa.float64()),
        ("d", pa.decimal128(8, 2)),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("since", pa.duration("us")),
        ("_time", pa.timestamp("us", tz="UTC")),
    ]
)


def test_columns_have_the_types_of_the_language_also_without_rows() -> None:
    table = pa.table({name: pa.array([], COPIED.field(name).type) for name in COPIED.names[:7]})
    (output,) = Engine(EVERY_TYPE).run({"S": table})
    assert output.complex_events["Copy"].schema == COPIED
    assert output.low_watermark == 2**63 - 1


def test_values_of_every_type_come_out_as_they_went_in() -> None:
    now = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
    row = {"p": True, "i": -(2**63), "x": 0.1, "d": None, "s": "Straße", "b": b"\x00\xff", "ts": now}
    nulls = dict.fromkeys(row) | {"ts": now}
    table = pa.Table.from_pylist([row, nulls], pa.schema([COPIED.field(name) for name in row]))
    (output,) = Engine(EVERY_TYPE).run({"S": table})
    found = output.complex_events["Copy"].select(list(row)).to_pylist()
    assert sorted(found, key=repr) == sorted([row, nulls], key=repr)


# --- users' functions


def test_a_function_that_raises_gives_null_and_the_stream_lives_on() -> None:
    functions = Functions()

    @functions.function(returns="int")
    def inverse(x: int) -> int:
        return 12 // x

    query = """
        stream Reading(value int, ts int) time ts in s
        subscribe Found
          detect   Reading(inverse(value) > 2) as a
          assign   value = a.value, inverse = inverse(a.value)
        subscribe All
          detect   Reading as a
          assign   inverse = inverse(a.value)
    """
    (output,) = Engine(query, functions=functions).run({"Reading": seconds((3, 1), (0, 2), (None, 3), (6, 4), (4, 5))})
    found = [(row["value"], row["inverse"]) for row in output.complex_events["Found"].to_pylist()]
    assert found == [(3, 4), (4, 3)]
    assert output.complex_events["All"].column("inverse").to_pylist() == [4, None, None, 2, 3]


# --- provenance

CHAIN = """
    stream Reading(value int, ts int) time ts in s
    define Rise(by, at)
      detect   Reading as a then Reading(value > a.value) as b within 100 s
      assign   by = b.value - a.value, at = b.ts
    subscribe Faster
      detect   Rise as slow then Rise(by > slow.by) as fast within 100 s
      assign   by = fast.by
"""


def origins(outputs: Iterable[Output]) -> list[list[tuple[str, int]]]:
    return [
        sorted((origin["stream"], origin["row"]) for origin in event)
        for output in outputs
        for event in output.complex_events["Faster"].column("_origins").to_pylist()
    ]


def test_origins_name_the_atomic_events_below_a_chain() -> None:
    rows = seconds((5, 1), (6, 2), (0, 3), (3, 4))
    # The Rise from row 0 to 1, then the one from row 2 to 3.
    expected = [[("Reading", 0), ("Reading", 1), ("Reading", 2), ("Reading", 3)]]
    assert origins(Engine(CHAIN, provenance=True).run({"Reading": rows})) == expected
    engine = Engine(CHAIN, provenance=True)
    outputs = [engine.feed(rows.slice(row, 1)) for row in range(4)]
    assert origins([*outputs, engine.close()]) == expected


def test_definitions_are_shown_on_request() -> None:
    (output,) = Engine(CHAIN).run({"Reading": READINGS})
    assert set(output.complex_events) == {"Faster"}
    (output,) = Engine(CHAIN, show_definitions=True).run({"Reading": READINGS})
    assert output.complex_events["Rise"].column("by").to_pylist() == ALL_RISES


# --- unbounded input


def test_tables_batches_and_nothing_at_all_can_be_fed() -> None:
    engine = Engine(RISES)
    (batch,) = READINGS.slice(0, 2).to_batches()
    chunked = pa.concat_tables([READINGS.slice(2, 1), READINGS.slice(3, 3)])
    outputs = [engine.feed(batch), engine.feed(READINGS.slice(0, 0)), engine.feed(chunked, "Reading"), engine.close()]
    assert rises(*outputs) == ALL_RISES
    check_low_watermarks(outputs)


def test_a_complex_event_comes_out_as_soon_as_it_is_certain() -> None:
    """At the time of its last event, another event of the same time could still come: the next one decides."""
    engine = Engine(RISES)
    assert rises(engine.feed(READINGS.slice(0, 2))) == []
    assert rises(engine.feed(READINGS.slice(2, 1))) == [1]


def test_late_rows_are_judged_one_by_one() -> None:
    """The same rows are late however the input is cut, and `_lateness` says by how much."""
    query = RISES.replace("in s", "in s watermark 2 s")
    rows = seconds((10, 0), (20, 5), (90, 2), (15, 3), (30, 6), (0, 1))
    late = [
        {"value": 90, "ts": 2, "_lateness": datetime.timedelta(seconds=1)},
        {"value": 0, "ts": 1, "_lateness": datetime.timedelta(seconds=3)},
    ]
    for size in (1, 2, 3, 6):
        engine = Engine(query)
        outputs = [engine.feed(rows.slice(start, size)) for start in range(0, 6, size)]
        assert pa.concat_tables(o.late["Reading"] for o in outputs if o.late).to_pylist() == late
        assert rises(*outputs, engine.close()) == [5, 5, 10]  # 10 at 0 s, 15 at 3 s, 20 at 5 s, 30 at 6 s
        assert sum(output.events for output in outputs) == 6


TWO_STREAMS = """
    stream Reading(value int, ts int) time ts in s
    stream Alarm(value int, ts int) time ts in s  idle after 10 s
    subscribe Rise
      detect   Reading as a then Reading(value > a.value) as b within 100 s
      assign   by = b.value - a.value
    subscribe Alarmed
      detect   Reading as a then Alarm as b within 2 s
      assign   at = b.ts
"""


def test_an_idle_stream_stops_holding_the_others_back() -> None:
    now = 1000.0
    engine = Engine(TWO_STREAMS, clock=lambda: now)
    first = engine.feed(seconds((0, 0)), "Alarm")
    second = engine.feed(seconds((1, 1), (2, 2), (4, 3)), "Reading")
    assert rises(first, second) == []  # another alarm could still come before
    now += 9.9
    assert rises(engine.feed(seconds((4, 4)), "Reading")) == []
    now += 0.2
    assert rises(engine.feed(seconds((0, 5)), "Reading")) == [1, 2]  # all that is certain before 5 s

    # What the stream sends after its silence is late where the others have gone on; the rest of it is not.
    woken = engine.feed(seconds((0, 3), (0, 6)), "Alarm")
    assert woken.late["Alarm"].to_pylist() == [{"value": 0, "ts": 3, "_lateness": datetime.timedelta(seconds=2)}]
    end = engine.close()
    assert end.complex_events["Alarmed"].column("at").to_pylist() == [6, 6]  # with the readings of 4 s and 5 s


def test_a_stream_that_never_sent_anything_is_idle_after_its_time() -> None:
    now = 1000.0
    engine = Engine(TWO_STREAMS, clock=lambda: now)
    assert rises(engine.feed(seconds((1, 1), (2, 2), (4, 3)), "Reading")) == []
    now += 10
    assert rises(engine.feed(seconds((0, 4)), "Reading")) == [1, 2]


def test_without_idle_after_a_silent_stream_holds_the_others_for_ever() -> None:
    now = 0.0
    engine = Engine(TWO_STREAMS.replace("idle after 10 s", ""), clock=lambda: now)
    engine.feed(seconds((1, 1), (2, 2)), "Reading")
    now = 1e9
    assert rises(engine.feed(seconds((3, 9)), "Reading")) == []
    assert rises(engine.close()) == [1, 1]
