"""Tables -> the interests of all consumers, and the atomic events that each of them reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.errors import InputError
from situ.core.functions import Functions
from situ.core.time import BEGINNING, END
from situ.flow.active import Active
from situ.flow.moving import MovingFlow
from situ.kernel.arrays import F64, I64
from situ.kernel.batch import Batch
from situ.lab.recep.selections.arrived import Arrived, Dependence
from situ.lab.recep.selections.sets import empty, single
from situ.mobility.interests import Interests
from situ.mobility.moving_program import MovingProgram
from situ.mobility.moving_query import ORDER, MovingQuery
from situ.runtime.embedded.pieces import StreamReader, read_in_order
from situ.space.geometry import EARTH_M, Shape
from situ.space.pairs import PlacedEvents


@dataclass(frozen=True, slots=True)
class ReuseInput:
    """What there is before anything is processed. Instances are known by the row of their interest; `person` numbers
    the consumers. Atomic event k is at (x[k], y[k]); these and the interests' middles are in metres."""

    interests: Interests
    person: I64
    shape: Shape
    middle_x: F64
    middle_y: F64
    x: F64
    y: F64
    streams: Mapping[str, Arrived]


class _Reading(MovingFlow):
    """A moving subscription whose interests are all read at once."""

    def everything(self) -> ReuseInput:
        self._read(END)
        switch = self._switch(END)
        active = Active.concat(switch.passing, switch.begun)
        interests = active.interests
        assert np.array_equal(active.keys, np.arange(len(active))), "interests are numbered as they come"
        streams, x, y = dict[str, Arrived](), np.zeros(self._next_order), np.zeros(self._next_order)
        for name in self.streams:
            stored = self._store.located(name, BEGINNING, END)
            placed = PlacedEvents.of(stored.batch.times, stored.x, stored.y, self._shape)
            rows, owner = placed.pairs(self._regions(name, active, BEGINNING))
            if not len(stored):
                streams[name] = _arrived(Batch(owner, {}), rows, owner, interests, self._next_order)
                continue
            numbers = stored.batch.columns[ORDER].to_numpy(zero_copy_only=False)
            x[numbers], y[numbers] = stored.x, stored.y
            streams[name] = _arrived(
                self._for_readers(name, stored, rows, owner), numbers[rows], owner, interests, self._next_order
            )
        person = pc.rank(interests.consumer, tiebreaker="dense").to_numpy().astype(np.int64) - 1
        shape = self._shape
        (middle_x, middle_y), (x, y) = (
            _in_metres(*at, interests.y, shape.degrees) for at in ((interests.x, interests.y), (x, y))
        )
        return ReuseInput(interests, person, shape, middle_x, middle_y, x, y, streams)


def read(query: MovingQuery, functions: Functions, tables: Mapping[str, pa.Table]) -> ReuseInput:
    """All interests, and what they read; see docs/language.md, "Moving subscriptions"."""
    reading = _Reading(MovingProgram.of(query, functions))
    readers = {}
    for name, stream in query.streams.items():
        if name not in tables:
            needed = ", ".join(query.streams)
            raise InputError(f"no table for stream {name}", remedy=f"Tables are needed for: {needed}.")
        updates = reading.program.updates_read() if name == query.focal.name else frozenset[str]()
        readers[name] = StreamReader(stream, reading.program.columns_read(name) | updates, False)
    for piece, _ in read_in_order({name: tables[name] for name in readers}, readers):
        reading.add(piece.stream, piece.batch)
        if piece.stream == query.focal.name:
            reading.add_updates(piece.batch)
    return reading.everything()


def _arrived(batch: Batch, atoms: I64, owner: I64, interests: Interests, count: int) -> Arrived:
    """Atomic events depend on themselves; an interest reads what came before it when it begins."""
    if len(batch):
        batch.require([ORDER])
    known_us = np.maximum(batch.times, interests.start_us[owner])
    itself = single(count)
    dependence = Dependence(itself, itself, empty(count))
    return Arrived(batch, owner, atoms, known_us, dependence, atoms, atoms, np.ones(len(owner)), np.ones(len(owner)))


def _in_metres(x: F64, y: F64, middles: F64, degrees: bool) -> tuple[F64, F64]:
    """Places as if the earth were flat around the middle of all interests."""
    if not degrees or not len(middles):
        return x, y
    metre = EARTH_M * np.pi / 180
    return x * metre * np.cos(np.radians(middles.mean())), y * metre
