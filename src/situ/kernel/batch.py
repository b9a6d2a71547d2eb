"""Events of one type in columns, as operators hand them on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from situ.core.functions import Functions, default
from situ.core.time import BEGINNING
from situ.core.types import TIMESTAMP_ARROW
from situ.graph.expressions import Attribute, Expression, GroupKey, walk
from situ.kernel.arrays import I64, U64
from situ.kernel.columns.evaluate import Rows, evaluate_condition
from situ.kernel.columns.values import Column
from situ.kernel.matching.order import is_sorted, total_order

#: Columns of every complex event beside its attributes: the extent of its atomic events, where streams have locations.
EXTENT = ("_x_min", "_y_min", "_x_max", "_y_max")
#: The atomic events behind a complex event, on request.
ORIGINS = "_origins"


class Calls(TypedDict):
    """How users' functions are called: the registry, and a count of the calls that failed, by function."""

    functions: Functions
    errors: Counter[str]


Load = Callable[[Iterable[str]], Mapping[str, pa.Array]]


@dataclass(frozen=True, slots=True)
class Marks:
    """Which tests each event fulfils, as bits: `numbers` has the bit of each test."""

    numbers: Mapping[tuple[Expression, ...], int]
    bits: U64

    def mask(self, conditions: tuple[Expression, ...]) -> npt.NDArray[np.bool_]:
        """Where a test is fulfilled."""
        mask: npt.NDArray[np.bool_] = (self.bits >> np.uint64(self.numbers[conditions])) & np.uint64(1) != 0
        return mask


