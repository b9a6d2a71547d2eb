"""Candidates: the events that some test of a pattern accepts, and which tests do."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from situ.kernel.arrays import I64, U64, NewEvents
from situ.kernel.batch import Batch, Calls, Marks
from situ.kernel.columns.values import Mask
from situ.kernel.matching.order import is_sorted, union_of_sorted
from situ.kernel.operator import Conditions
from situ.kernel.program.program import Program
from situ.kernel.state.store import Store


@dataclass(frozen=True, slots=True)
class Candidates:
    """New events that some test accepts, of all input types one after another: the rows of `store` after the first
    `kept`, which were kept from before. `order` has their rows in the order in which they are offered."""

    store: Store
    kept: int
    accepted: U64
    order: I64

    def offered(self) -> NewEvents:
        """They in their order."""
        order, store, accepted = self.order, self.store, self.accepted
        if len(order) < len(accepted) or not is_sorted(order):
            accepted = accepted[order - self.kept]
            group, time, position = store.group[order], store.time[order], store.position[order]
        else:  # they are in it already
            new = slice(self.kept, None)
            group, time, position = store.group[new], store.time[new], store.position[new]
        return NewEvents(order, group, _read_only(time), position, accepted, shard=0, shards=1)


def _read_only(values: I64) -> I64:
    """Times come from Arrow, and cannot be written, or not. The kernel is compiled for each kind of array it is given,
    so it is always given one kind."""
    view = values.view()
    view.flags.writeable = False
    return view


class TypeTests(NamedTuple):
    """The tests of a case that are asked of one event type, each with its number; those that every event fulfils, as
    bits; and whether events matter that no test accepts."""

    numbered: list[tuple[int, Conditions]]
    everywhere: np.uint64
    needs_all: bool

    @classmethod
    def of(cls, program: Program, event_type: str) -> TypeTests:
        numbered = [(i, t.conditions) for i, t in enumerate(program.conditions.tests) if t.event_type == event_type]
        everywhere = np.uint64(sum(1 << i for i, conditions in numbered if not conditions))
        return cls(numbered, everywhere, bool(everywhere) or program.automaton.counts_positions)


def accepted_rows(batch: Batch, asked: TypeTests, calls: Calls) -> tuple[Batch, U64]:
    """The rows that some test accepts (all rows, where positions count), and which tests do, as bits."""
    tests, everywhere, needs_all = asked
    if batch.marks is not None:
        bits = _chosen_bits(batch.marks, tests) | everywhere
        return (batch, bits) if needs_all or bits.all() else (batch.take(bits != 0), bits[bits != 0])
    if not needs_all and batch.knows_few([conditions for _, conditions in tests]):
        return _few(batch, tests, calls)
    masks = [(i, c, mask) for i, c in tests if (mask := batch.mask(c, calls)) is not None]
    if needs_all or sum(np.count_nonzero(mask) for _, _, mask in masks) > len(batch) // 4:
        bits = _packed([(i, mask) for i, _, mask in masks], len(batch)) | everywhere
        rows = np.flatnonzero(bits != 0)
        return (batch, bits) if needs_all or len(rows) == len(batch) else (batch.view(rows), bits[rows])
    return _few(batch, [(i, c) for i, c, _ in masks], calls)


def _few(batch: Batch, tests: list[tuple[int, Conditions]], calls: Calls) -> tuple[Batch, U64]:
    """The same where few rows are accepted."""
    rows_by_test = [(np.uint64(1 << i), batch.rows(c, calls)) for i, c in tests]
    rows = union_of_sorted([accepted_rows for _, accepted_rows in rows_by_test])
    return batch.view(rows), _marked(len(batch), rows_by_test, rows)


def _chosen_bits(marks: Marks, tests: list[tuple[int, Conditions]]) -> U64:
    """The bits of some tests, each at its place; nearly always they are there already."""
    places = [(marks.numbers[conditions], to) for to, conditions in tests if conditions]
    if all(place == to for place, to in places):
        chosen = sum(1 << to for _, to in places)
        is_all = chosen == (1 << len(marks.numbers)) - 1
        return marks.bits if is_all else marks.bits & np.uint64(chosen)
    bits = np.zeros(len(marks.bits), np.uint64)
    for place, to in places:
        bits |= ((marks.bits >> np.uint64(place)) & np.uint64(1)) << np.uint64(to)
    return bits


def _packed(masks: list[tuple[int, Mask]], length: int) -> U64:
    """Masks as bits; by bytes for as long as that is enough, which is an eighth of the memory to go through."""
    width: Any = np.uint8 if all(i < 8 for i, _ in masks) else np.uint64
    bits = np.zeros(length, width)
    for i, mask in masks:
        bits |= mask.view(np.uint8).astype(width, copy=False) << width(i)
    return bits.astype(np.uint64)


_scratch = threading.local()


def _marked(length: int, some: list[tuple[np.uint64, I64]], candidates: I64) -> U64:
    """The bits of the tests that accept each candidate. The marks are kept, all zero, for the next use: many operators
    that read one batch share them, and they stay in the processor's cache."""
    marks: U64 = getattr(_scratch, "marks", np.zeros(0, np.uint64))
    if len(marks) < length:
        marks = _scratch.marks = np.zeros(length, np.uint64)
    for bit, rows in some:
        marks[rows] |= bit
    bits = marks[candidates]
    marks[candidates] = 0
    return bits
