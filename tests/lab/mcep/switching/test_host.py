"""An operator between two streams: what it does at markers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from situ.core.functions import default
from situ.kernel.batch import EXTENT, Batch
from situ.kernel.operator import contexts_of
from situ.lab.mcep.switching.buffer import NUMBER, Buffer
from situ.lab.mcep.switching.host import OperatorHost
from situ.lab.mcep.switching.messages import EventChannel, Heartbeat, Marker, Streamed, SwitchingCosts
from situ.lab.mcep.switching.outgoing import ToConsumer
from situ.lang.parse import parse
from situ.lang.resolve import resolve
from situ.space.event_store import Region

GRAPH = resolve(
    parse("""
    stream A(v int, x double, y double, ts int) time ts in us at (x, y)
    stream B(v int, x double, y double, ts int) time ts in us at (x, y)
    subscribe Pair detect A as a then B as b within 100 us assign v = b.v
""")
)
HERE = Region(0.0, 0.0, 5.0, 5.0, False)


def events(numbers: dict[int, int]) -> Streamed:
    """By number, their times."""
    times = np.array(list(numbers.values()), np.int64)
    columns = {"v": pa.array(times), "ts": pa.array(times), NUMBER: pa.array(list(numbers), pa.int64())}
    columns |= {name: pa.array(np.zeros(len(times))) for name in (*EXTENT, "x", "y")}
    return Streamed(Batch(times, columns))


def marker(number: int, start_us: int) -> Marker:
    return Marker(number, start_us, HERE, {"A": 0, "B": 0})


class Setting:
    def __init__(self, *, complete: bool) -> None:
        nothing = events({}).events
        self.a, self.b = (EventChannel(name, "Pair", Buffer.empty(nothing), SwitchingCosts()) for name in "AB")
        self.consumer = ToConsumer(0, SwitchingCosts())
        context = contexts_of(GRAPH, default, provenance=True)["Pair"]
        self.host = OperatorHost(
            context, [self.a, self.b], self.consumer, SwitchingCosts(), optimise=False, complete=complete
        )  # fmt: skip

    def send(self, *messages: tuple[EventChannel, object]) -> None:
        for link, message in messages:
            link.send(message)  # type: ignore[arg-type]
        self.host.work()

    @property
    def delivered(self) -> list[tuple[int, list[int]]]:
        return [(number, batch.times.tolist()) for number, batch in self.consumer.delivered]


@pytest.fixture(params=[True, False], ids=["complete", "best effort"])
def setting(request: pytest.FixtureRequest) -> Setting:
    return Setting(complete=request.param)


def test_a_marker_on_one_stream_only(setting: Setting) -> None:
    """To be complete, an operator goes on until markers stand on all streams; best effort ceases at the first one."""
    complete = setting.host._complete
    setting.send((setting.a, marker(1, 0)), (setting.b, marker(1, 0)))
    setting.send((setting.a, events({0: 5})), (setting.a, Heartbeat(10)), (setting.b, Heartbeat(10)))
    setting.send((setting.a, marker(2, 20)), (setting.a, events({9: 25})))
    assert setting.delivered == []
    setting.send((setting.b, events({1: 12})), (setting.b, Heartbeat(20)))
    setting.send((setting.b, marker(2, 20)), (setting.b, events({8: 26})))
    assert setting.delivered == ([(1, [12])] if complete else [])
    setting.send((setting.a, marker(3, 40)), (setting.b, marker(3, 40)))
    assert (2, [26]) in setting.delivered or not complete


def test_events_of_two_interests_never_meet() -> None:
    setting = Setting(complete=True)
    setting.send((setting.a, marker(1, 0)), (setting.b, marker(1, 0)))
    setting.send((setting.a, events({0: 5})))
    setting.send((setting.a, marker(2, 20)), (setting.b, marker(2, 20)))
    setting.send((setting.b, events({1: 21})), (setting.a, Heartbeat(99)), (setting.b, Heartbeat(99)))
    setting.send((setting.a, marker(3, 99)), (setting.b, marker(3, 99)))
    assert setting.delivered == []


def test_an_operator_waits_for_the_slower_stream() -> None:
    setting = Setting(complete=True)
    setting.send((setting.a, marker(1, 0)), (setting.b, marker(1, 0)))
    setting.send((setting.b, events({1: 8})), (setting.b, Heartbeat(9)))
    setting.send((setting.a, events({0: 5})), (setting.a, Heartbeat(9)))
    setting.send((setting.a, marker(2, 20)), (setting.b, marker(2, 20)))
    assert setting.delivered == [(1, [8])]