@dataclass(slots=True)
class Batch:
    """Events with their times in microseconds. Columns that are not there yet are loaded when they are first read.

    `is_whole`: nothing can be loaded. What such a batch lacks, tests read that Spark judged before the events came.
    `marks`: what is known of all tests that are asked of the batch, in a form that costs little for each event.
    `of`: the events are those of another batch, each once for every rule that it concerns; that batch, and their rows
    in it. Columns need not be made longer for this.
    """

    times: I64
    columns: dict[str, pa.Array]
    load: Load | None = None
    masks: dict[tuple[Expression, ...], npt.NDArray[np.bool_]] = field(default_factory=dict)
    accepted: dict[tuple[Expression, ...], I64] = field(default_factory=dict)
    is_whole: bool = False
    marks: Marks | None = None
    of: tuple[Batch, I64] | None = None
    _latest: int | None = None
    _read: dict[Expression, Column] = field(default_factory=dict)

    @property
    def latest(self) -> int:
        """The largest time; many operators ask for it."""
        if self._latest is None:
            self._latest = int(self.times.max(initial=BEGINNING))
        return self._latest

    @property
    def judged(self) -> list[tuple[Expression, ...]]:
        """The tests with a mask now, taken at once: another thread may judge one more while these are walked."""
        return list(self.masks)

    def __len__(self) -> int:
        return len(self.times)

    def require(self, names: Iterable[str]) -> None:
        """Load columns together rather than one by one."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            assert self.load is not None, missing
            self.columns.update(self.load(missing))

    def column(self, name: str) -> pa.Array:
        if name not in self.columns:
            self.require([name])
        return self.columns[name]

    def take(self, rows: I64 | npt.NDArray[np.bool_]) -> Batch:
        """Some of the events, with all columns that are at hand."""
        taken = self.view(rows)
        taken.require(list(self.columns))
        taken.masks = {conditions: self.masks[conditions][rows] for conditions in self.judged}
        taken.is_whole = self.is_whole
        if self.marks is not None:
            taken.marks = Marks(self.marks.numbers, self.marks.bits[rows])
        return taken

    def view(self, rows: I64 | npt.NDArray[np.bool_]) -> Batch:
        """Some of the events; columns are taken when they are read, and what is known of tests stays behind."""
        indices = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        chosen = pa.array(indices)

        def load(names: Iterable[str]) -> dict[str, pa.Array]:
            self.require(names)
            return {name: self.columns[name].take(chosen) for name in names}

        return Batch(self.times[indices], {}, load)

    def mask(self, conditions: tuple[Expression, ...], calls: Calls) -> npt.NDArray[np.bool_] | None:
        """Where conditions on the single event (alias `this`) hold; None: everywhere. Computed once per batch."""
        if not conditions:
            return None
        mask = self.masks.get(conditions) if self.masks else None  # to hash conditions takes as long as to judge rows
        if mask is not None:
            return mask
        if self.marks is not None:
            mask = self.marks.mask(conditions)
        elif self.accepted and conditions in self.accepted:
            mask = np.zeros(len(self), np.bool_)
            mask[self.accepted[conditions]] = True
        else:
            rows = BatchRows(self)
            judged = [evaluate_condition(condition, rows, **calls, read=self._read) for condition in conditions]
            mask = np.logical_and.reduce(judged) if len(judged) > 1 else judged[0]
        self.masks[conditions] = mask
        return mask

    def can_judge(self, conditions: tuple[Expression, ...]) -> bool:
        """Whether the columns that conditions read are at hand."""
        read = (node.name for c in conditions for node in walk(c) if isinstance(node, Attribute | GroupKey))
        return all(name in self.columns for name in read)

    def rows(self, conditions: tuple[Expression, ...], calls: Calls) -> I64:
        """The rows where conditions on the single event hold. Computed once per batch."""
        if conditions not in self.accepted:
            mask = self.mask(conditions, calls)
            self.accepted[conditions] = np.arange(len(self)) if mask is None else np.flatnonzero(mask)
        return self.accepted[conditions]

    def knows_few(self, tests: Sequence[tuple[Expression, ...]]) -> bool:
        """Whether it is known which rows fulfil these tests, and that they are few."""
        if not self.accepted:
            return not tests
        known = [self.accepted.get(conditions) for conditions in tests]
        rows = [len(accepted) for accepted in known if accepted is not None]
        return len(rows) == len(known) and 4 * sum(rows) <= len(self)


def concat(batches: list[Batch]) -> Batch:
    """One batch of several. Columns that not all of them have at hand are loaded when they are read."""
    if len(batches) == 1:
        return batches[0]
    for conditions in {c: None for batch in batches if batch.is_whole for c in batch.judged if not batch.can_judge(c)}:
        for batch in batches:
            batch.mask(conditions, Calls(functions=default, errors=Counter()))

    def load(names: Iterable[str]) -> dict[str, pa.Array]:
        for batch in batches:
            batch.require(names)
        return {name: concat_arrays([batch.columns[name] for batch in batches]) for name in names}

    common = set.intersection(*(set(batch.columns) for batch in batches))
    shared_tests = [c for c in batches[0].judged if all(c in batch.masks for batch in batches)]
    masks = {c: np.concatenate([batch.masks[c] for batch in batches]) for c in shared_tests}
    joined = Batch(np.concatenate([batch.times for batch in batches]), load(sorted(common)), load, masks)
    joined.is_whole = any(batch.is_whole for batch in batches)
    marks = [batch.marks for batch in batches if batch.marks is not None]
    if len(marks) == len(batches) and all(one.numbers == marks[0].numbers for one in marks):
        joined.marks = Marks(marks[0].numbers, np.concatenate([one.bits for one in marks]))
    return joined


def without_duplicates(
    batch: Batch, attribute: str, ties: tuple[str, ...], apart: tuple[str, ...] = ()
) -> tuple[Batch, int]:
    """Of the rows that have the same time and the same value (no null), the first in the total order; and how many
    others there were. All rows of a time are in one batch; `ties` are the attributes that order them.

    `apart`: rows that differ in one of these columns are never duplicates, such as a row and its copy for another
    slice of time.

    >>> readings = Batch(np.array([7, 7, 7]), {"id": pa.array([1, 1, 2]), "value": pa.array([5, 3, 4])})
    >>> events, dropped = without_duplicates(readings, "id", ("value",))
    >>> events.columns["value"].to_pylist(), dropped
    ([3, 4], 1)
    """
    rows = _rows_of_equal_times(batch.times)
    if not len(rows):
        return batch, 0
    columns = [batch.column(name) for name in (attribute, *apart)]
    if len(rows) < len(batch):
        columns = [column.take(pa.array(rows)) for column in columns]
    identity, count = _identities(columns)
    if count == np.count_nonzero(identity >= 0):
        return batch, 0
    rows, identity = rows[identity >= 0], identity[identity >= 0]

    def tie_keys(_: int, tied: I64) -> list[pa.Array]:
        batch.require(ties)
        chosen = pa.array(rows[tied])
        return [batch.columns[name].take(chosen) for name in ties]

    time = batch.times[rows]
    order = total_order(identity, count, time, np.zeros(len(rows), np.int8), tie_keys)
    before, after = order[:-1], order[1:]
    again = after[(identity[before] == identity[after]) & (time[before] == time[after])]
    if not len(again):
        return batch, 0
    kept = np.ones(len(batch), np.bool_)
    kept[rows[again]] = False
    return batch.take(kept), len(again)


def _rows_of_equal_times(times: I64) -> I64:
    """The rows whose time another row has, too."""
    order = slice(None) if is_sorted(times) else np.argsort(times, kind="stable")
    in_order = times[order]
    equal = np.zeros(len(times) + 1, np.bool_)
    equal[1:-1] = in_order[1:] == in_order[:-1]
    tied = np.empty(len(times), np.bool_)
    tied[order] = equal[1:] | equal[:-1]
    return np.flatnonzero(tied)


def _identities(columns: Sequence[pa.Array]) -> tuple[I64, int]:
    """Rows that agree in all columns as equal numbers, and how many these are; -1 where the first column is null."""
    identity, count = _codes(columns[0])
    for column in columns[1:]:
        codes, more = _codes(column)
        combined = np.where(identity >= 0, identity * (more + 1) + codes + 1, -1)
        identity, count = _codes(pa.array(combined, mask=combined < 0))
    return identity, count


def _codes(values: pa.Array) -> tuple[I64, int]:
    """Equal values as equal numbers from 0, and how many there are; -1 for nulls."""
    if pa.types.is_null(values.type):
        return np.full(len(values), -1, np.int64), 0
    if pa.types.is_floating(values.type):  # all NaN are one value, and so are both zeros
        values = pc.if_else(pc.is_nan(values), float("nan"), pc.add(values, 0.0))
    encoded = values.dictionary_encode()
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int64), len(encoded.dictionary)


def in_total_order(batch: Batch, ties: tuple[str, ...]) -> I64:
    """The rows of a batch by time, and those of one time by the attributes that decide then."""

    def tie_keys(_: int, rows: I64) -> list[pa.Array]:
        batch.require(ties)
        return [batch.columns[name].take(pa.array(rows)) for name in ties]

    together = np.zeros(len(batch), np.int64)
    return total_order(together, 1, batch.times, together, tie_keys)


def concat_arrays(arrays: list[pa.Array]) -> pa.Array:
    """Arrays of one type, but for the width of integers, as one."""
    if len(arrays) == 1:
        return arrays[0]
    first = arrays[0].type
    if all(array.type == first for array in arrays[1:]):  # to compare types costs less than to hash them
        return pa.concat_arrays(arrays)
    types = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(types) > 1 and all(map(pa.types.is_integer, types)):
        types = {pa.int64()}
    (target,) = types or {pa.null()}
    return pa.concat_arrays([array if array.type == target else array.cast(target) for array in arrays])


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


def as_timestamps(times: I64) -> pa.Array:
    return pa.Array.from_buffers(TIMESTAMP_ARROW, len(times), [None, pa.py_buffer(np.ascontiguousarray(times))])


@dataclass(frozen=True, slots=True)
class BatchRows:
    """A batch as rows for expressions: every alias is its event."""

    batch: Batch

    @property
    def length(self) -> int:
        return len(self.batch)

    def attribute(self, alias: str, name: str) -> pa.Array:
        return self.batch.column(name)

    def time(self, alias: str) -> pa.Array:
        return as_timestamps(self.batch.times)

    def group(self, name: str) -> pa.Array:
        return self.batch.column(name)

    def event(self, alias: str) -> pa.Array:
        names = [name for name in list(self.batch.columns) if not name.startswith("_")]
        return pa.StructArray.from_arrays([self.batch.columns[name] for name in names], names)

    def repeated(self, alias: str) -> tuple[I64, Rows]:
        return np.arange(len(self.batch) + 1), self
