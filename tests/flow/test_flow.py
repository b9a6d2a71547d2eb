"""Operators that read each other: what waits for whom, and for how long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from situ.core.errors import StateError
from situ.core.functions import default
from situ.core.time import BEGINNING
from situ.flow.flow import Flow
from situ.flow.port import Port
from situ.graph.operators import OperatorGraph
from situ.kernel.batch import Batch
from situ.kernel.compile import compile_operator
from situ.kernel.operator import SLICE, Produced, contexts_of
from situ.kernel.state.snapshot import pack, unpack
from situ.lang.parse import parse
from situ.lang.resolve import resolve

STREAM = "stream A(k int, v int, ts int) time ts in s\n"
PAIR = "subscribe {} detect {} as a then {}(v > a.v) as b within 10 s assign a = a.v, b = b.v\n"


def flow_of(text: str, *outside: str) -> tuple[Flow, dict[str, Port]]:
    """All operators of a query but those `outside`, whose complex events come in by a port."""
    graph = resolve(parse(text))
    contexts = {n: c for n, c in contexts_of(graph, default, provenance=False).items() if n not in outside}
    streams = {stream.name: stream for stream in graph.streams}
    ports = {
        name: Port(name, tuple(n for n, c in contexts.items() if name in c.inputs), streams.get(name))
        for name in (*streams, *outside)
    }
    programs = {name: compile_operator(context) for name, context in contexts.items()}
    return Flow(programs, list(ports.values())), ports


def batch(*rows: tuple[int, int, int], **more: list[int]) -> Batch:
    """Events (k, v, ts) with times in microseconds."""
    columns = {name: pa.array([row[i] for row in rows], pa.int64()) for i, name in enumerate(("k", "v", "ts"))}
    columns |= {name: pa.array(values, pa.int64()) for name, values in more.items()}
    return Batch(np.array([row[2] for row in rows], np.int64), columns)


def values(produced: dict[str, Produced], name: str = "M") -> list[tuple[Any, ...]]:
    columns = produced[name].events.columns.values()
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def restarted(flow: Flow, text: str, *changed: str) -> tuple[Flow, dict[str, Port]]:
    """Another flow that goes on, with rules that may be others."""
    other, ports = flow_of(text)
    other.restore(unpack(pack(flow.snapshot())), changed)
    return other, ports


def test_events_wait_until_time_has_passed_them() -> None:
    flow, ports = flow_of(STREAM + PAIR.format("M", "A", "A"))
    flow.add(ports["A"], batch((0, 3, 30), (0, 1, 10), (0, 2, 20)))
    assert values(flow.advance(20)) == []
    assert values(flow.advance(21)) == [(1, 2)]
    assert values(flow.advance(30)) == []  # an event of second 30 may still come before this one in the order
    assert values(flow.advance(31)) == [(2, 3)]


def test_complex_events_reach_their_readers_in_the_same_step() -> None:
    double = "define D(k, v) detect A(v > 0) as a assign k = a.k, v = a.v * 2\n"
    flow, ports = flow_of(STREAM + double + PAIR.format("M", "D", "D"))
    flow.add(ports["A"], batch((0, 1, 10), (0, 2, 20)))
    assert values(flow.advance(21)) == [(2, 4)]


def test_a_reader_waits_for_complex_events_that_are_not_certain_yet() -> None:
    """D tells of a absence at the end of 5 s, so for M time has not passed beyond its last low watermark."""
    absent = "define D(k, v) detect A(v = 1) as a then last A(v = 2) as b within 5 s assign k = a.k, v = b.v\n"
    flow, ports = flow_of(STREAM + absent + "subscribe M detect D as d then A(v = 3) as a within 9 s assign v = d.v\n")
    second = 1_000_000
    flow.add(ports["A"], batch((0, 1, 0), (0, 2, 1 * second), (0, 3, 6 * second)))
    produced = flow.advance(5 * second)
    assert (values(produced), produced["D"].low_watermark <= 5 * second) == ([], True)
    produced = flow.advance(6 * second + 1)
    assert (values(produced, "D"), values(produced)) == ([(0, 2)], [(2,)])


def test_complex_events_from_outside_come_as_far_as_lows_say() -> None:
    text = STREAM + "define D(k, v) detect A as a then A as b within 9 s assign k = a.k, v = b.v\n"
    flow, ports = flow_of(text + "subscribe M detect D as d then A as a within 9 s assign d = d.v, a = a.v\n", "D")
    flow.add(ports["A"], batch((0, 7, 40)))
    flow.add(ports["D"], batch((0, 1, 10), (0, 2, 30)))
    assert values(flow.advance(100, {"D": 20})) == []  # another complex event may come between 20 and 40
    assert flow.nodes["M"].low_watermark == 20
    flow.add(ports["D"], batch((0, 3, 25)))
    assert values(flow.advance(100, {"D": 30})) == []
    assert values(flow.advance(100, {"D": 50})) == [(1, 7), (2, 7), (3, 7)]
    assert flow.nodes["M"].low_watermark == 50


def test_a_flow_without_operators_has_nothing_to_say() -> None:
    graph: OperatorGraph = resolve(parse(STREAM))
    port = Port("A", (), graph.streams[0])
    flow = Flow({}, [port])
    flow.add(port, batch((0, 1, 10)))
    assert flow.advance(100) == {}
    Flow({}, [port]).restore(unpack(pack(flow.snapshot())))


# --- duplicates

UNIQUE = STREAM.replace("time ts", "unique k time ts").replace("unique k time ts in s", "time ts in s unique k")


def test_rows_of_one_time_that_agree_in_unique_are_one_event() -> None:
    flow, ports = flow_of(UNIQUE + PAIR.format("M", "A", "A") + PAIR.format("N", "A", "A"))
    flow.add(ports["A"], batch((1, 5, 10), (2, 9, 20)))
    flow.add(ports["A"], batch((1, 4, 10), (1, 6, 11)))
    produced = flow.advance(30)
    assert values(produced) == values(produced, "N") == [(4, 6), (6, 9)]  # the smallest one counts
    assert flow.duplicates == 1


def test_a_stream_that_nobody_reads_has_no_duplicates() -> None:
    flow, ports = flow_of(UNIQUE + STREAM.replace("A", "B") + PAIR.format("M", "B", "B"))
    flow.add(ports["A"], batch((1, 5, 10), (1, 5, 10)))
    assert values(flow.advance(30)) == []
    assert flow.duplicates == 0


def test_copies_for_two_slices_are_no_duplicates() -> None:
    flow, ports = flow_of(UNIQUE + "subscribe M detect A(v > 0) as a assign v = a.v\n")
    flow.add(ports["A"], batch((1, 5, 10), (1, 5, 10), (1, 5, 10), **{SLICE: [0, -100, 0]}))
    flow.advance(30)
    assert flow.duplicates == 1


# --- snapshots


@pytest.mark.parametrize("passed", [BEGINNING, 5, 15, 25, 35])
def test_another_flow_goes_on_wherever_events_were(passed: int) -> None:
    text = STREAM + "define D(k, v) detect A(v > 0) as a assign k = a.k, v = a.v * 2\n" + PAIR.format("M", "D", "A")
    flow, ports = flow_of(text)
    flow.add(ports["A"], batch((0, 1, 10), (0, 2, 20), (0, 3, 30)))
    found = values(flow.advance(passed))
    flow, ports = restarted(flow, text)
    flow.add(ports["A"], batch((0, 9, 40)))
    assert sorted(found + values(flow.advance(41))) == [(2, 3), (4, 9), (6, 9)]


def test_what_waited_goes_to_those_it_waited_for() -> None:
    text = STREAM + PAIR.format("M", "A", "A") + PAIR.format("Gone", "A", "A")
    flow, ports = flow_of(text)
    flow.add(ports["A"], batch((0, 1, 10), (0, 2, 20)))
    flow.advance(15)
    text = STREAM + PAIR.format("New", "A", "A") + PAIR.format("M", "A", "A")
    flow, ports = restarted(flow, text)
    flow.add(ports["A"], batch((0, 3, 30), (0, 4, 40)))
    produced = flow.advance(50)
    assert values(produced) == [(1, 2), (2, 3), (3, 4)]
    assert values(produced, "New") == [(3, 4)]


def test_duplicates_are_found_among_what_waited_for_others() -> None:
    """A row waits, the rules change, and a copy of it comes."""
    flow, ports = flow_of(UNIQUE + PAIR.format("M", "A", "A"))
    flow.add(ports["A"], batch((1, 1, 10), (2, 5, 20), (2, 5, 20)))
    flow.advance(15)
    flow, ports = restarted(flow, UNIQUE + PAIR.format("M", "A", "A") + PAIR.format("New", "A", "A"))
    flow.add(ports["A"], batch((2, 5, 20), (3, 6, 30)))
    produced = flow.advance(50)
    assert values(produced) == [(1, 5), (5, 6)]
    assert values(produced, "New") == [(5, 6)]


def test_a_changed_rule_starts_afresh() -> None:
    flow, ports = flow_of(STREAM + PAIR.format("M", "A", "A") + PAIR.format("N", "A", "A"))
    flow.add(ports["A"], batch((0, 1, 10), (0, 2, 20)))
    flow.advance(15)
    other = STREAM + PAIR.format("M", "A", "A").replace("10 s", "11 s") + PAIR.format("N", "A", "A")
    with pytest.raises(StateError, match="the snapshot's state of M is of another program"):
        restarted(flow, other)
    flow, ports = restarted(flow, other, "M", "N")  # N's program is the same: it goes on
    flow.add(ports["A"], batch((0, 3, 30)))
    produced = flow.advance(50)
    assert (values(produced), values(produced, "N")) == ([], [(1, 2), (2, 3)])
    assert flow.nodes["M"].low_watermark == 50


OTHERS = {
    "A as a then A(v > a.v) as b within 5 s": [
        ("v >", "v >="),
        ("a.v", "a.k"),
        ("5 s", "6 s"),
        ("5 s", "5 s from previous"),
        ("then", "then each"),
        ("then", "then not A(v = 7) then"),
        ("then", "then last"),
        ("5 s", "5 s report timed out"),
        ("5 s", "5 s after match skip past last"),
        ("5 s", "5 s consuming b"),
        ("5 s", "5 s group by k"),
    ],
    "A as a then A as b then A(v + a.v + b.v > 1) as c within 5 s": [("> 1", "> 2"), ("> 1", "> 1.5"), ("+ b", "- b")],
    "A+ as a then A(v > sum(a.v)) as b within 5 s": [("sum", "max"), ("sum", "avg"), ("sum(a.v)", "count(a)")],
    "A+ until A(v = 3) as a then A as b within 5 s": [("A+", "A{2,}"), ("A+", "A+ each"), ("= 3", "= 4")],
    "A(v > 1) as a": [("> 1", "> 2")],
}


@pytest.mark.parametrize(("rule", "old", "new"), [(rule, *change) for rule in OTHERS for change in OTHERS[rule]])
def test_state_of_another_program_is_refused(rule: str, old: str, new: str) -> None:
    text = f"{STREAM}subscribe M detect {rule}"
    flow, ports = flow_of(text)
    flow.add(ports["A"], batch((0, 1, 10)))
    flow.advance(15)
    restarted(flow, text)
    with pytest.raises(StateError, match="the snapshot's state of M is of another program"):
        restarted(flow, f"{STREAM}subscribe M detect {rule.replace(old, new)}")


def test_another_assignment_of_the_same_columns_goes_on() -> None:
    flow, ports = flow_of(STREAM + PAIR.format("M", "A", "A"))
    flow.add(ports["A"], batch((0, 1, 10)))
    flow.advance(15)
    flow, ports = restarted(flow, STREAM + PAIR.format("M", "A", "A").replace("b = b.v", "b = a.v + b.v"))
    flow.add(ports["A"], batch((0, 3, 20)))
    assert values(flow.advance(30)) == [(1, 4)]


def test_names_of_any_text() -> None:
    text = STREAM + PAIR.format("`a/b`", "A", "A")
    flow, ports = flow_of(text)
    flow.add(ports["A"], batch((0, 1, 10)))
    flow.advance(15)
    flow, ports = restarted(flow, text)
    flow.add(ports["A"], batch((0, 2, 20)))
    assert values(flow.advance(50), "a/b") == [(1, 2)]
